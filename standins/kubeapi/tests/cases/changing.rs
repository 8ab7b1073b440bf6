//! Replacing and patching objects, status, generation.

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{
    Api, Error,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::bench::{
    API_VERSION, Bench, assert_refused, causes, generation, object, owners, refusal, revision,
};

const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

async fn replace(bench: &Bench, widget: &DynamicObject) -> Result<DynamicObject, Error> {
    let name = widget.metadata.name.clone().unwrap_or_default();
    bench
        .widgets
        .replace(&name, &PostParams::default(), widget)
        .await
}

async fn json_patch(bench: &Bench, name: &str, operations: Value) -> Result<DynamicObject, Error> {
    let patch: json_patch::Patch = serde_json::from_value(operations).expect("a patch");
    bench
        .widgets
        .patch(name, &PatchParams::default(), &Patch::Json::<()>(patch))
        .await
}

#[tokio::test]
async fn a_replace_needs_the_latest_revision() {
    let bench = Bench::new().await;
    let first = bench.make("one", &json!({"size": 1})).await;
    let mut second = first.clone();
    second.data["spec"]["size"] = 2.into();
    let second = replace(&bench, &second).await.expect("the latest is known");
    assert_ne!(revision(&first), revision(&second));
    let mut stale = first.clone();
    stale.data["spec"]["size"] = 3.into();
    assert_refused(
        replace(&bench, &stale).await,
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on widgets.conformance.causeway.dev \"one\": {STALE}"
        ),
    );
}

#[tokio::test]
async fn a_replace_without_a_revision_is_refused_for_custom_kinds() {
    let bench = Bench::new().await;
    let mut widget = bench.make("one", &json!({})).await;
    widget.metadata.resource_version = None;
    let status = refusal(replace(&bench, &widget).await);
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        "widgets.conformance.causeway.dev \"one\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
}

#[tokio::test]
async fn a_replace_of_an_absent_object_is_refused() {
    let bench = Bench::new().await;
    let replaced = replace(&bench, &bench.widget("one", &json!({}))).await;
    assert_refused(
        replaced,
        404,
        "NotFound",
        "widgets.conformance.causeway.dev \"one\" not found",
    );
}

#[tokio::test]
async fn a_replace_of_an_object_that_was_made_anew_is_a_conflict() {
    let bench = Bench::new().await;
    let mut old = bench.make("one", &json!({})).await;
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    let new = bench.make("one", &json!({})).await;
    old.metadata
        .resource_version
        .clone_from(&new.metadata.resource_version);
    assert_refused(
        replace(&bench, &old).await,
        409,
        "Conflict",
        "Precondition failed: UID in precondition",
    );
}

#[tokio::test]
async fn what_the_server_gave_cannot_be_changed() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({"size": 1})).await;
    let patched = bench
        .merge("one", json!({"metadata": {"uid": "other"}}))
        .await;
    assert_refused(
        patched,
        422,
        "Invalid",
        "metadata.uid: Invalid value: \"other\": field is immutable",
    );
    let patched = bench
        .merge("one", json!({"metadata": {"name": "two"}}))
        .await;
    assert_refused(
        patched,
        400,
        "BadRequest",
        "the name of the object (two) does not match the name on the URL (one)",
    );
    // Times and the generation are put right without a word.
    let patch =
        json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 99}});
    let same = bench.merge("one", patch).await.expect("no change");
    assert_eq!(
        same.metadata.creation_timestamp,
        made.metadata.creation_timestamp
    );
    assert_eq!(generation(&same), 1);
}

#[tokio::test]
async fn a_write_that_changes_nothing_keeps_the_revision() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({"size": 1, "tags": ["a"]})).await;
    let writes = [
        replace(&bench, &made).await.expect("replaced"),
        bench
            .merge("one", json!({"spec": {"size": 1}}))
            .await
            .expect("merged"),
        bench.merge("one", json!({})).await.expect("merged"),
        json_patch(
            &bench,
            "one",
            json!([{"op": "replace", "path": "/spec/size", "value": 1}]),
        )
        .await
        .expect("patched"),
    ];
    for same in writes {
        assert_eq!(same, made);
    }
}

#[tokio::test]
async fn the_generation_counts_changes_of_the_spec_only() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"size": 1})).await;
    let labelled = bench
        .merge("one", json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect("labelled");
    assert_eq!(generation(&labelled), 1);
    let params = PatchParams::default();
    let status = Patch::Merge(json!({"status": {"phase": "Done"}}));
    let done = bench
        .widgets
        .patch_status("one", &params, &status)
        .await
        .expect("the status");
    assert_eq!(generation(&done), 1);
    let larger = bench
        .merge("one", json!({"spec": {"size": 2}}))
        .await
        .expect("changed");
    assert_eq!(generation(&larger), 2);
}

#[tokio::test]
async fn a_kind_without_a_status_subresource_counts_every_change() {
    let bench = Bench::new().await;
    let name = bench.own_name();
    let rack = object(&json!({
        "apiVersion": API_VERSION, "kind": "Rack", "metadata": {"name": name}, "status": {"phase": "New"},
    }));
    let made = bench
        .racks
        .create(&PostParams::default(), &rack)
        .await
        .expect("the rack");
    assert_eq!(made.data["status"]["phase"], "New");
    let patch = Patch::Merge(json!({"status": {"phase": "Old"}}));
    let patched = bench
        .racks
        .patch(&name, &PatchParams::default(), &patch)
        .await
        .expect("patched");
    assert_eq!(generation(&patched), 2);
    let status = bench
        .racks
        .patch_status(&name, &PatchParams::default(), &patch)
        .await;
    let message = format!("racks.conformance.causeway.dev \"{name}\" not found");
    assert_refused(status, 404, "NotFound", &message);
    bench
        .racks
        .delete(&name, &DeleteParams::default())
        .await
        .expect("cleaned up");
}

#[tokio::test]
async fn a_main_write_leaves_the_status_alone() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let status = Patch::Merge(json!({"status": {"phase": "Done"}}));
    bench
        .widgets
        .patch_status("one", &PatchParams::default(), &status)
        .await
        .expect("the status");
    let merged = bench
        .merge(
            "one",
            json!({"status": {"phase": "Mine"}, "spec": {"size": 1}}),
        )
        .await
        .expect("merged");
    assert_eq!(merged.data["status"]["phase"], "Done");
    let mut whole = merged.clone();
    whole.data.as_object_mut().expect("a map").remove("status");
    let replaced = replace(&bench, &whole).await.expect("replaced");
    assert_eq!(replaced.data["status"]["phase"], "Done");
    assert_eq!(revision(&replaced), revision(&merged));
}

#[tokio::test]
async fn a_status_write_changes_neither_spec_nor_metadata() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"size": 1})).await;
    let patch = Patch::Merge(json!({
        "metadata": {"labels": {"a": "b"}, "finalizers": ["x.io/y"]},
        "spec": {"size": 5},
        "status": {"phase": "Done"},
    }));
    let patched = bench
        .widgets
        .patch_status("one", &PatchParams::default(), &patch)
        .await
        .expect("the status");
    assert_eq!(patched.data["status"]["phase"], "Done");
    assert_eq!(patched.data["spec"]["size"], 1);
    assert_eq!(patched.metadata.labels, None);
    assert_eq!(patched.metadata.finalizers, None);
}

#[tokio::test]
async fn a_status_replace_takes_the_status_whole_and_checks_the_revision() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({"size": 1})).await;
    let mut widget = made.clone();
    widget.data["status"] = json!({"phase": "Done", "used": 3});
    widget.data["spec"]["size"] = 9.into();
    let done = bench
        .widgets
        .replace_status("one", &PostParams::default(), &widget)
        .await
        .expect("the status");
    assert_eq!(done.data["status"], json!({"phase": "Done", "used": 3}));
    assert_eq!(done.data["spec"]["size"], 1);
    let again = bench
        .widgets
        .replace_status("one", &PostParams::default(), &widget)
        .await;
    assert_refused(again, 409, "Conflict", STALE);
    let mut empty = done.clone();
    empty.data.as_object_mut().expect("a map").remove("status");
    let cleared = bench
        .widgets
        .replace_status("one", &PostParams::default(), &empty)
        .await
        .expect("cleared");
    assert_eq!(cleared.data.get("status"), None);
}

#[tokio::test]
async fn the_status_is_read_as_the_whole_object() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({"size": 1})).await;
    assert_eq!(
        bench.widgets.get_status("one").await.expect("the object"),
        made
    );
    assert_refused(
        bench.widgets.get_status("two").await,
        404,
        "NotFound",
        "\"two\" not found",
    );
}

#[tokio::test]
async fn a_merge_patch_merges_maps_replaces_lists_and_removes_nulls() {
    let bench = Bench::new().await;
    bench
        .make(
            "one",
            &json!({"limits": {"a": "1", "b": "2"}, "order": ["x", "y"], "size": 1}),
        )
        .await;
    let patch = json!({"spec": {"limits": {"a": null, "c": "3"}, "order": ["z"], "size": null}});
    let patched = bench.merge("one", patch).await.expect("patched");
    assert_eq!(
        patched.data["spec"],
        json!({"limits": {"b": "2", "c": "3"}, "order": ["z"], "mode": "auto"})
    );
}

#[tokio::test]
async fn a_merge_patch_with_a_revision_is_checked() {
    let bench = Bench::new().await;
    let first = bench.make("one", &json!({"size": 1})).await;
    let with = |size: i64, of: &DynamicObject| json!({"metadata": {"resourceVersion": revision(of)}, "spec": {"size": size}});
    let second = bench
        .merge("one", with(2, &first))
        .await
        .expect("the latest is known");
    assert_refused(
        bench.merge("one", with(3, &first)).await,
        409,
        "Conflict",
        STALE,
    );
    bench
        .merge("one", with(3, &second))
        .await
        .expect("the latest is known");
}

#[tokio::test]
async fn a_json_patch_applies_its_operations_in_order() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"order": ["a"], "size": 1})).await;
    let patched = json_patch(
        &bench,
        "one",
        json!([
            {"op": "test", "path": "/spec/size", "value": 1},
            {"op": "replace", "path": "/spec/size", "value": 2},
            {"op": "add", "path": "/spec/order/-", "value": "b"},
            {"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}},
            {"op": "remove", "path": "/metadata/labels/a~1b"},
        ]),
    )
    .await
    .expect("patched");
    assert_eq!(patched.data["spec"]["size"], 2);
    assert_eq!(patched.data["spec"]["order"], json!(["a", "b"]));
}

#[tokio::test]
async fn a_json_patch_whose_test_fails_changes_nothing() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({"size": 1})).await;
    let cases = [
        json!([{"op": "replace", "path": "/spec/size", "value": 2}, {"op": "test", "path": "/spec/size", "value": 7}]),
        json!([{"op": "remove", "path": "/spec/absent"}]),
        json!([{"op": "remove", "path": "/spec/absent/deeper"}]),
        json!([{"op": "add", "path": "/spec/absent/deeper", "value": 1}]),
        json!([{"op": "test", "path": "/spec/absent", "value": 1}]),
        json!([{"op": "invent", "path": "/spec"}]),
    ];
    for operations in cases {
        let path = format!(
            "/apis/{API_VERSION}/namespaces/{}/widgets/one",
            bench.namespace
        );
        let body = serde_json::to_vec(&operations).expect("a body");
        let request =
            http::Request::patch(path).header("content-type", "application/json-patch+json");
        let patched = bench
            .client
            .request::<Value>(request.body(body).expect("a request"))
            .await;
        assert_refused(
            patched,
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
    }
    assert_eq!(bench.widgets.get("one").await.expect("unchanged"), made);
}

#[tokio::test]
async fn a_json_patch_takes_an_absent_member_for_null() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let operations = json!([
        {"op": "test", "path": "/spec/size", "value": null},
        {"op": "replace", "path": "/spec/size", "value": 2},
    ]);
    assert_eq!(
        json_patch(&bench, "one", operations)
            .await
            .expect("patched")
            .data["spec"]["size"],
        2
    );
}

#[tokio::test]
async fn a_json_patch_may_test_the_revision() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({"size": 1})).await;
    let operations = |size: i64| {
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": revision(&made)},
            {"op": "replace", "path": "/spec/size", "value": size},
        ])
    };
    json_patch(&bench, "one", operations(2))
        .await
        .expect("the latest is known");
    assert_eq!(
        refusal(json_patch(&bench, "one", operations(3)).await).code,
        422
    );
}

#[tokio::test]
async fn a_patch_of_an_absent_object_is_refused() {
    let bench = Bench::new().await;
    assert_refused(
        bench.merge("one", json!({})).await,
        404,
        "NotFound",
        "\"one\" not found",
    );
    let patched = json_patch(&bench, "one", json!([])).await;
    assert_refused(patched, 404, "NotFound", "\"one\" not found");
}

#[tokio::test]
async fn a_dry_run_of_a_patch_stores_nothing() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({"size": 1})).await;
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"size": 2}}));
    let answer = bench
        .widgets
        .patch("one", &params, &patch)
        .await
        .expect("an answer");
    assert_eq!(
        (&answer.data["spec"]["size"], generation(&answer)),
        (&json!(2), 2)
    );
    assert_eq!(bench.widgets.get("one").await.expect("unchanged"), made);
}

#[tokio::test]
async fn custom_kinds_take_no_strategic_merge_patch() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let patch = Patch::Strategic(json!({"spec": {"size": 2}}));
    let patched = bench
        .widgets
        .patch("one", &PatchParams::default(), &patch)
        .await;
    assert_refused(
        patched,
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    );
}

#[tokio::test]
async fn updates_are_recorded_for_their_manager() {
    let bench = Bench::new().await;
    let params = PostParams {
        field_manager: Some("maker".into()),
        ..PostParams::default()
    };
    let mut widget = bench.widget(
        "one",
        &json!({"size": 1, "limits": {"a": "1"}, "parts": [{"name": "p"}]}),
    );
    widget.metadata.labels = Some([("l".to_owned(), "1".to_owned())].into());
    let made = bench
        .widgets
        .create(&params, &widget)
        .await
        .expect("the widget");
    assert_eq!(
        owners(&made),
        [(
            "maker".into(),
            "Update".into(),
            String::new(),
            json!({
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
                "f:spec": {
                    ".": {},
                    "f:size": {},
                    "f:mode": {},
                    "f:limits": {".": {}, "f:a": {}},
                    "f:parts": {".": {}, "k:{\"name\":\"p\"}": {".": {}, "f:name": {}, "f:count": {}}},
                },
            }),
        )]
    );
    let params = PatchParams {
        field_manager: Some("changer".into()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"size": 2, "color": "red"}}));
    let changed = bench
        .widgets
        .patch("one", &params, &patch)
        .await
        .expect("changed");
    let owners = owners(&changed);
    let of = |name: &str| {
        owners
            .iter()
            .find(|(manager, ..)| manager == name)
            .map(|(.., fields)| fields.clone())
    };
    assert_eq!(
        of("changer"),
        Some(json!({"f:spec": {"f:size": {}, "f:color": {}}}))
    );
    assert_eq!(
        of("maker").expect("still there")["f:spec"].get("f:size"),
        None
    );
}

#[tokio::test]
async fn managed_fields_can_be_cleared_and_stay_away_until_an_apply() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"size": 1})).await;
    let cleared = bench
        .merge("one", json!({"metadata": {"managedFields": [{}]}}))
        .await
        .expect("cleared");
    assert_eq!(owners(&cleared), []);
    let changed = bench
        .merge("one", json!({"spec": {"size": 2}}))
        .await
        .expect("changed");
    assert_eq!(owners(&changed), []);
    let applied = bench
        .apply("applier", "one", json!({"spec": {"color": "red"}}))
        .await
        .expect("applied");
    let managers: Vec<_> = owners(&applied)
        .into_iter()
        .map(|(manager, operation, ..)| (manager, operation))
        .collect();
    assert_eq!(
        managers,
        [
            ("applier".into(), "Apply".into()),
            ("before-first-apply".into(), "Update".into())
        ]
    );
}

#[tokio::test]
async fn built_in_kinds_are_replaced_without_a_revision() {
    let bench = Bench::new().await;
    let namespaces: Api<Namespace> = Api::all(bench.client.clone());
    let mut namespace = namespaces
        .get(&bench.namespace)
        .await
        .expect("the namespace");
    namespace.metadata.resource_version = None;
    namespace
        .metadata
        .labels
        .get_or_insert_default()
        .insert("team".into(), "a".into());
    let replaced = namespaces
        .replace(&bench.namespace, &PostParams::default(), &namespace)
        .await
        .expect("replaced");
    assert_eq!(
        replaced
            .metadata
            .labels
            .expect("labels")
            .get("team")
            .map(String::as_str),
        Some("a")
    );
}

#[tokio::test]
async fn a_nodes_status_is_written_apart_from_its_spec() {
    let bench = Bench::new().await;
    let nodes: Api<Node> = Api::all(bench.client.clone());
    let name = bench.own_name();
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"rack": "1"}}, "spec": {"podCIDR": "10.0.0.0/24"},
    }))
    .expect("a node");
    nodes
        .create(&PostParams::default(), &node)
        .await
        .expect("the node");
    let patch = Patch::Merge(json!({
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }));
    let patched = nodes
        .patch_status(&name, &PatchParams::default(), &patch)
        .await
        .expect("the status");
    assert_eq!(patched.spec.expect("a spec").unschedulable, None);
    assert_eq!(
        patched
            .status
            .and_then(|status| status.conditions)
            .map(|list| list.len()),
        Some(1)
    );
    let labelled = Patch::Merge(
        json!({"metadata": {"labels": {"trunk": "yes"}}, "status": {"conditions": null}}),
    );
    let labelled = nodes
        .patch(&name, &PatchParams::default(), &labelled)
        .await
        .expect("labelled");
    assert_eq!(labelled.metadata.labels.map(|labels| labels.len()), Some(2));
    assert_eq!(
        labelled
            .status
            .and_then(|status| status.conditions)
            .map(|list| list.len()),
        Some(1)
    );
    nodes
        .delete(&name, &DeleteParams::default())
        .await
        .expect("cleaned up");
}

#[tokio::test]
async fn an_invalid_change_names_every_field_at_fault() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let status = refusal(
        bench
            .merge("one", json!({"spec": {"size": 11, "color": "blue"}}))
            .await,
    );
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let details = status.details.as_ref().expect("details");
    assert_eq!(
        (
            details.name.as_str(),
            details.group.as_str(),
            details.kind.as_str()
        ),
        ("one", "conformance.causeway.dev", "Widget")
    );
    let mut causes = causes(&status);
    causes.sort();
    assert_eq!(
        causes,
        [
            ("FieldValueInvalid".into(), "spec.size".into()),
            ("FieldValueNotSupported".into(), "spec.color".into()),
        ]
    );
}
