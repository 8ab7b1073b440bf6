//! The roles and bindings that every cluster has from the start.
//!
//! A part of `bootstrappolicy` of Kubernetes 1.34: what administrators, discovery, everybody's
//! self reviews and the roles `admin`, `edit` and `view` (which gather others by label) need.

use serde_json::Value;

/// The objects, in the order in which they are made.
pub(crate) fn objects() -> Result<Vec<Value>, serde_json::Error> {
    serde_json::from_str(include_str!("first.json"))
}
