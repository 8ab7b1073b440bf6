//! Fields that are unknown or stated twice: refused, told or dropped, as `fieldValidation` says.

use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::bench::{API_VERSION, Bench, assert_refused};

/// A request whose body is this very text: its answer and its warnings.
async fn send(
    bench: &Bench,
    method: &str,
    path: &str,
    kind: &str,
    body: &str,
) -> (Value, Vec<String>) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(body.as_bytes().to_vec().into())
        .expect("a request");
    let response = bench.client.send(request).await.expect("an answer");
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| {
            let text = value.to_str().expect("text");
            let inner = text
                .strip_prefix("299 - \"")
                .and_then(|text| text.strip_suffix('"'));
            inner.expect("a warning").replace("\\\"", "\"")
        })
        .collect();
    let body = response.into_body();
    let bytes = http_body_util::BodyExt::collect(body)
        .await
        .expect("a body")
        .to_bytes();
    (serde_json::from_slice(&bytes).expect("JSON"), warnings)
}

fn path(bench: &Bench, rest: &str) -> String {
    format!(
        "/apis/{API_VERSION}/namespaces/{}/widgets{rest}",
        bench.namespace
    )
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn faulty(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"{API_VERSION}","kind":"Widget","metadata":{{"name":"{name}","bad":1}},"spec":{{"size":1,"size":2,"unknown":1,"nested":{{"a":"x","a":"y","zz":1}},"parts":[{{"name":"p","bad":1}}]}}}}"#
    )
}

const FAULTS: [&str; 6] = [
    "duplicate field \"spec.size\"",
    "duplicate field \"spec.nested.a\"",
    "unknown field \"metadata.bad\"",
    "unknown field \"spec.nested.zz\"",
    "unknown field \"spec.parts[0].bad\"",
    "unknown field \"spec.unknown\"",
];

#[tokio::test]
async fn a_creation_is_refused_told_about_or_let_through() {
    let bench = Bench::new().await;
    let (answer, _) = send(
        &bench,
        "POST",
        &path(&bench, "?fieldValidation=Strict"),
        JSON,
        &faulty("strict"),
    )
    .await;
    assert_eq!(
        (&answer["code"], &answer["reason"]),
        (&json!(400), &json!("BadRequest"))
    );
    assert_eq!(
        answer["message"],
        format!(
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: {}",
            FAULTS.join(", ")
        )
    );
    for (mode, told) in [("Warn", true), ("", true), ("Ignore", false)] {
        let name = format!("widget-{}", mode.to_lowercase())
            .trim_end_matches('-')
            .to_owned();
        let at = path(&bench, &format!("?fieldValidation={mode}"));
        let (answer, warnings) = send(&bench, "POST", &at, JSON, &faulty(&name)).await;
        assert_eq!(
            answer["spec"],
            json!({"size": 2, "mode": "auto", "nested": {"a": "y", "level": "low"}, "parts": [{"name": "p", "count": 1}]})
        );
        assert_eq!(answer["metadata"].get("bad"), None);
        let expected: &[&str] = if told { &FAULTS } else { &[] };
        assert_eq!(warnings, expected, "{mode}");
    }
}

#[tokio::test]
async fn a_replacement_is_judged_alike() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let (answer, _) = send(
        &bench,
        "PUT",
        &path(&bench, "/one?fieldValidation=Strict"),
        JSON,
        &faulty("one"),
    )
    .await;
    assert_eq!(
        answer["message"],
        format!(
            "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: {}",
            FAULTS.join(", ")
        )
    );
}

#[tokio::test]
async fn a_merge_patch_is_judged_by_what_it_makes() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let body = r#"{"metadata":{"bad":1},"spec":{"size":1,"size":2,"unknown":1}}"#;
    let faults = [
        "duplicate field \"spec.size\"",
        "unknown field \"metadata.bad\"",
        "unknown field \"spec.unknown\"",
    ];
    let (answer, _) = send(
        &bench,
        "PATCH",
        &path(&bench, "/one?fieldValidation=Strict"),
        MERGE,
        body,
    )
    .await;
    assert_eq!(
        (&answer["code"], &answer["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    let message = answer["message"].as_str().expect("a message");
    assert!(
        message.starts_with(" \"\" is invalid: patch: Invalid value: \"{"),
        "{message}"
    );
    assert!(
        message.ends_with(&format!("strict decoding error: {}", faults.join(", "))),
        "{message}"
    );
    let (answer, warnings) = send(&bench, "PATCH", &path(&bench, "/one"), MERGE, body).await;
    assert_eq!(
        (&answer["spec"]["size"], warnings),
        (&json!(2), faults.map(str::to_owned).to_vec())
    );
}

#[tokio::test]
async fn operations_of_a_json_patch_are_judged_too() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let body = r#"[{"op":"add","op":"add","path":"/spec/unknown","value":1,"foo":1}]"#;
    let faults = [
        "json patch duplicate field \"[0].op\"",
        "json patch unknown field \"[0].foo\"",
        "unknown field \"spec.unknown\"",
    ];
    let (answer, _) = send(
        &bench,
        "PATCH",
        &path(&bench, "/one?fieldValidation=Strict"),
        PATCH,
        body,
    )
    .await;
    let message = answer["message"].as_str().expect("a message");
    assert!(
        message.ends_with(&format!("strict decoding error: {}", faults.join(", "))),
        "{message}"
    );
    let (_, warnings) = send(
        &bench,
        "PATCH",
        &path(&bench, "/one?fieldValidation=Warn"),
        PATCH,
        body,
    )
    .await;
    assert_eq!(warnings, faults);
}

#[tokio::test]
async fn an_unknown_field_of_an_apply_is_an_error_in_every_mode() {
    let bench = Bench::new().await;
    for (field, body) in [
        (
            ".spec.unknown",
            json!({"metadata": {"name": "one"}, "spec": {"unknown": 1}}),
        ),
        (
            ".metadata.bad",
            json!({"metadata": {"name": "one", "bad": 1}}),
        ),
    ] {
        let mut config = json!({"apiVersion": API_VERSION, "kind": "Widget"});
        json_patch::merge(&mut config, &body);
        for mode in ["Strict", "Warn", "Ignore"] {
            let at = path(
                &bench,
                &format!("/one?fieldManager=m&fieldValidation={mode}"),
            );
            let (answer, _) = send(&bench, "PATCH", &at, APPLY, &config.to_string()).await;
            assert_eq!(
                (&answer["code"], answer["message"].as_str()),
                (&json!(500), Some(format!("failed to create typed patch object (/one; {API_VERSION}, Kind=Widget): {field}: field not declared in schema").as_str())),
                "{mode}"
            );
        }
    }
}

#[tokio::test]
async fn a_field_that_an_apply_states_twice_is_refused_or_told() {
    let bench = Bench::new().await;
    let body = format!(
        r#"{{"apiVersion":"{API_VERSION}","kind":"Widget","metadata":{{"name":"one"}},"spec":{{"size":2,"size":3}}}}"#
    );
    let at = |mode: &str| {
        path(
            &bench,
            &format!("/one?fieldManager=m&fieldValidation={mode}"),
        )
    };
    let (answer, _) = send(&bench, "PATCH", &at("Strict"), APPLY, &body).await;
    assert_eq!(
        (&answer["code"], &answer["reason"]),
        (&json!(400), &json!("BadRequest"))
    );
    assert_eq!(
        answer["message"],
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key \"size\" already set in map"
    );
    let (_, warnings) = send(&bench, "PATCH", &at("Warn"), APPLY, &body).await;
    assert_eq!(warnings, ["line 1: key \"size\" already set in map"]);
}

#[tokio::test]
async fn the_servers_own_kinds_are_judged_alike() {
    let bench = Bench::new().await;
    let body = r#"{"metadata":{"name":"x","name":"strict-case","bad":1},"spec":{"bad":2}}"#;
    let faults = [
        "duplicate field \"metadata.name\"",
        "unknown field \"metadata.bad\"",
        "unknown field \"spec.bad\"",
    ];
    let (answer, _) = send(
        &bench,
        "POST",
        "/api/v1/namespaces?dryRun=All&fieldValidation=Strict",
        JSON,
        body,
    )
    .await;
    assert_eq!(
        answer["message"],
        format!(
            "Namespace in version \"v1\" cannot be handled as a Namespace: strict decoding error: {}",
            faults.join(", ")
        )
    );
    let (_, warnings) = send(&bench, "POST", "/api/v1/namespaces?dryRun=All", JSON, body).await;
    assert_eq!(warnings, faults);
}

#[tokio::test]
async fn options_that_are_none_are_refused_together() {
    let bench = Bench::new().await;
    for (method, rest, kind, options) in [
        ("POST", "", JSON, "CreateOptions"),
        ("PUT", "/one", JSON, "UpdateOptions"),
        ("PATCH", "/one", MERGE, "PatchOptions"),
    ] {
        let at = path(&bench, &format!("{rest}?dryRun=bad&fieldValidation=Other"));
        let (answer, _) = send(&bench, method, &at, kind, "{}").await;
        assert_eq!(
            answer["message"],
            format!(
                "{options}.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"bad\"]: supported values: \"All\", fieldValidation: Unsupported value: \"Other\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"]"
            ),
        );
    }
}

#[tokio::test]
async fn a_kind_that_keeps_unknown_fields_has_none() {
    let bench = Bench::new().await;
    let body = json!({"apiVersion": API_VERSION, "kind": "Rack", "metadata": {"name": bench.own_name()}, "any": {"thing": 1}});
    let at = format!("/apis/{API_VERSION}/racks?fieldValidation=Strict");
    let (answer, warnings) = send(&bench, "POST", &at, JSON, &body.to_string()).await;
    assert_eq!(
        (&answer["any"], warnings.len()),
        (&json!({"thing": 1}), 0),
        "{answer}"
    );
    bench
        .racks
        .delete(&bench.own_name(), &DeleteParams::default())
        .await
        .expect("cleaned up");
}

#[tokio::test]
async fn a_refused_write_changes_nothing() {
    let bench = Bench::new().await;
    send(
        &bench,
        "POST",
        &path(&bench, "?fieldValidation=Strict"),
        JSON,
        &faulty("one"),
    )
    .await;
    assert_refused(bench.widgets.get("one").await, 404, "NotFound", "");
    let widget = Bench::widget("one", &json!({}));
    bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("the name is free");
}
