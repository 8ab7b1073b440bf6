//! Vpcs that are linked to each other, and a router port with the chassis that others gave it.

use causeway_api::kubeovn::{Subnet, Vpc};
use causeway_ovn::nb::{LogicalRouterPort, LogicalRouterStaticRoute};
use serde_json::{Value, json};

use crate::{bench::Bench, recorded::assert_same_rows};

fn port(bench: &Bench, name: &str) -> Option<LogicalRouterPort> {
    let mut rows = bench.rows::<LogicalRouterPort>().into_iter();
    rows.find(|row| row.name == name)
}

async fn port_is(bench: &Bench, name: &str, such: impl Fn(Option<&LogicalRouterPort>) -> bool) {
    bench
        .northbound_when(name, |replica| {
            let rows = replica.rows::<LogicalRouterPort>();
            rows.is_ok_and(|rows| such(rows.values().find(|row| row.name == name)))
        })
        .await;
}

fn linked_to(remote: &str, address: &str) -> Value {
    json!({"vpcPeerings": [{"remoteVpc": remote, "localConnectIP": address}]})
}

async fn two_linked() -> Bench {
    let bench = Bench::start().await;
    bench.vpc("a", linked_to("b", "169.254.7.1/30")).await;
    bench.vpc("b", linked_to("a", "169.254.7.2/30")).await;
    for name in ["a", "b"] {
        bench.ready::<Vpc>(name).await;
    }
    bench
}

fn remotes(vpc: &Vpc) -> Option<Vec<String>> {
    vpc.status.as_ref()?.vpc_peerings.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_vpcs_that_name_each_other_have_a_port_each_and_no_route() {
    let bench = two_linked().await;
    let (a, b) = (port(&bench, "a-b"), port(&bench, "b-a"));
    let (a, b) = (a.expect("the one"), b.expect("the other"));
    assert_eq!(
        (a.peer.as_deref(), b.peer.as_deref()),
        (Some("b-a"), Some("a-b"))
    );
    assert_eq!(a.networks, ["169.254.7.1/30".to_owned()].into());
    assert_ne!(a.mac, b.mac);
    let theirs = bench.rows::<LogicalRouterStaticRoute>();
    assert!(
        theirs.iter().all(|row| row.nexthop == "100.64.0.1"),
        "{theirs:?}"
    );
    assert_eq!(remotes(&bench.get("a").await), Some(vec!["b".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_link_that_is_there_only_its_address_is_written() {
    let bench = two_linked().await;
    let before = port(&bench, "a-b").expect("the port");
    let chassis = ["lrp-set-gateway-chassis", "a-b", "chassis-1", "100"];
    bench.nbctl(&chassis);
    bench.nbctl(&[
        "set",
        "Logical_Router_Port",
        "a-b",
        "options:gateway_mtu=1400",
    ]);
    let patch = json!({"spec": linked_to("b", "169.254.7.5/30")});
    bench.patch::<Vpc>("a", patch).await;
    port_is(&bench, "a-b", |row| {
        row.is_some_and(|row| row.networks == ["169.254.7.5/30".to_owned()].into())
    })
    .await;
    let after = port(&bench, "a-b").expect("the port");
    assert_eq!(after.mac, before.mac);
    assert_eq!(after.gateway_chassis.len(), 1);
    assert_eq!(
        after.options,
        [("gateway_mtu".to_owned(), "1400".to_owned())].into()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_stated_no_longer_goes_on_that_side_alone() {
    let bench = two_linked().await;
    bench
        .patch::<Vpc>("a", json!({"spec": {"vpcPeerings": null}}))
        .await;
    port_is(&bench, "a-b", |row| row.is_none()).await;
    assert!(port(&bench, "b-a").is_some());
    bench.when::<Vpc>("a", |vpc| remotes(vpc).is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_address_without_its_mask_stops_the_whole_vpc() {
    let bench = Bench::start().await;
    let mut spec = linked_to("b", "169.254.7.1");
    spec["staticRoutes"] = json!([{"cidr": "0.0.0.0/0", "nextHopIP": "169.254.7.2"}]);
    bench.vpc("a", spec).await;
    bench.settle().await;
    let vpc: Vpc = bench.get("a").await;
    assert_eq!(vpc.status, None);
    assert_eq!(port(&bench, "a-b"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_start_ports_between_routers_that_no_status_tells_of_go() {
    let mut bench = two_linked().await;
    bench.stop_kube_ovn().await;
    for (name, vendor) in [("a-c", "kube-ovn"), ("a-d", "somebody")] {
        bench.nbctl(&[
            "lrp-add",
            "a",
            name,
            "02:00:00:00:00:01",
            "169.254.9.1/30",
            "peer=c-a",
            "--",
            "set",
            "Logical_Router_Port",
            name,
            &format!("external_ids:vendor={vendor}"),
        ]);
    }
    bench.start_kube_ovn();
    port_is(&bench, "a-c", |row| row.is_none()).await;
    for name in ["a-b", "b-a", "a-d"] {
        assert!(port(&bench, name).is_some(), "{name}");
    }
}

/// The recorded port of a VLAN subnet with two chassis, and the rows of those.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_chassis_is_as_recorded_and_stays_so() {
    let mut bench = crate::recorded::site().await;
    let name = "vpc-1a2b3c-subnet-1a2b3c4d";
    for (chassis, priority) in [("1", "100"), ("2", "99")] {
        let chassis = format!("00000000-0000-4000-8000-00000000000{chassis}");
        bench.nbctl(&["lrp-set-gateway-chassis", name, &chassis, priority]);
    }
    let changed = json!({"spec": {"excludeIps": ["172.20.10.1", "172.20.10.64..172.20.10.201"]}});
    bench.patch::<Subnet>("subnet-1a2b3c4d", changed).await;
    let routes = json!({"spec": {"staticRoutes": []}});
    bench.patch::<Vpc>("vpc-1a2b3c", routes).await;
    bench.settle().await;
    bench.stop_kube_ovn().await;
    bench.start_kube_ovn();
    bench.settle().await;
    let tables = [
        (
            "Gateway_Chassis",
            include_str!("data/gateway-chassis/nb-gateway_chassis.txt"),
        ),
        (
            "Logical_Router_Port",
            include_str!("data/gateway-chassis/nb-logical_router_port.txt"),
        ),
    ];
    assert_eq!(assert_same_rows(&bench, &tables, |_| true), 2 + 4);
}
