//! CEL rules that no CRD may have.

use serde_json::{Value, json};

use super::{
    bench::{Bench, assert_refused, causes, refusal},
    rules::fields,
};

/// A rule on the spec that no CRD may have, and what is said of it.
async fn assert_no_rule(rule: Value, field: &str, message: &str) {
    let bench = Bench::new().await;
    let mut spec = fields();
    spec["x-kubernetes-validations"] = json!([rule]);
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let status = refusal(bench.try_define(schema, json!({})).await);
    assert_eq!(
        (status.code, status.reason.as_str()),
        (422, "Invalid"),
        "{rule}: {status:?}"
    );
    let at = format!(
        "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].{field}"
    );
    assert!(
        causes(&status).iter().any(|(_, path)| *path == at),
        "{rule}: {status:?}"
    );
    assert!(
        status.message.contains(message),
        "{rule}: {:?}",
        status.message
    );
}

#[tokio::test]
async fn a_rule_that_is_no_cel_is_refused() {
    assert_no_rule(
        json!({"rule": "self.size >"}),
        "rule",
        "compilation failed: ERROR: <input>:",
    )
    .await;
}

#[tokio::test]
async fn a_rule_over_a_field_that_is_none_is_refused() {
    for rule in [
        "self.absent == 1",
        "self.parts.all(p, p.absent == 1)",
        "self.limits['a'].absent == 'b'",
    ] {
        assert_no_rule(json!({"rule": rule}), "rule", "compilation failed").await;
    }
    assert_no_rule(
        json!({"rule": "self.absent == 1"}),
        "rule",
        "undefined field 'absent'",
    )
    .await;
}

#[tokio::test]
async fn a_rule_over_a_name_that_is_none_is_refused() {
    for rule in [
        "object.size == 1",
        "request.name == 'a'",
        "nobody(self.size)",
        "self.size.nobody()",
    ] {
        assert_no_rule(json!({"rule": rule}), "rule", "undeclared reference to '").await;
    }
}

#[tokio::test]
async fn a_rule_over_types_that_do_not_fit_is_refused() {
    assert_no_rule(
        json!({"rule": "self.size == 'a'"}),
        "rule",
        "found no matching overload for '_==_' applied to '(int, string)'",
    )
    .await;
    assert_no_rule(
        json!({"rule": "self.on && self.size"}),
        "rule",
        "expected type 'bool' but found 'int'",
    )
    .await;
}

#[tokio::test]
async fn a_rule_that_says_neither_yes_nor_no_is_refused() {
    assert_no_rule(
        json!({"rule": "self.size"}),
        "rule",
        "cel expression must evaluate to a bool",
    )
    .await;
}

#[tokio::test]
async fn a_message_that_is_no_text_is_refused() {
    assert_no_rule(
        json!({"rule": "self.size > 1", "messageExpression": "self.size"}),
        "messageExpression",
        "messageExpression must evaluate to a string",
    )
    .await;
}

#[tokio::test]
async fn the_parts_of_a_rule_are_judged() {
    for (rule, field, message) in [
        (
            json!({"rule": " "}),
            "rule",
            "Required value: rule is not specified",
        ),
        (
            json!({"rule": "true ||\ntrue"}),
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "self.size > 1", "message": "a\nb"}),
            "message",
            "must not contain line breaks",
        ),
        (
            json!({"rule": "self.size > 1", "reason": "Other"}),
            "reason",
            "Unsupported value: \"Other\"",
        ),
        (
            json!({"rule": "self.size > 1", "fieldPath": ".absent"}),
            "fieldPath",
            "must be a valid path",
        ),
        (
            json!({"rule": "self.size > 1", "optionalOldSelf": true}),
            "optionalOldSelf",
            "may not be set if oldSelf is not used in rule",
        ),
    ] {
        assert_no_rule(rule, field, message).await;
    }
}

#[tokio::test]
async fn a_rule_about_the_old_value_needs_one_that_can_be_told() {
    let bench = Bench::new().await;
    let mut spec = fields();
    spec["properties"]["order"]["items"]["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf"}]);
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    assert_refused(
        bench.try_define(schema, json!({})).await,
        422,
        "Invalid",
        "oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[spec].properties[order]",
    );
}
