//! JSON patch and JSON merge patch; strategic merge patch is in [`crate::strategic`].
//!
//! Called by [`write`](crate::write); server-side apply is in [`ownership`](crate::ownership).

use http::StatusCode;
use serde_json::Value;

use crate::{kinds::Nature, schema::Schema, status::Failure, strategic};

/// What the real server takes at most.
const MOST_OPERATIONS: usize = 10_000;

/// A way of patching, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    /// Only of the server's own kinds.
    Strategic,
    Apply,
}

impl PatchKind {
    /// Reads a content type. Custom kinds have no strategic merge patches.
    pub(crate) fn read(content_type: &str, nature: Nature) -> Result<Self, Failure> {
        let custom = nature == Nature::Custom;
        let own = if custom {
            ""
        } else {
            "application/strategic-merge-patch+json, "
        };
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            _ => Err(Failure::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UnsupportedMediaType",
                format!(
                    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, {own}application/apply-patch+yaml"
                ),
            )),
        }
    }
}

/// Applies a patch to an object of this schema.
pub(crate) fn patched(
    kind: PatchKind,
    object: &Value,
    patch: &Value,
    schema: &Schema,
) -> Result<Value, Failure> {
    let mut object = object.clone();
    if matches!(kind, PatchKind::Merge | PatchKind::Strategic) {
        if !patch.is_object() {
            return Err(Failure::bad_request(
                "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            ));
        }
        match (kind, &mut object, patch) {
            (PatchKind::Strategic, Value::Object(object), Value::Object(patch)) => {
                strategic::merge(object, patch, Some(schema));
            }
            (_, object, patch) => json_patch::merge(object, patch),
        }
        return Ok(object);
    }
    let Value::Array(operations) = patch else {
        return Err(Failure::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ));
    };
    if operations.len() > MOST_OPERATIONS {
        return Err(Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    for operation in operations {
        apply_one(&mut object, operation)?;
    }
    Ok(object)
}

/// One operation. The real server's library replaces and tests absent members of a map as if they
/// were there and null (seen on 1.34).
fn apply_one(object: &mut Value, operation: &Value) -> Result<(), Failure> {
    // The real server does not say which operation failed (`NewGenericServerResponse`).
    let rejected = || {
        let mut failure = Failure::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        failure.details = Value::Object(serde_json::Map::new());
        failure
    };
    let text = |field: &str| {
        operation
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (parent, _) = text("path").rsplit_once('/').unwrap_or_default();
    let absent = object.pointer(text("path")).is_none()
        && object.pointer(parent).is_some_and(Value::is_object);
    let mut operation = operation.clone();
    match text("op").to_owned().as_str() {
        "test" if absent => {
            let null = operation.get("value").is_none_or(Value::is_null);
            return if null { Ok(()) } else { Err(rejected()) };
        }
        "replace" if absent => operation["op"] = "add".into(),
        _ => {}
    }
    let operation: json_patch::PatchOperation =
        serde_json::from_value(operation).map_err(|_| rejected())?;
    json_patch::patch(object, &[operation]).map_err(|_| rejected())
}
