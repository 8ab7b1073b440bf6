//! What is wrong with the rules of a CRD, in the real server's words
//! (`k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`).

use serde_json::Value;

use super::Rule;
use crate::{
    schema::{ListKind, Schema},
    status::FieldFault,
};

/// What is wrong with the rules in a CRD's schema, as JSON at `path`.
pub(crate) fn definition_faults(json: &Value, path: &str) -> Vec<FieldFault> {
    let mut found = Vec::new();
    faults_at(json, path, None, true, &mut found);
    found
}

fn faults_at(
    json: &Value,
    path: &str,
    uncorrelated: Option<&str>,
    root: bool,
    found: &mut Vec<FieldFault>,
) {
    let rules = json
        .get("x-kubernetes-validations")
        .and_then(Value::as_array);
    if let (Some(rules), Ok(schema)) = (rules, Schema::read_shape(path, json)) {
        for (index, rule) in rules.iter().enumerate() {
            let at = format!("{path}.x-kubernetes-validations[{index}]");
            rule_faults(rule, &schema, &at, uncorrelated, root, found);
        }
    }
    for (name, property) in json
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let at = format!("{path}.properties[{name}]");
        faults_at(property, &at, uncorrelated, false, found);
    }
    if let Some(values) = json
        .get("additionalProperties")
        .filter(|values| values.is_object())
    {
        let at = format!("{path}.additionalProperties");
        faults_at(values, &at, uncorrelated, false, found);
    }
    if let Some(items) = json.get("items").filter(|items| items.is_object()) {
        let correlated =
            ListKind::read(path, json).is_ok_and(|list| matches!(list, ListKind::Map(_)));
        let uncorrelated = uncorrelated.or((!correlated).then_some(path));
        faults_at(items, &format!("{path}.items"), uncorrelated, false, found);
    }
}

fn rule_faults(
    rule: &Value,
    schema: &Schema,
    at: &str,
    uncorrelated: Option<&str>,
    root: bool,
    found: &mut Vec<FieldFault>,
) {
    let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("rule").trim().is_empty() {
        found.push(FieldFault::required(
            format!("{at}.rule"),
            "rule is not specified",
        ));
        return;
    }
    word_faults(&text, schema, at, found);
    expression_faults(rule, schema, at, uncorrelated, root, found);
}

/// What is said beside the expressions.
fn word_faults<'a>(
    text: &impl Fn(&str) -> &'a str,
    schema: &Schema,
    at: &str,
    found: &mut Vec<FieldFault>,
) {
    if text("message").trim().contains('\n') {
        let message = Value::from(text("message"));
        let detail = "must not contain line breaks";
        found.push(FieldFault::invalid(
            format!("{at}.message"),
            &message,
            detail,
        ));
    } else if text("rule").trim().contains('\n') && text("message").trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        found.push(FieldFault::required(format!("{at}.message"), detail));
    }
    let reasons = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    if !text("reason").is_empty() && !reasons.contains(&text("reason")) {
        let allowed = reasons.map(Value::from);
        found.push(FieldFault::not_supported(
            format!("{at}.reason"),
            &text("reason").into(),
            &allowed,
        ));
    }
    if !text("fieldPath").is_empty() && !leads_somewhere(text("fieldPath"), schema) {
        let path = Value::from(text("fieldPath"));
        found.push(FieldFault::invalid(
            format!("{at}.fieldPath"),
            &path,
            "must be a valid path",
        ));
    }
}

fn expression_faults(
    rule: &Value,
    schema: &Schema,
    at: &str,
    uncorrelated: Option<&str>,
    root: bool,
    found: &mut Vec<FieldFault>,
) {
    match Rule::read(rule, schema, root) {
        Ok(read) => {
            if let (true, Some(within)) = (read.uses_old, uncorrelated) {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                found.push(FieldFault::invalid(
                    format!("{at}.rule"),
                    &rule["rule"],
                    &detail,
                ));
            }
            let optional = rule
                .get("optionalOldSelf")
                .filter(|stated| !stated.is_null());
            if let (false, Some(stated)) = (read.uses_old, optional) {
                let detail = "may not be set if oldSelf is not used in rule";
                found.push(FieldFault::invalid(
                    format!("{at}.optionalOldSelf"),
                    stated,
                    detail,
                ));
            }
        }
        Err(error) => {
            let detail = error.to_string();
            let field = if detail.starts_with("messageExpression") {
                "messageExpression"
            } else {
                "rule"
            };
            found.push(FieldFault::invalid_shown(
                format!("{at}.{field}"),
                &shown(rule),
                &detail,
            ));
        }
    }
}

/// A rule as Go writes it as JSON.
fn shown(rule: &Value) -> String {
    let field = |field: &str| rule.get(field).cloned();
    let text = |name: &str| field(name).unwrap_or_else(|| "".into()).to_string();
    let or_null = |name: &str| field(name).unwrap_or_default().to_string();
    let json = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        or_null("reason"),
        text("fieldPath"),
        or_null("optionalOldSelf"),
    );
    json.replace('&', "\\u0026")
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
}

/// Whether a path of fields leads through the schema.
fn leads_somewhere(path: &str, schema: &Schema) -> bool {
    let Some(path) = path.strip_prefix('.') else {
        return false;
    };
    let mut at = schema;
    path.split('.').all(|field| match at.properties.get(field) {
        Some(next) => {
            at = next;
            true
        }
        None => false,
    })
}
