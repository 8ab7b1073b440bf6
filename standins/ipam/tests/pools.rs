//! What no case about the provider alone can see: that the stand-in can be stopped and started, and
//! how often it writes.

#![allow(clippy::expect_used, clippy::panic, reason = "a test may")]

use std::time::Duration;

use causeway_api::{
    foreign_crds,
    ipam::{InClusterIPPool, PoolCounts},
};
use causeway_ipam::Ipam;
use causeway_kubeapi::{Clock, KubeApi};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use tokio::time::timeout;

/// Longest wait for what takes milliseconds.
const PATIENCE: Duration = Duration::from_mins(2);

async fn api() -> (KubeApi, Client) {
    let api = KubeApi::new(Clock::machine()).expect("the API starts");
    let client = api.client("admin");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in foreign_crds() {
        definitions
            .create(&PostParams::default(), &definition)
            .await
            .expect("is created");
    }
    let namespace = serde_json::from_value(json!({"metadata": {"name": "tenant-example"}}));
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespace.expect("is a namespace");
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .expect("is created");
    (api, client)
}

fn pools(client: &Client) -> Api<InClusterIPPool> {
    Api::namespaced(client.clone(), "tenant-example")
}

async fn create(client: &Client, name: &str, spec: Value) {
    let pool = json!({"metadata": {"name": name}, "spec": spec});
    let pool = serde_json::from_value(pool).expect("is a pool");
    pools(client)
        .create(&PostParams::default(), &pool)
        .await
        .expect("is created");
}

async fn when(client: &Client, name: &str, such: impl Fn(Option<&InClusterIPPool>) -> bool) {
    let found = timeout(PATIENCE, await_condition(pools(client), name, such)).await;
    let Ok(found) = found else {
        panic!(
            "pool {name} does not become so: {:#?}",
            pools(client).get_opt(name).await
        );
    };
    found.expect("can be watched");
}

fn has_free(pool: Option<&InClusterIPPool>, total: i64) -> bool {
    let counts = pool.and_then(|pool| pool.status.as_ref()?.ip_addresses);
    counts
        == Some(PoolCounts {
            total,
            free: total,
            used: 0,
            out_of_range: 0,
        })
}

#[tokio::test]
async fn a_pool_without_addresses_in_use_goes_when_it_is_deleted() {
    let (api, client) = api().await;
    let ipam = Ipam::start(api.client("ipam"));
    create(
        &client,
        "pool",
        json!({"addresses": ["10.0.0.2"], "prefix": 24}),
    )
    .await;
    when(&client, "pool", |pool| has_free(pool, 1)).await;
    ipam.stop().await;
    pools(&client)
        .delete("pool", &DeleteParams::default())
        .await
        .expect("is deleted");
    let held = pools(&client)
        .get("pool")
        .await
        .expect("its finalizer holds it");
    assert!(held.metadata.deletion_timestamp.is_some());
    let _ipam = Ipam::start(api.client("ipam"));
    when(&client, "pool", |pool| pool.is_none()).await;
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    let (api, client) = api().await;
    let ipam = Ipam::start(api.client("ipam"));
    create(
        &client,
        "a",
        json!({"addresses": ["10.0.0.2"], "prefix": 24}),
    )
    .await;
    when(&client, "a", |pool| has_free(pool, 1)).await;
    ipam.stop().await;
    let writes = |api: &KubeApi| {
        api.writes()
            .get(&("ipam".to_owned(), "InClusterIPPool".to_owned()))
            .copied()
    };
    assert_eq!(writes(&api), Some(2), "finalizer and counts");
    let _ipam = Ipam::start(api.client("ipam"));
    create(
        &client,
        "b",
        json!({"addresses": ["10.0.0.3"], "prefix": 24}),
    )
    .await;
    when(&client, "b", |pool| has_free(pool, 1)).await;
    assert_eq!(writes(&api), Some(4), "those of the new pool alone");
}
