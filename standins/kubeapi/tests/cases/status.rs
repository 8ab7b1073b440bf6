//! The status subresource, the generation, and who is recorded for an update.

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Error,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::bench::{API_VERSION, Bench, assert_refused, generation, object, owners, revision};

const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

async fn replace(bench: &Bench, widget: &DynamicObject) -> Result<DynamicObject, Error> {
    let name = widget.metadata.name.clone().unwrap_or_default();
    bench
        .widgets
        .replace(&name, &PostParams::default(), widget)
        .await
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
async fn updates_are_recorded_for_their_manager() {
    let bench = Bench::new().await;
    let params = PostParams {
        field_manager: Some("maker".into()),
        ..PostParams::default()
    };
    let mut widget = Bench::widget(
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
