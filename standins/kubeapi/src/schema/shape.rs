//! Pruning and defaulting: giving an object the shape of its kind's schema.
//!
//! Called for every object that comes in, before anything else looks at it. Must stay true: doing
//! it twice changes nothing.

use serde_json::{Map, Value};

use super::Schema;

/// Removes the fields that the schema does not know and returns their paths.
pub(crate) fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_at(object, schema, "", true, &mut unknown);
    unknown
}

fn prune_at(value: &mut Value, schema: &Schema, path: &str, root: bool, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let own = |field: &str| {
                (root || schema.embedded) && matches!(field, "apiVersion" | "kind" | "metadata")
            };
            map.retain(|field, _| {
                let known = own(field) || schema.preserve_unknown || schema.field(field).is_some();
                if !known {
                    unknown.push(join(path, field));
                }
                known
            });
            // A whole object's metadata has the schema of all metadata; an embedded one's has none.
            let is_open = |field: &str| own(field) && !(root && field == "metadata");
            for (field, child) in map.iter_mut().filter(|(field, _)| !is_open(field)) {
                if let Some(child_schema) = schema.field(field) {
                    prune_at(child, child_schema, &join(path, field), false, unknown);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_at(
                        item,
                        item_schema,
                        &format!("{path}[{index}]"),
                        false,
                        unknown,
                    );
                }
            }
        }
        _ => {}
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

/// Fills in the defaults of absent fields. A null where the schema forbids null counts as absent.
pub(crate) fn default(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(map) => {
            map.retain(|field, child| {
                !child.is_null() || schema.field(field).is_none_or(|known| known.nullable)
            });
            default_fields(map, schema);
            for (field, child) in map.iter_mut() {
                if let Some(child_schema) = schema.field(field) {
                    default(child, child_schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = &schema.items {
                for item in items {
                    default(item, item_schema);
                }
            }
        }
        _ => {}
    }
}

fn default_fields(map: &mut Map<String, Value>, schema: &Schema) {
    for (field, field_schema) in &schema.properties {
        if let Some(default) = &field_schema.default
            && !map.contains_key(field)
        {
            map.insert(field.clone(), default.clone());
        }
    }
}
