//! What kube-controller-manager would do, as a step.

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, ResourceExt,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, PropagationPolicy,
        WatchEvent, WatchParams,
    },
};
use serde_json::{Value, json};

use super::setup::{
    PATIENCE, api, code, definition, is_there, make, make_namespace, owned_by, roots, serve_kinds,
    things,
};

#[tokio::test]
async fn a_deleted_namespace_goes_when_its_contents_are_collected() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    make_namespace(&client, "tenant").await;
    make(&things(&client, "tenant"), "Thing", json!({"name": "one"})).await;
    make(
        &things(&client, "default"),
        "Thing",
        json!({"name": "other"}),
    )
    .await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .delete("tenant", &DeleteParams::default())
        .await
        .expect("marked");
    assert!(
        is_there(&things(&client, "tenant"), "one").await,
        "nothing happens by itself"
    );
    assert!(api.collect_garbage() > 0);
    assert!(!is_there(&namespaces, "tenant").await);
    assert!(is_there(&things(&client, "default"), "other").await);
    assert_eq!(code(things(&client, "tenant").get("one").await), 404);
}

#[tokio::test]
async fn contents_with_finalizers_keep_their_namespace() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    make_namespace(&client, "tenant").await;
    let things = things(&client, "tenant");
    make(
        &things,
        "Thing",
        json!({"name": "one", "finalizers": ["x.io/y"]}),
    )
    .await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .delete("tenant", &DeleteParams::default())
        .await
        .expect("marked");
    api.collect_garbage();
    assert!(
        things
            .get("one")
            .await
            .expect("still there")
            .metadata
            .deletion_timestamp
            .is_some()
    );
    assert!(is_there(&namespaces, "tenant").await);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    things
        .patch("one", &PatchParams::default(), &free)
        .await
        .expect("freed");
    api.collect_garbage();
    assert!(!is_there(&namespaces, "tenant").await);
}

#[tokio::test]
async fn dependents_go_when_all_their_owners_are_gone() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    let (roots, things) = (roots(&client), things(&client, "default"));
    let one = make(&roots, "Root", json!({"name": "one"})).await;
    let two = make(&roots, "Root", json!({"name": "two"})).await;
    let both: Vec<Value> = [&one, &two]
        .iter()
        .map(|owner| owned_by(owner, false)[0].clone())
        .collect();
    let child = make(
        &things,
        "Thing",
        json!({"name": "child", "ownerReferences": both}),
    )
    .await;
    make(
        &things,
        "Thing",
        json!({"name": "grandchild", "ownerReferences": owned_by(&child, false)}),
    )
    .await;
    make(&things, "Thing", json!({"name": "free"})).await;
    roots
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    assert_eq!(
        api.collect_garbage(),
        1,
        "the one that is gone is forgotten"
    );
    let kept = things.get("child").await.expect("one owner is left");
    assert_eq!(kept.owner_references().len(), 1);
    roots
        .delete("two", &DeleteParams::default())
        .await
        .expect("deleted");
    assert_eq!(api.collect_garbage(), 2);
    let left = things.list(&ListParams::default()).await.expect("a list");
    assert_eq!(
        left.items
            .iter()
            .map(ResourceExt::name_any)
            .collect::<Vec<_>>(),
        ["free"]
    );
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_waits_for_dependents_that_block_it() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    let (roots, things) = (roots(&client), things(&client, "default"));
    let root = make(&roots, "Root", json!({"name": "root"})).await;
    let metadata = json!({"name": "child", "ownerReferences": owned_by(&root, true), "finalizers": ["x.io/y"]});
    make(&things, "Thing", metadata).await;
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    roots.delete("root", &foreground).await.expect("marked");
    api.collect_garbage();
    assert!(is_there(&roots, "root").await);
    assert!(
        things
            .get("child")
            .await
            .expect("held")
            .metadata
            .deletion_timestamp
            .is_some()
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    things
        .patch("child", &PatchParams::default(), &free)
        .await
        .expect("freed");
    api.collect_garbage();
    assert!(!is_there(&roots, "root").await);
}

#[tokio::test]
async fn orphans_stay_and_forget_their_owner() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    let (roots, things) = (roots(&client), things(&client, "default"));
    let root = make(&roots, "Root", json!({"name": "root"})).await;
    make(
        &things,
        "Thing",
        json!({"name": "child", "ownerReferences": owned_by(&root, false)}),
    )
    .await;
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    roots.delete("root", &orphan).await.expect("marked");
    api.collect_garbage();
    assert!(!is_there(&roots, "root").await);
    let child = things.get("child").await.expect("still there");
    assert_eq!(child.metadata.owner_references, None);
}

#[tokio::test]
async fn a_deleted_crd_takes_its_objects_with_it() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    let things = things(&client, "default");
    make(&things, "Thing", json!({"name": "one"})).await;
    let from = things
        .list(&ListParams::default())
        .await
        .expect("a list")
        .metadata
        .resource_version
        .expect("a revision");
    let mut watch = Box::pin(
        things
            .watch(&WatchParams::default(), &from)
            .await
            .expect("a watch"),
    );
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &definition());
    definitions
        .delete("things.test.causeway.dev", &DeleteParams::default())
        .await
        .expect("marked");
    assert!(is_there(&things, "one").await);
    let gone = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(event) = watch.try_next().await.expect("no error") {
            seen.push(matches!(event, WatchEvent::Deleted(_)));
        }
        seen
    });
    api.collect_garbage();
    let seen = tokio::time::timeout(PATIENCE, gone)
        .await
        .expect("the watch ends")
        .expect("no panic");
    assert_eq!(seen, [true]);
    assert_eq!(code(things.get("one").await), 404);
    assert!(!is_there(&definitions, "things.test.causeway.dev").await);
    serve_kinds(&client).await;
    assert!(!is_there(&things, "one").await, "a kind made anew is empty");
}

#[tokio::test]
async fn a_pod_on_a_node_stops_before_it_goes() {
    let api = api();
    let client = api.client("test");
    let pods: Api<Pod> = Api::default_namespaced(client);
    let pod = |name: &str, node: Value| -> Pod {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a pod")
    };
    pods.create(&PostParams::default(), &pod("idle", Value::Null))
        .await
        .expect("the pod");
    let made = pods
        .create(&PostParams::default(), &pod("running", "node1".into()))
        .await
        .expect("the pod");
    assert_eq!(
        made.status.and_then(|status| status.phase).as_deref(),
        Some("Pending")
    );
    assert_eq!(
        made.spec.and_then(|spec| spec.restart_policy).as_deref(),
        Some("Always")
    );
    let on_node = pods
        .list(&ListParams::default().fields("spec.nodeName=node1"))
        .await
        .expect("a list");
    assert_eq!(on_node.items.len(), 1);
    for name in ["idle", "running"] {
        pods.delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
    }
    assert!(!is_there(&pods, "idle").await, "no kubelet has to be asked");
    let stopping = pods.get("running").await.expect("it stops first");
    assert_eq!(stopping.metadata.deletion_grace_period_seconds, Some(30));
    let end = stopping.metadata.deletion_timestamp.expect("an end").0;
    assert_eq!(end.to_string(), "2026-01-02T03:04:35Z");
    api.collect_garbage();
    assert!(!is_there(&pods, "running").await);
    pods.create(&PostParams::default(), &pod("running", "node1".into()))
        .await
        .expect("the pod");
    pods.delete("running", &DeleteParams::default().grace_period(0))
        .await
        .expect("deleted");
    assert!(!is_there(&pods, "running").await, "no grace was wanted");
}

#[tokio::test]
async fn a_collection_without_garbage_writes_nothing() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    let root = make(&roots(&client), "Root", json!({"name": "root"})).await;
    make(
        &things(&client, "default"),
        "Thing",
        json!({"name": "one", "ownerReferences": owned_by(&root, true)}),
    )
    .await;
    let before = api.revision();
    assert_eq!(api.collect_garbage(), 0);
    assert_eq!(api.revision(), before);
}

#[tokio::test]
async fn garbage_is_collected_in_the_background_until_that_is_dropped() {
    let api = api();
    let client = api.client("test");
    make_namespace(&client, "tenant").await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut stream = Box::pin(
        namespaces
            .watch(&WatchParams::default(), &api.revision().to_string())
            .await
            .expect("a watch"),
    );
    let collector = api.collect_in_background();
    namespaces
        .delete("tenant", &DeleteParams::default())
        .await
        .expect("marked");
    let gone = async {
        while let Some(event) = stream.try_next().await.expect("no error") {
            if matches!(event, WatchEvent::Deleted(_)) {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, gone)
        .await
        .expect("collected");
    drop(collector);
    make_namespace(&client, "tenant").await;
    namespaces
        .delete("tenant", &DeleteParams::default())
        .await
        .expect("marked");
    tokio::task::yield_now().await;
    assert!(is_there(&namespaces, "tenant").await);
}
