//! Webhooks that fail, and configurations that no server takes.

use kube::api::PostParams;
use serde_json::{Value, json};

use super::{
    bench::{Bench, assert_refused, causes, refusal},
    hook::{Does, Hooks, Phase, allow, asked, configure, make, patch, webhook},
};

/// A case whose webhook fails in this way, with failurePolicy Fail and with Ignore.
async fn assert_failure(phase: Phase, does: fn() -> Does, message: &str) {
    let (bench, _hooks) = asked(phase, json!({"timeoutSeconds": 1}), move |_| does()).await;
    let status = refusal(make(&bench, "one").await);
    assert_eq!(
        (status.code, status.reason.as_str()),
        (500, "InternalError"),
        "{status:?}"
    );
    assert!(
        status.message.starts_with(
            "Internal error occurred: failed calling webhook \"hook.conformance.causeway.dev\": "
        ) && status.message.contains(message),
        "{:?} does not contain {message:?}",
        status.message
    );
    assert_eq!(causes(&status).len(), 1);
    let ignore = json!({"timeoutSeconds": 1, "failurePolicy": "Ignore"});
    let (bench, _hooks) = asked(phase, ignore, move |_| does()).await;
    make(&bench, "one").await.expect("passed over");
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_in_time_fails() {
    assert_failure(
        Phase::Validating,
        || Does::Nothing,
        "failed to call webhook: Post \"https://",
    )
    .await;
    assert_failure(
        Phase::Mutating,
        || Does::Nothing,
        "?timeout=1s\": context deadline exceeded",
    )
    .await;
}

#[tokio::test]
async fn a_webhook_that_answers_with_an_error_fails() {
    assert_failure(
        Phase::Validating,
        || Does::Fail(500, "out of order"),
        "failed to call webhook: an error on the server (\"out of order\") has prevented the request from succeeding",
    )
    .await;
    assert_failure(
        Phase::Mutating,
        || Does::Fail(404, "404 page not found"),
        "failed to call webhook: the server could not find the requested resource",
    )
    .await;
}

#[tokio::test]
async fn an_answer_to_another_question_is_a_failure() {
    assert_failure(
        Phase::Validating,
        || Does::Answer(json!({"allowed": true, "uid": "another"})),
        "received invalid webhook response: expected response.uid=\"",
    )
    .await;
}

#[tokio::test]
async fn an_answer_that_is_none_is_a_failure() {
    assert_failure(
        Phase::Validating,
        || Does::Answer(Value::Null),
        "received invalid webhook response: webhook response was absent",
    )
    .await;
}

#[tokio::test]
async fn a_patch_needs_its_type_and_a_mutating_webhook() {
    assert_failure(
        Phase::Mutating,
        || Does::Answer(json!({"allowed": true, "patch": "W10="})),
        "webhook returned response.patch but not response.patchType",
    )
    .await;
    assert_failure(
        Phase::Validating,
        || patch(json!([{"op": "remove", "path": "/spec/size"}])),
        "validating webhook may not return response.patch",
    )
    .await;
}

#[tokio::test]
async fn a_webhook_that_cannot_be_reached_fails() {
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let url = format!("https://{}/gone", free.local_addr().expect("an address"));
    drop(free);
    let hook = webhook(&bench, "hook", &json!({"url": url}), json!({}));
    configure(&bench, &hooks, Phase::Validating, "one", vec![hook]).await;
    assert_refused(
        make(&bench, "one").await,
        500,
        "InternalError",
        &format!(
            "failed calling webhook \"hook.conformance.causeway.dev\": failed to call webhook: Post \"{url}?timeout=5s\": "
        ),
    );
}

#[tokio::test]
async fn a_webhook_is_asked_by_https_with_the_authority_of_its_bundle() {
    let bench = Bench::new().await;
    let (hooks, others) = (Hooks::by_https().await, Hooks::by_https().await);
    let client = hooks.serve(&bench, "/hook", |_| {
        Does::Answer(json!({"allowed": false, "status": {"message": "by HTTPS"}}))
    });
    configure(
        &bench,
        &hooks,
        Phase::Validating,
        "one",
        vec![webhook(&bench, "hook", &client, json!({}))],
    )
    .await;
    assert_refused(
        make(&bench, "one").await,
        400,
        "",
        "denied the request: by HTTPS",
    );
    let bench = Bench::new().await;
    let mut client = hooks.serve(&bench, "/hook", |_| allow());
    client["caBundle"] = others.serve(&bench, "/hook", |_| allow())["caBundle"].clone();
    configure(
        &bench,
        &hooks,
        Phase::Validating,
        "one",
        vec![webhook(&bench, "hook", &client, json!({}))],
    )
    .await;
    assert_refused(
        make(&bench, "one").await,
        500,
        "InternalError",
        "failed to call webhook: Post \"https://127.0.0.1:",
    );
    assert_eq!(hooks.seen("/hook").len(), 0);
}

#[tokio::test]
async fn a_deletion_cannot_be_patched() {
    let (bench, _hooks) = asked(
        Phase::Mutating,
        json!({}),
        |request| match request["operation"].as_str() {
            Some("DELETE") => patch(json!([{"op": "add", "path": "/spec", "value": {}}])),
            _ => allow(),
        },
    )
    .await;
    make(&bench, "one").await.expect("allowed");
    assert_refused(
        bench
            .widgets
            .delete("one", &kube::api::DeleteParams::default())
            .await,
        500,
        "InternalError",
        "admission webhook \"hook.conformance.causeway.dev\" attempted to modify the object, which is not supported for this operation",
    );
}

#[tokio::test]
async fn a_configuration_gets_its_defaults() {
    let bench = Bench::new().await;
    let hook = json!({
        "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"apiGroups": ["none.causeway.dev"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}],
    });
    for (phase, more) in [
        (Phase::Validating, json!({})),
        (Phase::Mutating, json!({"reinvocationPolicy": "Never"})),
    ] {
        let object = phase.object(&bench.own_name(), &json!([hook]));
        let made = phase
            .api(&bench)
            .create(&PostParams::default(), &object)
            .await
            .expect("the configuration");
        let mut full = json!({
            "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
            "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
            "namespaceSelector": {}, "objectSelector": {},
            "rules": [{"apiGroups": ["none.causeway.dev"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"], "scope": "*"}],
        });
        json_patch::merge(&mut full, &more);
        assert_eq!(made.data["webhooks"], json!([full]));
        assert_eq!(made.metadata.generation, Some(1));
    }
}

/// Changes that no configuration can have: the change, the field, and what is said of it.
const REFUSED: [(&str, &str, &str); 12] = [
    (
        r#"{"name": "a.b"}"#,
        "name",
        "should be a domain with at least three segments separated by dots",
    ),
    (
        r#"{"sideEffects": null}"#,
        "sideEffects",
        "Required value: must specify one of None, NoneOnDryRun",
    ),
    (
        r#"{"sideEffects": "Some"}"#,
        "sideEffects",
        "Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
    ),
    (
        r#"{"admissionReviewVersions": null}"#,
        "admissionReviewVersions",
        "Required value: must specify one of v1, v1beta1",
    ),
    (
        r#"{"failurePolicy": "Other"}"#,
        "failurePolicy",
        "Unsupported value: \"Other\": supported values: \"Fail\", \"Ignore\"",
    ),
    (
        r#"{"timeoutSeconds": 31}"#,
        "timeoutSeconds",
        "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    ),
    (
        r#"{"clientConfig": {"url": null}}"#,
        "clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    (
        r#"{"clientConfig": {"url": "http://a/b"}}"#,
        "clientConfig.url",
        "'https' is the only allowed URL scheme",
    ),
    (
        r#"{"matchConditions": [{"name": "c", "expression": "nobody.x"}]}"#,
        "matchConditions[0].expression",
        "undeclared reference to 'nobody'",
    ),
    (
        r#"{"matchConditions": [{"name": "c", "expression": "request.absent == 1"}]}"#,
        "matchConditions[0].expression",
        "undefined field 'absent'",
    ),
    (
        r#"{"matchConditions": [{"name": "c", "expression": "'text'"}]}"#,
        "matchConditions[0].expression",
        "must evaluate to ",
    ),
    (
        r#"{"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}"#,
        "objectSelector.matchExpressions[0].values",
        "must be specified when `operator` is 'In' or 'NotIn'",
    ),
];

#[tokio::test]
async fn a_configuration_that_cannot_be_honoured_is_refused() {
    let bench = Bench::new().await;
    for (change, field, message) in REFUSED {
        let hook = webhook(
            &bench,
            "hook",
            &json!({"url": "https://127.0.0.1:1/x"}),
            serde_json::from_str(change).expect("a change"),
        );
        let object = Phase::Validating.object(&bench.own_name(), &json!([hook]));
        let status = refusal(
            Phase::Validating
                .api(&bench)
                .create(&PostParams::default(), &object)
                .await,
        );
        assert_eq!(
            (status.code, status.reason.as_str()),
            (422, "Invalid"),
            "{change}: {status:?}"
        );
        assert!(
            status.message.contains(message),
            "{change}: {:?}",
            status.message
        );
        let field = format!("webhooks[0].{field}");
        assert!(
            causes(&status).iter().any(|(_, path)| *path == field),
            "{change}: {status:?}"
        );
    }
}

#[tokio::test]
async fn nobody_is_asked_about_configurations() {
    let bench = Bench::new().await;
    let hooks = Hooks::new(&bench).await;
    let client = hooks.serve(&bench, "/hook", |_| Does::Answer(json!({"allowed": false})));
    let rule = json!({"namespaceSelector": null, "rules": [{
        "apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"],
    }]});
    configure(
        &bench,
        &hooks,
        Phase::Validating,
        "one",
        vec![webhook(&bench, "hook", &client, rule)],
    )
    .await;
    let own = Phase::Mutating.object(&bench.own_name(), &json!([]));
    Phase::Mutating
        .api(&bench)
        .create(&PostParams::default(), &own)
        .await
        .expect("not asked about");
    assert_eq!(hooks.seen("/hook").len(), 0);
}
