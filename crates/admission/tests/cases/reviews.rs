//! What comes in at the door and what goes out, asked directly.

use causeway_admission::LARGEST_REVIEW;
use http::Request;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{
    bench::{Bench, Written, send, vpc, zone},
    certificates::client_of,
};

/// A client of the webhook itself.
pub async fn door(bench: &Bench) -> Client {
    let published = bench.published().await;
    let mut webhooks = published.webhooks.into_iter().flatten();
    let bundle = webhooks.next().and_then(|it| it.client_config.ca_bundle);
    let bundle = String::from_utf8(bundle.expect("a bundle").0).expect("PEM");
    client_of(bench.webhook().address(), &bundle)
}

/// Puts a body to it.
pub async fn post(door: &Client, body: Vec<u8>) -> Written {
    let request = Request::post("/validate?timeout=5s")
        .header("content-type", "application/json")
        .body(Body::from(body));
    send(door, request.expect("a request")).await
}

async fn get(door: &Client, path: &str) -> Written {
    let request = Request::get(path).body(Body::empty());
    send(door, request.expect("a request")).await
}

/// As kube-apiserver 1.34 sends it.
pub fn review(operation: &str, object: &Value, old: &Value) -> Value {
    let any = if object.is_null() { old } else { object };
    let version = any["apiVersion"].as_str().expect("a version");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = json!({"group": group, "version": version, "kind": any["kind"]});
    let resource = json!({"group": group, "version": version, "resource": "virtualprivateclouds"});
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "operation": operation,
        "userInfo": {"username": "ann", "groups": ["system:authenticated"], "extra": {"a": ["b"]}},
        "object": object, "oldObject": old, "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    });
    for field in ["name", "namespace"] {
        if let Some(text) = any["metadata"].get(field) {
            request[field] = text.clone();
        }
    }
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
}

fn response(answer: &Written) -> &Value {
    assert_eq!(answer.code, 200, "{answer:?}");
    assert_eq!(answer.body["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer.body["kind"], "AdmissionReview");
    let response = &answer.body["response"];
    assert_eq!(response["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_is_answered_with_its_uid_and_a_refusal_has_status_and_causes() {
    let bench = Bench::new().await;
    let door = door(&bench).await;
    let fine = vpc(
        "tenant-a",
        "main",
        json!({"subnets": [{"name": "a", "cidr": "10.1.0.0/24"}]}),
    );
    let answer = post(
        &door,
        review("CREATE", &fine, &Value::Null).to_string().into(),
    )
    .await;
    assert_eq!(
        response(&answer),
        &json!({"uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "allowed": true})
    );

    let peer = json!({"peers": [{"tenantNamespace": "tenant-a", "vpcName": "main"}]});
    let broken = vpc("tenant-a", "main", peer);
    let answer = post(&door, review("UPDATE", &broken, &fine).to_string().into()).await;
    let refused = response(&answer);
    assert_eq!(refused["allowed"], false);
    let status = &refused["status"];
    assert_eq!(
        (&status["code"], &status["reason"], &status["status"]),
        (&json!(403), &json!("Forbidden"), &json!("Failure"))
    );
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.peers[0]");
    let line = format!(
        "spec.peers[0]: {}",
        cause["message"].as_str().expect("text")
    );
    assert_eq!(status["message"], line.as_str());
    assert_eq!(status["details"]["kind"], "VirtualPrivateCloud");

    let answer = post(
        &door,
        review("DELETE", &Value::Null, &broken).to_string().into(),
    )
    .await;
    assert_eq!(
        response(&answer)["allowed"],
        true,
        "what breaks a rule can go"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_review_is_told_what_is_wrong_and_nothing_stops_the_server() {
    let bench = Bench::new().await;
    let door = door(&bench).await;
    let whole = review("CREATE", &vpc("tenant-a", "main", json!({})), &Value::Null).to_string();
    let no_request = r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}"#;
    for (body, words) in [
        (String::new(), "not an AdmissionReview: EOF"),
        ("nonsense".to_owned(), "not an AdmissionReview: expected"),
        ("[]".to_owned(), "not an AdmissionReview: "),
        (format!("{whole}x"), "trailing characters"),
        (
            whole.replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1"),
            "only AdmissionReview of admission.k8s.io/v1",
        ),
        (no_request.to_owned(), "it has no request"),
        (
            whole.replacen("\"uid\":", "\"uid\":\"1\",\"uid\":", 1),
            "duplicate field `uid`",
        ),
        (
            whole.replace("\"CREATE\"", "\"INVENT\""),
            "unknown variant `INVENT`",
        ),
        (
            whole.replace("\"dryRun\"", "\"operation\":\"CREATE\",\"dryRun\""),
            "duplicate field `operation`",
        ),
    ] {
        let answer = post(&door, body.clone().into_bytes()).await;
        assert_eq!(answer.code, 400, "{body}: {answer:?}");
        assert!(answer.message().contains(words), "{body}: {answer:?}");
    }
    // Cut off anywhere.
    for end in (0..whole.len()).step_by(7) {
        let answer = post(&door, whole.as_bytes()[..end].to_vec()).await;
        assert_eq!(answer.code, 400, "{end}: {answer:?}");
    }
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(post(&door, nested.into_bytes()).await.code, 400);
    let not_text = post(&door, vec![0xff, 0xfe, 0x00]).await;
    assert_eq!(not_text.code, 400, "{not_text:?}");
    assert_eq!(get(&door, "/healthz").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_cannot_be_read_and_kinds_without_rules_are_refused_by_name() {
    let bench = Bench::new().await;
    let door = door(&bench).await;
    let whole = vpc(
        "tenant-a",
        "main",
        json!({"subnets": [{"name": "a", "cidr": "10.1.0.0/24"}]}),
    );
    let create = review("CREATE", &whole, &Value::Null);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let subresource = {
        let mut review = create.clone();
        review["request"]["subResource"] = "scale".into();
        review
    };
    for (body, words) in [
        (
            create
                .to_string()
                .replace("\"cidr\":", "\"cidr\":\"10.2.0.0/24\",\"cidr\":"),
            "duplicate field `cidr`",
        ),
        (
            create.to_string().replace("\"10.1.0.0/24\"", "7"),
            "expected a string",
        ),
        (
            review("UPDATE", &whole, &Value::Null).to_string(),
            "oldObject is missing",
        ),
        (
            review("CREATE", &Value::Null, &whole).to_string(),
            "object is missing",
        ),
        (
            review("CREATE", &map, &Value::Null).to_string(),
            "no rule for ConfigMap",
        ),
        (
            subresource.to_string(),
            "no rule for subresources of VirtualPrivateCloud",
        ),
    ] {
        let answer = post(&door, body.clone().into_bytes()).await;
        let refused = response(&answer);
        assert_eq!(refused["allowed"], false, "{body}");
        let message = refused["status"]["message"].as_str().expect("a message");
        assert!(message.contains(words), "{body}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_read_up_to_3_mib_and_no_further() {
    let bench = Bench::new().await;
    let door = door(&bench).await;
    let mut large = vpc("tenant-a", "main", json!({}));
    let annotations = json!({"filler": "x".repeat(LARGEST_REVIEW - 2048)});
    large["metadata"]["annotations"] = annotations;
    let body = review("CREATE", &large, &Value::Null).to_string();
    assert!(body.len() < LARGEST_REVIEW);
    let fits = [body.as_bytes(), &vec![b' '; LARGEST_REVIEW - body.len()]].concat();
    let answer = post(&door, fits.clone()).await;
    assert_eq!(response(&answer)["allowed"], true);
    let answer = post(&door, [fits, vec![b' ']].concat()).await;
    assert_eq!(answer.code, 413, "{answer:?}");
    let words = format!("the review is larger than {LARGEST_REVIEW} bytes");
    assert!(answer.message().contains(&words), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn warnings_are_as_long_as_the_api_server_passes_on() {
    let bench = Bench::new().await;
    let door = door(&bench).await;
    let made = bench.create(&zone("default", "vmbr1", "default")).await;
    assert_eq!(made.code, 201, "{made:?}");
    let spec = json!({
        "subnets": [
            {"name": "workers", "cidr": "10.243.0.0/16", "proxmox": {}},
            {"name": "more", "cidr": "10.95.0.0/16", "proxmox": {}},
        ],
        "egress": {"enabled": true, "internalCidr": "10.1.0.0/24"},
        "routes": [{"cidr": "0.0.0.0/0", "nextHopIP": "10.95.0.9"}],
    });
    let mut spec = spec;
    spec["egress"]
        .as_object_mut()
        .expect("an object")
        .remove("internalCidr");
    let create = review("CREATE", &vpc("tenant-a", "main", spec), &Value::Null);
    let answer = post(&door, create.to_string().into()).await;
    let response = response(&answer);
    assert_eq!(response["allowed"], true, "{response}");
    let warnings = response["warnings"].as_array().expect("warnings");
    assert!(warnings.len() >= 3, "{warnings:?}");
    for warning in warnings {
        let text = warning.as_str().expect("text");
        assert!(text.len() <= 256, "{} bytes: {text}", text.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_says_what_is_missing_and_metrics_count_by_kind_and_verdict() {
    let bench = Bench::new().await;
    let door = door(&bench).await;
    assert_eq!(get(&door, "/readyz").await.code, 200);
    assert_eq!(get(&door, "/elsewhere").await.code, 404);
    assert_eq!(get(&door, "/validate").await.code, 405);
    let answer = get(&door, "/metrics").await;
    assert_eq!(answer.code, 200);
    let before = answer.message();
    let line = "causeway_webhook_reviews_total{kind=\"VirtualPrivateCloud\",verdict=\"Denied\"}";
    assert!(before.contains(line), "the first refusal: {before}");
    assert!(
        before.contains("causeway_webhook_review_seconds_bucket"),
        "{before}"
    );
    // What somebody writes becomes no label.
    let mut odd = review("CREATE", &vpc("tenant-a", "main", json!({})), &Value::Null);
    odd["request"]["kind"]["kind"] = "Invented".into();
    post(&door, odd.to_string().into()).await;
    let after = get(&door, "/metrics").await;
    assert!(!after.message().contains("Invented"), "{after:?}");
    assert!(
        after
            .message()
            .contains("kind=\"Other\",verdict=\"Undecided\""),
        "{after:?}"
    );
}
