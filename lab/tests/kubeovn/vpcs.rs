//! Vpcs: what holds them, and what goes with them.

use causeway_api::kubeovn::{IP, Subnet, Vpc};
use causeway_ovn::nb::{LogicalRouter, LogicalSwitch, LogicalSwitchPort};
use serde_json::json;

use crate::bench::Bench;

fn subnets(vpc: &Vpc) -> Vec<String> {
    let subnets = vpc
        .status
        .as_ref()
        .and_then(|status| status.subnets.clone());
    subnets.unwrap_or_default()
}

async fn hold(bench: &Bench) {
    bench
        .create::<IP>(&json!({
            "metadata": {"name": "held.tenant-example.s"},
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
}

async fn router_goes(bench: &Bench) {
    bench
        .northbound_when("the router's end", |replica| {
            let rows = replica.rows::<LogicalRouter>();
            rows.is_ok_and(|rows| rows.values().all(|row| row.name != "v"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vpc_deleted_first_waits_for_its_subnets() {
    let bench = Bench::with_vlan_subnet().await;
    hold(&bench).await;
    bench.delete::<Vpc>("v").await;
    bench.settle().await;
    assert_eq!(subnets(&bench.get("v").await), ["s"]);
    assert!(
        bench
            .rows::<LogicalRouter>()
            .iter()
            .any(|row| row.name == "v")
    );
    bench.delete::<IP>("held.tenant-example.s").await;
    bench.delete::<Subnet>("s").await;
    bench.gone::<Subnet>("s").await;
    bench.gone::<Vpc>("v").await;
    router_goes(&bench).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vpc_does_not_wait_for_subnets_that_are_being_deleted() {
    let bench = Bench::with_vlan_subnet().await;
    hold(&bench).await;
    bench.delete::<Subnet>("s").await;
    bench.when("v", |vpc| subnets(vpc).is_empty()).await;
    bench.delete::<Vpc>("v").await;
    bench.gone::<Vpc>("v").await;
    router_goes(&bench).await;
    bench.stays_terminating("s").await;
    let ports = bench.rows::<LogicalSwitchPort>();
    for port in ["localnet.s", "s-v"] {
        assert!(
            ports.iter().any(|row| row.name == port),
            "{port} stays, without a peer"
        );
    }
    bench.delete::<IP>("held.tenant-example.s").await;
    bench.gone::<Subnet>("s").await;
    bench
        .northbound_when("the switch's end", |replica| {
            let rows = replica.rows::<LogicalSwitch>();
            rows.is_ok_and(|rows| rows.values().all(|row| row.name != "s"))
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_entry_stops_the_whole_vpc() {
    let bench = Bench::start().await;
    bench
        .vpc(
            "v",
            json!({"staticRoutes": [{"cidr": "nowhere", "nextHopIP": "10.0.0.1"}]}),
        )
        .await;
    bench.settle().await;
    assert_eq!(bench.get::<Vpc>("v").await.status, None);
    bench
        .patch::<Vpc>("v", json!({"spec": {"staticRoutes": null}}))
        .await;
    bench.ready::<Vpc>("v").await;
}
