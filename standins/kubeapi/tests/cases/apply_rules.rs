//! Server-side apply: status, absent objects, revisions, refusals.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::bench::{
    API_VERSION, Bench, applied_by, assert_refused, config, generation, owners, refusal, revision,
};

#[tokio::test]
async fn an_apply_makes_what_is_absent_and_owns_what_it_states() {
    let bench = Bench::new().await;
    let made = bench
        .apply(
            "a",
            "one",
            json!({"metadata": {"labels": {"l": "1"}}, "spec": {"size": 1, "limits": {"x": "1"}}}),
        )
        .await
        .expect("applied");
    assert_eq!(
        made.data["spec"],
        json!({"size": 1, "limits": {"x": "1"}, "mode": "auto"})
    );
    assert_eq!(
        owners(&made),
        [(
            "a".into(),
            "Apply".into(),
            String::new(),
            json!({"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": {"f:size": {}, "f:limits": {"f:x": {}}}}),
        )]
    );
}

#[tokio::test]
async fn the_status_is_applied_apart_and_owned_apart() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"spec": {"size": 1}, "status": {"phase": "Mine"}}),
        )
        .await
        .expect("applied");
    let params = PatchParams::apply("a");
    let status = |status: Value| Patch::Apply(config("one", json!({"status": status})));
    let ready = json!({"phase": "Done", "conditions": [{"type": "Ready", "status": "True"}]});
    let done = bench
        .widgets
        .patch_status("one", &params, &status(ready.clone()))
        .await
        .expect("the status");
    assert_eq!(done.data["status"], ready);
    assert_eq!(done.data["spec"]["size"], 1);
    let mut owned = owners(&done);
    owned.sort_by(|one, two| one.2.cmp(&two.2));
    assert_eq!(
        owned,
        [
            (
                "a".into(),
                "Apply".into(),
                String::new(),
                json!({"f:spec": {"f:size": {}}})
            ),
            (
                "a".into(),
                "Apply".into(),
                "status".into(),
                json!({"f:status": {"f:phase": {}, "f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}, "f:status": {}}}}}),
            ),
        ]
    );
    let again = bench
        .widgets
        .patch_status("one", &params, &status(ready))
        .await
        .expect("the status");
    assert_eq!(again, done);
}

#[tokio::test]
async fn several_managers_share_a_status() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let params = PatchParams::apply("a");
    let status = |status: Value| Patch::Apply(config("one", json!({"status": status})));
    let ready = json!({"phase": "Done", "conditions": [{"type": "Ready", "status": "True"}]});
    bench
        .widgets
        .patch_status("one", &params, &status(ready))
        .await
        .expect("the status");
    let other = PatchParams::apply("b");
    let conflict = bench
        .widgets
        .patch_status("one", &other, &status(json!({"phase": "Other"})))
        .await;
    assert_refused(
        conflict,
        409,
        "Conflict",
        "conflict with \"a\" with subresource \"status\": .status.phase",
    );
    let added = json!({"conditions": [{"type": "Synced", "status": "False"}]});
    let both = bench
        .widgets
        .patch_status("one", &other, &status(added))
        .await
        .expect("the status");
    assert_eq!(
        both.data["status"]["conditions"].as_array().map(Vec::len),
        Some(2)
    );
    let less = bench
        .widgets
        .patch_status("one", &params, &status(json!({"phase": "Done"})))
        .await
        .expect("the status");
    assert_eq!(
        less.data["status"]["conditions"],
        json!([{"type": "Synced", "status": "False"}])
    );
}

#[tokio::test]
async fn a_status_is_not_applied_to_what_is_absent() {
    let bench = Bench::new().await;
    let patch = Patch::Apply(config("one", json!({"status": {"phase": "Done"}})));
    let applied = bench
        .widgets
        .patch_status("one", &PatchParams::apply("a"), &patch)
        .await;
    assert_refused(
        applied,
        404,
        "NotFound",
        "widgets.conformance.causeway.dev \"one\" not found",
    );
}

#[tokio::test]
async fn an_apply_to_an_absent_object_that_names_a_uid_is_a_conflict() {
    let bench = Bench::new().await;
    let rest = json!({"metadata": {"uid": "11111111-2222-4333-8444-555555555555"}, "spec": {}});
    let message = "uid mismatch: the provided object specified uid 11111111-2222-4333-8444-555555555555, and no existing object was found";
    assert_refused(
        bench.apply_with_force("a", "one", rest).await,
        409,
        "Conflict",
        message,
    );
    assert_refused(bench.widgets.get("one").await, 404, "NotFound", "not found");
}

#[tokio::test]
async fn a_revision_alone_does_not_keep_an_apply_from_making_what_is_absent() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({})).await;
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    let rest = json!({"metadata": {"resourceVersion": revision(&made)}, "spec": {}});
    let anew = bench
        .apply_with_force("a", "one", rest)
        .await
        .expect("made anew");
    assert_ne!(anew.metadata.uid, made.metadata.uid);
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    let both = json!({"metadata": {"resourceVersion": revision(&made), "uid": made.metadata.uid}, "spec": {}});
    assert_refused(
        bench.apply_with_force("a", "one", both).await,
        409,
        "Conflict",
        "uid mismatch",
    );
}

#[tokio::test]
async fn an_apply_that_names_an_old_revision_is_a_conflict() {
    let bench = Bench::new().await;
    let first = bench.make("one", &json!({"size": 1})).await;
    bench
        .merge("one", json!({"spec": {"size": 2}}))
        .await
        .expect("changed");
    let rest = json!({"metadata": {"resourceVersion": revision(&first)}, "spec": {"color": "red"}});
    let message = "the object has been modified; please apply your changes to the latest version and try again";
    assert_refused(
        bench.apply_with_force("a", "one", rest).await,
        409,
        "Conflict",
        message,
    );
}

#[tokio::test]
async fn an_apply_to_an_object_that_was_made_anew_is_refused() {
    let bench = Bench::new().await;
    let old = bench.make("one", &json!({})).await;
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    bench.make("one", &json!({})).await;
    let rest = json!({"metadata": {"uid": old.metadata.uid}, "spec": {"size": 1}});
    assert_refused(
        bench.apply_with_force("a", "one", rest).await,
        422,
        "Invalid",
        "metadata.uid",
    );
    let rest = json!({"metadata": {"uid": old.metadata.uid, "resourceVersion": revision(&old)}, "spec": {"size": 1}});
    let status = refusal(bench.apply_with_force("a", "one", rest).await);
    assert_eq!(status.code, 409, "{status:?}");
}

#[tokio::test]
async fn an_apply_names_its_manager_and_no_managed_fields() {
    let bench = Bench::new().await;
    let anonymous = PatchParams {
        force: true,
        field_manager: None,
        ..PatchParams::default()
    };
    let patch = Patch::Apply(config("one", json!({"spec": {}})));
    let request = kube::core::Request::new(format!(
        "/apis/{API_VERSION}/namespaces/{}/widgets",
        bench.namespace
    ));
    let request = request.patch("one", &anonymous, &patch).expect("a request");
    let applied = bench.client.request::<Value>(request).await;
    assert_refused(
        applied,
        422,
        "Invalid",
        "fieldManager: Required value: is required for apply patch",
    );
    let fields = json!({"metadata": {"managedFields": [{"manager": "x", "operation": "Apply"}]}, "spec": {}});
    assert_refused(
        bench.apply("a", "one", fields).await,
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    );
}

#[tokio::test]
async fn an_apply_of_what_the_schema_does_not_know_is_refused() {
    let bench = Bench::new().await;
    let status = refusal(
        bench
            .apply("a", "one", json!({"spec": {"unknown": 1}}))
            .await,
    );
    assert_eq!(status.code, 500);
    assert!(
        status
            .message
            .contains("failed to create typed patch object"),
        "{}",
        status.message
    );
    assert!(
        status
            .message
            .contains(".spec.unknown: field not declared in schema"),
        "{}",
        status.message
    );
    let status = refusal(
        bench
            .apply("a", "one", json!({"spec": {"size": "x"}}))
            .await,
    );
    assert_eq!(status.code, 500);
    assert!(
        status.message.contains(".spec.size: expected numeric"),
        "{}",
        status.message
    );
}

#[tokio::test]
async fn an_apply_is_validated_like_any_write() {
    let bench = Bench::new().await;
    assert_refused(
        bench.apply("a", "one", json!({"spec": {"size": 11}})).await,
        422,
        "Invalid",
        "spec.size: Invalid value: 11",
    );
    assert_refused(
        bench.apply("a", "one", json!({})).await,
        422,
        "Invalid",
        "spec: Required value",
    );
}

#[tokio::test]
async fn a_dry_run_of_an_apply_tells_conflicts_and_stores_nothing() {
    let bench = Bench::new().await;
    let made = bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("applied");
    let dry = |manager: &str| PatchParams {
        dry_run: true,
        ..PatchParams::apply(manager)
    };
    let patch = Patch::Apply(config("one", json!({"spec": {"size": 2}})));
    let conflict = bench.widgets.patch("one", &dry("b"), &patch).await;
    assert_refused(conflict, 409, "Conflict", ".spec.size");
    let changed = bench
        .widgets
        .patch("one", &dry("a"), &patch)
        .await
        .expect("an answer");
    assert_eq!(changed.data["spec"]["size"], 2);
    assert_eq!(bench.widgets.get("one").await.expect("unchanged"), made);
}

#[tokio::test]
async fn an_apply_moves_fields_from_update_to_apply_without_losing_them() {
    let bench = Bench::new().await;
    let params = PostParams {
        field_manager: Some("a".into()),
        ..PostParams::default()
    };
    bench
        .widgets
        .create(
            &params,
            &Bench::widget("one", &json!({"size": 1, "color": "red"})),
        )
        .await
        .expect("the widget");
    let applied = bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("no conflict with itself either");
    assert_eq!(applied.data["spec"]["color"], "red");
    let operations: Vec<_> = owners(&applied)
        .into_iter()
        .map(|(manager, operation, ..)| (manager, operation))
        .collect();
    assert_eq!(
        operations,
        [("a".into(), "Apply".into()), ("a".into(), "Update".into())]
    );
}

#[tokio::test]
async fn an_apply_that_only_adds_an_owner_is_a_change_but_no_new_generation() {
    let bench = Bench::new().await;
    let made = bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("applied");
    let shared = bench
        .apply("b", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("applied");
    assert_ne!(revision(&made), revision(&shared));
    assert_eq!(generation(&shared), 1);
}

#[tokio::test]
async fn many_updaters_are_remembered_as_one() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let mut last = None;
    for index in 0..15 {
        let params = PatchParams {
            field_manager: Some(format!("m{index:02}")),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({"metadata": {"labels": {format!("l{index}"): "x"}}}));
        last = Some(
            bench
                .widgets
                .patch("one", &params, &patch)
                .await
                .expect("patched"),
        );
    }
    let owners = owners(&last.expect("patched"));
    assert_eq!(owners.len(), 10);
    assert!(
        owners
            .iter()
            .any(|(manager, ..)| manager == "ancient-changes")
    );
}

#[tokio::test]
async fn a_null_in_an_apply_is_owned_and_has_no_value() {
    let bench = Bench::new().await;
    let made = bench
        .apply("a", "one", json!({"spec": {"size": null, "color": "red"}}))
        .await
        .expect("applied");
    assert_eq!(made.data["spec"], json!({"color": "red", "mode": "auto"}));
}

#[tokio::test]
async fn cluster_scoped_objects_are_applied_too() {
    let bench = Bench::new().await;
    let name = bench.own_name();
    let rack = |slots: i64| {
        Patch::Apply(json!({
            "apiVersion": API_VERSION, "kind": "Rack", "metadata": {"name": name}, "spec": {"slots": slots},
        }))
    };
    let made = bench
        .racks
        .patch(&name, &PatchParams::apply("a"), &rack(1))
        .await
        .expect("applied");
    assert_eq!(made.metadata.namespace, None);
    assert_eq!(
        applied_by(&made, "a"),
        json!({"f:spec": {".": {}, "f:slots": {}}})
    );
    let changed = bench
        .racks
        .patch(&name, &PatchParams::apply("a"), &rack(2))
        .await
        .expect("applied");
    assert_eq!(
        (&changed.data["spec"]["slots"], generation(&changed)),
        (&json!(2), 2)
    );
    bench
        .racks
        .delete(&name, &DeleteParams::default())
        .await
        .expect("cleaned up");
}
