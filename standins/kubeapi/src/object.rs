//! Reading and changing the metadata of objects that are plain JSON.
//!
//! Used by every module that handles objects. Must stay true: an object always has a `metadata`
//! map once it has come through [`request`](crate::request).

use std::sync::Arc;

use serde_json::{Map, Value};

/// An object as it is stored and sent; never changed in place.
pub(crate) type Object = Arc<Value>;

/// The finalizer by which the garbage collector deletes dependents first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer by which the garbage collector frees dependents from their owner.
pub(crate) const ORPHAN: &str = "orphan";

/// A string in `metadata`, empty if absent.
pub(crate) fn meta_str<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|meta| meta.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    meta_str(object, "name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub(crate) fn namespace(object: &Value) -> &str {
    meta_str(object, "namespace")
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    meta_str(object, "uid")
}

/// `metadata.resourceVersion` as a number, 0 if absent or not one.
pub(crate) fn revision(object: &Value) -> u64 {
    meta_str(object, "resourceVersion")
        .parse()
        .unwrap_or_default()
}

/// `metadata.generation`, 0 if absent.
pub(crate) fn generation(object: &Value) -> i64 {
    object
        .pointer("/metadata/generation")
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Whether a deletion has been asked for.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !meta_str(object, "deletionTimestamp").is_empty()
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    strings(object.pointer("/metadata/finalizers"))
}

/// The strings of a JSON list; nothing if it is none.
pub(crate) fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The object's `metadata`, made if it is absent or not a map.
pub(crate) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(object, "metadata")
}

/// A map in a map, made if it is absent or something else.
pub(crate) fn map_in<'a>(
    map: &'a mut Map<String, Value>,
    field: &str,
) -> &'a mut Map<String, Value> {
    let slot = map.entry(field).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("made a map just above"),
    }
}

/// A field that is a map, made if it is absent or something else.
pub(crate) fn map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_map(object);
    as_map(&mut object[field])
}

/// A value as a map, made one if it is something else.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made a map just above"),
    }
}

/// Sets `metadata.<field>`, or removes it if the value is null.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Value) {
    let meta = meta_mut(object);
    if value.is_null() {
        meta.remove(field);
    } else {
        meta.insert(field.to_owned(), value);
    }
}

/// Sets `metadata.finalizers`; an empty list is no list.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let value = if finalizers.is_empty() {
        Value::Null
    } else {
        finalizers.to_vec().into()
    };
    set_meta(object, "finalizers", value);
}

/// Writes whole floating-point numbers as integers, as Go's JSON encoder does, so that 1.0 and 1
/// are one value.
pub(crate) fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let (None, None, Some(float)) = (number.as_i64(), number.as_u64(), number.as_f64())
                && float.fract() == 0.0
                && float.abs() < 1e15
            {
                #[expect(clippy::cast_possible_truncation, reason = "whole and far inside i64")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(map) => map.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}
