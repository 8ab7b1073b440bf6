//! Server-side apply: lists, sets and maps, whose parts have owners of their own.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::bench::{Bench, applied_by, assert_refused, refusal};

#[tokio::test]
async fn elements_of_a_list_map_are_told_apart_by_their_keys() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"spec": {"parts": [{"name": "p", "count": 5}]}}),
        )
        .await
        .expect("applied");
    let both = bench
        .apply(
            "b",
            "one",
            json!({"spec": {"parts": [{"name": "q", "note": "n"}, {"name": "p", "note": "m"}]}}),
        )
        .await
        .expect("other fields of other elements");
    let parts = both.data["spec"]["parts"]
        .as_array()
        .expect("a list")
        .clone();
    assert_eq!(parts.len(), 2);
    assert!(
        parts.contains(&json!({"name": "p", "count": 5, "note": "m"})),
        "{parts:?}"
    );
    assert!(
        parts.contains(&json!({"name": "q", "count": 1, "note": "n"})),
        "{parts:?}"
    );
    assert_eq!(
        applied_by(&both, "b"),
        json!({"f:spec": {"f:parts": {
            "k:{\"name\":\"p\"}": {".": {}, "f:name": {}, "f:note": {}},
            "k:{\"name\":\"q\"}": {".": {}, "f:name": {}, "f:note": {}},
        }}})
    );
    let dropped = bench
        .apply("b", "one", json!({"spec": {"parts": []}}))
        .await
        .expect("applied");
    assert_eq!(
        dropped.data["spec"]["parts"],
        json!([{"name": "p", "count": 5}])
    );
}

#[tokio::test]
async fn a_conflict_in_a_list_map_names_the_element() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"spec": {"parts": [{"name": "p", "count": 5}]}}),
        )
        .await
        .expect("applied");
    let status = refusal(
        bench
            .apply(
                "b",
                "one",
                json!({"spec": {"parts": [{"name": "p", "count": 6}]}}),
            )
            .await,
    );
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"a\": .spec.parts[name=\"p\"].count"
    );
}

#[tokio::test]
async fn keys_with_defaults_need_not_be_stated() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"spec": {"ports": [{"port": 80, "name": "web"}]}}),
        )
        .await
        .expect("applied");
    let both = bench
        .apply("b", "one", json!({"spec": {"ports": [{"port": 80, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}]}}))
        .await
        .expect("applied");
    let ports = both.data["spec"]["ports"]
        .as_array()
        .expect("a list")
        .clone();
    assert_eq!(ports.len(), 2, "{ports:?}");
    assert!(
        ports.contains(&json!({"port": 80, "protocol": "TCP", "name": "web"})),
        "{ports:?}"
    );
    assert_eq!(
        applied_by(&both, "a"),
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}}}}})
    );
}

#[tokio::test]
async fn an_element_of_a_list_map_needs_a_key_and_only_once() {
    let bench = Bench::new().await;
    for (parts, message) in [
        (
            json!([{"name": "p"}, {"name": "p"}]),
            "duplicate entries for key [name=\"p\"]",
        ),
        (json!([{"note": "x"}]), "omits all key fields"),
    ] {
        let status = refusal(
            bench
                .apply("a", "one", json!({"spec": {"parts": parts}}))
                .await,
        );
        assert_eq!(status.code, 500, "{status:?}");
        assert!(
            status
                .message
                .contains("failed to create typed patch object"),
            "{}",
            status.message
        );
        assert!(status.message.contains(message), "{}", status.message);
    }
}

#[tokio::test]
async fn each_manager_owns_its_elements_of_a_set() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"tags": ["x", "y"]}}))
        .await
        .expect("applied");
    let both = bench
        .apply("b", "one", json!({"spec": {"tags": ["z", "y"]}}))
        .await
        .expect("applied");
    let mut tags: Vec<_> = both.data["spec"]["tags"]
        .as_array()
        .expect("a list")
        .clone();
    tags.sort_by_key(Value::to_string);
    assert_eq!(Value::from(tags), json!(["x", "y", "z"]));
    assert_eq!(
        applied_by(&both, "b"),
        json!({"f:spec": {"f:tags": {"v:\"y\"": {}, "v:\"z\"": {}}}})
    );
    let less = bench
        .apply("a", "one", json!({"spec": {"tags": []}}))
        .await
        .expect("applied");
    let mut tags: Vec<_> = less.data["spec"]["tags"]
        .as_array()
        .expect("a list")
        .clone();
    tags.sort_by_key(Value::to_string);
    assert_eq!(Value::from(tags), json!(["y", "z"]));
}

#[tokio::test]
async fn the_order_of_a_merged_list_follows_the_applied_one() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"spec": {"parts": [{"name": "p"}, {"name": "q"}, {"name": "r"}]}}),
        )
        .await
        .expect("applied");
    let names = |object: &kube::api::DynamicObject| -> Vec<String> {
        let parts = object.data["spec"]["parts"].as_array().expect("a list");
        parts
            .iter()
            .map(|part| part["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let cases: [(&[&str], &[&str]); 3] = [
        (&["s", "q"], &["p", "s", "q", "r"]),
        (&["r", "p"], &["s", "q", "r", "p"]),
        (&["t"], &["q", "r", "p", "t"]),
    ];
    for (applied, _) in cases {
        let parts: Vec<_> = applied.iter().map(|name| json!({"name": name})).collect();
        let merged = bench
            .apply("b", "one", json!({"spec": {"parts": parts}}))
            .await
            .expect("applied");
        let all = names(&merged);
        let order: Vec<_> = all
            .iter()
            .filter(|name| applied.contains(&name.as_str()))
            .collect();
        assert_eq!(order, applied.iter().collect::<Vec<_>>(), "{all:?}");
        assert!(
            ["p", "q", "r"]
                .iter()
                .all(|name| all.contains(&(*name).to_owned())),
            "{all:?}"
        );
    }
}

#[tokio::test]
async fn an_atomic_list_has_one_owner() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"order": ["x", "y"]}}))
        .await
        .expect("applied");
    let conflict = bench
        .apply("b", "one", json!({"spec": {"order": ["x"]}}))
        .await;
    assert_refused(
        conflict,
        409,
        "Conflict",
        "conflict with \"a\": .spec.order",
    );
    let forced = bench
        .apply_with_force("b", "one", json!({"spec": {"order": ["z"]}}))
        .await
        .expect("forced");
    assert_eq!(forced.data["spec"]["order"], json!(["z"]));
    assert_eq!(applied_by(&forced, "b"), json!({"f:spec": {"f:order": {}}}));
}

#[tokio::test]
async fn an_atomic_map_has_one_owner() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"selector": {"k": "v"}}}))
        .await
        .expect("applied");
    let conflict = bench
        .apply("b", "one", json!({"spec": {"selector": {"l": "w"}}}))
        .await;
    assert_refused(
        conflict,
        409,
        "Conflict",
        "conflict with \"a\": .spec.selector",
    );
    let changed = bench
        .apply("a", "one", json!({"spec": {"selector": {"m": "x"}}}))
        .await
        .expect("applied");
    assert_eq!(changed.data["spec"]["selector"], json!({"m": "x"}));
}

#[tokio::test]
async fn unknown_structure_merges_field_by_field() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"spec": {"free": {"x": {"deep": 1}, "list": [1, 2]}}}),
        )
        .await
        .expect("applied");
    let both = bench
        .apply("b", "one", json!({"spec": {"free": {"x": {"other": 2}}}}))
        .await
        .expect("applied");
    assert_eq!(
        both.data["spec"]["free"],
        json!({"x": {"deep": 1, "other": 2}, "list": [1, 2]})
    );
    assert_eq!(
        applied_by(&both, "b"),
        json!({"f:spec": {"f:free": {"f:x": {".": {}, "f:other": {}}}}})
    );
    let conflict = bench
        .apply("b", "one", json!({"spec": {"free": {"list": [3]}}}))
        .await;
    assert_refused(conflict, 409, "Conflict", ".spec.free.list");
    let less = bench
        .apply("a", "one", json!({"spec": {"free": {"list": [1, 2]}}}))
        .await
        .expect("applied");
    assert_eq!(
        less.data["spec"]["free"],
        json!({"x": {"other": 2}, "list": [1, 2]})
    );
}

#[tokio::test]
async fn labels_and_annotations_are_owned_key_by_key() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"metadata": {"labels": {"x": "1"}, "annotations": {"x": "1"}}, "spec": {}}),
        )
        .await
        .expect("applied");
    let both = bench
        .apply("b", "one", json!({"metadata": {"labels": {"y": "2"}}}))
        .await
        .expect("applied");
    assert_eq!(
        both.metadata
            .labels
            .as_ref()
            .map(std::collections::BTreeMap::len),
        Some(2)
    );
    let conflict = bench
        .apply(
            "b",
            "one",
            json!({"metadata": {"labels": {"x": "2", "y": "2"}}}),
        )
        .await;
    assert_refused(
        conflict,
        409,
        "Conflict",
        "conflict with \"a\": .metadata.labels.x",
    );
    let less = bench
        .apply("a", "one", json!({"spec": {}}))
        .await
        .expect("applied");
    assert_eq!(
        less.metadata.labels,
        Some([("y".to_owned(), "2".to_owned())].into())
    );
    assert_eq!(less.metadata.annotations, None);
}

#[tokio::test]
async fn finalizers_are_a_set_that_each_manager_adds_to() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"metadata": {"finalizers": ["a.io/x"]}, "spec": {}}),
        )
        .await
        .expect("applied");
    let both = bench
        .apply("b", "one", json!({"metadata": {"finalizers": ["b.io/y"]}}))
        .await
        .expect("applied");
    let mut finalizers = both.metadata.finalizers.clone().expect("finalizers");
    finalizers.sort();
    assert_eq!(finalizers, ["a.io/x", "b.io/y"]);
    assert_eq!(
        applied_by(&both, "b"),
        json!({"f:metadata": {"f:finalizers": {"v:\"b.io/y\"": {}}}})
    );
    let less = bench.apply("b", "one", json!({})).await.expect("applied");
    assert_eq!(less.metadata.finalizers, Some(vec!["a.io/x".into()]));
}

#[tokio::test]
async fn dropping_the_last_finalizer_of_a_marked_object_by_apply_removes_it() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"metadata": {"finalizers": ["a.io/x"]}, "spec": {}}),
        )
        .await
        .expect("applied");
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("marked");
    bench
        .apply("a", "one", json!({"spec": {}}))
        .await
        .expect("applied");
    assert_refused(bench.widgets.get("one").await, 404, "NotFound", "not found");
}

#[tokio::test]
async fn owner_references_are_told_apart_by_uid() {
    let bench = Bench::new().await;
    let owner = |uid: &str, name: &str| json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
    bench
        .apply(
            "a",
            "one",
            json!({"metadata": {"ownerReferences": [owner("u1", "n1")]}, "spec": {}}),
        )
        .await
        .expect("applied");
    let both = bench
        .apply(
            "b",
            "one",
            json!({"metadata": {"ownerReferences": [owner("u2", "n2")]}}),
        )
        .await
        .expect("applied");
    assert_eq!(
        both.metadata.owner_references.as_ref().map(Vec::len),
        Some(2)
    );
    assert_eq!(
        applied_by(&both, "b"),
        json!({"f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"u2\"}": {}}}})
    );
    let less = bench.apply("b", "one", json!({})).await.expect("applied");
    assert_eq!(
        less.metadata
            .owner_references
            .as_ref()
            .map(|list| list[0].name.as_str()),
        Some("n1")
    );
}

#[tokio::test]
async fn an_empty_map_or_list_is_owned_as_such() {
    let bench = Bench::new().await;
    let made = bench
        .apply(
            "a",
            "one",
            json!({"spec": {"limits": {}, "order": [], "tags": []}}),
        )
        .await
        .expect("applied");
    assert_eq!(made.data["spec"]["limits"], json!({}));
    assert_eq!(made.data["spec"]["order"], json!([]));
    let owned = applied_by(&made, "a");
    assert_eq!(owned["f:spec"].get("f:limits"), Some(&json!({})));
    assert_eq!(owned["f:spec"].get("f:order"), Some(&json!({})));
}

#[tokio::test]
async fn the_server_built_kinds_merge_their_lists_by_key() {
    use k8s_openapi::api::core::v1::Node;
    let bench = Bench::new().await;
    let nodes: kube::Api<Node> = kube::Api::all(bench.client.clone());
    let name = bench.own_name();
    let apply = |manager: &str, rest: Value| {
        let mut config = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        json_patch::merge(&mut config, &rest);
        (PatchParams::apply(manager), Patch::Apply(config))
    };
    let (params, patch) = apply("a", json!({"metadata": {"labels": {"x": "1"}}}));
    nodes.patch(&name, &params, &patch).await.expect("the node");
    for (manager, kind) in [("a", "Ready"), ("b", "NetworkUnavailable")] {
        let (params, patch) = apply(
            manager,
            json!({"status": {"conditions": [{"type": kind, "status": "True"}]}}),
        );
        nodes
            .patch_status(&name, &params, &patch)
            .await
            .expect("the status");
    }
    let node = nodes.get(&name).await.expect("the node");
    assert_eq!(
        node.status
            .and_then(|status| status.conditions)
            .map(|list| list.len()),
        Some(2)
    );
    nodes
        .delete(&name, &DeleteParams::default())
        .await
        .expect("cleaned up");
}
