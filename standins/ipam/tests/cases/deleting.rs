//! Pools that are deleted.

use causeway_api::ipam::{IPAddressClaim, InClusterIPPool};
use causeway_ipam::{PROTECT_POOL, RELEASE_ADDRESS};
use kube::{ResourceExt, api::DeleteParams};
use serde_json::json;

use super::bench::{Bench, assert_bad, delete, gone, when};

const REFUSED: &str =
    "Pool has IPAddresses allocated. Cannot delete Pool until all IPAddresses have been removed.";

/// A pool with one of two addresses in use.
async fn in_use() -> Bench {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.10-10.0.0.11"], "prefix": 24});
    bench.pool("pool", spec).await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    bench.counts("pool", [2, 1, 1, 0]).await;
    bench
}

/// The same pool, going.
async fn going() -> Bench {
    let bench = in_use().await;
    let skip = json!({"metadata": {"annotations": {
        "ipam.cluster.x-k8s.io/skip-validate-delete-webhook": "",
    }}});
    bench.change_pool("pool", skip).await.expect("accepted");
    delete(&bench.pools, "pool").await;
    bench
}

#[tokio::test]
async fn a_pool_goes_at_once_if_nothing_of_it_is_in_use() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.counts("pool", [1, 0, 1, 0]).await;
    delete(&bench.pools, "pool").await;
    gone(&bench.pools, "pool").await;
}

#[tokio::test]
async fn a_pool_with_an_address_in_use_cannot_be_deleted() {
    let bench = in_use().await;
    for dry_run in [true, false] {
        let params = DeleteParams {
            dry_run,
            ..DeleteParams::default()
        };
        assert_bad(bench.pools.delete("pool", &params).await, REFUSED);
    }
    let pool = bench.pools.get("pool").await.expect("the pool");
    assert_eq!(pool.metadata.deletion_timestamp, None);
}

#[tokio::test]
async fn a_pool_can_be_deleted_once_its_addresses_are_given_back() {
    let bench = in_use().await;
    delete(&bench.claims, "one").await;
    bench.counts("pool", [2, 0, 2, 0]).await;
    delete(&bench.pools, "pool").await;
    gone(&bench.pools, "pool").await;
}

#[tokio::test]
async fn with_the_annotation_a_pool_in_use_is_going_until_its_addresses_are_given_back() {
    let bench = going().await;
    bench.until_later_claims_are_served().await;
    let pool = bench.pools.get("pool").await.expect("it is held");
    assert!(pool.metadata.deletion_timestamp.is_some());
    assert_eq!(pool.finalizers(), [PROTECT_POOL]);
    delete(&bench.claims, "one").await;
    gone(&bench.pools, "pool").await;
}

#[tokio::test]
async fn a_pool_that_is_going_still_gives_addresses_and_does_not_count_them() {
    let bench = going().await;
    bench.claimed("two", "pool", "10.0.0.11").await;
    bench.until_later_claims_are_served().await;
    bench.counts("pool", [2, 1, 1, 0]).await;
    for claim in ["one", "two"] {
        delete(&bench.claims, claim).await;
        gone(&bench.claims, claim).await;
    }
    gone(&bench.pools, "pool").await;
}

#[tokio::test]
async fn a_pool_may_go_while_a_claim_waits_and_a_later_one_of_its_name_serves_it() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.10"], "prefix": 24});
    bench.pool("pool", spec).await;
    bench.counts("pool", [1, 0, 1, 0]).await;
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    bench.change_pool("pool", paused).await.expect("accepted");
    bench.claim("one", "pool").await;
    bench.waits("one").await;
    delete(&bench.pools, "pool").await;
    gone(&bench.pools, "pool").await;
    let waiting = when(&bench.claims, "one", |_: &IPAddressClaim| true).await;
    assert_eq!(waiting.finalizers(), [RELEASE_ADDRESS]);
    assert_eq!(waiting.status, None);
    bench
        .pool("pool", json!({"addresses": ["10.9.0.10"], "prefix": 24}))
        .await;
    bench.gets("one", "10.9.0.10").await;
}

#[tokio::test]
async fn a_pool_that_is_going_may_be_held_by_others_too() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.counts("pool", [1, 0, 1, 0]).await;
    let held = json!({"metadata": {"finalizers": [PROTECT_POOL, "example.com/other"]}});
    bench.change_pool("pool", held).await.expect("accepted");
    delete(&bench.pools, "pool").await;
    when(&bench.pools, "pool", |pool: &InClusterIPPool| {
        pool.finalizers() == ["example.com/other"]
    })
    .await;
    let free = json!({"metadata": {"finalizers": null}});
    bench.change_pool("pool", free).await.expect("accepted");
    gone(&bench.pools, "pool").await;
}
