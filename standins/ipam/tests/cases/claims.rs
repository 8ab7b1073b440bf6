//! Claims: which address they get and when, and what becomes of it.

use causeway_api::ipam::IPAddressClaim;
use causeway_ipam::{PROTECT_ADDRESS, RELEASE_ADDRESS};
use kube::ResourceExt;
use serde_json::json;

use super::bench::{Bench, change, delete, gone, has_address, when};

#[tokio::test]
async fn a_claim_gets_the_lowest_address() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.20", "10.0.0.10-10.0.0.11"], "prefix": 24});
    bench.pool("pool", spec).await;
    for (name, address) in [("a", "10.0.0.10"), ("b", "10.0.0.11"), ("c", "10.0.0.20")] {
        bench.claimed(name, "pool", address).await;
    }
    bench.counts("pool", [3, 3, 0, 0]).await;
}

#[tokio::test]
async fn a_claim_is_held_by_the_finalizer_and_names_its_address() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    let claim = bench.claims.get("one").await.expect("the claim");
    assert_eq!(claim.finalizers(), [RELEASE_ADDRESS]);
    assert_eq!(json!(claim.status), json!({"addressRef": {"name": "one"}}));
    assert_eq!(claim.metadata.generation, Some(1));
}

#[tokio::test]
async fn the_first_address_of_a_cidr_is_not_the_network_nor_the_gateway() {
    let bench = Bench::new().await;
    let spec = json!({
        "addresses": ["10.0.0.0/24"], "prefix": 24, "gateway": "10.0.0.1",
        "excludedAddresses": ["10.0.0.2-10.0.0.9"],
    });
    bench.pool("pool", spec).await;
    bench.claimed("one", "pool", "10.0.0.10").await;
}

#[tokio::test]
async fn a_reserved_address_is_given_where_the_pool_says_so() {
    let bench = Bench::new().await;
    let spec =
        json!({"addresses": ["10.0.0.0/24"], "prefix": 24, "allocateReservedIPAddresses": true});
    bench.pool("pool", spec).await;
    bench.claimed("one", "pool", "10.0.0.0").await;
}

#[tokio::test]
async fn an_ipv6_address_is_given_in_its_short_form() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["fd00:0:0:0::/64"], "prefix": 64, "gateway": "FD00::1"});
    bench.pool("pool", spec).await;
    bench.claim("one", "pool").await;
    let given = bench.gets("one", "fd00::2").await;
    assert_eq!(given.spec.gateway.as_deref(), Some("FD00::1"));
    assert_eq!(given.spec.prefix, 64);
    bench.counts("pool", [i64::MAX, 1, i64::MAX - 1, 0]).await;
}

#[tokio::test]
async fn an_address_that_is_given_back_is_given_again() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.10-10.0.0.12"], "prefix": 24});
    bench.pool("pool", spec).await;
    for (name, address) in [("a", "10.0.0.10"), ("b", "10.0.0.11")] {
        bench.claimed(name, "pool", address).await;
    }
    delete(&bench.claims, "a").await;
    gone(&bench.claims, "a").await;
    bench.claimed("c", "pool", "10.0.0.10").await;
    bench.counts("pool", [3, 2, 1, 0]).await;
}

#[tokio::test]
async fn a_deleted_claim_goes_with_its_address() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.10-10.0.0.12"], "prefix": 24});
    bench.pool("pool", spec).await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    bench.counts("pool", [3, 1, 2, 0]).await;
    delete(&bench.claims, "one").await;
    gone(&bench.claims, "one").await;
    gone(&bench.addresses, "one").await;
    bench.counts("pool", [3, 0, 3, 0]).await;
}

#[tokio::test]
async fn a_claim_on_an_exhausted_pool_waits_without_a_word() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    bench.counts("pool", [1, 1, 0, 0]).await;
    bench.claim("two", "pool").await;
    bench.waits("two").await;
    bench.counts("pool", [1, 1, 0, 0]).await;
}

#[tokio::test]
async fn a_waiting_claim_is_served_when_an_address_is_given_back() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    bench.claim("two", "pool").await;
    bench.waits("two").await;
    delete(&bench.claims, "one").await;
    bench.gets("two", "10.0.0.10").await;
}

#[tokio::test]
async fn a_waiting_claim_is_served_when_the_pool_grows() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    bench.counts("pool", [1, 1, 0, 0]).await;
    bench.claim("two", "pool").await;
    bench.waits("two").await;
    let more = json!({"spec": {"addresses": ["10.0.0.10-10.0.0.11"]}});
    bench.change_pool("pool", more).await.expect("accepted");
    bench.gets("two", "10.0.0.11").await;
}

#[tokio::test]
async fn a_claim_waits_for_its_pool() {
    let bench = Bench::new().await;
    bench.claim("one", "pool").await;
    bench.waits("one").await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.gets("one", "10.0.0.10").await;
}

#[tokio::test]
async fn a_claim_whose_pool_never_came_goes_when_it_is_deleted() {
    let bench = Bench::new().await;
    bench.claim("one", "pool").await;
    bench.waits("one").await;
    delete(&bench.claims, "one").await;
    gone(&bench.claims, "one").await;
}

#[tokio::test]
async fn a_claim_of_another_provider_is_left_alone() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    for (name, reference) in [
        ("group", json!({"apiGroup": "example.com"})),
        ("kind", json!({"kind": "OtherPool"})),
        ("none", json!({"apiGroup": null})),
    ] {
        let rest = json!({"spec": {"poolRef": reference}});
        bench.claim_with(name, "pool", rest).await;
    }
    for name in ["group", "kind", "none"] {
        when(&bench.claims, name, |_: &IPAddressClaim| true).await;
    }
    bench.claimed("ours", "pool", "10.0.0.10").await;
    for name in ["group", "kind", "none"] {
        let claim = bench.claims.get(name).await.expect("the claim");
        assert_eq!(
            (claim.finalizers(), &claim.status),
            (&[][..], &None),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_paused_claim_is_left_alone_until_it_is_not() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    bench.counts("pool", [1, 0, 1, 0]).await;
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    bench.claim_with("one", "pool", paused).await;
    bench.is_left_alone("one").await;
    let unpaused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    let changed = change(&bench.claims, "one", unpaused).await;
    changed.expect("is changed");
    bench.gets("one", "10.0.0.10").await;
}

#[tokio::test]
async fn a_claim_on_a_paused_pool_is_held_and_waits_until_the_pool_is_not_paused() {
    let bench = Bench::new().await;
    bench
        .pool("pool", json!({"addresses": ["10.0.0.10"], "prefix": 24}))
        .await;
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    bench.change_pool("pool", paused).await.expect("accepted");
    bench.claim("one", "pool").await;
    bench.waits("one").await;
    let unpaused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}});
    bench.change_pool("pool", unpaused).await.expect("accepted");
    bench.gets("one", "10.0.0.10").await;
}

#[tokio::test]
async fn a_finalizer_that_is_taken_from_a_claim_comes_back_and_the_address_stays() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.10-10.0.0.12"], "prefix": 24});
    bench.pool("pool", spec).await;
    bench.claimed("one", "pool", "10.0.0.10").await;
    let before = bench.addresses.get("one").await.expect("the address");
    let patch = json!({"metadata": {"finalizers": null}});
    change(&bench.claims, "one", patch).await.expect("changed");
    when(&bench.claims, "one", |claim: &IPAddressClaim| {
        claim.finalizers() == [RELEASE_ADDRESS] && has_address(claim)
    })
    .await;
    let after = bench.addresses.get("one").await.expect("the address");
    assert_eq!(after, before);
    assert_eq!(after.finalizers(), [PROTECT_ADDRESS]);
}

#[tokio::test]
async fn many_claims_at_once_get_different_addresses() {
    let bench = Bench::new().await;
    let spec = json!({"addresses": ["10.0.0.10-10.0.0.29"], "prefix": 24});
    bench.pool("pool", spec).await;
    let names: Vec<String> = (0..20).map(|number| format!("claim-{number}")).collect();
    futures::future::join_all(names.iter().map(|name| bench.claim(name, "pool"))).await;
    let mut given = std::collections::BTreeSet::new();
    for name in &names {
        when(&bench.claims, name, has_address).await;
        let address = bench.addresses.get(name).await.expect("the address");
        given.insert(address.spec.address);
    }
    assert_eq!(given.len(), 20, "{given:?}");
    bench.counts("pool", [20, 20, 0, 0]).await;
}

#[tokio::test]
async fn a_claim_that_moves_to_another_pool_gets_an_address_of_that_in_the_name_of_the_old() {
    let bench = Bench::new().await;
    for (name, address) in [("old", "10.0.0.10"), ("new", "10.1.0.10")] {
        let spec = json!({"addresses": [address], "prefix": 24});
        bench.pool(name, spec).await;
    }
    bench.claimed("one", "old", "10.0.0.10").await;
    let patch = json!({"spec": {"poolRef": {"name": "new"}}});
    change(&bench.claims, "one", patch).await.expect("changed");
    let moved = when(
        &bench.addresses,
        "one",
        |address: &causeway_api::ipam::IPAddress| address.spec.address == "10.1.0.10",
    )
    .await;
    assert_eq!(moved.spec.pool_ref.name, "old");
    bench.counts("old", [1, 1, 0, 1]).await;
    bench.counts("new", [1, 0, 1, 0]).await;
}
