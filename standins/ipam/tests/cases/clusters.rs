//! Claims that are for a cluster.

use causeway_ipam::Cluster;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::bench::{Bench, change, delete, gone, make};

async fn bench() -> Bench {
    let bench = Bench::new().await;
    bench
        .pool(
            "pool",
            json!({"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24}),
        )
        .await;
    bench.counts("pool", [10, 0, 10, 0]).await;
    bench
}

fn by_label() -> Value {
    json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "kubernetes-example"}}})
}

async fn cluster(bench: &Bench, rest: Value) {
    let mut cluster = json!({"metadata": {"name": "kubernetes-example"}, "spec": {}});
    json_patch::merge(&mut cluster, &rest);
    make::<Cluster>(&bench.clusters, cluster).await;
}

#[tokio::test]
async fn the_label_of_the_cluster_is_on_the_address_too() {
    let bench = bench().await;
    cluster(&bench, json!({})).await;
    bench.claim_with("one", "pool", by_label()).await;
    let given = bench.gets("one", "10.0.0.10").await;
    assert_eq!(json!(given.labels()), by_label()["metadata"]["labels"]);
}

#[tokio::test]
async fn a_claim_is_left_alone_until_its_cluster_is_there() {
    let bench = bench().await;
    bench.claim_with("labelled", "pool", by_label()).await;
    let named = json!({"spec": {"clusterName": "kubernetes-example"}});
    bench.claim_with("named", "pool", named).await;
    bench.is_left_alone("labelled").await;
    let named = bench.claims.get("named").await.expect("the claim");
    assert_eq!((named.finalizers(), &named.status), (&[][..], &None));
    cluster(&bench, json!({})).await;
    for name in ["labelled", "named"] {
        super::bench::when(&bench.claims, name, super::bench::has_address).await;
    }
    bench.counts("pool", [10, 2, 8, 0]).await;
}

#[tokio::test]
async fn a_claim_is_left_alone_while_its_cluster_is_paused() {
    let bench = bench().await;
    cluster(&bench, json!({"spec": {"paused": true}})).await;
    bench.claim_with("one", "pool", by_label()).await;
    bench.is_left_alone("one").await;
    let unpaused = json!({"spec": {"paused": false}});
    let changed = change(&bench.clusters, "kubernetes-example", unpaused).await;
    changed.expect("is changed");
    bench.gets("one", "10.0.0.10").await;
}

#[tokio::test]
async fn a_cluster_that_is_annotated_as_paused_is_paused() {
    let bench = bench().await;
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    cluster(&bench, paused).await;
    bench.claim_with("one", "pool", by_label()).await;
    bench.is_left_alone("one").await;
}

#[tokio::test]
async fn a_claim_gives_its_address_back_although_its_cluster_is_gone() {
    let bench = bench().await;
    cluster(&bench, json!({})).await;
    bench.claim_with("one", "pool", by_label()).await;
    bench.gets("one", "10.0.0.10").await;
    delete(&bench.clusters, "kubernetes-example").await;
    gone(&bench.clusters, "kubernetes-example").await;
    delete(&bench.claims, "one").await;
    gone(&bench.claims, "one").await;
    gone(&bench.addresses, "one").await;
}
