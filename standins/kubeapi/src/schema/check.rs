//! Validation of an object against its kind's schema, in the words of the real server's
//! (`k8s.io/kube-openapi/pkg/validation`).
//!
//! Called before an object is stored. Must stay true: all faults of an object are reported at
//! once, in the order of their paths' depth-first walk.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value};

use super::{Bound, ListKind, Schema, Type};
use crate::status::FieldFault;

/// Every fault of `value`, which stands at `path` (empty for a whole object).
pub(crate) fn faults(value: &Value, schema: &Schema, path: &str) -> Vec<FieldFault> {
    let mut found = Vec::new();
    check(value, schema, path, &mut found);
    duplicates(value, schema, path, &mut found);
    found
}

fn check(value: &Value, schema: &Schema, path: &str, found: &mut Vec<FieldFault>) {
    if value.is_null() && schema.nullable {
        return;
    }
    if !fits(value, schema.kind) {
        let is = type_name(value);
        let detail = format!(
            "{path} in body must be of type {}: {is:?}",
            schema.kind.name()
        );
        found.push(FieldFault::type_invalid(path, &is.into(), &detail));
        return;
    }
    let rules = &schema.rules;
    if !rules.allowed.is_empty() && !rules.allowed.contains(value) {
        found.push(FieldFault::not_supported(path, value, &rules.allowed));
    }
    combine(value, schema, path, found);
    match value {
        Value::String(text) => check_string(text, schema, path, found),
        Value::Number(number) => check_number(number, schema, path, found),
        Value::Array(items) => check_list(items, schema, path, found),
        Value::Object(map) => check_map(map, schema, path, found),
        Value::Null | Value::Bool(_) => {}
    }
}

fn fits(value: &Value, kind: Type) -> bool {
    match kind {
        Type::Any => true,
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Integer => value.is_i64() || value.is_u64(),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
        Type::IntOrString => value.is_i64() || value.is_u64() || value.is_string(),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn invalid(path: &str, value: &Value, rule: &str) -> FieldFault {
    FieldFault::invalid(path, value, &format!("{path} in body {rule}"))
}

fn check_string(text: &str, schema: &Schema, path: &str, found: &mut Vec<FieldFault>) {
    let rules = &schema.rules;
    let value = Value::from(text);
    let length = text.chars().count() as u64;
    if let Some(most) = rules.max_length.filter(|most| length > *most) {
        found.push(FieldFault::too_long(path, most));
    }
    if let Some(least) = rules.min_length.filter(|least| length < *least) {
        found.push(invalid(
            path,
            &value,
            &format!("should be at least {least} chars long"),
        ));
    }
    if let Some(pattern) = rules
        .pattern
        .as_ref()
        .filter(|pattern| !pattern.is_match(text))
    {
        found.push(invalid(path, &value, &format!("should match '{pattern}'")));
    }
    if let Some(format) = rules
        .format
        .as_deref()
        .filter(|format| !has_format(text, format))
    {
        let detail = format!("{path} in body must be of type {format}: {text:?}");
        found.push(FieldFault::type_invalid(path, &value, &detail));
    }
}

/// Formats that the server does not know are no rule.
fn has_format(text: &str, format: &str) -> bool {
    match format {
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "cidr" => text.split_once('/').is_some_and(|(address, length)| {
            let most = if address.contains(':') { 128 } else { 32 };
            address.parse::<std::net::IpAddr>().is_ok()
                && length.parse::<u8>().is_ok_and(|length| length <= most)
        }),
        _ => true,
    }
}

fn check_number(
    number: &serde_json::Number,
    schema: &Schema,
    path: &str,
    found: &mut Vec<FieldFault>,
) {
    let rules = &schema.rules;
    let value = Value::from(number.clone());
    let beyond = |bound: &Bound, sign: f64| {
        let distance = (as_float(number) - as_float(&bound.value)) * sign;
        distance > 0.0 || (bound.exclusive && distance == 0.0)
    };
    if let Some(bound) = rules.maximum.as_ref().filter(|bound| beyond(bound, 1.0)) {
        let words = if bound.exclusive {
            "less than"
        } else {
            "less than or equal to"
        };
        found.push(invalid(
            path,
            &value,
            &format!("should be {words} {}", bound.value),
        ));
    }
    if let Some(bound) = rules.minimum.as_ref().filter(|bound| beyond(bound, -1.0)) {
        let words = if bound.exclusive {
            "greater than"
        } else {
            "greater than or equal to"
        };
        found.push(invalid(
            path,
            &value,
            &format!("should be {words} {}", bound.value),
        ));
    }
    if let Some(step) = rules
        .multiple_of
        .filter(|step| (as_float(number) / step).fract() != 0.0)
    {
        found.push(invalid(
            path,
            &value,
            &format!("should be a multiple of {step}"),
        ));
    }
}

fn as_float(number: &serde_json::Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

fn check_list(items: &[Value], schema: &Schema, path: &str, found: &mut Vec<FieldFault>) {
    let rules = &schema.rules;
    let length = items.len();
    if let Some(most) = rules.max_items.filter(|most| length as u64 > *most) {
        found.push(FieldFault::too_many(path, length, most));
    }
    if let Some(least) = rules.min_items.filter(|least| (length as u64) < *least) {
        found.push(invalid(
            path,
            &length.into(),
            &format!("should have at least {least} items"),
        ));
    }
    if let Some(item_schema) = &schema.items {
        for (index, item) in items.iter().enumerate() {
            check(item, item_schema, &format!("{path}[{index}]"), found);
        }
    }
}

fn check_map(map: &Map<String, Value>, schema: &Schema, path: &str, found: &mut Vec<FieldFault>) {
    let rules = &schema.rules;
    let size = map.len();
    if let Some(most) = rules.max_properties.filter(|most| size as u64 > *most) {
        found.push(FieldFault::too_many(path, size, most));
    }
    if let Some(least) = rules.min_properties.filter(|least| (size as u64) < *least) {
        found.push(invalid(
            path,
            &size.into(),
            &format!("should have at least {least} properties"),
        ));
    }
    for field in rules
        .required
        .iter()
        .filter(|field| !map.contains_key(*field))
    {
        found.push(FieldFault::required(join(path, field), ""));
    }
    for (field, child) in map {
        if path.is_empty() && field == "metadata" {
            continue;
        }
        if let Some(child_schema) = schema.field(field) {
            check(child, child_schema, &join(path, field), found);
        }
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

/// `allOf`, `anyOf`, `oneOf`, `not`.
fn combine(value: &Value, schema: &Schema, path: &str, found: &mut Vec<FieldFault>) {
    let rules = &schema.rules;
    let holds = |part: &Schema| {
        let mut inner = Vec::new();
        check(value, part, path, &mut inner);
        inner.is_empty()
    };
    let mut broken = |message: String| found.push(FieldFault::invalid(path, &"".into(), &message));
    if !rules.any_of.is_empty() && !rules.any_of.iter().any(holds) {
        broken(format!(
            "{path:?} must validate at least one schema (anyOf)"
        ));
    }
    if !rules.one_of.is_empty() {
        match rules.one_of.iter().filter(|part| holds(part)).count() {
            1 => {}
            0 => broken(format!(
                "{path:?} must validate one and only one schema (oneOf). Found none valid"
            )),
            several => broken(format!(
                "{path:?} must validate one and only one schema (oneOf). Found {several} valid alternatives"
            )),
        }
    }
    if rules.not.as_deref().is_some_and(holds) {
        broken(format!("{path:?} must not validate the schema (not)"));
    }
    if !rules.all_of.iter().all(holds) {
        for part in &rules.all_of {
            check(value, part, path, found);
        }
        found.push(FieldFault::invalid(
            path,
            &"".into(),
            &format!("{path:?} must validate all the schemas (allOf)"),
        ));
    }
}

/// Elements of sets and list-maps that are there twice.
fn duplicates(value: &Value, schema: &Schema, path: &str, found: &mut Vec<FieldFault>) {
    match value {
        Value::Object(map) => {
            for (field, child) in map {
                if let Some(child_schema) = schema.field(field) {
                    duplicates(child, child_schema, &join(path, field), found);
                }
            }
        }
        Value::Array(items) => {
            let mut seen: Vec<Value> = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let at = format!("{path}[{index}]");
                if let Some(key) = element_key(item, schema) {
                    if seen.contains(&key) {
                        found.push(FieldFault::duplicate(&at, &key));
                    }
                    seen.push(key);
                }
                if let Some(item_schema) = &schema.items {
                    duplicates(item, item_schema, &at, found);
                }
            }
        }
        _ => {}
    }
}

fn element_key(item: &Value, schema: &Schema) -> Option<Value> {
    match &schema.list {
        ListKind::Atomic => None,
        ListKind::Set => Some(item.clone()),
        ListKind::Map(keys) => {
            let map = item.as_object()?;
            let key: Map<_, _> = keys
                .iter()
                .filter_map(|key| map.get(key).map(|value| (key.clone(), value.clone())))
                .collect();
            Some(Value::Object(key))
        }
    }
}
