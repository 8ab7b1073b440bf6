//! Subnets: canonical specs, refusals, and the order of their removal.

use causeway_api::kubeovn::{IP, Subnet, Vlan};
use causeway_ovn::{
    Replica,
    nb::{Acl, LogicalRouterPolicy, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort},
};
use serde_json::json;

use crate::bench::{Bench, condition, vlan_subnet};

/// What of Subnet `s` is in the database: switch, ports, router port, policy.
fn remains(replica: &Replica) -> [bool; 4] {
    let switches = replica.rows::<LogicalSwitch>().expect("is monitored");
    let ports = replica.rows::<LogicalSwitchPort>().expect("is monitored");
    let router_ports = replica.rows::<LogicalRouterPort>().expect("is monitored");
    let policies = replica.rows::<LogicalRouterPolicy>().expect("is monitored");
    [
        switches.values().any(|row| row.name == "s"),
        ports
            .values()
            .any(|row| ["localnet.s", "s-v"].contains(&row.name.as_str())),
        router_ports.values().any(|row| row.name == "v-s"),
        policies
            .values()
            .any(|row| row.external_ids.get("subnet").is_some_and(|it| it == "s")),
    ]
}

fn listed(vlan: &Vlan) -> Vec<String> {
    let subnets = vlan
        .status
        .as_ref()
        .and_then(|status| status.subnets.clone());
    subnets.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_is_written_back_in_canonical_form() {
    let bench = Bench::start().await;
    bench.vpc("v", json!({})).await;
    let excluded = ["10.0.0.9..10.0.0.20", "10.0.0.100", "10.0.0.15..10.0.0.30"];
    let spec = json!({"vpc": "v", "cidrBlock": "10.0.0.7/24", "excludeIps": excluded});
    bench.subnet("s", spec).await;
    let spec = bench.ready::<Subnet>("s").await.spec;
    assert_eq!(spec.cidr_block.as_deref(), Some("10.0.0.0/24"));
    assert_eq!(spec.gateway.as_deref(), Some("10.0.0.1"));
    assert_eq!(spec.provider.as_deref(), Some("ovn"));
    assert_eq!(spec.protocol.as_deref(), Some("IPv4"));
    assert_eq!(spec.enable_lb, Some(true));
    let canonical = ["10.0.0.1", "10.0.0.100", "10.0.0.9..10.0.0.30"].map(str::to_owned);
    assert_eq!(spec.exclude_ips, Some(canonical.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn overlap_is_refused_within_one_vpc_and_vlan_only() {
    let bench = Bench::with_vlan_subnet().await;
    let overlay = |vpc: &str| json!({"vpc": vpc, "cidrBlock": "172.20.10.0/25", "provider": "ovn"});
    bench.vpc("w", json!({})).await;
    bench.subnet("elsewhere", overlay("w")).await;
    bench.ready::<Subnet>("elsewhere").await;
    bench.subnet("overlay", overlay("v")).await;
    bench.ready::<Subnet>("overlay").await;
    bench
        .subnet("t", vlan_subnet("vlan-214", "172.20.10.128/25"))
        .await;
    let refused = bench
        .refused(
            "t",
            "ValidateLogicalSwitchFailed",
            "is conflict with subnet s",
        )
        .await;
    assert_eq!(condition(&refused, "Validated").0, "False");
    assert!(
        bench
            .rows::<LogicalSwitch>()
            .iter()
            .all(|row| row.name != "t")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_real_one_refuses_is_refused_and_error_stays_after_it_is_put_right() {
    let bench = Bench::start().await;
    bench.vpc("v", json!({})).await;
    let of = |gateway: &str, allowed: &str| json!({"vpc": "v", "cidrBlock": "10.0.0.0/24", "gateway": gateway, "allowSubnets": [allowed]});
    for (name, spec, words) in [
        (
            "outside",
            of("10.0.1.1", "10.1.0.0/24"),
            "gateway 10.0.1.1 is not in cidr",
        ),
        (
            "network",
            of("10.0.0.0", "10.1.0.0/24"),
            "gateway 10.0.0.0 is not in cidr",
        ),
        (
            "allowed",
            of("10.0.0.1", "10.1.0.1"),
            "10.1.0.1 in allowSubnets",
        ),
        (
            "v",
            of("10.0.0.1", "10.1.0.0/24"),
            "cannot have the same name",
        ),
    ] {
        bench.subnet(name, spec).await;
        bench
            .refused(name, "ValidateLogicalSwitchFailed", words)
            .await;
        bench.delete::<Subnet>(name).await;
        bench.gone::<Subnet>(name).await;
    }
    bench.subnet("s", of("10.0.1.1", "10.1.0.0/24")).await;
    bench
        .refused("s", "ValidateLogicalSwitchFailed", "gateway")
        .await;
    bench
        .patch::<Subnet>(
            "s",
            json!({"spec": {"gateway": "10.0.0.1", "excludeIps": null}}),
        )
        .await;
    let subnet = bench.ready::<Subnet>("s").await;
    assert_eq!(condition(&subnet, "Error").0, "True", "it is never cleared");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_object_goes_first_then_the_rows_then_the_name_on_the_vlan() {
    let bench = Bench::with_vlan_subnet().await;
    assert_eq!(remains(&bench.northbound.replica()), [true; 4]);
    bench.hold_northbound(true);
    bench.delete::<Subnet>("s").await;
    bench.gone::<Subnet>("s").await;
    // Rows cannot go while the database holds still.
    assert_eq!(listed(&bench.get("vlan-214").await), ["s"]);
    bench.hold_northbound(false);
    bench.when("vlan-214", |vlan| listed(vlan).is_empty()).await;
    assert_eq!(
        remains(&bench.northbound.replica()),
        [false; 4],
        "the name went last"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_use_holds_a_subnet_and_its_switch_until_it_is_back() {
    let bench = Bench::with_vlan_subnet().await;
    bench
        .create::<IP>(&json!({
            "metadata": {"name": "held.tenant-example.s", "finalizers": ["kubeovn.io/kube-ovn-controller"]},
            "spec": {"subnet": "s", "v4IpAddress": "172.20.10.7", "ipAddress": "172.20.10.7"},
        }))
        .await;
    let using = |subnet: &Subnet| {
        subnet
            .status
            .as_ref()
            .and_then(|status| status.v4_using_ips)
    };
    bench.when("s", |subnet| using(subnet) == Some(1)).await;
    bench.delete::<Subnet>("s").await;
    bench.stays_terminating("s").await;
    assert_eq!(remains(&bench.northbound.replica()), [true; 4]);
    bench.delete::<IP>("held.tenant-example.s").await;
    bench.gone::<Subnet>("s").await;
    bench.when("vlan-214", |vlan| listed(vlan).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_excluded_address_in_use_holds_nothing() {
    let bench = Bench::with_vlan_subnet().await;
    bench
        .patch::<Subnet>(
            "s",
            json!({"spec": {"excludeIps": ["172.20.10.1", "172.20.10.64..172.20.10.191"]}}),
        )
        .await;
    bench
        .create::<IP>(&json!({
            "metadata": {"name": "vm.tenant-example.s"},
            "spec": {"subnet": "s", "v4IpAddress": "172.20.10.70", "ipAddress": "172.20.10.70"},
        }))
        .await;
    bench.delete::<Subnet>("s").await;
    bench.gone::<Subnet>("s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subnet_that_went_during_an_outage_leaves_all_but_its_switch_for_good() {
    let mut bench = Bench::with_vlan_subnet().await;
    bench.stop_kube_ovn().await;
    bench.delete::<Subnet>("s").await;
    bench
        .patch::<Subnet>("s", json!({"metadata": {"finalizers": null}}))
        .await;
    bench.gone::<Subnet>("s").await;
    bench.nbctl(&["ls-add", "foreign"]);
    bench.start_kube_ovn();
    bench.settle().await;
    assert_eq!(
        remains(&bench.northbound.replica()),
        [false, false, true, true]
    );
    assert_eq!(listed(&bench.get("vlan-214").await), ["s"]);
    assert!(
        bench
            .rows::<LogicalSwitch>()
            .iter()
            .all(|row| row.name != "foreign")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subnet_without_its_vpc_waits_without_saying_so() {
    let bench = Bench::start().await;
    bench
        .subnet(
            "s",
            json!({"vpc": "v", "cidrBlock": "10.0.0.0/24", "provider": "ovn"}),
        )
        .await;
    bench.settle().await;
    let subnet = bench.get::<Subnet>("s").await;
    assert_eq!(condition(&subnet, "Ready"), (String::new(), String::new()));
    bench.vpc("v", json!({})).await;
    bench.ready::<Subnet>("s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subnet_taken_off_its_vlan_keeps_its_port_there_and_the_silence() {
    let bench = Bench::with_vlan_subnet().await;
    let before = bench.rows::<Acl>();
    bench
        .patch::<Subnet>("s", json!({"spec": {"vlan": null}}))
        .await;
    bench.settle().await;
    assert_eq!(remains(&bench.northbound.replica()), [true; 4]);
    let ports = bench.rows::<LogicalSwitchPort>();
    let port = ports.iter().find(|row| row.name == "localnet.s");
    assert_eq!(port.and_then(|port| port.tag), Some(214));
    assert_eq!(listed(&bench.get("vlan-214").await), ["s"]);
    assert_eq!(bench.rows::<Acl>(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_subnets_made_at_once_become_ready() {
    let bench = Bench::start().await;
    bench.network().await;
    let begun = std::time::Instant::now();
    for vpc in 0..10 {
        bench.vpc(&format!("v{vpc}"), json!({})).await;
    }
    for number in 0..200_u16 {
        let name = format!("s{number:03}");
        bench.vlan(&name, 1000 + number).await;
        let mut spec = vlan_subnet(&name, &format!("10.{number}.0.0/24"));
        spec["vpc"] = format!("v{}", number % 10).into();
        bench.subnet(&name, spec).await;
    }
    for number in 0..200 {
        bench.ready::<Subnet>(&format!("s{number:03}")).await;
    }
    let (took, writes) = (begun.elapsed().as_secs_f64(), bench.writes());
    println!("200 subnets ready after {took:.1} s and {writes} writes");
    let switches = bench.rows::<LogicalSwitch>();
    assert_eq!(switches.len(), 202);
}
