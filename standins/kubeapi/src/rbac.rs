//! Who may do what: roles and bindings, as the RBAC authorizer of the real server reads them.
//!
//! Asked by every request, by impersonation and by access reviews. Must stay true: members of
//! `system:masters` may do everything, everybody else only what a binding gives; the words of a
//! refusal are those of the real server.

pub(crate) mod check;
pub(crate) mod escalation;
pub(crate) mod first;
pub(crate) mod review;
pub(crate) mod rule;

use serde_json::Value;

use crate::{
    kinds::Resource,
    object::{self, Object},
    status::Failure,
    store::Store,
    user::{MASTERS, User},
};

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// What is to be done with what.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attributes<'a> {
    Resource {
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        /// Empty: the whole cluster.
        namespace: &'a str,
        /// Empty: the collection, or a new object.
        name: &'a str,
    },
    Path {
        verb: &'a str,
        path: &'a str,
    },
}

impl Attributes<'_> {
    /// The 403 that says that a user may not.
    pub(crate) fn forbidden(&self, user: &User, reason: &str) -> Failure {
        let name = &user.name;
        let reason = if reason.is_empty() {
            String::new()
        } else {
            format!(": {reason}")
        };
        match *self {
            Self::Path { verb, path } => Failure::forbidden_path(&format!(
                "User {name:?} cannot {verb} path {path:?}{reason}"
            )),
            Self::Resource {
                verb,
                group,
                resource,
                subresource,
                namespace,
                name: object,
            } => {
                let part = if subresource.is_empty() {
                    resource.to_owned()
                } else {
                    format!("{resource}/{subresource}")
                };
                let place = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {namespace:?}")
                };
                let why = format!(
                    "User {name:?} cannot {verb} resource {part:?} in API group {group:?} {place}{reason}"
                );
                Failure::forbidden(group, resource, object, &why)
            }
        }
    }
}

/// What the authorizer says.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Which binding allows it, or which binding is broken.
    pub(crate) reason: String,
}

/// Refuses what the user may not do.
pub(crate) fn authorize(store: &Store, user: &User, asked: &Attributes<'_>) -> Result<(), Failure> {
    let decision = decide(store, user, asked);
    if decision.allowed {
        return Ok(());
    }
    Err(asked.forbidden(user, &decision.reason))
}

/// Judges.
pub(crate) fn decide(store: &Store, user: &User, asked: &Attributes<'_>) -> Decision {
    if user.is_in(MASTERS) {
        return Decision {
            allowed: true,
            reason: String::new(),
        };
    }
    let namespace = match asked {
        Attributes::Resource { namespace, .. } => namespace,
        Attributes::Path { .. } => "",
    };
    let mut broken = Vec::new();
    for binding in bindings(store, user, namespace) {
        match binding.rules(store) {
            Ok(rules) if rules.iter().any(|rule| rule::allows(rule, asked)) => {
                return Decision {
                    allowed: true,
                    reason: format!("RBAC: allowed by {}", binding.describe()),
                };
            }
            Ok(_) => {}
            Err(error) => broken.push(error),
        }
    }
    let reason = match broken.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    };
    Decision {
        allowed: false,
        reason,
    }
}

/// Every rule that holds for a user in a namespace (empty: in the whole cluster), and what is
/// wrong with the bindings.
pub(crate) fn rules_of(store: &Store, user: &User, namespace: &str) -> (Vec<Value>, Vec<String>) {
    let (mut rules, mut broken) = (Vec::new(), Vec::new());
    for binding in bindings(store, user, namespace) {
        match binding.rules(store) {
            Ok(found) => rules.extend(found),
            Err(error) => broken.push(error),
        }
    }
    (rules, broken)
}

/// A binding and the subject of it that the user is.
struct Binding {
    object: Object,
    subject: Value,
}

/// The bindings that hold for a user: those of the cluster, then those of the namespace.
fn bindings(store: &Store, user: &User, namespace: &str) -> Vec<Binding> {
    let (all, own) = (resource("clusterrolebindings"), resource("rolebindings"));
    let of_cluster = store.list(&all, "");
    let of_namespace = (!namespace.is_empty())
        .then(|| store.list(&own, namespace))
        .into_iter()
        .flatten();
    of_cluster
        .chain(of_namespace)
        .filter_map(|(key, object)| {
            let subjects = object.get("subjects").and_then(Value::as_array)?;
            let subject = subjects.iter().find(|one| is_subject(one, user, &key.0))?;
            Some(Binding {
                object: Object::clone(object),
                subject: subject.clone(),
            })
        })
        .collect()
}

pub(crate) fn resource(plural: &str) -> Resource {
    Resource {
        group: GROUP.to_owned(),
        plural: plural.to_owned(),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn is_subject(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "User" => name == user.name,
        "Group" => user.is_in(name),
        "ServiceAccount" => {
            let stated = text(subject, "namespace");
            let namespace = if stated.is_empty() { namespace } else { stated };
            !namespace.is_empty()
                && user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

impl Binding {
    fn role(&self) -> (&str, &str) {
        let role = self.object.get("roleRef").unwrap_or(&Value::Null);
        (text(role, "kind"), text(role, "name"))
    }

    fn rules(&self, store: &Store) -> Result<Vec<Value>, String> {
        let (kind, name) = self.role();
        role_rules(store, kind, object::namespace(&self.object), name)
    }

    fn describe(&self) -> String {
        let (kind, role) = self.role();
        let (name, namespace) = (object::name(&self.object), object::namespace(&self.object));
        let (what, name) = if namespace.is_empty() {
            ("ClusterRoleBinding", name.to_owned())
        } else {
            ("RoleBinding", format!("{name}/{namespace}"))
        };
        let subject = match text(&self.subject, "kind") {
            "ServiceAccount" => {
                let stated = text(&self.subject, "namespace");
                let of = if stated.is_empty() { namespace } else { stated };
                format!("{}/{of}", text(&self.subject, "name"))
            }
            _ => text(&self.subject, "name").to_owned(),
        };
        format!(
            "{what} {name:?} of {kind} {role:?} to {} {subject:?}",
            text(&self.subject, "kind")
        )
    }
}

/// The rules of a role. Those that an aggregated role gathers are gathered here, at once; in a
/// real cluster kube-controller-manager writes them into the role a moment later.
pub(crate) fn role_rules(
    store: &Store,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Vec<Value>, String> {
    let cluster = kind == "ClusterRole";
    let found = if cluster {
        store.get(&resource("clusterroles"), "", name)
    } else {
        store.get(&resource("roles"), namespace, name)
    };
    let role = found.ok_or_else(|| {
        let plural = if cluster { "clusterrole" } else { "role" };
        format!("{plural}.{GROUP} {name:?} not found")
    })?;
    let mut rules = own_rules(&role);
    let selectors = role
        .pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array);
    for selector in selectors.into_iter().flatten() {
        for (_, other) in store.list(&resource("clusterroles"), "") {
            if object::name(other) == name || !crate::select::matches_labels(selector, other) {
                continue;
            }
            // The roles `edit` and `admin` gather gathered ones.
            let gathered = if other.get("aggregationRule").is_some() {
                role_rules_but(store, other, name)
            } else {
                own_rules(other)
            };
            rules.extend(gathered);
        }
    }
    Ok(rules)
}

/// The rules of a role that another one gathers, one level further and never back.
fn role_rules_but(store: &Store, role: &Object, origin: &str) -> Vec<Value> {
    let mut rules = own_rules(role);
    let selectors = role
        .pointer("/aggregationRule/clusterRoleSelectors")
        .and_then(Value::as_array);
    for selector in selectors.into_iter().flatten() {
        for (_, other) in store.list(&resource("clusterroles"), "") {
            if object::name(other) != origin && crate::select::matches_labels(selector, other) {
                rules.extend(own_rules(other));
            }
        }
    }
    rules
}

fn own_rules(role: &Value) -> Vec<Value> {
    let rules = role.get("rules").and_then(Value::as_array);
    rules.cloned().unwrap_or_default()
}
