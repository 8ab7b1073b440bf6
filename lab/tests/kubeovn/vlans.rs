//! Vlans and provider networks as the API shows them.

use causeway_api::kubeovn::{ProviderNetwork, Subnet, Vlan};
use causeway_ovn::nb::LogicalSwitchPort;
use serde_json::json;

use crate::bench::{Bench, condition, vlan_subnet};

fn carried(network: &ProviderNetwork) -> Vec<String> {
    let vlans = network
        .status
        .as_ref()
        .and_then(|status| status.vlans.clone());
    vlans.unwrap_or_default()
}

fn in_conflict(vlan: &Vlan) -> bool {
    vlan.status.as_ref().and_then(|status| status.conflict) == Some(true)
}

fn listed(vlan: &Vlan) -> Vec<String> {
    let subnets = vlan
        .status
        .as_ref()
        .and_then(|status| status.subnets.clone());
    subnets.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vlan_is_carried_once_its_provider_network_is_there() {
    let bench = Bench::start().await;
    bench.vlan("vlan-214", 214).await;
    bench.network().await;
    bench
        .when("pve-default", |network| carried(network) == ["vlan-214"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_vlan_of_a_number_is_in_conflict_until_the_first_is_gone() {
    let bench = Bench::start().await;
    bench.network().await;
    bench.vlan("first", 214).await;
    bench
        .when("pve-default", |network| carried(network) == ["first"])
        .await;
    bench.vlan("second", 214).await;
    bench.when("second", in_conflict).await;
    bench.vpc("v", json!({})).await;
    bench
        .subnet("s", vlan_subnet("second", "172.20.10.0/24"))
        .await;
    bench
        .refused(
            "s",
            "ValidateSubnetVlanFailed",
            "has invalid conflict vlan second",
        )
        .await;
    assert_eq!(carried(&bench.get("pve-default").await), ["first"]);

    bench.delete::<Vlan>("first").await;
    bench
        .when("pve-default", |network| carried(network) == ["second"])
        .await;
    bench.when("second", |vlan| !in_conflict(vlan)).await;
    bench.ready::<Subnet>("s").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_both_of_two_vlans_of_a_number_are_in_conflict() {
    let mut bench = Bench::start().await;
    bench.network().await;
    bench.vlan("first", 214).await;
    bench
        .when("pve-default", |network| carried(network) == ["first"])
        .await;
    bench.vlan("second", 214).await;
    bench.when("second", in_conflict).await;
    assert!(!in_conflict(&bench.get("first").await));
    bench.stop_kube_ovn().await;
    bench.start_kube_ovn();
    bench.when("first", in_conflict).await;
    assert!(in_conflict(&bench.get("second").await));
}

#[tokio::test(flavor = "multi_thread")]
async fn untagged_vlans_do_not_conflict() {
    let bench = Bench::start().await;
    bench.network().await;
    bench.vlan("a", 0).await;
    bench.vlan("b", 0).await;
    let network = bench
        .when("pve-default", |network| carried(network).len() == 2)
        .await;
    assert_eq!(carried(&network), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_vlan_leaves_its_subnet_not_ready_and_terminating_until_it_is_back() {
    let bench = Bench::with_vlan_subnet().await;
    bench.delete::<Vlan>("vlan-214").await;
    bench
        .refused(
            "s",
            "ValidateSubnetVlanFailed",
            "failed to get vlan vlan-214",
        )
        .await;
    let subnet = bench.get::<Subnet>("s").await;
    assert_eq!(
        condition(&subnet, "Validated"),
        ("True".into(), "ValidateSubnetVlanFailed".into())
    );
    bench
        .when("pve-default", |network| carried(network).is_empty())
        .await;
    let port = bench
        .rows::<LogicalSwitchPort>()
        .into_iter()
        .find(|row| row.name == "localnet.s");
    assert_eq!(port.and_then(|port| port.tag), Some(214), "the port stays");

    bench.delete::<Subnet>("s").await;
    bench.stays_terminating("s").await;
    bench.vlan("vlan-214", 214).await;
    bench.gone::<Subnet>("s").await;
    bench
        .northbound_when("the switch's end", |replica| {
            let rows = replica.rows::<LogicalSwitchPort>();
            rows.is_ok_and(|rows| rows.values().all(|row| row.name != "localnet.s"))
        })
        .await;
    bench.when("vlan-214", |vlan| listed(vlan).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_number_reaches_the_port_through_the_vlan() {
    let bench = Bench::with_vlan_subnet().await;
    bench
        .patch::<Vlan>("vlan-214", json!({"spec": {"id": 215}}))
        .await;
    bench
        .northbound_when("the tag", |replica| {
            let rows = replica.rows::<LogicalSwitchPort>();
            rows.is_ok_and(|rows| rows.values().any(|row| row.tag == Some(215)))
        })
        .await;
    assert_eq!(listed(&bench.get("vlan-214").await), ["s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vlan_lists_a_subnet_that_was_there_first_before_it_has_a_switch() {
    let bench = Bench::start().await;
    bench.network().await;
    bench
        .subnet("s", vlan_subnet("vlan-214", "172.20.10.0/24"))
        .await;
    bench
        .refused(
            "s",
            "ValidateSubnetVlanFailed",
            "failed to get vlan vlan-214",
        )
        .await;
    bench.vlan("vlan-214", 214).await;
    bench.when("vlan-214", |vlan| listed(vlan) == ["s"]).await;
    let ports = bench.rows::<LogicalSwitchPort>();
    assert!(
        ports.iter().all(|row| row.name != "localnet.s"),
        "its Vpc is not there: {ports:?}"
    );
}
