//! JSON as CEL sees it.
//!
//! As `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/values.go` does it: the schema says
//! which type a value has, field names are escaped, lists that are sets or maps are equal whatever
//! their order.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{
    Value as Cel,
    objects::{Key, Map as CelMap},
};
use serde_json::{Map, Value};

use crate::schema::{ListKind, Schema, Type};

/// Names that CEL keeps for itself.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name by which an expression calls a field; nothing if it cannot.
pub(super) fn escaped(field: &str) -> Option<String> {
    if RESERVED.contains(&field) {
        return Some(format!("__{field}__"));
    }
    let mut characters = field.chars();
    let first = characters.next()?;
    let plain = |character: char| character.is_ascii_alphanumeric() || "_.-/".contains(character);
    if !(first.is_ascii_alphabetic() || first == '_') || !characters.all(plain) {
        return None;
    }
    let escaped = field
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(escaped)
}

/// A value without a schema: an admission request and what is in it.
pub(super) fn free(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(truth) => Cel::Bool(*truth),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN)), Cel::Int),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(free).collect())),
        Value::Object(map) => made(map.iter().map(|(key, value)| (key.clone(), free(value)))),
    }
}

/// A value of a schema. `root` is a whole object, of whose metadata rules see the names only.
pub(super) fn typed(value: &Value, schema: &Schema, root: bool) -> Cel {
    match value {
        Value::Number(number) if schema.kind == Type::Number => {
            Cel::Float(number.as_f64().unwrap_or(f64::NAN))
        }
        Value::String(text) => text_of(text, schema),
        Value::Array(items) => {
            let each = items.iter().map(|item| match &schema.items {
                Some(item_schema) => typed(item, item_schema, false),
                None => free(item),
            });
            Cel::List(Arc::new(each.collect()))
        }
        Value::Object(map) => object(map, schema, root),
        other => free(other),
    }
}

fn object(map: &Map<String, Value>, schema: &Schema, root: bool) -> Cel {
    let whole = root || schema.embedded;
    made(map.iter().filter_map(|(field, child)| {
        if whole && field == "metadata" {
            return Some((field.clone(), names(child)));
        }
        if let Some(known) = schema.properties.get(field) {
            return Some((escaped(field)?, typed(child, known, false)));
        }
        // The keys of maps are data and stay as they are.
        Some(match &schema.additional {
            Some(known) => (field.clone(), typed(child, known, false)),
            None => (escaped(field)?, free(child)),
        })
    }))
}

fn names(metadata: &Value) -> Cel {
    let kept = ["name", "generateName"].into_iter();
    made(kept.filter_map(|field| Some((field.to_owned(), free(metadata.get(field)?)))))
}

fn made(entries: impl Iterator<Item = (String, Cel)>) -> Cel {
    let map: HashMap<_, _> = entries
        .map(|(key, value)| (Key::String(Arc::new(key)), value))
        .collect();
    Cel::Map(CelMap { map: Arc::new(map) })
}

fn text_of(text: &str, schema: &Schema) -> Cel {
    let call = match schema.rules.format.as_deref() {
        Some("date-time" | "date") => "timestamp",
        Some("duration") => "duration",
        Some("byte") => "base64.decode",
        _ => return Cel::String(Arc::new(text.to_owned())),
    };
    let full = match schema.rules.format.as_deref() {
        Some("date") => format!("{text}T00:00:00Z"),
        _ => text.to_owned(),
    };
    let plain = Cel::String(Arc::new(text.to_owned()));
    super::parse(&format!("{call}(text)"))
        .and_then(|expression| {
            super::evaluate(&expression, vec![("text", Cel::String(Arc::new(full)))])
        })
        .unwrap_or(plain)
}

/// `old` with its sets and list-maps in the order of `new`, so that the order makes no difference.
pub(super) fn aligned(old: &Value, new: &Value, schema: &Schema) -> Value {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let each = old.iter().map(|(field, child)| {
                let pair = new.get(field).zip(schema.field(field));
                let child = pair.map_or_else(
                    || child.clone(),
                    |(new_child, known)| aligned(child, new_child, known),
                );
                (field.clone(), child)
            });
            Value::Object(each.collect())
        }
        (Value::Array(old), Value::Array(new)) if schema.list != ListKind::Atomic => {
            let mut rest: Vec<&Value> = old.iter().collect();
            let mut ordered = Vec::with_capacity(old.len());
            for item in new {
                if let Some(at) = rest
                    .iter()
                    .position(|other| same_element(other, item, schema))
                {
                    let found = rest.remove(at);
                    let child = schema.items.as_deref();
                    ordered.push(
                        child.map_or_else(|| found.clone(), |known| aligned(found, item, known)),
                    );
                }
            }
            ordered.extend(rest.into_iter().cloned());
            Value::Array(ordered)
        }
        (old, _) => old.clone(),
    }
}

/// Whether two values are the same element of a set or of a list-map.
pub(super) fn same_element(one: &Value, two: &Value, list: &Schema) -> bool {
    match &list.list {
        ListKind::Map(keys) => keys.iter().all(|key| one.get(key) == two.get(key)),
        _ => one == two,
    }
}
