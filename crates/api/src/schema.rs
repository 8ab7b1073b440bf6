//! What a generated JSON schema needs beyond its Rust type to be a good Kubernetes schema.
//!
//! Called by the derives of this crate only: the four first once per kind, on its whole spec or
//! status, the rest on single fields.
//! Must stay true: no `nullable`, so that the API server drops a null instead of storing it; no
//! number format that Kubernetes does not know (it warns about those); no defaults in a status,
//! where a value nobody observed would be made up.

use schemars::{Schema, SchemaGenerator, json_schema, transform::transform_subschemas};
use serde_json::{Map, Value, json};

/// A DNS label: subnet names and wires.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// IPv4 CIDR by its shape; whether it is canonical is a rule of the planner, with a better message.
pub const IPV4_CIDR: &str = r"^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$";
/// IPv4 address by its shape.
pub const IPV4: &str = r"^([0-9]{1,3}\.){3}[0-9]{1,3}$";
/// IPv4 range `a.b.c.d-a.b.c.e` by its shape.
pub const IPV4_RANGE: &str = r"^([0-9]{1,3}\.){3}[0-9]{1,3}-([0-9]{1,3}\.){3}[0-9]{1,3}$";
/// VLAN range `200-299` or single number `310` by its shape.
pub const VLAN_RANGE: &str = "^[0-9]{1,4}(-[0-9]{1,4})?$";
/// A network interface as Linux and Kube-OVN accept it.
pub const INTERFACE: &str = r"^[^/\s]+$";
/// A zone's bridge: a name that Proxmox accepts on every node.
pub const BRIDGE: &str = "^[A-Za-z][A-Za-z0-9_]{0,9}$";

/// Finishes the spec of one of our own kinds.
pub fn own_spec(schema: &mut Schema) {
    structural(schema);
}

/// Finishes the status of one of our own kinds.
pub fn own_status(schema: &mut Schema) {
    structural(schema);
    without_defaults(schema);
}

/// Finishes the spec of a foreign kind: fields that we leave out are kept, not pruned; integers
/// have no format, as in the real definitions.
pub fn foreign_spec(schema: &mut Schema) {
    own_spec(schema);
    keep_unknown_fields(schema);
    without_formats(schema);
}

/// Finishes the status of a foreign kind, likewise.
pub fn foreign_status(schema: &mut Schema) {
    own_status(schema);
    keep_unknown_fields(schema);
    without_formats(schema);
}

/// The rule of a field that stays as it was made.
pub fn fixed(field: &str) -> Value {
    json!({"rule": "self == oldSelf", "message": format!("the {field} cannot be changed")})
}

fn structural(schema: &mut Schema) {
    transform_subschemas(&mut structural, schema);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| format.starts_with("uint"))
    {
        object.remove("format");
    }
    drop_null_type(object);
    hoist_optional(object);
    join_lines(object);
}

/// `type: [string, null]` becomes `type: string`.
fn drop_null_type(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else {
        return;
    };
    let named: Vec<Value> = types.iter().filter(|t| **t != "null").cloned().collect();
    if let [only] = named.as_slice() {
        object.insert("type".into(), only.clone());
    }
}

/// `anyOf: [T, null]` becomes T; what the field says of itself (its description) wins.
fn hoist_optional(object: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = object.get("anyOf") else {
        return;
    };
    let named: Vec<&Value> = branches.iter().filter(|b| b["type"] != "null").collect();
    let [Value::Object(only)] = named.as_slice() else {
        return;
    };
    let only = only.clone();
    object.remove("anyOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
    }
}

/// A comment's line breaks say nothing, and `kubectl explain` would print them; its paragraphs stay.
fn join_lines(object: &mut Map<String, Value>) {
    if let Some(Value::String(description)) = object.get_mut("description") {
        let paragraphs: Vec<String> = description
            .split("\n\n")
            .map(|paragraph| paragraph.replace('\n', " "))
            .collect();
        *description = paragraphs.join("\n\n");
    }
}

fn without_defaults(schema: &mut Schema) {
    transform_subschemas(&mut without_defaults, schema);
    schema.remove("default");
}

fn without_formats(schema: &mut Schema) {
    transform_subschemas(&mut without_formats, schema);
    schema.remove("format");
}

fn keep_unknown_fields(schema: &mut Schema) {
    transform_subschemas(&mut keep_unknown_fields, schema);
    let is_object = schema.get("type").is_some_and(|t| t == "object");
    let is_map = schema.get("additionalProperties").is_some();
    if is_object && !is_map {
        schema.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
    }
}

/// `metav1.Condition` with the bounds that apimachinery documents, keyed by type.
pub fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "What the condition is about, for example `Ready`. True is good everywhere.",
                    "type": "string", "maxLength": 316,
                },
                "status": {
                    "description": "True, False, or Unknown where it cannot be looked at yet.",
                    "type": "string", "enum": ["True", "False", "Unknown"],
                },
                "reason": {
                    "description": "One word, stable, for example `ZoneExhausted`.",
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {
                    "description": "What was observed, the figures, and who can do what about it.",
                    "type": "string", "maxLength": 32768,
                },
                "lastTransitionTime": {
                    "description": "When status last changed.",
                    "type": "string", "format": "date-time",
                },
                "observedGeneration": {
                    "description": "metadata.generation that was looked at.",
                    "type": "integer", "format": "int64", "minimum": 0,
                },
            },
        },
    })
}

/// `metav1.LabelSelector`, with list types as Kube-OVN and Kubernetes themselves declare them.
pub fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "description": "Labels that must all be there with these values.",
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
            "matchExpressions": {
                "description": "Requirements that must all hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"description": "Label key.", "type": "string"},
                        "operator": {
                            "description": "How key and values relate.",
                            "type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                        },
                        "values": {
                            "description": "Values for In and NotIn; empty for the others.",
                            "type": "array",
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string"},
                        },
                    },
                },
            },
        },
    })
}

/// The selector of a `ProviderNetwork`, as its definition has it: expressions keyed by label key,
/// operators unchecked.
pub fn keyed_label_selector(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = label_selector(generator);
    if let Some(expressions) = schema.pointer_mut("/properties/matchExpressions") {
        expressions["x-kubernetes-list-type"] = json!("map");
        expressions["x-kubernetes-list-map-keys"] = json!(["key"]);
        let requirement = &mut expressions["items"]["properties"];
        for (field, absent) in [("operator", "enum"), ("values", "x-kubernetes-list-type")] {
            if let Some(field) = requirement[field].as_object_mut() {
                field.remove(absent);
            }
        }
    }
    schema
}

/// A number without an integer format: Kube-OVN declares its counters so.
pub fn number(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "number"})
}
