//! Deleting objects.

use kube::api::{DeleteParams, DynamicObject, ListParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use super::bench::{Bench, assert_refused, generation, revision};

async fn held(bench: &Bench, finalizers: &[&str]) -> DynamicObject {
    bench.make("one", &json!({"size": 1})).await;
    bench
        .merge("one", json!({"metadata": {"finalizers": finalizers}}))
        .await
        .expect("held")
}

fn finalizers(object: &DynamicObject) -> Vec<String> {
    object.metadata.finalizers.clone().unwrap_or_default()
}

#[tokio::test]
async fn an_object_that_nothing_holds_is_gone_at_once() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({})).await;
    let answer = bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    let status = answer.right().expect("a status");
    assert_eq!(
        status
            .status
            .as_ref()
            .map(|summary| format!("{summary:?}"))
            .as_deref(),
        Some("Success")
    );
    let details = status.details.expect("details");
    assert_eq!(
        (details.name, details.kind, Some(details.uid)),
        ("one".into(), "widgets".into(), made.metadata.uid)
    );
    assert_refused(bench.widgets.get("one").await, 404, "NotFound", "not found");
    let again = bench.widgets.delete("one", &DeleteParams::default()).await;
    assert_refused(
        again,
        404,
        "NotFound",
        "widgets.conformance.causeway.dev \"one\" not found",
    );
}

#[tokio::test]
async fn an_object_with_a_finalizer_is_marked_and_waits() {
    let bench = Bench::new().await;
    let before = held(&bench, &["x.io/y"]).await;
    let answer = bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("marked");
    let marked = answer.left().expect("the object");
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(0));
    assert_eq!(generation(&marked), generation(&before) + 1);
    assert_ne!(revision(&marked), revision(&before));
    assert_eq!(bench.widgets.get("one").await.expect("still there"), marked);
    // Once more changes nothing.
    let again = bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("marked");
    assert_eq!(again.left().expect("the object"), marked);
}

#[tokio::test]
async fn the_last_finalizers_removal_removes_the_object() {
    let bench = Bench::new().await;
    held(&bench, &["x.io/y", "x.io/z"]).await;
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("marked");
    let one_left = bench
        .merge("one", json!({"metadata": {"finalizers": ["x.io/z"]}}))
        .await
        .expect("one left");
    assert_eq!(finalizers(&one_left), ["x.io/z"]);
    let last = bench
        .merge("one", json!({"metadata": {"finalizers": null}}))
        .await
        .expect("the last state");
    assert_eq!(finalizers(&last), Vec::<String>::new());
    assert_refused(bench.widgets.get("one").await, 404, "NotFound", "not found");
}

#[tokio::test]
async fn a_marked_object_takes_no_new_finalizer_but_other_changes() {
    let bench = Bench::new().await;
    held(&bench, &["x.io/y"]).await;
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("marked");
    let more = bench
        .merge(
            "one",
            json!({"metadata": {"finalizers": ["x.io/y", "x.io/z"]}}),
        )
        .await;
    assert_refused(
        more,
        422,
        "Invalid",
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x.io/z\"}",
    );
    let changed = bench
        .merge("one", json!({"spec": {"size": 2}}))
        .await
        .expect("changed");
    assert!(changed.metadata.deletion_timestamp.is_some());
}

#[tokio::test]
async fn a_mark_cannot_be_taken_back_or_set_by_hand() {
    let bench = Bench::new().await;
    held(&bench, &["x.io/y"]).await;
    let by_hand = bench
        .merge(
            "one",
            json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
        )
        .await;
    assert_refused(by_hand, 422, "Invalid", "metadata.deletionTimestamp");
    let answer = bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("marked");
    let marked = answer.left().expect("the object");
    let patch =
        json!({"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}});
    let same = bench.merge("one", patch).await.expect("nothing happens");
    assert_eq!(same, marked);
}

#[tokio::test]
async fn a_deletion_may_be_of_exactly_one_object_or_one_state() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({})).await;
    let of = |uid: Option<String>, resource_version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions {
            uid,
            resource_version,
        }),
        ..DeleteParams::default()
    };
    let other = bench
        .widgets
        .delete("one", &of(Some("other".into()), None))
        .await;
    assert_refused(
        other,
        409,
        "Conflict",
        "Operation cannot be fulfilled on Widget.conformance.causeway.dev \"one\": the UID in the precondition (other) does not match the UID in record (",
    );
    let stale = bench
        .widgets
        .delete("one", &of(None, Some("1".into())))
        .await;
    assert_refused(
        stale,
        409,
        "Conflict",
        "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (",
    );
    assert_eq!(bench.widgets.get("one").await.expect("still there"), made);
    let exact = of(made.metadata.uid.clone(), Some(revision(&made)));
    bench.widgets.delete("one", &exact).await.expect("deleted");
}

#[tokio::test]
async fn the_propagation_policy_becomes_a_finalizer() {
    let cases = [
        (
            PropagationPolicy::Foreground,
            json!(["x.io/y", "foregroundDeletion"]),
        ),
        (PropagationPolicy::Orphan, json!(["x.io/y", "orphan"])),
        (PropagationPolicy::Background, json!(["x.io/y"])),
    ];
    for (policy, want) in cases {
        let bench = Bench::new().await;
        held(&bench, &["x.io/y"]).await;
        let params = DeleteParams {
            propagation_policy: Some(policy),
            ..DeleteParams::default()
        };
        let marked = bench
            .widgets
            .delete("one", &params)
            .await
            .expect("marked")
            .left()
            .expect("the object");
        assert_eq!(Value::from(finalizers(&marked)), want);
    }
}

#[tokio::test]
async fn a_dry_run_deletes_nothing() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({})).await;
    let params = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    bench
        .widgets
        .delete("one", &params)
        .await
        .expect("an answer");
    assert_eq!(bench.widgets.get("one").await.expect("still there"), made);
}

#[tokio::test]
async fn a_collection_is_deleted_as_far_as_it_is_selected() {
    let bench = Bench::new().await;
    for (name, color) in [("a", "red"), ("b", "green"), ("c", "red")] {
        let mut widget = Bench::widget(name, &json!({}));
        widget.metadata.labels = Some([("color".to_owned(), color.to_owned())].into());
        bench
            .widgets
            .create(&kube::api::PostParams::default(), &widget)
            .await
            .expect("the widget");
    }
    bench
        .merge("c", json!({"metadata": {"finalizers": ["x.io/y"]}}))
        .await
        .expect("held");
    let red = ListParams::default().labels("color=red");
    bench
        .widgets
        .delete_collection(&DeleteParams::default(), &red)
        .await
        .expect("deleted");
    let left = bench
        .widgets
        .list(&ListParams::default())
        .await
        .expect("a list");
    let left: Vec<_> = left
        .items
        .iter()
        .map(|item| {
            (
                item.metadata.name.as_deref().unwrap_or_default(),
                item.metadata.deletion_timestamp.is_some(),
            )
        })
        .collect();
    assert_eq!(left, [("b", false), ("c", true)]);
}
