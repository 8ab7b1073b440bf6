//! Pools: what is kept of them, and what may be changed while addresses are in use.

use causeway_api::ipam::InClusterIPPool;
use kube::{ResourceExt, api::PatchParams};
use serde_json::{Value, json};

use super::bench::{Bench, assert_bad, change, make, object, when};
use causeway_ipam::PROTECT_POOL;

fn ten_to_19() -> Value {
    json!({"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "gateway": "10.0.0.1"})
}

/// A pool with 10.0.0.10 in use.
async fn in_use() -> Bench {
    let bench = Bench::new().await;
    bench.pool("pool", ten_to_19()).await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    bench.counts("pool", [10, 1, 9, 0]).await;
    bench
}

async fn keeps_what_is_in_use(spec: Value) {
    let bench = in_use().await;
    let changed = bench.change_pool("pool", json!({"spec": spec})).await;
    assert_bad(
        changed,
        "pool addresses do not contain allocated addresses: [10.0.0.10-10.0.0.10]",
    );
    let pool = bench.pools.get("pool").await.expect("the pool");
    assert_eq!(pool.metadata.generation, Some(1));
}

/// Accepted; the counts are then these, and the address that is given out stays as it was.
async fn may_become(spec: Value, counts: [i64; 4]) {
    let bench = in_use().await;
    let before = bench.addresses.get("one").await.expect("the address");
    let changed = bench.change_pool("pool", json!({"spec": spec})).await;
    changed.expect("is accepted");
    bench.counts("pool", counts).await;
    let after = bench.addresses.get("one").await.expect("the address");
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_pool_gets_its_finalizer_and_the_recorded_counts() {
    let bench = Bench::new().await;
    let spec =
        json!({"addresses": ["192.0.2.64-192.0.2.65"], "gateway": "192.0.2.1", "prefix": 24});
    let made = bench.pool("kubernetes-example-v4-icip", spec.clone()).await;
    assert_eq!(made.status, None);
    bench
        .counts("kubernetes-example-v4-icip", [2, 0, 2, 0])
        .await;
    let pool = bench.pools.get("kubernetes-example-v4-icip").await;
    let pool = pool.expect("the pool");
    assert_eq!(pool.finalizers(), [PROTECT_POOL]);
    assert_eq!(json!(pool.spec), spec);
    let recorded = json!({"ipAddresses": {"free": 2, "outOfRange": 0, "total": 2, "used": 0}});
    assert_eq!(json!(pool.status), recorded);
    assert_eq!(pool.metadata.generation, Some(1));
}

#[tokio::test]
async fn nothing_is_defaulted() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.9"], "prefix": 24});
    let made = bench.pool("pool", spec.clone()).await;
    assert_eq!(json!(made.spec), spec);
    bench.counts("pool", [1, 0, 1, 0]).await;
    let pool = bench.pools.get("pool").await.expect("the pool");
    assert_eq!(json!(pool.spec), spec);
}

#[tokio::test]
async fn a_finalizer_that_is_taken_away_comes_back() {
    let bench = Bench::new().await;
    bench.pool("pool", ten_to_19()).await;
    bench.counts("pool", [10, 0, 10, 0]).await;
    let patch = json!({"metadata": {"finalizers": ["example.com/other"]}});
    let changed = bench.change_pool("pool", patch).await;
    assert_eq!(
        changed.expect("changed").finalizers(),
        ["example.com/other"]
    );
    when(&bench.pools, "pool", |pool: &InClusterIPPool| {
        pool.finalizers() == ["example.com/other", PROTECT_POOL]
    })
    .await;
}

#[tokio::test]
async fn counts_that_somebody_else_wrote_are_put_right() {
    let bench = Bench::new().await;
    bench.pool("pool", ten_to_19()).await;
    bench.counts("pool", [10, 0, 10, 0]).await;
    let wrong =
        json!({"status": {"ipAddresses": {"free": 3, "outOfRange": 4, "total": 5, "used": 6}}});
    let patch = kube::api::Patch::Merge(wrong);
    let params = PatchParams::default();
    let patched = bench.pools.patch_status("pool", &params, &patch).await;
    patched.expect("is patched");
    bench.counts("pool", [10, 0, 10, 0]).await;
}

#[tokio::test]
async fn a_paused_pool_is_counted_all_the_same() {
    let bench = Bench::new().await;
    let pool = json!({
        "metadata": {"name": "pool", "annotations": {"cluster.x-k8s.io/paused": ""}},
        "spec": ten_to_19(),
    });
    make::<InClusterIPPool>(&bench.pools, pool).await;
    bench.counts("pool", [10, 0, 10, 0]).await;
}

#[tokio::test]
async fn a_range_may_not_lose_an_address_in_use() {
    keeps_what_is_in_use(json!({"addresses": ["10.0.0.11-10.0.0.19"]})).await;
}

#[tokio::test]
async fn an_address_in_use_may_not_be_excluded() {
    keeps_what_is_in_use(json!({"excludedAddresses": ["10.0.0.10"]})).await;
}

#[tokio::test]
async fn an_address_in_use_may_not_become_the_gateway() {
    keeps_what_is_in_use(json!({"gateway": "10.0.0.10"})).await;
}

#[tokio::test]
async fn an_address_in_use_may_not_become_a_reserved_one() {
    // The prefix around 10.0.0.10 is then 10.0.0.10/31.
    keeps_what_is_in_use(json!({"addresses": ["10.0.0.10-10.0.0.11"], "prefix": 31})).await;
}

#[tokio::test]
async fn all_addresses_in_use_that_would_be_lost_are_told_as_ranges() {
    let bench = in_use().await;
    for (claim, address) in [
        ("two", "10.0.0.11"),
        ("three", "10.0.0.12"),
        ("four", "10.0.0.13"),
    ] {
        bench.claimed(claim, "pool", address).await;
    }
    let spec = json!({"spec": {"addresses": ["10.0.0.12"]}});
    assert_bad(
        bench.change_pool("pool", spec).await,
        "pool addresses do not contain allocated addresses: [10.0.0.10-10.0.0.11 10.0.0.13-10.0.0.13]",
    );
}

#[tokio::test]
async fn a_dry_run_of_a_change_is_refused_alike() {
    let bench = in_use().await;
    let dry = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = kube::api::Patch::Merge(json!({"spec": {"gateway": "10.0.0.10"}}));
    assert_bad(
        bench.pools.patch("pool", &dry, &patch).await,
        "pool addresses do not contain allocated addresses: [10.0.0.10-10.0.0.10]",
    );
}

#[tokio::test]
async fn a_range_may_shrink_elsewhere() {
    may_become(json!({"addresses": ["10.0.0.10-10.0.0.12"]}), [3, 1, 2, 0]).await;
}

#[tokio::test]
async fn a_range_may_grow() {
    may_become(
        json!({"addresses": ["10.0.0.10-10.0.0.29"]}),
        [20, 1, 19, 0],
    )
    .await;
}

#[tokio::test]
async fn the_gateway_may_be_changed_and_addresses_in_use_keep_the_old_one() {
    may_become(json!({"gateway": "10.0.0.15"}), [9, 1, 8, 0]).await;
}

#[tokio::test]
async fn the_prefix_may_be_changed_and_addresses_in_use_keep_the_old_one() {
    may_become(json!({"prefix": 25, "gateway": "10.0.0.11"}), [9, 1, 8, 0]).await;
}

#[tokio::test]
async fn what_is_given_out_of_range_counts_and_lets_nothing_be_changed_but_the_range() {
    let bench = in_use().await;
    let foreign = json!({
        "metadata": {"name": "foreign"},
        "spec": {
            "address": "10.66.66.66", "prefix": 24, "claimRef": {"name": "nobody"},
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "pool"},
        },
    });
    make(&bench.addresses, foreign).await;
    bench.counts("pool", [10, 2, 8, 1]).await;
    let words = "pool addresses do not contain allocated addresses: [10.66.66.66-10.66.66.66]";
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_bad(bench.change_pool("pool", label).await, words);
    let wider = json!({"spec": {"addresses": ["10.0.0.10-10.66.66.66"], "prefix": 8}});
    bench.change_pool("pool", wider).await.expect("accepted");
    let total = (66 << 16) + (66 << 8) + 66 - 10 + 1;
    bench.counts("pool", [total, 2, total - 2, 0]).await;
}

#[tokio::test]
async fn an_address_object_that_holds_no_address_is_in_use_and_keeps_claims_waiting() {
    let bench = Bench::new().await;
    bench.pool("pool", ten_to_19()).await;
    for (name, address) in [("held", "10.0.0.10"), ("odd", "no-address")] {
        let held = json!({
            "metadata": {"name": name},
            "spec": {
                "address": address, "prefix": 24, "claimRef": {"name": "nobody"},
                "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "pool"},
            },
        });
        make(&bench.addresses, held).await;
    }
    bench.counts("pool", [10, 2, 8, 0]).await;
    bench.claim("one", "pool").await;
    bench.waits("one").await;
}

#[tokio::test]
async fn pools_of_one_name_in_two_namespaces_have_nothing_to_do_with_each_other() {
    let bench = in_use().await;
    let (pools, claims, addresses) = bench.elsewhere().await;
    let pool = json!({"metadata": {"name": "pool"}, "spec": ten_to_19()});
    make(&pools, pool).await;
    make(&claims, super::bench::claim("one", "pool", json!({}))).await;
    when(&claims, "one", super::bench::has_address).await;
    let given = addresses.get("one").await.expect("the address");
    assert_eq!(given.spec.address, "10.0.0.10");
    bench.counts("pool", [10, 1, 9, 0]).await;
}

#[tokio::test]
async fn two_pools_may_have_the_same_addresses_and_give_them_twice() {
    let bench = in_use().await;
    bench.pool("twin", ten_to_19()).await;
    bench.claimed("two", "twin", "10.0.0.10").await;
    bench.counts("twin", [10, 1, 9, 0]).await;
}

#[tokio::test]
async fn tables_have_the_columns_that_users_know() {
    let bench = in_use().await;
    let api = "/apis/ipam.cluster.x-k8s.io";
    for (version, plural, columns) in [
        (
            "v1alpha2",
            "inclusterippools",
            &["Name", "Addresses", "Total", "Free", "Used"][..],
        ),
        (
            "v1beta1",
            "ipaddressclaims",
            &["Name", "Pool Name", "Pool Kind", "Age"],
        ),
        (
            "v1beta1",
            "ipaddresses",
            &["Name", "Address", "Pool Name", "Pool Kind", "Age"],
        ),
    ] {
        let path = format!("{api}/{version}/namespaces/{}/{plural}", bench.namespace);
        let request = http::Request::get(path)
            .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new());
        let table: Value = bench
            .client
            .request(request.expect("a request"))
            .await
            .expect("a table");
        let found: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .expect("columns")
            .iter()
            .filter_map(|column| column["name"].as_str())
            .collect();
        assert_eq!(found, columns);
        let cells = table["rows"][0]["cells"].as_array().expect("cells");
        if plural == "inclusterippools" {
            let list = "[\"10.0.0.10-10.0.0.19\"]";
            assert_eq!(
                cells[..],
                [json!("pool"), json!(list), json!(10), json!(9), json!(1)]
            );
        }
    }
}

#[tokio::test]
async fn fields_that_the_provider_does_not_know_do_not_trouble_it() {
    let bench = Bench::new().await;
    bench.pool("pool", ten_to_19()).await;
    let patch = json!({"metadata": {"annotations": {"metric": "100"}, "labels": {"a": "b"}}});
    change(&bench.pools, "pool", patch).await.expect("accepted");
    bench.counts("pool", [10, 0, 10, 0]).await;
    let pool = bench.pools.get("pool").await.expect("the pool");
    assert_eq!(
        pool.annotations().get("metric").map(String::as_str),
        Some("100")
    );
    let _: InClusterIPPool = object(json!(pool));
}
