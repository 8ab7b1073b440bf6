//! Which requests a webhook is asked about.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    bench::{Bench, GROUP, assert_refused},
    hook::{Does, Hooks, Phase, allow, asked, configure, make, resize, webhook},
};

fn deny(status: Value) -> Does {
    Does::Answer(json!({"allowed": false, "status": status}))
}

#[tokio::test]
async fn operations_select() {
    let rules = json!({"rules": [{
        "apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["UPDATE", "DELETE"], "resources": ["widgets"],
    }]});
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    let client = hooks.serve(&bench, "/hook", |_| allow());
    configure(
        &bench,
        &hooks,
        Phase::Validating,
        "one",
        vec![webhook(&bench, "hook", &client, rules)],
    )
    .await;
    make(&bench, "one").await.expect("allowed");
    assert_eq!(hooks.seen("/hook").len(), 0);
    resize(&bench, "one", 2).await.expect("allowed");
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("allowed");
    assert_eq!(hooks.seen("/hook").len(), 2);
}

/// How many questions follow from a creation, a status write and a change.
async fn questions(rule: Value) -> [usize; 3] {
    let mut whole = json!({"apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]});
    json_patch::merge(&mut whole, &rule);
    let (bench, hooks) = asked(Phase::Validating, json!({"rules": [whole]}), |_| allow()).await;
    make(&bench, "one").await.expect("allowed");
    let made = hooks.seen("/hook").len();
    let status = json!({"status": {"phase": "Ready"}});
    bench
        .widgets
        .patch_status("one", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .expect("allowed");
    let of_status = hooks.seen("/hook").len();
    resize(&bench, "one", 2).await.expect("allowed");
    [made, of_status, hooks.seen("/hook").len()]
}

#[tokio::test]
async fn a_rule_names_subresources_apart() {
    for (resources, expected) in [
        (json!(["widgets"]), [1, 0, 1]),
        (json!(["*"]), [1, 0, 1]),
        (json!(["widgets/status"]), [0, 1, 0]),
        (json!(["widgets/*"]), [1, 1, 1]),
        (json!(["*/*"]), [1, 1, 1]),
        (json!(["*/status"]), [0, 1, 0]),
        (json!(["gadgets"]), [0, 0, 0]),
    ] {
        assert_eq!(
            questions(json!({"resources": resources, "scope": "Namespaced"})).await,
            expected,
            "{resources}"
        );
    }
}

#[tokio::test]
async fn a_rule_names_group_version_and_scope() {
    for (rule, expected) in [
        (json!({"apiGroups": ["*"]}), [1, 0, 1]),
        (json!({"apiGroups": ["apps"]}), [0, 0, 0]),
        (json!({"apiVersions": ["*"]}), [1, 0, 1]),
        (json!({"apiVersions": ["v2"]}), [0, 0, 0]),
        (json!({"scope": "Namespaced"}), [1, 0, 1]),
        (json!({"scope": "Cluster"}), [0, 0, 0]),
    ] {
        assert_eq!(questions(rule.clone()).await, expected, "{rule}");
    }
}

#[tokio::test]
async fn a_status_write_is_asked_about_with_its_subresource() {
    let rules = json!({"rules": [{"apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets/status"]}]});
    let (bench, hooks) = asked(Phase::Validating, rules, |_| {
        deny(json!({"message": "no status"}))
    })
    .await;
    make(&bench, "one").await.expect("not asked about");
    let status = json!({"status": {"phase": "Ready"}});
    let refused = bench
        .widgets
        .patch_status("one", &PatchParams::default(), &Patch::Merge(&status))
        .await;
    assert_refused(refused, 400, "", "denied the request: no status");
    let [request] = hooks.seen("/hook").try_into().expect("one question");
    assert_eq!(
        (&request["subResource"], &request["requestSubResource"]),
        (&json!("status"), &json!("status"))
    );
    assert_eq!(request["object"]["status"]["phase"], "Ready");
}

#[tokio::test]
async fn labels_of_the_object_select_before_or_after() {
    let selector = json!({"objectSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}]}});
    let (bench, hooks) = asked(Phase::Validating, selector, |_| allow()).await;
    make(&bench, "plain").await.expect("allowed");
    assert_eq!(hooks.seen("/hook").len(), 0);
    let label = |value: Value| json!({"metadata": {"labels": {"tier": value}}});
    bench
        .merge("plain", label(json!("a")))
        .await
        .expect("allowed");
    bench
        .merge("plain", label(json!(null)))
        .await
        .expect("allowed");
    bench
        .merge("plain", label(json!("c")))
        .await
        .expect("allowed");
    assert_eq!(hooks.seen("/hook").len(), 2);
}

#[tokio::test]
async fn labels_of_the_namespace_select() {
    let selector = json!({"namespaceSelector": {"matchExpressions": [{"key": "absent", "operator": "Exists"}]}});
    let (bench, hooks) = asked(Phase::Validating, selector, |_| allow()).await;
    make(&bench, "one").await.expect("allowed");
    assert_eq!(hooks.seen("/hook").len(), 0);
}

fn conditions(expressions: &[&str]) -> Value {
    let list: Vec<_> = expressions
        .iter()
        .enumerate()
        .map(|(index, expression)| json!({"name": format!("c{index}"), "expression": expression}))
        .collect();
    json!({"matchConditions": list})
}

#[tokio::test]
async fn all_match_conditions_must_hold() {
    for (expressions, expected) in [
        (vec!["true", "object.spec.size == 1"], 1),
        (vec!["true", "object.spec.size == 2"], 0),
        (
            vec!["request.operation == 'CREATE' && request.name == 'one'"],
            1,
        ),
        (vec!["request.namespace.startsWith('case-')"], 1),
        (vec!["request.namespace.startsWith('tenant-')"], 0),
        (
            vec!["!(request.userInfo.username in ['system:serviceaccount:x:y'])"],
            1,
        ),
        (
            vec!["!('system:authenticated' in request.userInfo.groups)"],
            0,
        ),
        (vec!["oldObject == null"], 1),
        (
            vec!["has(object.metadata.labels) && 'a' in object.metadata.labels"],
            0,
        ),
        (
            vec!["request.resource.resource == 'widgets' && !has(request.subResource)"],
            1,
        ),
        (
            vec!["request.dryRun == false && request.kind.kind == 'Widget'"],
            1,
        ),
    ] {
        let (bench, hooks) = asked(Phase::Validating, conditions(&expressions), |_| allow()).await;
        make(&bench, "one").await.expect("allowed");
        assert_eq!(hooks.seen("/hook").len(), expected, "{expressions:?}");
    }
}

#[tokio::test]
async fn a_condition_that_fails_refuses_or_is_passed_over_as_the_policy_says() {
    let (bench, hooks) = asked(
        Phase::Validating,
        conditions(&["object.spec.absent == 1"]),
        |_| allow(),
    )
    .await;
    assert_refused(
        make(&bench, "one").await,
        403,
        "Forbidden",
        "widgets.conformance.causeway.dev \"one\" is forbidden: expression 'object.spec.absent == 1' resulted in error: no such key: absent",
    );
    assert_eq!(hooks.seen("/hook").len(), 0);
    let mut ignore = conditions(&["object.spec.absent == 1"]);
    ignore["failurePolicy"] = json!("Ignore");
    let (bench, hooks) = asked(Phase::Validating, ignore, |_| deny(json!({}))).await;
    make(&bench, "one").await.expect("not asked about");
    assert_eq!(hooks.seen("/hook").len(), 0);
    let both = conditions(&["object.spec.absent == 1", "false"]);
    let (bench, _hooks) = asked(Phase::Validating, both, |_| deny(json!({}))).await;
    make(&bench, "one")
        .await
        .expect("one that is false decides");
}
