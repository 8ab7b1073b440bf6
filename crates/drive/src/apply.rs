//! Server-side apply, as controllers and stand-ins do it.

use std::fmt::Debug;

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::Serialize;

use crate::Watched;

/// Applies the object with force. Where its metadata names a uid and resourceVersion, the server
/// refuses unless exactly that version is there; a stale apply without them would make a deleted
/// object again (seen).
///
/// # Errors
/// What the server answers.
pub async fn apply<K: Watched + Serialize>(
    api: &Api<K>,
    manager: &str,
    object: &K,
) -> Result<K, kube::Error> {
    let params = PatchParams::apply(manager).force();
    api.patch(&object.name_any(), &params, &Patch::Apply(object))
        .await
}

/// Applies the object's status.
///
/// # Errors
/// What the server answers.
pub async fn apply_status<K: Watched>(
    api: &Api<K>,
    manager: &str,
    name: &str,
    object: &(impl Serialize + Debug),
) -> Result<K, kube::Error> {
    let params = PatchParams::apply(manager).force();
    api.patch_status(name, &params, &Patch::Apply(object)).await
}
