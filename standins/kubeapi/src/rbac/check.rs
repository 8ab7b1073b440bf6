//! What is wrong with roles and bindings (`pkg/apis/rbac/validation`).

use serde_json::Value;

use super::GROUP;
use crate::{kinds::Kind, object, status::FieldFault};

/// Every fault of a role or a binding; none of other kinds.
pub(crate) fn faults(kind: &Kind, new: &Value) -> Vec<FieldFault> {
    let mut found = Vec::new();
    if kind.resource.group != GROUP {
        return found;
    }
    match kind.name.as_str() {
        "Role" | "ClusterRole" => role(kind.namespaced, new, &mut found),
        "RoleBinding" => binding(&["Role", "ClusterRole"], new, &mut found),
        "ClusterRoleBinding" => binding(&["ClusterRole"], new, &mut found),
        _ => {}
    }
    found
}

/// What an update of a binding may not do.
pub(crate) fn update_faults(kind: &Kind, new: &Value, old: &Value) -> Vec<FieldFault> {
    let fixed = kind.resource.group == GROUP && new.get("roleRef") != old.get("roleRef");
    let value = new.get("roleRef").cloned().unwrap_or_default();
    let fault = || FieldFault::invalid("roleRef", &value, "cannot change roleRef");
    fixed.then(fault).into_iter().collect()
}

fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object
        .get(field)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn role(namespaced: bool, new: &Value, found: &mut Vec<FieldFault>) {
    for (index, rule) in list(new, "rules").iter().enumerate() {
        let path = format!("rules[{index}]");
        if list(rule, "verbs").is_empty() {
            let why = "verbs must contain at least one value";
            found.push(FieldFault::required(format!("{path}.verbs"), why));
        }
        let urls = Value::Array(list(rule, "nonResourceURLs").to_vec());
        if !list(rule, "nonResourceURLs").is_empty() {
            let field = format!("{path}.nonResourceURLs");
            if namespaced {
                let why = "namespaced rules cannot apply to non-resource URLs";
                found.push(FieldFault::invalid(field.clone(), &urls, why));
            }
            if ["apiGroups", "resources", "resourceNames"]
                .iter()
                .any(|field| !list(rule, field).is_empty())
            {
                let why = "rules cannot apply to both regular resources and non-resource URLs";
                found.push(FieldFault::invalid(field, &urls, why));
            }
            continue;
        }
        for (field, why) in [
            (
                "apiGroups",
                "resource rules must supply at least one api group",
            ),
            (
                "resources",
                "resource rules must supply at least one resource",
            ),
        ] {
            if list(rule, field).is_empty() {
                found.push(FieldFault::required(format!("{path}.{field}"), why));
            }
        }
    }
    let aggregation = new.get("aggregationRule").filter(|rule| !rule.is_null());
    if aggregation.is_some_and(|rule| list(rule, "clusterRoleSelectors").is_empty()) {
        found.push(FieldFault::required(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        ));
    }
}

fn binding(kinds: &[&str], new: &Value, found: &mut Vec<FieldFault>) {
    let text = |value: &Value, pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let group = text(new, "/roleRef/apiGroup");
    if group != GROUP {
        found.push(FieldFault::not_supported(
            "roleRef.apiGroup",
            &group.into(),
            &[GROUP.into()],
        ));
    }
    let kind = text(new, "/roleRef/kind");
    if !kinds.contains(&kind.as_str()) {
        let allowed: Vec<Value> = kinds.iter().map(|&kind| kind.into()).collect();
        found.push(FieldFault::not_supported(
            "roleRef.kind",
            &kind.into(),
            &allowed,
        ));
    }
    if text(new, "/roleRef/name").is_empty() {
        found.push(FieldFault::required("roleRef.name", ""));
    }
    for (index, one) in list(new, "subjects").iter().enumerate() {
        subject(
            one,
            object::namespace(new).is_empty(),
            &format!("subjects[{index}]"),
            found,
        );
    }
}

fn subject(one: &Value, of_cluster: bool, path: &str, found: &mut Vec<FieldFault>) {
    let text = |field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default();
    if text("name").is_empty() {
        found.push(FieldFault::required(format!("{path}.name"), ""));
    }
    let wanted = match text("kind") {
        "ServiceAccount" => {
            if of_cluster && text("namespace").is_empty() {
                found.push(FieldFault::required(format!("{path}.namespace"), ""));
            }
            ""
        }
        "User" | "Group" => GROUP,
        other => {
            let allowed = ["ServiceAccount", "User", "Group"].map(Value::from);
            found.push(FieldFault::not_supported(
                format!("{path}.kind"),
                &other.into(),
                &allowed,
            ));
            return;
        }
    };
    if text("apiGroup") != wanted {
        let field = format!("{path}.apiGroup");
        found.push(FieldFault::not_supported(
            field,
            &text("apiGroup").into(),
            &[wanted.into()],
        ));
    }
}

/// Fills in what a binding may leave out.
pub(crate) fn default(kind: &Kind, new: &mut Value) {
    if kind.resource.group != GROUP {
        return;
    }
    if let Some(role) = new.get_mut("roleRef").filter(|role| role.is_object())
        && text_is_empty(role, "apiGroup")
    {
        role["apiGroup"] = GROUP.into();
    }
    let subjects = new.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten().filter(|one| one.is_object()) {
        let named = matches!(
            subject.get("kind").and_then(Value::as_str),
            Some("User" | "Group")
        );
        if named && text_is_empty(subject, "apiGroup") {
            subject["apiGroup"] = GROUP.into();
        }
    }
}

fn text_is_empty(value: &Value, field: &str) -> bool {
    value
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty()
}
