//! Which requests a webhook is asked about: its rules, selectors and match conditions.

use serde_json::Value;

use super::{Attributes, hooks::Hook};
use crate::{
    kinds::Nature,
    object::strings,
    select::matches_labels,
    status::{Failure, FieldFault},
    store::Store,
};

/// The version of the object that the webhook is to be asked about; nothing if it is not asked.
pub(super) fn version_to_ask(
    store: &Store,
    hook: &Hook,
    asked: Attributes<'_>,
    user: &Value,
) -> Result<Option<String>, Failure> {
    let by_namespace = matches_namespace(store, hook, asked);
    if matches!(by_namespace, Ok(false)) || !matches_object(hook, asked) {
        return Ok(None);
    }
    let Some(version) = matching_version(store, hook, asked) else {
        return Ok(None);
    };
    by_namespace?;
    let conditions_hold = matches_conditions(hook, asked, &version, user)?;
    Ok(conditions_hold.then_some(version))
}

fn matching_version(store: &Store, hook: &Hook, asked: Attributes<'_>) -> Option<String> {
    let kind = asked.target.kind;
    let rules = hook.json.get("rules").and_then(Value::as_array);
    let rules: Vec<&Value> = rules.into_iter().flatten().collect();
    let matches = |version: &str| rules.iter().any(|rule| matches_rule(rule, asked, version));
    if matches(&kind.version) {
        return Some(kind.version.clone());
    }
    if hook.json.get("matchPolicy").and_then(Value::as_str) != Some("Equivalent") {
        return None;
    }
    let mut others = store.kinds.all();
    others
        .find(|other| other.resource == kind.resource && matches(&other.version))
        .map(|other| other.version.clone())
}

fn matches_rule(rule: &Value, asked: Attributes<'_>, version: &str) -> bool {
    let list = |field: &str| strings(rule.get(field));
    let has = |field: &str, wanted: &str| {
        list(field)
            .iter()
            .any(|entry| *entry == "*" || *entry == wanted)
    };
    let kind = asked.target.kind;
    let cluster = asked.target.namespace.is_empty() || kind.nature == Nature::Namespace;
    let scope = match rule.get("scope").and_then(Value::as_str) {
        Some("Namespaced") => !cluster,
        Some("Cluster") => cluster,
        _ => true,
    };
    let resource = list("resources").iter().any(|entry| {
        let (resource, part) = entry.split_once('/').unwrap_or((entry, ""));
        (resource == "*" || resource == kind.resource.plural)
            && (part == "*" || part == asked.target.part.name())
    });
    scope
        && resource
        && has("operations", asked.operation.name())
        && has("apiGroups", &kind.resource.group)
        && has("apiVersions", version)
}

fn matches_namespace(store: &Store, hook: &Hook, asked: Attributes<'_>) -> Result<bool, Failure> {
    let selector = &hook.json["namespaceSelector"];
    let namespace = asked.namespace();
    if namespace.is_empty() || is_empty(selector) {
        return Ok(true);
    }
    if asked.target.kind.nature == Nature::Namespace && !asked.object.is_null() {
        return Ok(matches_labels(selector, asked.object));
    }
    let kind = store.kinds.find("", "v1", "namespaces");
    let found = kind.and_then(|kind| store.get(&kind.resource, "", namespace));
    match found {
        Some(found) => Ok(matches_labels(selector, &found)),
        None => Err(Failure::not_found("", "namespaces", namespace)),
    }
}

fn matches_object(hook: &Hook, asked: Attributes<'_>) -> bool {
    let selector = &hook.json["objectSelector"];
    let selected = |object: &Value| !object.is_null() && matches_labels(selector, object);
    is_empty(selector) || selected(asked.object) || selected(asked.old)
}

fn is_empty(selector: &Value) -> bool {
    ["matchLabels", "matchExpressions"]
        .iter()
        .all(|field| match selector.get(field) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => true,
        })
}

/// What is wrong with a label selector.
pub(super) fn selector_faults(selector: &Value, at: &str, found: &mut Vec<FieldFault>) {
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let has_values = !strings(expression.get("values")).is_empty();
        match expression.get("operator").and_then(Value::as_str) {
            Some("In" | "NotIn") if !has_values => found.push(FieldFault::required(
                format!("{at}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            Some("Exists" | "DoesNotExist") if has_values => found.push(FieldFault::forbidden(
                format!("{at}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            Some("In" | "NotIn" | "Exists" | "DoesNotExist") => {}
            other => {
                let value = Value::from(other.unwrap_or_default());
                let rule = "not a valid selector operator";
                found.push(FieldFault::invalid(format!("{at}.operator"), &value, rule));
            }
        }
    }
}

/// Whether every condition holds. One that is false decides; after that, one that fails.
fn matches_conditions(
    hook: &Hook,
    asked: Attributes<'_>,
    version: &str,
    user: &Value,
) -> Result<bool, Failure> {
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let mut request = asked.review(version, user);
    let (object, old) = (request["object"].take(), request["oldObject"].take());
    let variables = [
        ("request", &request),
        ("object", &object),
        ("oldObject", &old),
    ];
    let mut failed = Vec::new();
    for condition in &hook.conditions {
        match condition.holds(&variables) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => failed.push(why),
        }
    }
    if failed.is_empty() || hook.is_ignored_on_failure {
        return Ok(failed.is_empty());
    }
    let why = match failed.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let resource = &asked.target.kind.resource;
    Err(Failure::forbidden(
        &resource.group,
        &resource.plural,
        asked.name,
        &why,
    ))
}
