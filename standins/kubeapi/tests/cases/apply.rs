//! Server-side apply: who owns what, and what follows from it.

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::bench::{
    API_VERSION, Bench, applied_by, assert_refused, causes, config, generation, owners, refusal,
    revision,
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
async fn applying_the_same_again_changes_nothing_not_even_a_time() {
    let bench = Bench::new().await;
    let rest = json!({"metadata": {"labels": {"l": "1"}, "finalizers": ["x.io/y"]}, "spec": {"size": 1, "tags": ["a"], "parts": [{"name": "p"}], "selector": {"k": "v"}}});
    let made = bench
        .apply("a", "one", rest.clone())
        .await
        .expect("applied");
    assert_eq!(
        bench
            .apply("a", "one", rest.clone())
            .await
            .expect("applied"),
        made
    );
    assert_eq!(
        bench
            .apply_with_force("a", "one", rest)
            .await
            .expect("applied"),
        made
    );
}

#[tokio::test]
async fn a_field_that_is_no_longer_applied_is_removed() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"spec": {"size": 1, "color": "red", "limits": {"x": "1", "y": "2"}}}),
        )
        .await
        .expect("applied");
    let less = bench
        .apply(
            "a",
            "one",
            json!({"spec": {"color": "red", "limits": {"y": "2"}}}),
        )
        .await
        .expect("applied");
    assert_eq!(
        less.data["spec"],
        json!({"color": "red", "limits": {"y": "2"}, "mode": "auto"})
    );
    assert_eq!(generation(&less), 2);
}

#[tokio::test]
async fn a_map_that_loses_its_last_applied_key_goes() {
    let bench = Bench::new().await;
    bench
        .apply(
            "a",
            "one",
            json!({"metadata": {"annotations": {"k": "v"}}, "spec": {"limits": {"x": "1"}}}),
        )
        .await
        .expect("applied");
    let none = bench
        .apply("a", "one", json!({"spec": {}}))
        .await
        .expect("applied");
    assert_eq!(none.data["spec"], json!({"mode": "auto"}));
    assert_eq!(none.metadata.annotations, None);
}

#[tokio::test]
async fn a_dropped_field_that_has_a_default_gets_it_back() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"mode": "manual", "size": 1}}))
        .await
        .expect("applied");
    let dropped = bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("applied");
    assert_eq!(dropped.data["spec"], json!({"mode": "auto", "size": 1}));
}

#[tokio::test]
async fn a_shared_value_belongs_to_both_and_stays_until_both_drop_it() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("applied");
    let shared = bench
        .apply("b", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("the same value is no conflict");
    for manager in ["a", "b"] {
        assert_eq!(
            applied_by(&shared, manager),
            json!({"f:spec": {"f:size": {}}})
        );
    }
    let kept = bench
        .apply("a", "one", json!({"spec": {}}))
        .await
        .expect("applied");
    assert_eq!(kept.data["spec"]["size"], 1);
    let gone = bench
        .apply("b", "one", json!({"spec": {}}))
        .await
        .expect("applied");
    assert_eq!(gone.data["spec"].get("size"), None);
}

#[tokio::test]
async fn a_value_of_another_manager_is_a_conflict() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("applied");
    let status = refusal(bench.apply("b", "one", json!({"spec": {"size": 2}})).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"a\": .spec.size"
    );
    assert_eq!(
        causes(&status),
        [("FieldManagerConflict".into(), ".spec.size".into())]
    );
    assert_eq!(
        status.details.expect("details").causes[0].message,
        "conflict with \"a\""
    );
}

#[tokio::test]
async fn several_conflicts_are_told_together() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1, "color": "red"}}))
        .await
        .expect("applied");
    bench
        .apply("b", "one", json!({"spec": {"mode": "manual"}}))
        .await
        .expect("applied");
    let status = refusal(
        bench
            .apply(
                "c",
                "one",
                json!({"spec": {"size": 2, "color": "green", "mode": "x"}}),
            )
            .await,
    );
    assert_eq!(
        status.message,
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.color\n- .spec.size\nconflicts with \"b\":\n- .spec.mode"
    );
}

#[tokio::test]
async fn force_takes_the_field() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1, "color": "red"}}))
        .await
        .expect("applied");
    let taken = bench
        .apply_with_force("b", "one", json!({"spec": {"size": 2}}))
        .await
        .expect("forced");
    assert_eq!(taken.data["spec"]["size"], 2);
    assert_eq!(applied_by(&taken, "a"), json!({"f:spec": {"f:color": {}}}));
    assert_eq!(applied_by(&taken, "b"), json!({"f:spec": {"f:size": {}}}));
    // Who lost it loses nothing by dropping it.
    let kept = bench
        .apply("a", "one", json!({"spec": {"color": "red"}}))
        .await
        .expect("applied");
    assert_eq!(kept.data["spec"]["size"], 2);
    assert_eq!(revision(&kept), revision(&taken));
}

#[tokio::test]
async fn a_manager_that_lost_everything_is_forgotten() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("applied");
    let taken = bench
        .apply_with_force("b", "one", json!({"spec": {"size": 2}}))
        .await
        .expect("forced");
    let managers: Vec<_> = owners(&taken)
        .into_iter()
        .map(|(manager, ..)| manager)
        .collect();
    assert_eq!(managers, ["b"]);
}

#[tokio::test]
async fn a_field_set_by_an_update_is_a_conflict_with_the_updater() {
    let bench = Bench::new().await;
    let params = PostParams {
        field_manager: Some("maker".into()),
        ..PostParams::default()
    };
    bench
        .widgets
        .create(&params, &bench.widget("one", &json!({"size": 1})))
        .await
        .expect("the widget");
    let status = refusal(bench.apply("a", "one", json!({"spec": {"size": 2}})).await);
    assert_eq!(
        status.message,
        format!(
            "Apply failed with 1 conflict: conflict with \"maker\" using {API_VERSION}: .spec.size"
        )
    );
    bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("the same value is no conflict");
    // The updater still owns it, so it stays when the applier drops it.
    let kept = bench
        .apply("a", "one", json!({"spec": {}}))
        .await
        .expect("applied");
    assert_eq!(kept.data["spec"]["size"], 1);
}

#[tokio::test]
async fn an_update_takes_what_it_changes_from_the_applier() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1, "color": "red"}}))
        .await
        .expect("applied");
    let params = PatchParams {
        field_manager: Some("hand".into()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"size": 5}}));
    let changed = bench
        .widgets
        .patch("one", &params, &patch)
        .await
        .expect("changed");
    assert_eq!(
        applied_by(&changed, "a"),
        json!({"f:spec": {"f:color": {}}})
    );
    let conflict = bench
        .apply("a", "one", json!({"spec": {"size": 1, "color": "red"}}))
        .await;
    assert_refused(conflict, 409, "Conflict", "conflict with \"hand\" using");
}

#[tokio::test]
async fn an_update_that_removes_a_field_leaves_nobody_owning_it() {
    let bench = Bench::new().await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1, "color": "red"}}))
        .await
        .expect("applied");
    let removed = bench
        .merge("one", json!({"spec": {"size": null}}))
        .await
        .expect("removed");
    assert_eq!(
        applied_by(&removed, "a"),
        json!({"f:spec": {"f:color": {}}})
    );
    let again = bench
        .apply("a", "one", json!({"spec": {"size": 1, "color": "red"}}))
        .await
        .expect("applied");
    assert_eq!(again.data["spec"]["size"], 1);
}

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
            &bench.widget("one", &json!({"size": 1, "color": "red"})),
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
