//! Vpcs that are linked to each other, and what was recorded of three such.

use std::collections::BTreeMap;

use causeway_api::kubeovn::{Subnet, Vlan, Vpc};
use causeway_ovn::nb::{LogicalRouterPort, LogicalRouterStaticRoute};
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    recorded::{Row, assert_same, normalized, rows, yaml},
};

macro_rules! full {
    ($name:literal) => {
        include_str!(concat!("data/full/", $name))
    };
}

const TABLES: [(&str, &str); 4] = [
    ("Logical_Router", full!("nb-logical_router.txt")),
    ("Logical_Router_Port", full!("nb-logical_router_port.txt")),
    (
        "Logical_Router_Policy",
        full!("nb-logical_router_policy.txt"),
    ),
    (
        "Logical_Router_Static_Route",
        full!("nb-logical_router_static_route.txt"),
    ),
];

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

/// The recorded Vpcs with their subnets of IPv4, and the rows that somebody else wrote.
async fn three_vpcs() -> Bench {
    let bench = Bench::start().await;
    bench.network().await;
    let made = |text: &str| {
        let object = yaml(text);
        json!({"metadata": {"name": object["metadata"]["name"]}, "spec": object["spec"]})
    };
    for vlan in [
        full!("vlan-pve-default-214.yaml"),
        full!("vlan-pve-default-300.yaml"),
    ] {
        bench.create::<Vlan>(&made(vlan)).await;
    }
    for vpc in VPCS {
        bench.create::<Vpc>(&made(vpc)).await;
    }
    for subnet in SUBNETS {
        let subnet = made(subnet);
        bench.create::<Subnet>(&subnet).await;
        let name = subnet["metadata"]["name"].as_str().expect("has a name");
        bench.ready::<Subnet>(name).await;
    }
    for (priority, matches, owner) in [
        ("31601", "ip4.src == 203.0.113.2", "external_ids:subnet=x"),
        (
            "31603",
            "ip4.src == 203.0.113.4",
            "external_ids:vpc-egress-gateway=a/b",
        ),
    ] {
        bench.nbctl(&["lr-policy-add", "vpc-4d5e6f", priority, matches, "drop"]);
        let found = format!("match=\"{matches}\"");
        let uuid = bench.nbctl(&[
            "--bare",
            "--columns=_uuid",
            "find",
            "Logical_Router_Policy",
            &found,
        ]);
        bench.nbctl(&["set", "Logical_Router_Policy", uuid.trim(), owner]);
    }
    bench.nbctl(&[
        "--id=@r",
        "create",
        "Logical_Router_Static_Route",
        "ip_prefix=203.0.113.0/24",
        "nexthop=169.254.7.5",
        "external_ids:owner=proxmox",
        "--",
        "add",
        "Logical_Router",
        "vpc-4d5e6f",
        "static_routes",
        "@r",
    ]);
    let overlay = "vpc-1a2b3c-subnet-overlay1";
    bench.nbctl(&[
        "set",
        "Logical_Router_Port",
        overlay,
        "options:gateway_mtu=1400",
    ]);
    bench
}

const VPCS: [&str; 3] = [
    full!("vpc-vpc-1a2b3c.yaml"),
    full!("vpc-vpc-4d5e6f.yaml"),
    full!("vpc-transit-default.yaml"),
];

const SUBNETS: [&str; 4] = [
    full!("subnet-subnet-1a2b3c4d.yaml"),
    full!("subnet-subnet-overlay1.yaml"),
    full!("subnet-subnet-overlay2.yaml"),
    full!("subnet-transit-default.yaml"),
];

/// Without the subnets of two families, and without what their and the egress gateway's pods use.
fn comparable(object: &mut Value) {
    if let Some(subnets) = object
        .pointer_mut("/status/subnets")
        .and_then(Value::as_array_mut)
    {
        subnets.retain(|name| name != "subnet-dual" && name != "subnet-overlay6");
    }
    if let Some(status) = object["status"].as_object_mut() {
        status.retain(|field, _| !field.starts_with("v4"));
    }
}

/// Without rows of the subnets of two families and of the egress gateway, and without which chassis
/// has a port.
fn comparable_rows(text: &str) -> Vec<Row> {
    let mut found = rows(text);
    found.retain(|row| {
        let line = format!("{row:?}");
        let of_two_families = ["subnet-dual", "overlay6", "fd00:", "10.51.0."]
            .iter()
            .any(|part| line.contains(part));
        !of_two_families && !line.contains("cozy-proxmox-network/")
    });
    for row in &mut found {
        row.retain(|column, _| column != "gateway_chassis" && column != "ha_chassis_group");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn the_linked_vpcs_are_those_recorded() {
    let bench = three_vpcs().await;
    for vpc in VPCS {
        assert_same::<Vpc>(&bench, vpc, comparable).await;
    }
    for subnet in SUBNETS {
        assert_same::<Subnet>(&bench, subnet, comparable).await;
    }
    for vlan in [
        full!("vlan-pve-default-214.yaml"),
        full!("vlan-pve-default-300.yaml"),
    ] {
        assert_same::<Vlan>(&bench, vlan, |_| ()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_of_the_linked_vpcs_are_those_recorded_over_a_restart_too() {
    let mut bench = three_vpcs().await;
    let theirs = TABLES.map(|(table, text)| (table, comparable_rows(text)));
    let theirs = normalized(&theirs);
    for restart in [false, true] {
        if restart {
            bench.stop_kube_ovn().await;
            bench.start_kube_ovn();
        }
        bench.settle().await;
        let ours =
            TABLES.map(|(table, _)| (table, comparable_rows(&bench.nbctl(&["list", table]))));
        let ours = normalized(&ours);
        let differ = BTreeMap::from([
            ("only ours", ours.difference(&theirs).collect::<Vec<_>>()),
            ("only recorded", theirs.difference(&ours).collect()),
        ]);
        assert!(differ.values().all(Vec::is_empty), "{differ:#?}");
    }
    assert_eq!(
        theirs.len(),
        4 + 9 + 8 + 8,
        "all that is compared was recorded"
    );
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
    let theirs = [
        include_str!("data/gateway-chassis/nb-gateway_chassis.txt"),
        include_str!("data/gateway-chassis/nb-logical_router_port.txt"),
    ];
    let theirs = ["Gateway_Chassis", "Logical_Router_Port"].map(|table| {
        let index = usize::from(table == "Logical_Router_Port");
        (table, rows(theirs[index]))
    });
    let theirs = normalized(&theirs);
    let changed = json!({"spec": {"excludeIps": ["172.20.10.1", "172.20.10.64..172.20.10.201"]}});
    bench.patch::<Subnet>("subnet-1a2b3c4d", changed).await;
    let routes = json!({"spec": {"staticRoutes": []}});
    bench.patch::<Vpc>("vpc-1a2b3c", routes).await;
    bench.settle().await;
    bench.stop_kube_ovn().await;
    bench.start_kube_ovn();
    bench.settle().await;
    let ours = ["Gateway_Chassis", "Logical_Router_Port"]
        .map(|table| (table, rows(&bench.nbctl(&["list", table]))));
    assert_eq!(normalized(&ours), theirs);
    assert_eq!(theirs.len(), 2 + 4);
}
