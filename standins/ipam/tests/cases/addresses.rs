//! The address objects: what stands in them, and what others may do to them.

use causeway_api::ipam::IPAddress;
use causeway_ipam::PROTECT_ADDRESS;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::bench::{Bench, change, delete, gone, make, when};

fn recorded_pool() -> Value {
    json!({"addresses": ["172.20.10.64-172.20.10.191"], "gateway": "172.20.10.1", "prefix": 24})
}

/// An address of the pool, made by hand.
fn by_hand(name: &str, address: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "address": address, "prefix": 20, "gateway": "10.66.66.1", "claimRef": {"name": name},
            "poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "pool"},
        },
    })
}

#[tokio::test]
async fn an_address_is_as_recorded() {
    let bench = Bench::new().await;
    let pool = bench.pool("subnet-7bb6e3ad", recorded_pool()).await;
    let claim = "kubernetes-example-md0-9pvpn-lmj6t-net0-inet";
    let made = bench.claim(claim, "subnet-7bb6e3ad").await;
    let given = bench.gets(claim, "172.20.10.64").await;
    let recorded = json!({
        "address": "172.20.10.64",
        "claimRef": {"name": claim},
        "gateway": "172.20.10.1",
        "poolRef": {
            "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "subnet-7bb6e3ad",
        },
        "prefix": 24,
    });
    assert_eq!(json!(given.spec), recorded);
    let owners = json!([
        {
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta1", "kind": "IPAddressClaim", "name": claim,
            "uid": made.uid(), "controller": true, "blockOwnerDeletion": true,
        },
        {
            "apiVersion": "ipam.cluster.x-k8s.io/v1alpha2", "kind": "InClusterIPPool",
            "name": "subnet-7bb6e3ad", "uid": pool.uid(), "controller": false,
            "blockOwnerDeletion": true,
        },
    ]);
    assert_eq!(json!(given.owner_references()), owners);
    assert_eq!(given.finalizers(), [PROTECT_ADDRESS]);
    assert!(given.labels().is_empty(), "{:?}", given.labels());
    bench.counts("subnet-7bb6e3ad", [128, 1, 127, 0]).await;
}

#[tokio::test]
async fn an_address_of_a_pool_without_gateway_has_none() {
    let bench = Bench::new().await;
    for (name, spec) in [
        ("none", json!({"addresses": ["10.0.0.10"], "prefix": 24})),
        (
            "empty",
            json!({"addresses": ["10.0.0.10"], "prefix": 24, "gateway": ""}),
        ),
    ] {
        bench.pool(name, spec).await;
        bench.claim(name, name).await;
        let given = bench.gets(name, "10.0.0.10").await;
        assert_eq!(given.spec.gateway, None, "{name}");
    }
}

#[tokio::test]
async fn an_address_that_is_deleted_stays_until_its_claim_goes() {
    let bench = Bench::new().await;
    bench.pool("pool", recorded_pool()).await;
    bench.claimed("one", "pool", "172.20.10.64").await;
    delete(&bench.addresses, "one").await;
    bench.until_later_claims_are_served().await;
    let held = bench.addresses.get("one").await.expect("the address");
    assert!(held.metadata.deletion_timestamp.is_some());
    assert_eq!(held.finalizers(), [PROTECT_ADDRESS]);
    bench.counts("pool", [128, 1, 127, 0]).await;
    delete(&bench.claims, "one").await;
    gone(&bench.addresses, "one").await;
    gone(&bench.claims, "one").await;
    bench.counts("pool", [128, 0, 128, 0]).await;
}

#[tokio::test]
async fn an_address_that_was_made_beforehand_is_taken_as_it_is() {
    let bench = Bench::new().await;
    bench.pool("pool", recorded_pool()).await;
    make::<IPAddress>(&bench.addresses, by_hand("one", "10.66.66.66")).await;
    bench.counts("pool", [128, 1, 127, 1]).await;
    let claim = bench.claim("one", "pool").await;
    let taken = bench.gets("one", "10.66.66.66").await;
    assert_eq!(
        (taken.spec.prefix, taken.spec.gateway.as_deref()),
        (20, Some("10.66.66.1"))
    );
    let owners: Vec<_> = taken
        .owner_references()
        .iter()
        .map(|owner| owner.uid.clone())
        .collect();
    let pool = bench.pools.get("pool").await.expect("the pool");
    assert_eq!(
        owners,
        [claim.uid().expect("a uid"), pool.uid().expect("a uid")]
    );
    assert_eq!(taken.finalizers(), [PROTECT_ADDRESS]);
    bench.counts("pool", [128, 1, 127, 1]).await;
}

#[tokio::test]
async fn an_address_that_was_made_beforehand_is_not_given_to_another_claim() {
    let bench = Bench::new().await;
    bench.pool("pool", recorded_pool()).await;
    make::<IPAddress>(&bench.addresses, by_hand("held", "172.20.10.64")).await;
    bench.counts("pool", [128, 1, 127, 0]).await;
    bench.claimed("one", "pool", "172.20.10.65").await;
}

#[tokio::test]
async fn an_address_of_another_kind_of_pool_is_none_of_this_one() {
    let bench = Bench::new().await;
    bench.pool("pool", recorded_pool()).await;
    let mut other = by_hand("other", "172.20.10.64");
    other["spec"]["poolRef"]["kind"] = json!("OtherPool");
    make::<IPAddress>(&bench.addresses, other).await;
    bench.claimed("one", "pool", "172.20.10.64").await;
    bench.counts("pool", [128, 1, 127, 0]).await;
}

#[tokio::test]
async fn owners_and_finalizer_that_somebody_took_away_come_back() {
    let bench = Bench::new().await;
    bench.pool("pool", recorded_pool()).await;
    bench.claimed("one", "pool", "172.20.10.64").await;
    let before = bench.addresses.get("one").await.expect("the address");
    // The claim stays its controller: by that the provider notices changes.
    let claim = &before.owner_references()[0];
    let patch = json!({"metadata": {"finalizers": null, "ownerReferences": [claim]}});
    change(&bench.addresses, "one", patch)
        .await
        .expect("changed");
    let after = when(&bench.addresses, "one", |address: &IPAddress| {
        address.finalizers() == [PROTECT_ADDRESS]
    })
    .await;
    assert_eq!(after.owner_references(), before.owner_references());
    assert_eq!(after.spec, before.spec);
}

#[tokio::test]
async fn a_spec_that_somebody_changed_is_not_put_right() {
    let bench = Bench::new().await;
    bench.pool("pool", recorded_pool()).await;
    bench.claimed("one", "pool", "172.20.10.64").await;
    let patch = json!({"spec": {"address": "172.20.10.99", "gateway": "172.20.10.2"}});
    change(&bench.addresses, "one", patch)
        .await
        .expect("changed");
    bench.claimed("two", "pool", "172.20.10.64").await;
    let kept = bench.addresses.get("one").await.expect("the address");
    assert_eq!(kept.spec.address, "172.20.10.99");
    bench.counts("pool", [128, 2, 126, 0]).await;
}
