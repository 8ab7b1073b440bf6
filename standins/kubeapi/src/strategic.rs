//! Strategic merge patches, which only the server's own kinds have: maps merge, lists that have a
//! key or are sets merge too, and directives say what to remove.
//!
//! Called by [`patch`](crate::patch); kubectl sends them for what is not custom.

use serde_json::{Map, Value};

use crate::schema::{ListKind, Schema};

const DIRECTIVE: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const REMOVE: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

/// Merges a patch into an object of this schema.
pub(crate) fn merge(
    object: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Option<&Schema>,
) {
    if patch.get(DIRECTIVE) == Some(&"replace".into()) {
        object.clone_from(patch);
        object.remove(DIRECTIVE);
        return;
    }
    if let Some(kept) = patch.get(RETAIN) {
        let kept = crate::object::strings(Some(kept));
        object.retain(|field, _| kept.contains(&field.as_str()));
    }
    for (field, value) in patch {
        if let Some(list) = field.strip_prefix(REMOVE) {
            let gone = value.as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(Value::Array(items)) = object.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
        } else if !field.starts_with('$') {
            let schema = schema.and_then(|schema| schema.field(field));
            merge_field(object, field, value, schema);
        }
    }
    for (field, order) in patch {
        if let (Some(list), Value::Array(order)) = (field.strip_prefix(ORDER), order)
            && let Some(Value::Array(items)) = object.get_mut(list)
        {
            let key = schema.and_then(|schema| schema.field(list)).and_then(key);
            let place = |item: &Value| {
                let same = |other: &Value| match key {
                    Some(key) => other.get(key) == item.get(key),
                    None => other == item,
                };
                order.iter().position(same).unwrap_or(usize::MAX)
            };
            items.sort_by_key(place);
        }
    }
}

/// The field that tells a list's elements apart.
fn key(list: &Schema) -> Option<&str> {
    match &list.list {
        ListKind::Map(keys) => keys.first().map(String::as_str),
        ListKind::Atomic | ListKind::Set => None,
    }
}

fn merge_field(
    object: &mut Map<String, Value>,
    field: &str,
    value: &Value,
    schema: Option<&Schema>,
) {
    match value {
        Value::Null => {
            object.remove(field);
        }
        Value::Object(patch) if patch.get(DIRECTIVE) == Some(&"delete".into()) => {
            object.remove(field);
        }
        Value::Object(patch) => {
            let slot = object.entry(field).or_insert(Value::Null);
            if !slot.is_object() {
                *slot = Value::Object(Map::new());
            }
            if let Value::Object(inner) = slot {
                merge(inner, patch, schema);
            }
        }
        Value::Array(patch) => {
            let slot = object.entry(field).or_insert(Value::Null);
            let mut items = match slot.take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            merge_list(&mut items, patch, schema);
            *slot = Value::Array(items);
        }
        other => {
            object.insert(field.to_owned(), other.clone());
        }
    }
}

fn merge_list(items: &mut Vec<Value>, patch: &[Value], schema: Option<&Schema>) {
    let directive = |item: &Value| {
        item.get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let replaces = patch
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"));
    let set = schema.is_some_and(|schema| schema.list == ListKind::Set);
    match schema.and_then(key) {
        Some(key) if !replaces => {
            for change in patch {
                let at = items
                    .iter()
                    .position(|item| item.get(key) == change.get(key));
                let inner = schema.and_then(|schema| schema.items.as_deref());
                match (at, directive(change).as_deref()) {
                    (Some(at), Some("delete")) => {
                        items.remove(at);
                    }
                    (None, Some("delete")) => {}
                    (Some(at), _) => {
                        if let (Value::Object(item), Value::Object(change)) =
                            (&mut items[at], change)
                        {
                            merge(item, change, inner);
                        }
                    }
                    (None, _) => items.push(change.clone()),
                }
            }
        }
        None if set && !replaces => {
            for item in patch {
                if !items.contains(item) {
                    items.push(item.clone());
                }
            }
        }
        _ => {
            let plain = patch.iter().filter(|item| directive(item).is_none());
            *items = plain.cloned().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(object: Value, patch: &Value) -> Value {
        let schema = json!({"type": "object", "properties": {
            "parts": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}},
            },
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let schema = Schema::read("", &schema).expect("a schema");
        let Value::Object(mut object) = object else {
            unreachable!("objects only")
        };
        merge(
            &mut object,
            patch.as_object().expect("a patch"),
            Some(&schema),
        );
        Value::Object(object)
    }

    #[test]
    fn maps_keyed_lists_and_sets_merge_and_other_lists_are_replaced() {
        let object = json!({
            "parts": [{"name": "a", "size": 1}, {"name": "b"}], "tags": ["x"], "list": ["1"], "map": {"k": "v"},
        });
        let patch = json!({
            "parts": [{"name": "a", "size": 2}, {"name": "c"}], "tags": ["y"], "list": ["2"], "map": {"l": "w"},
        });
        assert_eq!(
            merged(object, &patch),
            json!({
                "parts": [{"name": "a", "size": 2}, {"name": "b"}, {"name": "c"}],
                "tags": ["x", "y"], "list": ["2"], "map": {"k": "v", "l": "w"},
            })
        );
    }

    #[test]
    fn directives_delete_replace_retain_and_order() {
        let object =
            json!({"parts": [{"name": "a"}, {"name": "b"}], "tags": ["x", "y"], "map": {"k": "v"}});
        let patch = json!({
            "parts": [{"name": "a", "$patch": "delete"}, {"name": "c"}], "$setElementOrder/parts": [{"name": "c"}, {"name": "b"}],
            "$deleteFromPrimitiveList/tags": ["x"], "map": {"$patch": "replace", "m": "n"},
        });
        assert_eq!(
            merged(object.clone(), &patch),
            json!({"parts": [{"name": "c"}, {"name": "b"}], "tags": ["y"], "map": {"m": "n"}})
        );
        let patch = json!({"map": {"$retainKeys": ["x"], "x": "y"}, "tags": null});
        assert_eq!(
            merged(object, &patch),
            json!({"parts": [{"name": "a"}, {"name": "b"}], "map": {"x": "y"}})
        );
    }
}
