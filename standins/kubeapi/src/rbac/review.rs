//! Access reviews and self reviews: what may be done, by whom, and who asks.
//!
//! `kubectl auth can-i` and `whoami` ask them. Kinds that are created and answered, never stored.

use serde_json::{Value, json};

use super::{Attributes, decide, rules_of};
use crate::{
    kinds::Kind,
    object,
    status::{Failure, FieldFault},
    store::Store,
    user::User,
};

/// Answers a review by the review with its status.
pub(crate) fn answer(
    store: &Store,
    user: &User,
    kind: &Kind,
    namespace: &str,
    mut review: Value,
) -> Result<Value, Failure> {
    let spec = review.get("spec").cloned().unwrap_or_default();
    let status = match kind.name.as_str() {
        "SelfSubjectReview" => json!({"userInfo": info(user)}),
        "SelfSubjectRulesReview" => rules(store, user, &spec)?,
        "SelfSubjectAccessReview" => access(store, user, kind, &spec)?,
        "LocalSubjectAccessReview" => {
            let stated = text(&spec, "/resourceAttributes/namespace");
            if stated != namespace {
                let why = "must match metadata.namespace";
                let field = "spec.resourceAttributes.namespace";
                return Err(invalid(
                    kind,
                    FieldFault::invalid(field, &stated.into(), why),
                ));
            }
            access(store, &subject(kind, &spec)?, kind, &spec)?
        }
        _ => access(store, &subject(kind, &spec)?, kind, &spec)?,
    };
    let metadata = object::meta_mut(&mut review);
    metadata.remove("managedFields");
    metadata.insert("creationTimestamp".into(), Value::Null);
    review["status"] = status;
    Ok(review)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn invalid(kind: &Kind, fault: FieldFault) -> Failure {
    Failure::invalid(&kind.resource.group, &kind.name, "", &[fault])
}

/// A user as objects show them.
pub(crate) fn info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// About whom a review asks.
fn subject(kind: &Kind, spec: &Value) -> Result<User, Failure> {
    let mut user = User::new(text(spec, "/user"), &object::strings(spec.get("groups")));
    if user.name.is_empty() && user.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid(
            kind,
            FieldFault::invalid("spec.user", &"".into(), why),
        ));
    }
    text(spec, "/uid").clone_into(&mut user.uid);
    Ok(user)
}

fn access(store: &Store, user: &User, kind: &Kind, spec: &Value) -> Result<Value, Failure> {
    let resource = spec
        .get("resourceAttributes")
        .filter(|asked| asked.is_object());
    let path = spec
        .get("nonResourceAttributes")
        .filter(|asked| asked.is_object());
    let asked = match (resource, path) {
        (Some(_), None) => Attributes::Resource {
            verb: text(spec, "/resourceAttributes/verb"),
            group: text(spec, "/resourceAttributes/group"),
            resource: text(spec, "/resourceAttributes/resource"),
            subresource: text(spec, "/resourceAttributes/subresource"),
            namespace: text(spec, "/resourceAttributes/namespace"),
            name: text(spec, "/resourceAttributes/name"),
        },
        (None, Some(_)) => Attributes::Path {
            verb: text(spec, "/nonResourceAttributes/verb"),
            path: text(spec, "/nonResourceAttributes/path"),
        },
        (None, None) => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let fault = FieldFault::invalid("spec.resourceAttributes", &Value::Null, why);
            return Err(invalid(kind, fault));
        }
        (Some(_), Some(_)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            let fault = FieldFault::invalid(
                "spec.nonResourceAttributes",
                &spec["nonResourceAttributes"],
                why,
            );
            return Err(invalid(kind, fault));
        }
    };
    let decision = decide(store, user, &asked);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    Ok(status)
}

fn rules(store: &Store, user: &User, spec: &Value) -> Result<Value, Failure> {
    let namespace = text(spec, "/namespace");
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let (found, broken) = if user.is_in(crate::user::MASTERS) {
        let all = vec![
            json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
            json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
        ];
        (all, Vec::new())
    } else {
        rules_of(store, user, namespace)
    };
    let (paths, resources): (Vec<Value>, Vec<Value>) = found
        .into_iter()
        .partition(|rule| rule.get("nonResourceURLs").is_some());
    let mut status = json!({
        "resourceRules": resources, "nonResourceRules": paths, "incomplete": !broken.is_empty(),
    });
    if !broken.is_empty() {
        status["evaluationError"] = broken.join(", ").into();
    }
    Ok(status)
}
