//! The rules for `metadata` that all kinds share.
//!
//! Called before an object is stored, in the words of `k8s.io/apimachinery/pkg/api/validation`.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::{
    kinds::Nature,
    object::{self, finalizers, is_deleting, meta_str},
    schema::{Schema, check},
    status::FieldFault,
};

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_RULE: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY_RULE: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Longest DNS label, label key name part and label value.
const LABEL_LENGTH: usize = 63;
/// Longest DNS subdomain.
const SUBDOMAIN_LENGTH: usize = 253;

static SUBDOMAIN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$").ok()
});
static WORD: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$").ok());

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(text))
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

/// What is wrong with the metadata of an object that is to be stored.
pub(crate) fn faults(object: &Value, nature: Nature, rules: Option<&Schema>) -> Vec<FieldFault> {
    let mut found = Vec::new();
    name_faults(object, nature, &mut found);
    if let Some(rules) = rules {
        for field in ["name", "generateName"] {
            let value = object.pointer(&format!("/metadata/{field}"));
            if let (Some(value), Some(rule)) = (value, rules.properties.get(field)) {
                found.extend(check::faults(value, rule, &format!("metadata.{field}")));
            }
        }
    }
    for (key, value) in entries(object, "labels") {
        key_faults(key, "metadata.labels", &mut found);
        let text = value.as_str().unwrap_or_default();
        if text.chars().count() > LABEL_LENGTH {
            found.push(FieldFault::invalid(
                "metadata.labels",
                value,
                &too_long(LABEL_LENGTH),
            ));
        }
        if !text.is_empty() && !matches(&WORD, text) {
            found.push(FieldFault::invalid("metadata.labels", value, VALUE_RULE));
        }
    }
    for (key, _) in entries(object, "annotations") {
        key_faults(&key.to_lowercase(), "metadata.annotations", &mut found);
    }
    owner_faults(object, &mut found);
    for (index, finalizer) in finalizers(object).iter().enumerate() {
        key_faults(
            finalizer,
            &format!("metadata.finalizers[{index}]"),
            &mut found,
        );
    }
    found
}

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object
        .pointer(&format!("/metadata/{field}"))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn name_faults(object: &Value, nature: Nature, found: &mut Vec<FieldFault>) {
    let name = object::name(object);
    if name.is_empty() {
        found.push(FieldFault::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    }
    let value = Value::from(name);
    // Names of roles and bindings are any part of a path.
    if nature == Nature::Access {
        let faults = match name {
            "." | ".." => vec![format!("may not be '{name}'")],
            _ => ['/', '%']
                .into_iter()
                .filter(|&letter| name.contains(letter))
                .map(|letter| format!("may not contain '{letter}'"))
                .collect(),
        };
        let invalid = |why: &String| FieldFault::invalid("metadata.name", &value, why);
        found.extend(faults.iter().map(invalid));
        return;
    }
    let (most, rule) = match nature {
        Nature::Namespace => (LABEL_LENGTH, LABEL_RULE),
        _ => (SUBDOMAIN_LENGTH, SUBDOMAIN_RULE),
    };
    if name.len() > most {
        found.push(FieldFault::invalid(
            "metadata.name",
            &value,
            &too_long(most),
        ));
    }
    let dotless = nature != Nature::Namespace || !name.contains('.');
    if !matches(&SUBDOMAIN, name) || !dotless {
        found.push(FieldFault::invalid("metadata.name", &value, rule));
    }
}

/// What is wrong with a qualified name.
pub(crate) fn qualified_name(field: &str, name: &str) -> Vec<FieldFault> {
    let mut found = Vec::new();
    key_faults(name, field, &mut found);
    found
}

/// A qualified name: an optional DNS subdomain, a slash, a word.
fn key_faults(key: &str, field: &str, found: &mut Vec<FieldFault>) {
    let value = Value::from(key);
    let (prefix, word) = key
        .split_once('/')
        .map_or((None, key), |(prefix, word)| (Some(prefix), word));
    if prefix == Some("") {
        let why = "prefix part must be non-empty";
        found.push(FieldFault::invalid(field, &value, why));
    } else if prefix.is_some_and(|prefix| !matches(&SUBDOMAIN, prefix)) {
        found.push(FieldFault::invalid(
            field,
            &value,
            &format!("prefix part {SUBDOMAIN_RULE}"),
        ));
    }
    if word.is_empty() {
        let why = "name part must be non-empty";
        found.push(FieldFault::invalid(field, &value, why));
    } else if word.len() > LABEL_LENGTH {
        found.push(FieldFault::invalid(
            field,
            &value,
            &format!("name part {}", too_long(LABEL_LENGTH)),
        ));
    }
    if word.is_empty() || !matches(&WORD, word) {
        found.push(FieldFault::invalid(field, &value, KEY_RULE));
    }
}

fn owner_faults(object: &Value, found: &mut Vec<FieldFault>) {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut controllers = 0;
    for owner in owners.into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner
                .get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .is_empty()
            {
                let path = format!("metadata.ownerReferences.{field}");
                found.push(FieldFault::invalid(path, &"".into(), "must not be empty"));
            }
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let rule = "Only one reference can have Controller set to true";
        found.push(FieldFault::invalid(
            "metadata.ownerReferences",
            &owners.cloned().unwrap_or_default().into(),
            rule,
        ));
    }
}

/// What an update may not do to the metadata.
pub(crate) fn update_faults(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut found = Vec::new();
    if is_deleting(old) {
        let before = finalizers(old);
        let added: Vec<_> = finalizers(new)
            .into_iter()
            .filter(|finalizer| !before.contains(finalizer))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added
                    .iter()
                    .map(|finalizer| format!("{finalizer:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            found.push(FieldFault::forbidden("metadata.finalizers", &detail));
        }
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
    ] {
        if meta_str(new, field) != meta_str(old, field) {
            let value = Value::from(meta_str(new, field));
            found.push(FieldFault::invalid(
                format!("metadata.{field}"),
                &value,
                "field is immutable",
            ));
        }
    }
    let grace = |object: &Value| {
        object
            .pointer("/metadata/deletionGracePeriodSeconds")
            .cloned()
    };
    if grace(new) != grace(old) {
        let value = grace(new).unwrap_or_default();
        found.push(FieldFault::invalid(
            "metadata.deletionGracePeriodSeconds",
            &value,
            "field is immutable",
        ));
    }
    found
}
