//! Server-side apply: who owns what, and what follows from it.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::bench::{
    API_VERSION, Bench, applied_by, assert_refused, causes, generation, owners, refusal, revision,
};

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
async fn a_field_set_by_an_update_is_a_conflict_with_the_updater() {
    let bench = Bench::new().await;
    let params = PostParams {
        field_manager: Some("maker".into()),
        ..PostParams::default()
    };
    bench
        .widgets
        .create(&params, &Bench::widget("one", &json!({"size": 1})))
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
