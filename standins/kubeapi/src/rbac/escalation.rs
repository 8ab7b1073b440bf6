//! Nobody gives what they do not have: writing roles and bindings.
//!
//! Called before a role or a binding is stored. Members of `system:masters` may give everything,
//! holders of the verbs `escalate` and `bind` what these name.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Attributes, GROUP, decide, role_rules, rule, rules_of};
use crate::{
    object,
    status::Failure,
    store::Store,
    user::{MASTERS, User},
    write::Target,
};

/// Refuses a role or binding by which the user would give more than they have.
pub(crate) fn confirm(
    store: &Store,
    user: &User,
    target: Target<'_>,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Failure> {
    let resource = &target.kind.resource;
    if resource.group != GROUP || user.is_in(MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| without_ties(old) == without_ties(new)) {
        return Ok(());
    }
    let name = object::name(new);
    let refuse = |why: &str| Err(Failure::forbidden(GROUP, &resource.plural, name, why));
    let role = matches!(resource.plural.as_str(), "roles" | "clusterroles");
    let rules = if role {
        // A POST has no name in its path.
        let about = (resource.plural.as_str(), target.name);
        if may(store, user, target, "escalate", about) {
            return Ok(());
        }
        let rules = new.get("rules").and_then(Value::as_array);
        rules.cloned().unwrap_or_default()
    } else {
        let text = |pointer| new.pointer(pointer).and_then(Value::as_str);
        let kind = text("/roleRef/kind").unwrap_or_default();
        let name = text("/roleRef/name").unwrap_or_default();
        let plural = match kind {
            "Role" => "roles",
            _ => "clusterroles",
        };
        if may(store, user, target, "bind", (plural, name)) {
            return Ok(());
        }
        role_rules(store, kind, target.namespace, name)
            .map_err(|_| Failure::not_found(GROUP, plural, name))?
    };
    if let Some(why) = excess(store, user, target.namespace, &rules) {
        return refuse(&why);
    }
    let everything = [
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
        json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
    ];
    if new
        .pointer("/aggregationRule/clusterRoleSelectors/0")
        .is_some()
        && excess(store, user, "", &everything).is_some()
    {
        return refuse("must have cluster-admin privileges to use the aggregationRule");
    }
    Ok(())
}

/// The object without what the garbage collector changes.
fn without_ties(object: &Value) -> Value {
    let mut object = object.clone();
    for field in [
        "ownerReferences",
        "finalizers",
        "managedFields",
        "resourceVersion",
    ] {
        object::set_meta(&mut object, field, Value::Null);
    }
    object
}

fn may(store: &Store, user: &User, target: Target<'_>, verb: &str, about: (&str, &str)) -> bool {
    let asked = Attributes::Resource {
        verb,
        group: GROUP,
        resource: about.0,
        subresource: "",
        namespace: target.namespace,
        name: about.1,
    };
    decide(store, user, &asked).allowed
}

/// What the rules give that the user does not have, in the real server's words.
fn excess(store: &Store, user: &User, namespace: &str, rules: &[Value]) -> Option<String> {
    let (owned, broken) = rules_of(store, user, namespace);
    let missing: Vec<Value> = rules
        .iter()
        .flat_map(|one| rule::uncovered(one, &owned))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let lines: BTreeSet<String> = rule::merged(missing).iter().map(rule::compact).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    let groups: Vec<String> = user
        .groups
        .iter()
        .map(|group| format!("{group:?}"))
        .collect();
    let errors = if broken.is_empty() {
        String::new()
    } else {
        format!("; resolution errors: [{}]", broken.join(" "))
    };
    Some(format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}{errors}",
        user.name,
        groups.join(" "),
        lines.join("\n")
    ))
}
