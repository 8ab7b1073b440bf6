//! What each kind does with an object between a request and the store: which parts a write may
//! change, what counts as a new generation, what is a fault.
//!
//! The strategies of the real server's registries, called by [`write`](crate::write).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    admission, builtin, crd, events,
    kinds::{Kind, Nature},
    metadata, object,
    ownership::fields::Fields,
    rbac::check as check_access,
    schema::check,
    status::FieldFault,
    write::Target,
};

const POD_RULE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Fields that this kind of write leaves alone (`GetResetFields` of the real strategies).
pub(crate) fn ignored(target: Target<'_>) -> Fields {
    match (
        target.kind.has_status,
        target.is_status(),
        target.kind.nature,
    ) {
        (false, _, _) => Fields::default(),
        (true, false, _) => Fields::of(&["status"]),
        (true, true, Nature::Definition) => Fields::of(&["spec"]).union(&Fields::of(&["metadata"])),
        (true, true, Nature::Pod) => Fields::of(&["spec"])
            .union(&Fields::of(&["metadata", "deletionTimestamp"]))
            .union(&Fields::of(&["metadata", "ownerReferences"])),
        (true, true, _) => Fields::of(&["spec"]),
    }
}

/// What the kind's strategy does to a new object: nobody makes one that has a status or is being
/// deleted already (kubelets do make Nodes with a status).
pub(crate) fn prepare_new(kind: &Kind, new: &mut Value) {
    let generation = if kind.nature.has_generation() {
        1.into()
    } else {
        Value::Null
    };
    object::set_meta(new, "generation", generation);
    object::set_meta(new, "deletionTimestamp", Value::Null);
    object::set_meta(new, "deletionGracePeriodSeconds", Value::Null);
    if kind.has_status && kind.nature != Nature::Node {
        set_field(new, "status", None);
    }
    builtin::prepare_new(kind.nature, new);
}

/// What the kind's strategy does to an object before it is stored over the old one.
pub(crate) fn prepare_changed(target: Target<'_>, old: &Value, new: &mut Value) {
    let kind = target.kind;
    if kind.nature == Nature::Secret {
        builtin::complete_secret(new);
    }
    if target.is_status() {
        prepare_status(kind.nature, old, new);
    } else {
        if kind.has_status {
            keep_field(old, new, "status");
        }
        if kind.nature == Nature::Namespace {
            // Only the `finalize` subresource changes these.
            let finalizers = old.pointer("/spec/finalizers").cloned();
            object::map_mut(new, "spec");
            set_field(&mut new["spec"], "finalizers", finalizers);
        }
    }
    let mut generation = old
        .pointer("/metadata/generation")
        .cloned()
        .unwrap_or_default();
    if !target.is_status() && kind.nature.has_generation() && spec_differs(kind, old, new) {
        generation = (object::generation(old) + 1).into();
    }
    object::set_meta(new, "generation", generation);
    for (field, always) in [
        ("uid", false),
        ("creationTimestamp", true),
        ("deletionTimestamp", object::is_deleting(old)),
        ("deletionGracePeriodSeconds", false),
    ] {
        let before = old
            .pointer(&format!("/metadata/{field}"))
            .cloned()
            .unwrap_or_default();
        let missing = new
            .pointer(&format!("/metadata/{field}"))
            .is_none_or(Value::is_null);
        if always || (missing && !before.is_null()) {
            object::set_meta(new, field, before);
        }
    }
    // Those who write whatever the state is write over the latest.
    object::set_meta(
        new,
        "resourceVersion",
        object::meta_str(old, "resourceVersion").into(),
    );
}

/// A status write changes the status; of the server's own kinds some take metadata with it.
fn prepare_status(nature: Nature, old: &Value, new: &mut Value) {
    match nature {
        Nature::Custom => {
            let status = new.get("status").cloned();
            let managed = new
                .pointer("/metadata/managedFields")
                .cloned()
                .unwrap_or_default();
            *new = old.clone();
            object::set_meta(new, "managedFields", managed);
            set_field(new, "status", status);
        }
        Nature::Definition => {
            keep_field(old, new, "spec");
            let managed = new
                .pointer("/metadata/managedFields")
                .cloned()
                .unwrap_or_default();
            keep_field(old, new, "metadata");
            object::set_meta(new, "managedFields", managed);
        }
        Nature::Pod => {
            keep_field(old, new, "spec");
            let owners = old
                .pointer("/metadata/ownerReferences")
                .cloned()
                .unwrap_or_default();
            object::set_meta(new, "ownerReferences", owners);
        }
        Nature::Namespace
        | Nature::Node
        | Nature::Event
        | Nature::Lease
        | Nature::Webhooks
        | Nature::Plain
        | Nature::Secret
        | Nature::Access
        | Nature::Review => {
            keep_field(old, new, "spec");
        }
    }
}

fn keep_field(old: &Value, new: &mut Value, field: &str) {
    set_field(new, field, old.get(field).cloned());
}

fn set_field(new: &mut Value, field: &str, value: Option<Value>) {
    if let Value::Object(map) = new {
        match value {
            Some(value) => map.insert(field.to_owned(), value),
            None => map.remove(field),
        };
    }
}

/// Whether anything but metadata and, where it is a subresource, status changed.
fn spec_differs(kind: &Kind, old: &Value, new: &Value) -> bool {
    let ignored: &[&str] = if kind.has_status {
        &["metadata", "apiVersion", "status"]
    } else {
        &["metadata", "apiVersion"]
    };
    fields_but(old, ignored) != fields_but(new, ignored)
}

/// The object's fields, some left out, in order.
fn fields_but<'a>(object: &'a Value, ignored: &[&str]) -> BTreeMap<&'a str, &'a Value> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .map(|(field, value)| (field.as_str(), value))
        .filter(|(field, _)| !ignored.contains(field))
        .collect()
}

/// Every fault of a new object.
pub(crate) fn faults(kind: &Kind, new: &Value) -> Vec<FieldFault> {
    let mut found = check::faults(new, &kind.schema, "");
    match kind.nature {
        Nature::Event => {
            // What is required of events is not what their documentation says.
            found.retain(|fault| fault.kind != "FieldValueRequired");
            found.extend(events::faults(kind, new));
        }
        Nature::Definition => found.extend(crd::faults(new)),
        Nature::Webhooks => found.extend(admission::faults(new)),
        _ => {}
    }
    found.extend(check_access::faults(kind, new));
    found.extend(metadata::faults(
        new,
        kind.nature,
        kind.metadata_rules.as_ref(),
    ));
    found
}

/// The faults that an update brings: what was wrong before and is unchanged is let through, as the
/// real server's ratcheting does.
pub(crate) fn changed_faults(target: Target<'_>, new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut found = faults(target.kind, new);
    if target.kind.nature == Nature::Pod && fixed_pod_spec(new) != fixed_pod_spec(old) {
        found.push(FieldFault::forbidden("spec", POD_RULE));
    }
    found.extend(check_access::update_faults(target.kind, new, old));
    found.extend(events::update_faults(target.kind, new, old));
    if found.is_empty() {
        return found;
    }
    let before = faults(target.kind, old);
    let known = |fault: &FieldFault| {
        before
            .iter()
            .any(|old| old.field == fault.field && old.message == fault.message)
    };
    found.into_iter().filter(|fault| !known(fault)).collect()
}

/// The part of a pod's spec that stays as it was made.
fn fixed_pod_spec(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    for containers in ["containers", "initContainers"] {
        let list = spec.get_mut(containers).and_then(Value::as_array_mut);
        for container in list.into_iter().flatten() {
            set_field(container, "image", None);
        }
    }
    for field in [
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
    ] {
        set_field(&mut spec, field, None);
    }
    spec
}

/// Whether nothing changed but the times in managedFields.
pub(crate) fn differs_only_in_times(new: &Value, old: &Value) -> bool {
    if fields_but(new, &["metadata"]) != fields_but(old, &["metadata"]) {
        return false;
    }
    let timeless = |object: &Value| {
        let mut metadata = object.get("metadata").cloned().unwrap_or_default();
        let entries = metadata
            .get_mut("managedFields")
            .and_then(Value::as_array_mut);
        for entry in entries
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            entry.remove("time");
        }
        metadata
    };
    new.get("metadata") == old.get("metadata") || timeless(new) == timeless(old)
}
