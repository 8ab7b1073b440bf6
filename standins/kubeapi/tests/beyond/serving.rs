//! Counted writes, given time, forgotten history, kinds of the server, speed.

use std::time::Duration;

use causeway_kubeapi::KubeApi;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    runtime::{events, watcher},
};
use serde_json::json;

use super::setup::{PATIENCE, api, clock, code, make, roots, serve_kinds, things};

#[tokio::test]
async fn writes_are_counted_by_identity_and_kind_if_they_change_something() {
    let api = api();
    let (one, two) = (api.client("one"), api.client("two"));
    serve_kinds(&one).await;
    let before = api.writes();
    assert_eq!(
        before,
        [(("one".into(), "CustomResourceDefinition".into()), 2)].into()
    );
    let things = things(&two, "default");
    make(&things, "Thing", json!({"name": "a"})).await;
    let patch = Patch::Merge(json!({"spec": {"size": 1}}));
    things
        .patch("a", &PatchParams::default(), &patch)
        .await
        .expect("changed");
    things
        .patch("a", &PatchParams::default(), &patch)
        .await
        .expect("not changed");
    things
        .patch(
            "a",
            &PatchParams {
                dry_run: true,
                ..PatchParams::default()
            },
            &Patch::Merge(json!({"spec": {"size": 2}})),
        )
        .await
        .expect("not stored");
    assert_eq!(
        code(things.patch("b", &PatchParams::default(), &patch).await),
        404
    );
    things.list(&ListParams::default()).await.expect("a list");
    assert_eq!(api.writes().get(&("two".into(), "Thing".into())), Some(&2));
    things
        .delete("a", &DeleteParams::default())
        .await
        .expect("deleted");
    assert_eq!(api.writes().get(&("two".into(), "Thing".into())), Some(&3));
    assert_eq!(api.writes().len(), 2);
}

#[tokio::test]
async fn a_clients_identity_is_its_default_field_manager() {
    let api = api();
    let client = api.client("someone");
    serve_kinds(&client).await;
    let made = make(
        &things(&client, "default"),
        "Thing",
        json!({"name": "a", "labels": {"x": "y"}}),
    )
    .await;
    let entries = made.metadata.managed_fields.expect("managed fields");
    assert_eq!(entries[0].manager.as_deref(), Some("someone"));
}

#[tokio::test]
async fn equal_questions_get_equal_answers() {
    let run = async || {
        let clock = clock();
        let api = KubeApi::new(clock.clone()).expect("a stand-in");
        let client = api.client("test");
        serve_kinds(&client).await;
        let things = things(&client, "default");
        for _ in 0..3 {
            make(&things, "Thing", json!({"generateName": "x-"})).await;
            clock.advance(Duration::from_secs(1));
        }
        let list = things.list(&ListParams::default()).await.expect("a list");
        serde_json::to_string(&list).expect("JSON")
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test]
async fn a_watch_whose_history_is_forgotten_ends_with_410_and_kubes_watcher_starts_anew() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    let things = things(&client, "default");
    let made = make(&things, "Thing", json!({"name": "a"})).await;
    let from = made.resource_version().expect("a revision");
    make(&things, "Thing", json!({"name": "b"})).await;
    api.forget_history();
    let mut raw = Box::pin(
        things
            .watch(&WatchParams::default(), &from)
            .await
            .expect("a watch"),
    );
    let event = tokio::time::timeout(PATIENCE, raw.next())
        .await
        .expect("in time")
        .expect("an event");
    assert!(
        matches!(event, Ok(WatchEvent::Error(status)) if status.code == 410 && status.reason == "Expired")
    );
    assert!(raw.next().await.is_none(), "the watch is over");

    let mut following = Box::pin(watcher(things.clone(), watcher::Config::default()));
    let mut inits = 0;
    while inits < 2 {
        let event = tokio::time::timeout(PATIENCE, following.next())
            .await
            .expect("in time");
        if let Ok(watcher::Event::InitDone) = event.expect("an event") {
            inits += 1;
            api.forget_history();
        }
    }
}

#[tokio::test]
async fn leases_are_taken_and_renewed_under_optimistic_locking() {
    let api = api();
    let leases: Api<Lease> = Api::default_namespaced(api.client("a"));
    let lease = |holder: &str| -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "leader"},
            "spec": {"holderIdentity": holder, "renewTime": "2026-01-02T03:04:05.000000Z"},
        }))
        .expect("a lease")
    };
    let mine = leases
        .create(&PostParams::default(), &lease("a"))
        .await
        .expect("taken");
    assert_eq!(
        code(leases.create(&PostParams::default(), &lease("b")).await),
        409
    );
    let mut renewed = mine.clone();
    renewed.spec = lease("b").spec;
    leases
        .replace("leader", &PostParams::default(), &renewed)
        .await
        .expect("passed on");
    assert_eq!(
        code(
            leases
                .replace("leader", &PostParams::default(), &mine)
                .await
        ),
        409
    );
    assert_eq!(
        code(
            leases
                .replace("leader", &PostParams::default(), &lease("c"))
                .await
        ),
        422
    );
}

#[tokio::test]
async fn kubes_recorder_can_record_events() {
    let api = api();
    let client = api.client("test");
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).expect("a node");
    let node = nodes
        .create(&PostParams::default(), &node)
        .await
        .expect("the node");
    let recorder = events::Recorder::new(client.clone(), "test".into());
    let event = events::Event {
        type_: events::EventType::Normal,
        reason: "Seen".into(),
        note: Some("twice".into()),
        action: "Look".into(),
        secondary: None,
    };
    for _ in 0..2 {
        recorder
            .publish(&event, &node.object_ref(&()))
            .await
            .expect("recorded");
    }
    let all: Api<Event> = Api::all(client);
    let list = all.list(&ListParams::default()).await.expect("a list");
    assert_eq!(list.items.len(), 1);
    assert_eq!(
        list.items[0].series.as_ref().map(|series| series.count),
        Some(2)
    );
}

#[tokio::test]
async fn a_site_of_200_networks_is_written_and_watched_quickly() {
    let api = api();
    let client = api.client("test");
    serve_kinds(&client).await;
    let roots = roots(&client);
    let from = api.revision().to_string();
    let mut watches = Vec::new();
    for _ in 0..4 {
        watches.push(Box::pin(
            roots
                .watch(&WatchParams::default().timeout(290), &from)
                .await
                .expect("a watch"),
        ));
    }
    // Prints what it takes; the bound is far above what any machine needs.
    let before = std::time::Instant::now();
    for index in 0..1200 {
        let name = format!("net-{index:04}");
        for manager in ["one", "two"] {
            let config = json!({
                "apiVersion": "test.causeway.dev/v1", "kind": "Root",
                "metadata": {"name": name, "labels": {"of": manager, format!("by-{manager}"): "x"}},
                "spec": {manager: {"cidr": "10.0.0.0/24", "list": [1, 2, 3]}},
            });
            roots
                .patch(
                    &name,
                    &PatchParams::apply(manager).force(),
                    &Patch::Apply(config),
                )
                .await
                .expect("applied");
        }
    }
    let written = before.elapsed();
    for mut watch in watches {
        for _ in 0..2400 {
            tokio::time::timeout(PATIENCE, watch.next())
                .await
                .expect("in time")
                .expect("an event")
                .expect("no error");
        }
    }
    println!(
        "2400 applies to 1200 objects in {written:?}, shown to 4 watches after {:?}",
        before.elapsed()
    );
    assert_eq!(
        roots
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .len(),
        1200
    );
    assert!(written < Duration::from_mins(1));
}
