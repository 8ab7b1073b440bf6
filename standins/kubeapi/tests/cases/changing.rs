//! Replacing and patching objects, status, generation.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Error,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::bench::{API_VERSION, Bench, assert_refused, causes, generation, refusal, revision};

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
    let replaced = replace(&bench, &Bench::widget("one", &json!({}))).await;
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

#[tokio::test]
async fn of_a_pods_spec_little_can_be_changed() {
    let bench = Bench::new().await;
    let pods: Api<Pod> = Api::namespaced(bench.client.clone(), &bench.namespace);
    let pod = serde_json::from_value(json!({
        "metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "a"}]},
    }))
    .expect("a pod");
    pods.create(&PostParams::default(), &pod)
        .await
        .expect("the pod");
    let patch = |operations: Value| -> Patch<()> {
        Patch::Json(serde_json::from_value(operations).expect("a patch"))
    };
    let image = patch(json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "b"}]));
    pods.patch("one", &PatchParams::default(), &image)
        .await
        .expect("another image");
    let node = patch(json!([{"op": "add", "path": "/spec/nodeName", "value": "n"}]));
    let moved = pods.patch("one", &PatchParams::default(), &node).await;
    assert_refused(
        moved,
        422,
        "Invalid",
        "spec: Forbidden: pod updates may not change fields other than",
    );
}
