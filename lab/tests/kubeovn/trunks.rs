//! Which nodes carry a provider network, and what they are told.

use causeway_api::kubeovn::{ProviderNetwork, Vlan};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::json;

use crate::bench::{Bench, Notes};

fn interfaces(notes: &Notes) -> Vec<(&str, &str)> {
    let trunks = notes.trunks.iter();
    trunks
        .map(|((node, _), trunk)| (node.as_str(), trunk.interface.as_str()))
        .collect()
}

fn labels(node: &Node) -> Vec<(&str, &str)> {
    let labels = node.labels().iter();
    let theirs = labels.filter_map(|(key, value)| {
        Some((
            key.strip_prefix("pve-default.provider-network.kubernetes.io/")?,
            value.as_str(),
        ))
    });
    theirs.collect()
}

fn ready_nodes(network: &ProviderNetwork) -> (Vec<String>, Vec<String>, bool) {
    let status = network.status.clone().unwrap_or_default();
    let (ready, not) = (status.ready_nodes, status.not_ready_nodes);
    (
        ready.unwrap_or_default(),
        not.unwrap_or_default(),
        status.ready == Some(true),
    )
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn trunks_carry_the_numbers_that_the_provider_network_lists() {
    let bench = Bench::start().await;
    bench.network().await;
    bench.vlan("a", 214).await;
    bench.vlan("b", 0).await;
    bench.vlan("c", 300).await;
    let both = |notes: &Notes| {
        notes.trunks.len() == 2
            && notes
                .trunks
                .values()
                .all(|it| it.vlans == [214, 300].into())
    };
    bench.cni.when("214 and 300 on both nodes", both).await;
    bench.delete::<Vlan>("a").await;
    let one = |notes: &Notes| notes.trunks.values().all(|it| it.vlans == [300].into());
    bench.cni.when("300 alone", one).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_chosen_by_selector_and_the_others_are_marked_excluded() {
    let bench = Bench::start().await;
    bench.network().await;
    let both = (names(&["node1", "node2"]), vec![], true);
    bench
        .when("pve-default", |network| ready_nodes(network) == both)
        .await;
    assert_eq!(
        interfaces(&bench.cni.now()),
        [("node1", "eth1"), ("node2", "eth1")]
    );
    let carrying = [("interface", "eth1"), ("mtu", "1500"), ("ready", "true")];
    assert_eq!(labels(&bench.get("node1").await), carrying);
    bench
        .when("node3", |node| labels(node) == [("exclude", "true")])
        .await;

    bench
        .patch::<Node>(
            "node2",
            json!({"metadata": {"labels": {"proxmox.cozystack.io/trunk": null}}}),
        )
        .await;
    let one = (names(&["node1"]), vec![], true);
    bench
        .when("pve-default", |network| ready_nodes(network) == one)
        .await;
    bench
        .cni
        .when("the trunk's end", |notes| {
            interfaces(notes) == [("node1", "eth1")]
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_selector_all_but_the_excluded_nodes_carry_on_their_own_nic() {
    let bench = Bench::start().await;
    bench
        .create::<ProviderNetwork>(&json!({
            "metadata": {"name": "pve-default"},
            "spec": {
                "defaultInterface": "eth1",
                "customInterfaces": [{"interface": "ens9", "nodes": ["node3"]}],
                "excludeNodes": ["node2"],
            },
        }))
        .await;
    let wanted = [("node1", "eth1"), ("node3", "ens9")];
    bench
        .cni
        .when("two trunks", |notes| interfaces(notes) == wanted)
        .await;
    bench
        .when("node2", |node| labels(node) == [("exclude", "true")])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_carry_is_not_ready_and_says_why() {
    let bench = Bench::start().await;
    bench.cni.break_node(Some("node2"));
    bench.network().await;
    let broken = (names(&["node1"]), names(&["node2"]), false);
    let network = bench.when("pve-default", |network: &ProviderNetwork| {
        let conditions = network
            .status
            .as_ref()
            .and_then(|it| it.conditions.as_ref());
        ready_nodes(network) == broken && conditions.map(Vec::len) == Some(2)
    });
    let status = network.await.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let failed = &conditions[1];
    assert_eq!(failed.node.as_deref(), Some("node2"));
    assert_eq!(failed.condition.status.as_deref(), Some("False"));
    assert_eq!(
        failed.condition.reason.as_deref(),
        Some("InitOVSBridgeFailed")
    );
    let message = failed.condition.message.as_deref().unwrap_or_default();
    assert!(message.contains("the NIC is gone"), "{message}");

    bench.cni.break_node(None);
    let whole = (names(&["node1", "node2"]), vec![], true);
    bench
        .when("pve-default", |network| ready_nodes(network) == whole)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_provider_network_leaves_no_trunk_and_no_label() {
    let bench = Bench::start().await;
    bench.network().await;
    bench.when("node1", |node| labels(node).len() == 3).await;
    bench.when("node3", |node| labels(node).len() == 1).await;
    bench.delete::<ProviderNetwork>("pve-default").await;
    bench
        .cni
        .when("no trunk", |notes| notes.trunks.is_empty())
        .await;
    for node in ["node1", "node2", "node3"] {
        bench.when(node, |node| labels(node).is_empty()).await;
    }
}
