//! Pruning, defaulting and validation by a CRD's schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::bench::{API_VERSION, Bench, assert_refused, causes, object, refusal};

async fn made(bench: &Bench, spec: Value) -> Result<DynamicObject, kube::Error> {
    bench
        .widgets
        .create(&PostParams::default(), &Bench::widget("one", &spec))
        .await
}

#[tokio::test]
async fn defaults_are_filled_in_where_their_parent_is() {
    let bench = Bench::new().await;
    let widget = bench
        .make(
            "one",
            &json!({"nested": {"a": "x"}, "parts": [{"name": "p"}, {"name": "q", "count": 2}]}),
        )
        .await;
    assert_eq!(
        widget.data["spec"],
        json!({
            "mode": "auto",
            "nested": {"a": "x", "level": "low"},
            "parts": [{"name": "p", "count": 1}, {"name": "q", "count": 2}],
        })
    );
}

#[tokio::test]
async fn a_null_counts_as_absent() {
    let bench = Bench::new().await;
    let widget = bench
        .make("one", &json!({"mode": null, "size": null}))
        .await;
    assert_eq!(widget.data["spec"], json!({"mode": "auto"}));
}

#[tokio::test]
async fn unknown_fields_are_dropped_unless_the_schema_keeps_them() {
    let bench = Bench::new().await;
    let spec = json!({
        "unknown": 1,
        "nested": {"a": "x", "unknown": {"deep": true}},
        "parts": [{"name": "p", "unknown": 1}],
        "free": {"anything": {"goes": [1, {"a": null}]}},
        "limits": {"any": "key"},
    });
    let widget = bench.make("one", &spec).await;
    assert_eq!(
        widget.data["spec"],
        json!({
            "mode": "auto",
            "nested": {"a": "x", "level": "low"},
            "parts": [{"name": "p", "count": 1}],
            "free": {"anything": {"goes": [1, {"a": null}]}},
            "limits": {"any": "key"},
        })
    );
}

#[tokio::test]
async fn unknown_fields_are_refused_where_that_is_asked_for() {
    let bench = Bench::new().await;
    let widget = Bench::widget("one", &json!({"unknown": 1, "nested": {"other": 1}}));
    let path = format!(
        "/apis/{API_VERSION}/namespaces/{}/widgets?fieldValidation=Strict",
        bench.namespace
    );
    let body = serde_json::to_vec(&widget).expect("a body");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(body)
        .expect("a request");
    let strict = bench.client.request::<Value>(request).await;
    assert_refused(
        strict,
        400,
        "BadRequest",
        "strict decoding error: unknown field \"spec.nested.other\", unknown field \"spec.unknown\"",
    );
}

/// A spec, and the cause and message it is refused with.
type Fault<'a> = (Value, &'a str, &'a str, &'a str);

async fn assert_faults(cases: &[Fault<'_>]) {
    let bench = Bench::new().await;
    for (spec, kind, field, message) in cases {
        let status = refusal(made(&bench, spec.clone()).await);
        assert_eq!(
            (status.code, status.reason.as_str()),
            (422, "Invalid"),
            "{spec}: {status:?}"
        );
        assert!(
            status.message.contains(*message),
            "{spec}: {:?}",
            status.message
        );
        assert!(
            status
                .message
                .starts_with("Widget.conformance.causeway.dev \"one\" is invalid: "),
            "{:?}",
            status.message
        );
        assert!(
            causes(&status).contains(&((*kind).into(), (*field).into())),
            "{spec}: {status:?}"
        );
    }
}

#[tokio::test]
async fn the_rules_for_numbers_and_strings_are_kept() {
    assert_faults(&[
        (
            json!({"size": -1}),
            "FieldValueInvalid",
            "spec.size",
            "spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0",
        ),
        (
            json!({"size": 11}),
            "FieldValueInvalid",
            "spec.size",
            "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            json!({"size": "3"}),
            "FieldValueTypeInvalid",
            "spec.size",
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({"size": 1.5}),
            "FieldValueTypeInvalid",
            "spec.size",
            "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\"",
        ),
        (
            json!({"color": "blue"}),
            "FieldValueNotSupported",
            "spec.color",
            "spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\"",
        ),
        (
            json!({"code": "ABC"}),
            "FieldValueInvalid",
            "spec.code",
            "spec.code: Invalid value: \"ABC\": spec.code in body should match '^[a-z]+$'",
        ),
        (
            json!({"code": "a"}),
            "FieldValueInvalid",
            "spec.code",
            "spec.code: Invalid value: \"a\": spec.code in body should be at least 2 chars long",
        ),
        (
            json!({"code": "abcdef"}),
            "FieldValueTooLong",
            "spec.code",
            "spec.code: Too long: may not be more than 5 bytes",
        ),])
    .await;
}

#[tokio::test]
async fn the_rules_for_lists_maps_and_types_are_kept() {
    assert_faults(&[
        (
            json!({"tags": ["a", "b", "c", "d"]}),
            "FieldValueTooMany",
            "spec.tags",
            "spec.tags: Too many: 4: must have at most 3 items",
        ),
        (
            json!({"tags": ["a", "a"]}),
            "FieldValueDuplicate",
            "spec.tags[1]",
            "spec.tags[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"parts": [{"name": "p"}, {"name": "p"}]}),
            "FieldValueDuplicate",
            "spec.parts[1]",
            "spec.parts[1]: Duplicate value: {\"name\":\"p\"}",
        ),
        (
            json!({"parts": [{"note": "x"}]}),
            "FieldValueRequired",
            "spec.parts[0].name",
            "spec.parts[0].name: Required value",
        ),
        (
            json!({"limits": {"a": 1}}),
            "FieldValueTypeInvalid",
            "spec.limits.a",
            "spec.limits.a in body must be of type string: \"integer\"",
        ),
        (
            json!({"on": "yes"}),
            "FieldValueTypeInvalid",
            "spec.on",
            "spec.on in body must be of type boolean: \"string\"",
        ),
        (
            json!({"order": {"a": 1}}),
            "FieldValueTypeInvalid",
            "spec.order",
            "spec.order in body must be of type array: \"object\"",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_is_just_legal_is_accepted() {
    let legal = [
        json!({}),
        json!({"size": 0}),
        json!({"size": 10}),
        json!({"size": 3.0}),
        json!({"code": "ab"}),
        json!({"code": "abcde"}),
        json!({"tags": ["a", "b", "c"]}),
        json!({"weight": 1}),
        json!({"weight": 1.5}),
        json!({"amount": 5}),
        json!({"amount": "50%"}),
        json!({"parts": []}),
    ];
    let bench = Bench::new().await;
    for (index, spec) in legal.iter().enumerate() {
        bench.make(&format!("legal-{index}"), spec).await;
    }
}

#[tokio::test]
async fn a_required_field_must_be_there() {
    let bench = Bench::new().await;
    let widget =
        object(&json!({"apiVersion": API_VERSION, "kind": "Widget", "metadata": {"name": "one"}}));
    let status = refusal(bench.widgets.create(&PostParams::default(), &widget).await);
    assert_eq!(
        causes(&status),
        [("FieldValueRequired".into(), "spec".into())]
    );
}

#[tokio::test]
async fn a_status_write_is_checked_by_the_schema() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let patch = |status: Value| Patch::Merge(json!({"status": status}));
    let negative = bench
        .widgets
        .patch_status("one", &PatchParams::default(), &patch(json!({"used": -1})))
        .await;
    assert_refused(negative, 422, "Invalid", "status.used: Invalid value: -1");
    let unknown = bench
        .widgets
        .patch_status(
            "one",
            &PatchParams::default(),
            &patch(json!({"other": 1, "used": 1})),
        )
        .await;
    assert_eq!(
        unknown.expect("the status").data["status"],
        json!({"used": 1})
    );
}

#[tokio::test]
async fn the_body_must_be_of_the_kind_of_the_path() {
    let bench = Bench::new().await;
    let cases = [
        (
            json!({"apiVersion": API_VERSION, "kind": "Rack", "metadata": {"name": "one"}}),
            422,
            "Invalid",
            "kind: Invalid value: \"Rack\": must be Widget",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {}}),
            400,
            "BadRequest",
            "the API version in the data (v1) does not match the expected API version (conformance.causeway.dev/v1)",
        ),
        (
            json!({"apiVersion": API_VERSION, "metadata": {"name": "one"}, "spec": {}}),
            400,
            "BadRequest",
            "Object 'Kind' is missing in",
        ),
        (
            json!([]),
            400,
            "BadRequest",
            "the object provided is unrecognized",
        ),
    ];
    for (body, code, reason, message) in cases {
        let path = format!("/apis/{API_VERSION}/namespaces/{}/widgets", bench.namespace);
        let body = serde_json::to_vec(&body).expect("a body");
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(body)
            .expect("a request");
        assert_refused(
            bench.client.request::<Value>(request).await,
            code,
            reason,
            message,
        );
    }
}

#[tokio::test]
async fn a_crd_is_established_once_its_names_are_accepted() {
    let bench = Bench::new().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(bench.client.clone());
    let widgets = definitions
        .get("widgets.conformance.causeway.dev")
        .await
        .expect("the CRD");
    let status = widgets.status.expect("a status");
    for kind in ["NamesAccepted", "Established"] {
        let conditions = status.conditions.as_ref().expect("conditions");
        let condition = conditions
            .iter()
            .find(|condition| condition.type_ == kind)
            .expect("the condition");
        assert_eq!(condition.status, "True");
    }
    assert_eq!(status.stored_versions, Some(vec!["v1".into()]));
    let names = status.accepted_names.expect("names");
    assert_eq!(
        (names.singular.as_deref(), names.list_kind.as_deref()),
        (Some("widget"), Some("WidgetList"))
    );
}

#[tokio::test]
async fn a_crd_that_cannot_be_served_is_refused() {
    let bench = Bench::new().await;
    let definitions: Api<DynamicObject> = Api::all_with(
        bench.client.clone(),
        &kube::api::ApiResource {
            group: "apiextensions.k8s.io".into(),
            version: "v1".into(),
            api_version: "apiextensions.k8s.io/v1".into(),
            kind: "CustomResourceDefinition".into(),
            plural: "customresourcedefinitions".into(),
        },
    );
    let crd = |name: &str, versions: Value| {
        object(&json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"group": "broken.causeway.dev", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": versions},
        }))
    };
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let good = json!([{"name": "v1", "served": true, "storage": true, "schema": schema}]);
    let cases = [
        (crd("wrong.broken.causeway.dev", good), "metadata.name"),
        (
            crd(
                "things.broken.causeway.dev",
                json!([{"name": "v1", "served": true, "storage": false, "schema": schema}]),
            ),
            "must have exactly one version marked as storage version",
        ),
        (
            crd(
                "things.broken.causeway.dev",
                json!([{"name": "v1", "served": true, "storage": true}]),
            ),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
    ];
    for (crd, message) in cases {
        assert_refused(
            definitions.create(&PostParams::default(), &crd).await,
            422,
            "Invalid",
            message,
        );
    }
}

#[tokio::test]
async fn a_new_kind_is_served_as_soon_as_it_is_established() {
    let bench = Bench::new().await;
    let group = format!("{}.causeway.dev", bench.namespace);
    let name = format!("things.{group}");
    let definitions: Api<CustomResourceDefinition> = Api::all(bench.client.clone());
    let crd = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}},
            }],
        },
    }))
    .expect("a CRD");
    definitions
        .create(&PostParams::default(), &crd)
        .await
        .expect("the CRD");
    let established = kube::runtime::conditions::is_crd_established();
    let wait = kube::runtime::wait::await_condition(definitions.clone(), &name, established);
    tokio::time::timeout(std::time::Duration::from_secs(30), wait)
        .await
        .expect("in time")
        .expect("established");
    definitions
        .delete(&name, &DeleteParams::default())
        .await
        .expect("deleted");
}
