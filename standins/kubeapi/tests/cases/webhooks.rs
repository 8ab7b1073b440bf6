//! Admission webhooks: what they are asked, and what follows from their answers.

use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use super::{
    bench::{API_VERSION, Bench, GROUP, assert_refused, generation, refusal},
    hook::{Does, Hooks, Phase, allow, asked, configure, make, patch, resize, webhook},
};

fn deny(status: Value) -> Does {
    Does::Answer(json!({"allowed": false, "status": status}))
}

#[tokio::test]
async fn a_denial_is_told_in_the_webhooks_words() {
    let by_name = |request: &Value| {
        deny(match request["name"].as_str() {
            Some("said") => json!({"message": "because"}),
            Some("reasoned") => json!({"reason": "Forbidden"}),
            Some("coded") => json!({"message": "because", "code": 403, "reason": "Forbidden"}),
            Some("odd") => json!({"message": "because", "code": 200}),
            _ => json!(null),
        })
    };
    let (bench, _hooks) = asked(Phase::Validating, json!({}), by_name).await;
    let denied = "admission webhook \"hook.conformance.causeway.dev\" denied the request";
    for (name, code, reason, why) in [
        ("said", 400, "", ": because"),
        ("reasoned", 400, "Forbidden", ": Forbidden"),
        ("coded", 403, "Forbidden", ": because"),
        ("odd", 400, "", ": because"),
        ("silent", 400, "", " without explanation"),
    ] {
        let status = refusal(make(&bench, name).await);
        assert_eq!(
            (status.code, status.reason.as_str(), status.message),
            (code, reason, format!("{denied}{why}")),
            "{name}"
        );
    }
    assert_refused(bench.widgets.get("said").await, 404, "NotFound", "");
}

#[tokio::test]
async fn a_creation_is_asked_about_with_the_new_object() {
    let (bench, hooks) = asked(Phase::Validating, json!({}), |_| allow()).await;
    let made = make(&bench, "one").await.expect("allowed");
    let [request] = hooks.seen("/hook").try_into().expect("one question");
    let kind = json!({"group": GROUP, "version": "v1", "kind": "Widget"});
    let resource = json!({"group": GROUP, "version": "v1", "resource": "widgets"});
    assert_eq!((&request["kind"], &request["requestKind"]), (&kind, &kind));
    assert_eq!(
        (&request["resource"], &request["requestResource"]),
        (&resource, &resource)
    );
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(
        (&request["name"], &request["namespace"]),
        (&json!("one"), &json!(bench.namespace))
    );
    assert_eq!(request["oldObject"], Value::Null);
    assert_eq!(request["dryRun"], false);
    assert_eq!(request.get("subResource"), None);
    assert_eq!(
        request["object"]["metadata"]["uid"],
        json!(made.metadata.uid)
    );
    assert_eq!(
        request["object"]["spec"],
        json!({"size": 1, "mode": "auto"})
    );
    assert_eq!(request["options"]["kind"], "CreateOptions");
    assert!(request["userInfo"]["username"].is_string(), "{request}");
    assert!(
        request["userInfo"]["groups"]
            .as_array()
            .expect("groups")
            .contains(&json!("system:authenticated"))
    );
}

#[tokio::test]
async fn a_mutating_webhook_sees_a_new_object_before_it_has_a_uid() {
    let (bench, hooks) = asked(Phase::Mutating, json!({}), |_| allow()).await;
    make(&bench, "one").await.expect("allowed");
    let [request] = hooks.seen("/hook").try_into().expect("one question");
    assert_eq!(request["object"]["metadata"].get("uid"), None);
    assert_eq!(
        request["object"]["spec"],
        json!({"size": 1, "mode": "auto"})
    );
}

#[tokio::test]
async fn a_generated_name_is_known_after_mutation_only() {
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    for (phase, path) in [
        (Phase::Mutating, "/mutating"),
        (Phase::Validating, "/validating"),
    ] {
        let client = hooks.serve(&bench, path, |_| allow());
        let hook = webhook(&bench, "hook", &client, json!({}));
        configure(&bench, &hooks, phase, &path[1..], vec![hook]).await;
    }
    let mut widget = Bench::widget("", &json!({}));
    widget.metadata.name = None;
    widget.metadata.generate_name = Some("gen-".into());
    let made = bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("allowed");
    let [before] = hooks.seen("/mutating").try_into().expect("one question");
    let [after] = hooks.seen("/validating").try_into().expect("one question");
    assert_eq!(
        (before.get("name"), after.get("name")),
        (None, Some(&json!(made.metadata.name)))
    );
    assert_eq!(before["object"]["metadata"].get("name"), None);
    assert_eq!(
        after["object"]["metadata"]["name"],
        json!(made.metadata.name)
    );
}

#[tokio::test]
async fn a_change_is_asked_about_with_the_old_object_and_the_new() {
    let (bench, hooks) = asked(Phase::Validating, json!({}), |_| allow()).await;
    let made = make(&bench, "one").await.expect("allowed");
    hooks.seen("/hook");
    let changed = resize(&bench, "one", 2).await.expect("allowed");
    let [request] = hooks.seen("/hook").try_into().expect("one question");
    assert_eq!(request["operation"], "UPDATE");
    assert_eq!(request["oldObject"]["spec"]["size"], 1);
    assert_eq!(request["object"]["spec"]["size"], 2);
    assert_eq!(
        request["oldObject"]["metadata"]["resourceVersion"],
        json!(made.metadata.resource_version)
    );
    assert_eq!(
        request["object"]["metadata"]["resourceVersion"],
        json!(made.metadata.resource_version)
    );
    assert_eq!(
        request["object"]["metadata"]["generation"],
        json!(generation(&changed))
    );
    assert_eq!(request["options"]["kind"], "UpdateOptions");
}

#[tokio::test]
async fn an_apply_is_a_creation_or_a_change() {
    let (bench, hooks) = asked(Phase::Validating, json!({}), |_| allow()).await;
    bench
        .apply("a", "one", json!({"spec": {"size": 1}}))
        .await
        .expect("allowed");
    bench
        .apply("a", "one", json!({"spec": {"size": 2}}))
        .await
        .expect("allowed");
    let operations: Vec<_> = hooks
        .seen("/hook")
        .into_iter()
        .map(|request| request["operation"].clone())
        .collect();
    assert_eq!(operations, ["CREATE", "UPDATE"]);
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_asked_about_too() {
    let (bench, hooks) = asked(Phase::Validating, json!({}), |_| allow()).await;
    make(&bench, "one").await.expect("allowed");
    hooks.seen("/hook");
    resize(&bench, "one", 1).await.expect("allowed");
    assert_eq!(hooks.seen("/hook").len(), 1);
}

#[tokio::test]
async fn a_deletion_is_asked_about_with_the_old_object() {
    let by_operation = |request: &Value| match request["operation"].as_str() {
        Some("DELETE") if request["oldObject"]["metadata"]["name"] == "kept" => {
            deny(json!({"message": "kept"}))
        }
        _ => allow(),
    };
    let (bench, hooks) = asked(Phase::Validating, json!({}), by_operation).await;
    for name in ["kept", "gone"] {
        make(&bench, name).await.expect("allowed");
    }
    hooks.seen("/hook");
    let params = DeleteParams::default();
    assert_refused(
        bench.widgets.delete("kept", &params).await,
        400,
        "",
        "denied the request: kept",
    );
    bench
        .widgets
        .delete("gone", &params)
        .await
        .expect("allowed");
    let questions = hooks.seen("/hook");
    assert_eq!(questions.len(), 2);
    assert_eq!(questions[0]["object"], Value::Null);
    assert_eq!(questions[0]["oldObject"]["spec"]["size"], 1);
    assert_eq!(questions[0]["options"]["kind"], "DeleteOptions");
    bench.widgets.get("kept").await.expect("still there");
}

#[tokio::test]
async fn a_deletion_of_all_is_asked_about_one_by_one() {
    let (bench, hooks) = asked(Phase::Validating, json!({}), |_| allow()).await;
    for name in ["a", "b"] {
        make(&bench, name).await.expect("allowed");
    }
    hooks.seen("/hook");
    bench
        .widgets
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .expect("allowed");
    let questions = hooks.seen("/hook");
    let mut names: Vec<_> = questions
        .iter()
        .map(|request| request["oldObject"]["metadata"]["name"].to_string())
        .collect();
    names.sort();
    assert_eq!(names, ["\"a\"", "\"b\""]);
    assert_eq!(
        bench
            .widgets
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .len(),
        0
    );
}

#[tokio::test]
async fn a_mutating_webhook_changes_the_object() {
    let (bench, _hooks) = asked(Phase::Mutating, json!({}), |_| {
        patch(json!([
            {"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}},
            {"op": "replace", "path": "/spec/size", "value": 7},
            {"op": "add", "path": "/spec/nested", "value": {"a": "x"}},
            {"op": "add", "path": "/spec/unknown", "value": true},
        ]))
    })
    .await;
    make(&bench, "one").await.expect("allowed");
    let made = bench.widgets.get("one").await.expect("it is there");
    assert_eq!(made.metadata.labels.expect("labels")["by"], "hook");
    assert_eq!(
        made.data["spec"],
        json!({"size": 7, "mode": "auto", "nested": {"a": "x", "level": "low"}})
    );
}

#[tokio::test]
async fn what_a_mutating_webhook_makes_must_be_valid() {
    let (bench, _hooks) = asked(Phase::Mutating, json!({}), |_| {
        patch(json!([{"op": "replace", "path": "/spec/size", "value": 99}]))
    })
    .await;
    assert_refused(
        make(&bench, "one").await,
        422,
        "Invalid",
        "spec.size: Invalid value: 99",
    );
}

#[tokio::test]
async fn a_patch_that_does_not_fit_is_an_internal_error() {
    let (bench, _hooks) = asked(Phase::Mutating, json!({}), |_| {
        patch(json!([{"op": "remove", "path": "/spec/absent"}]))
    })
    .await;
    assert_refused(
        make(&bench, "one").await,
        500,
        "InternalError",
        "Internal error occurred: ",
    );
}

#[tokio::test]
async fn a_validating_webhook_sees_what_the_mutating_ones_made() {
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    let client = hooks.serve(&bench, "/mutating", |_| {
        patch(json!([{"op": "replace", "path": "/spec/size", "value": 7}]))
    });
    let hook = webhook(&bench, "hook", &client, json!({}));
    configure(&bench, &hooks, Phase::Mutating, "mutating", vec![hook]).await;
    let client = hooks.serve(&bench, "/validating", |_| allow());
    let hook = webhook(&bench, "hook", &client, json!({}));
    configure(&bench, &hooks, Phase::Validating, "validating", vec![hook]).await;
    make(&bench, "one").await.expect("allowed");
    let [request] = hooks.seen("/validating").try_into().expect("one question");
    assert_eq!(request["object"]["spec"]["size"], 7);
}

#[tokio::test]
async fn an_invalid_object_never_comes_to_a_validating_webhook() {
    let (bench, hooks) = asked(Phase::Validating, json!({}), |_| allow()).await;
    let widget = Bench::widget("one", &json!({"size": 99}));
    let refused = bench.widgets.create(&PostParams::default(), &widget).await;
    assert_refused(refused, 422, "Invalid", "spec.size");
    assert_eq!(hooks.seen("/hook").len(), 0);
}

/// Appends a letter to the mode of the object.
fn append(letter: &'static str) -> impl Fn(&Value) -> Does + Send + Sync {
    move |request| {
        let mode = request["object"]["spec"]["mode"]
            .as_str()
            .unwrap_or_default();
        patch(json!([{"op": "replace", "path": "/spec/mode", "value": format!("{mode}{letter}")}]))
    }
}

#[tokio::test]
async fn mutating_webhooks_are_asked_one_after_the_other_by_configuration() {
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    for (name, letters) in [("b", ["c", "d"]), ("a", ["a", "b"])] {
        let list = letters.map(|letter| {
            let client = hooks.serve(&bench, &format!("/{letter}"), append(letter));
            webhook(&bench, letter, &client, json!({}))
        });
        configure(&bench, &hooks, Phase::Mutating, name, list.to_vec()).await;
    }
    let made = make(&bench, "one").await.expect("allowed");
    assert_eq!(made.data["spec"]["mode"], "autoabcd");
}

#[tokio::test]
async fn a_webhook_is_asked_once_more_if_it_wants_to_and_others_changed_the_object() {
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    let list: Vec<_> = [("a", "IfNeeded"), ("b", "Never"), ("c", "IfNeeded")]
        .into_iter()
        .map(|(letter, policy)| {
            let client = hooks.serve(&bench, &format!("/{letter}"), append(letter));
            webhook(
                &bench,
                letter,
                &client,
                json!({"reinvocationPolicy": policy}),
            )
        })
        .collect();
    configure(&bench, &hooks, Phase::Mutating, "one", list).await;
    let made = make(&bench, "one").await.expect("allowed");
    assert_eq!(made.data["spec"]["mode"], "autoabcac");
}

#[tokio::test]
async fn a_webhook_that_is_asked_alone_is_asked_once() {
    let (bench, hooks) = asked(
        Phase::Mutating,
        json!({"reinvocationPolicy": "IfNeeded"}),
        append("a"),
    )
    .await;
    let made = make(&bench, "one").await.expect("allowed");
    assert_eq!(made.data["spec"]["mode"], "autoa");
    assert_eq!(hooks.seen("/hook").len(), 1);
}

#[tokio::test]
async fn warnings_of_webhooks_are_passed_on() {
    let (bench, _hooks) = asked(Phase::Validating, json!({}), |_| {
        Does::Answer(json!({"allowed": true, "warnings": ["mind the gap", "and \"this\""]}))
    })
    .await;
    let body = serde_json::to_vec(&Bench::widget("one", &json!({}))).expect("a body");
    let request = http::Request::post(format!(
        "/apis/{API_VERSION}/namespaces/{}/widgets",
        bench.namespace
    ))
    .header("content-type", "application/json")
    .body(body.into())
    .expect("a request");
    let response = bench.client.send(request).await.expect("an answer");
    let warnings: Vec<_> = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().expect("text").to_owned())
        .collect();
    assert_eq!(
        warnings,
        ["299 - \"mind the gap\"", "299 - \"and \\\"this\\\"\""]
    );
}

#[tokio::test]
async fn a_dry_run_is_told_to_the_webhook() {
    let (bench, hooks) = asked(Phase::Validating, json!({}), |_| allow()).await;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    bench
        .widgets
        .create(&dry, &Bench::widget("one", &json!({})))
        .await
        .expect("allowed");
    let [request] = hooks.seen("/hook").try_into().expect("one question");
    assert_eq!(
        (&request["dryRun"], &request["options"]["dryRun"]),
        (&json!(true), &json!(["All"]))
    );
}
