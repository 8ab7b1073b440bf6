//! Refusals: the `Status` object that a request gets instead of its answer, in the real server's
//! words (`k8s.io/apimachinery/pkg/api/errors`, release 1.34).
//!
//! Made by every part of the stand-in, turned into a response by [`service`](crate::service).
//! Must stay true: code, reason and message are those of the real server, because clients branch
//! on them and people read them.

use std::borrow::Cow;

use http::StatusCode;
use serde_json::{Value, json};

/// Why a request is refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The HTTP status code, also `code` in the body.
    pub(crate) code: StatusCode,
    /// A `StatusReason`; empty where the real server gives none.
    pub(crate) reason: Cow<'static, str>,
    /// What people read.
    pub(crate) message: String,
    /// `details`, or null.
    pub(crate) details: Value,
}

/// A fault in one field of an object.
#[derive(Clone, Debug)]
pub(crate) struct FieldFault {
    /// A `CauseType`, for example `FieldValueInvalid`.
    pub(crate) kind: &'static str,
    /// What is wrong, without the field.
    pub(crate) message: String,
    /// The field's path.
    pub(crate) field: String,
}

impl FieldFault {
    fn new(kind: &'static str, field: impl Into<String>, message: String) -> Self {
        Self {
            kind,
            message,
            field: field.into(),
        }
    }

    /// The value breaks a rule.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(
            "FieldValueInvalid",
            field,
            format!("Invalid value: {}: {detail}", shown(value)),
        )
    }

    /// Whether CEL rules cannot be asked about an object with such a fault.
    pub(crate) fn hinders_rules(&self) -> bool {
        matches!(
            self.kind,
            "FieldValueNotSupported"
                | "FieldValueRequired"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueTypeInvalid"
        )
    }

    /// The same, with the value as it is shown.
    pub(crate) fn invalid_shown(field: impl Into<String>, shown: &str, detail: &str) -> Self {
        let message = format!("Invalid value: {shown}: {detail}");
        Self::new("FieldValueInvalid", field, message)
    }

    /// The value has the wrong JSON type. `shown` is the type's name, as the real server puts it.
    pub(crate) fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new(
            "FieldValueTypeInvalid",
            field,
            format!("Invalid value: {}: {detail}", shown(value)),
        )
    }

    /// The field is missing.
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".into()
        } else {
            format!("Required value: {detail}")
        };
        Self::new("FieldValueRequired", field, message)
    }

    /// The value is none of those allowed.
    pub(crate) fn not_supported(
        field: impl Into<String>,
        value: &Value,
        allowed: &[Value],
    ) -> Self {
        let allowed: Vec<_> = allowed
            .iter()
            .map(|value| {
                value.as_str().map_or_else(
                    || format!("{:?}", value.to_string()),
                    |text| format!("{text:?}"),
                )
            })
            .collect();
        let message = format!(
            "Unsupported value: {}: supported values: {}",
            shown(value),
            allowed.join(", ")
        );
        Self::new("FieldValueNotSupported", field, message)
    }

    /// An element that must be unique is there twice.
    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(
            "FieldValueDuplicate",
            field,
            format!("Duplicate value: {}", shown(value)),
        )
    }

    /// A string is too long.
    pub(crate) fn too_long(field: impl Into<String>, most: u64) -> Self {
        let unit = if most == 1 { "byte" } else { "bytes" };
        Self::new(
            "FieldValueTooLong",
            field,
            format!("Too long: may not be more than {most} {unit}"),
        )
    }

    /// A list or a map has too many members.
    pub(crate) fn too_many(field: impl Into<String>, actual: usize, most: u64) -> Self {
        let unit = if most == 1 { "item" } else { "items" };
        Self::new(
            "FieldValueTooMany",
            field,
            format!("Too many: {actual}: must have at most {most} {unit}"),
        )
    }

    /// The field may not be set here.
    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {detail}"))
    }
}

/// A value as Go's `field.Error` prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

impl Failure {
    pub(crate) fn new(
        code: StatusCode,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        let mut details = serde_json::Map::new();
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details.insert(key.into(), value.into());
            }
        }
        self.details = Value::Object(details);
        self
    }

    /// 400.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 404 for an object.
    pub(crate) fn not_found(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} not found", qualified(plural, group));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(group, plural, name)
    }

    /// 404 for a path that nothing serves. The real server answers with plain text, so that
    /// clients find no reason in it.
    pub(crate) fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "", "404 page not found")
    }

    /// Whether the answer is plain text, not a `Status`.
    pub(crate) fn is_plain(&self) -> bool {
        self.code == StatusCode::NOT_FOUND && self.reason.is_empty()
    }

    /// 409 for a create.
    pub(crate) fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", qualified(plural, group));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(group, plural, name)
    }

    /// 409 for an update.
    pub(crate) fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            qualified(plural, group)
        );
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(group, plural, name)
    }

    /// 409 for an apply that would take fields of others: `(message, field)` of each.
    pub(crate) fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let causes: Vec<_> = causes
            .into_iter()
            .map(|(message, field)| {
                json!({"reason": "FieldManagerConflict", "message": message, "field": field})
            })
            .collect();
        let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message);
        failure.details = json!({"causes": causes});
        failure
    }

    /// 403.
    pub(crate) fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let name_part = if name.is_empty() {
            String::new()
        } else {
            format!(" {name:?}")
        };
        let message = format!(
            "{}{name_part} is forbidden: {why}",
            qualified(plural, group)
        );
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(group, plural, name)
    }

    /// 401.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403 for a path that leads to no objects.
    pub(crate) fn forbidden_path(why: &str) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "Forbidden",
            format!("forbidden: {why}"),
        )
        .about("", "", "")
    }

    /// 422 with its causes.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, faults: &[FieldFault]) -> Self {
        let each: Vec<_> = faults
            .iter()
            .map(|fault| format!("{}: {}", fault.field, fault.message))
            .collect();
        // Go's aggregate drops repeated messages and brackets several.
        let mut distinct: Vec<String> = Vec::new();
        for text in each {
            if !distinct.contains(&text) {
                distinct.push(text);
            }
        }
        let list = match distinct.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {list}", qualified(kind, group));
        let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .about(group, kind, name);
        let causes: Vec<_> = faults
            .iter()
            .map(|fault| json!({"reason": fault.kind, "message": fault.message, "field": fault.field}))
            .collect();
        failure.details["causes"] = Value::Array(causes);
        failure
    }

    /// 410: history before a resourceVersion is gone.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 405.
    pub(crate) fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 500 for errors that the real server does not explain further.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 500 as `NewInternalError` makes it.
    pub(crate) fn internal_error(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let mut failure = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
        failure.details = json!({"causes": [{"message": why}]});
        failure
    }

    /// The body.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

/// `plural.group`, or `plural` alone in the core group.
pub(crate) fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}
