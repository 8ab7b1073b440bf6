//! The scale subresource.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{
    bench::{Bench, assert_refused, generation, owners},
    own::Own,
};

async fn scaled(bench: &Bench) -> Own {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "size": {"type": "integer", "maximum": 5}, "other": {"type": "string"},
        }},
        "status": {"type": "object", "properties": {
            "size": {"type": "integer"}, "selector": {"type": "string"},
        }},
    }});
    let version = json!({"subresources": {"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }}});
    bench.define_whole(schema, version).await
}

async fn scale(
    bench: &Bench,
    own: &Own,
    method: &str,
    kind: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let path = format!(
        "/apis/{}/namespaces/{}/{}/one/scale?fieldManager=scaler",
        own.resource.api_version, bench.namespace, own.resource.plural
    );
    let body = if method == "GET" {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(body)
        .expect("a request");
    bench.client.request(request).await
}

async fn get(bench: &Bench, own: &Own) -> Result<Value, kube::Error> {
    scale(bench, own, "GET", "", &Value::Null).await
}

#[tokio::test]
async fn a_scale_shows_both_numbers_and_the_selector() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    let made = own.make("one", json!({"size": 2})).await.expect("made");
    let status = json!({"status": {"size": 1, "selector": "a=b"}});
    let made_status = own
        .api
        .patch_status("one", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .expect("the status");
    let shown = get(&bench, &own).await.expect("a scale");
    assert_eq!(
        shown,
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "one", "namespace": bench.namespace, "uid": made.metadata.uid,
                "resourceVersion": made_status.metadata.resource_version,
                "creationTimestamp": made.metadata.creation_timestamp,
            },
            "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "a=b"},
        })
    );
}

#[tokio::test]
async fn a_scale_of_zero_leaves_the_number_out() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    own.make("one", json!({"size": 0})).await.expect("made");
    let shown = get(&bench, &own).await.expect("a scale");
    assert_eq!(
        (&shown["spec"], &shown["status"]),
        (&json!({}), &json!({"replicas": 0}))
    );
}

#[tokio::test]
async fn a_scale_needs_a_number() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    own.make("one", json!({})).await.expect("made");
    assert_refused(
        get(&bench, &own).await,
        500,
        "InternalError",
        "Internal error occurred: the spec replicas field \".spec.size\" does not exist",
    );
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let empty = scale(
        &bench,
        &own,
        "PATCH",
        "application/merge-patch+json",
        &patch,
    )
    .await;
    assert_refused(
        empty,
        400,
        "BadRequest",
        "the spec replicas field \".spec.size\" cannot be empty",
    );
    let patch = json!({"spec": {"replicas": 1}});
    scale(
        &bench,
        &own,
        "PATCH",
        "application/merge-patch+json",
        &patch,
    )
    .await
    .expect("now it has one");
}

#[tokio::test]
async fn a_new_number_changes_that_number_alone() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    own.make("one", json!({"size": 2, "other": "x"}))
        .await
        .expect("made");
    let patch = json!({"spec": {"replicas": 4}});
    let answer = scale(
        &bench,
        &own,
        "PATCH",
        "application/merge-patch+json",
        &patch,
    )
    .await
    .expect("scaled");
    assert_eq!(answer["spec"], json!({"replicas": 4}));
    let now = own.api.get("one").await.expect("it is there");
    assert_eq!(now.data["spec"], json!({"size": 4, "other": "x"}));
    assert_eq!(generation(&now), 2);
    let mut owned = owners(&now)
        .into_iter()
        .filter(|(manager, ..)| manager == "scaler");
    assert_eq!(
        owned.next(),
        Some((
            "scaler".into(),
            "Update".into(),
            "scale".into(),
            json!({"f:spec": {"f:size": {}}})
        ))
    );
}

#[tokio::test]
async fn a_scale_is_replaced_as_a_whole() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    own.make("one", json!({"size": 2})).await.expect("made");
    let mut whole = get(&bench, &own).await.expect("a scale");
    whole["spec"]["replicas"] = json!(3);
    whole["status"]["replicas"] = json!(9);
    let answer = scale(&bench, &own, "PUT", "application/json", &whole)
        .await
        .expect("scaled");
    assert_eq!(
        (&answer["spec"], &answer["status"]),
        (&json!({"replicas": 3}), &json!({"replicas": 0}))
    );
    let again = scale(&bench, &own, "PUT", "application/json", &whole).await;
    assert_refused(again, 409, "Conflict", "the object has been modified");
}

#[tokio::test]
async fn a_number_that_the_schema_forbids_is_refused() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    own.make("one", json!({"size": 2})).await.expect("made");
    let patch = json!({"spec": {"replicas": 6}});
    let refused = scale(
        &bench,
        &own,
        "PATCH",
        "application/merge-patch+json",
        &patch,
    )
    .await;
    assert_refused(
        refused,
        422,
        "Invalid",
        "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5",
    );
}

#[tokio::test]
async fn a_scale_is_applied() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    own.make("one", json!({"other": "x", "size": 3}))
        .await
        .expect("made");
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 3}});
    scale(
        &bench,
        &own,
        "PATCH",
        "application/apply-patch+yaml",
        &config,
    )
    .await
    .expect("applied");
    let now = own.api.get("one").await.expect("it is there");
    assert_eq!(now.data["spec"], json!({"size": 3, "other": "x"}));
    let mut owned = owners(&now)
        .into_iter()
        .filter(|(manager, ..)| manager == "scaler");
    assert_eq!(
        owned.next(),
        Some((
            "scaler".into(),
            "Apply".into(),
            "scale".into(),
            json!({"f:spec": {"f:size": {}}})
        ))
    );
}

#[tokio::test]
async fn a_scale_whose_number_nobody_owns_is_not_applied() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    own.make("one", json!({"other": "x"})).await.expect("made");
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 3}});
    let refused = scale(
        &bench,
        &own,
        "PATCH",
        "application/apply-patch+yaml",
        &config,
    )
    .await;
    assert_refused(
        refused,
        500,
        "",
        "failed to create manager for existing fields: failed to convert live object",
    );
}

#[tokio::test]
async fn a_scale_of_what_is_absent_is_not_found() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    assert_refused(
        get(&bench, &own).await,
        404,
        "NotFound",
        "\"one\" not found",
    );
}

#[tokio::test]
async fn a_kind_without_it_has_no_scale() {
    let bench = Bench::new().await;
    let own = bench.define(json!({"type": "object"})).await;
    own.api
        .create(&PostParams::default(), &own.object("one", &json!({})))
        .await
        .expect("made");
    assert_refused(get(&bench, &own).await, 404, "NotFound", "");
}

#[tokio::test]
async fn a_scale_is_discovered() {
    let bench = Bench::new().await;
    let own = scaled(&bench).await;
    // The real server lists a subresource a moment after the kind.
    let limit = std::time::Duration::from_secs(30);
    let wanted = format!("{}/scale", own.resource.plural);
    let found = tokio::time::timeout(limit, async {
        loop {
            let list = bench
                .client
                .list_api_group_resources(&own.resource.api_version)
                .await
                .expect("a list");
            if let Some(found) = list
                .resources
                .into_iter()
                .find(|resource| resource.name == wanted)
            {
                return found;
            }
        }
    })
    .await
    .expect("listed in time");
    assert_eq!(
        (
            found.kind.as_str(),
            found.group.as_deref(),
            found.version.as_deref()
        ),
        ("Scale", Some("autoscaling"), Some("v1"))
    );
    assert_eq!(found.verbs, ["get", "patch", "update"]);
}
