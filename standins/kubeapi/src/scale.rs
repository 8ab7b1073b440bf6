//! The scale subresource: one number of a custom object as `autoscaling/v1` Scale.
//!
//! Called by [`service`](crate::service) for reads and writes of `/scale`. As
//! `k8s.io/apiextensions-apiserver/pkg/registry/customresource` does it. Must stay true: a write
//! through it changes that number and nothing else.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    kinds::Kind,
    object::{self, Object},
    options::Options,
    patch::{self, PatchKind},
    status::Failure,
    write::{Desk, Target, Written},
};

/// Where a kind keeps the numbers, as JSON pointers.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    wanted: String,
    is: String,
    /// Empty if the kind has none.
    selector: String,
}

impl Scale {
    /// Reads a CRD version's `subresources.scale`.
    pub(crate) fn read(json: &Value) -> Self {
        let pointer = |field: &str| {
            let path = json.get(field).and_then(Value::as_str);
            path.unwrap_or_default().replace('.', "/")
        };
        Self {
            wanted: pointer("specReplicasPath"),
            is: pointer("statusReplicasPath"),
            selector: pointer("labelSelectorPath"),
        }
    }

    /// The Scale of an object.
    pub(crate) fn of(&self, object: &Value) -> Value {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
        let mut scale = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {}, "spec": {},
            "status": {"replicas": number(&self.is).unwrap_or_default()},
        });
        for field in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
        ] {
            let value = object::meta_str(object, field);
            if !value.is_empty() {
                scale["metadata"][field] = value.into();
            }
        }
        // Go leaves out a number that is 0.
        if let Some(wanted) = number(&self.wanted).filter(|wanted| *wanted != 0) {
            scale["spec"]["replicas"] = wanted.into();
        }
        let selector = object.pointer(&self.selector).and_then(Value::as_str);
        if let (false, Some(selector)) = (self.selector.is_empty(), selector) {
            scale["status"]["selector"] = selector.into();
        }
        scale
    }

    /// Writes the number of a Scale into the object.
    pub(crate) fn put(&self, scale: &Value, object: &mut Value) {
        let wanted = scale.pointer("/spec/replicas").cloned();
        let mut at = object;
        let mut fields = self.wanted.split('/').skip(1).peekable();
        while let Some(field) = fields.next() {
            let map = object::as_map(at);
            let slot = map.entry(field.to_owned()).or_insert(Value::Null);
            if fields.peek().is_none() {
                *slot = wanted.clone().unwrap_or_else(|| 0.into());
            }
            at = slot;
        }
    }

    fn is_set(&self, object: &Value) -> bool {
        object.pointer(&self.wanted).is_some()
    }

    /// Whether a manager owns the number. The real server's conversion of a Scale breaks where
    /// nobody does (seen).
    fn is_owned(&self, object: &Value) -> bool {
        let entries = object.pointer("/metadata/managedFields");
        let entries = entries.and_then(Value::as_array).into_iter().flatten();
        let field = self.wanted.replace('/', "/f:");
        entries
            .filter_map(|entry| entry.get("fieldsV1"))
            .any(|fields| fields.pointer(&field).is_some())
    }

    /// The Scale of an object, which needs a number.
    pub(crate) fn show(&self, object: &Value) -> Result<Value, Failure> {
        if self.is_set(object) {
            return Ok(self.of(object));
        }
        Err(Failure::internal_error(&format!(
            "the spec replicas field {:?} does not exist",
            self.wanted.replace('/', ".")
        )))
    }
}

/// What a subresource shows of an object.
pub(crate) fn shown(kind: &Kind, part: crate::write::Part, object: &Value) -> Value {
    match (&kind.scale, part) {
        (Some(scale), crate::write::Part::Scale) if object.is_object() => scale.of(object),
        _ => object.clone(),
    }
}

impl Desk<'_> {
    /// PUT and PATCH of a Scale; `patch` is nothing for a PUT.
    pub(crate) fn rescale(
        &mut self,
        target: Target<'_>,
        patch: Option<PatchKind>,
        body: &Value,
        options: &Options,
    ) -> Result<Written, Failure> {
        let scale = target
            .kind
            .scale
            .as_ref()
            .ok_or_else(Failure::no_such_path)?;
        let old = self.live(target).ok_or_else(|| target.not_found())?;
        let stated = match patch {
            Some(PatchKind::Apply) => return self.apply_scale(target, scale, body, options),
            Some(kind) => patch::patched(kind, &scale.of(&old), body, &target.kind.schema)?,
            None => body.clone(),
        };
        let mut new = Value::clone(&target.kind.present(&old));
        put_checked(target, scale, &stated, &old, &mut new)?;
        let revision = object::meta_str(&stated, "resourceVersion");
        if !revision.is_empty() {
            object::set_meta(&mut new, "resourceVersion", revision.into());
        }
        let mut written = self.replace(target, &old, new, options)?;
        written.object = scale.of(&written.object).into();
        Ok(written)
    }

    fn apply_scale(
        &mut self,
        target: Target<'_>,
        scale: &Scale,
        body: &Value,
        options: &Options,
    ) -> Result<Written, Failure> {
        let kind = target.kind;
        let old = self.live(target).ok_or_else(|| target.not_found())?;
        if !scale.is_owned(&old) {
            return Err(Failure::internal(
                "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1",
            ));
        }
        let mut config = json!({
            "apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": target.name},
        });
        if body.pointer("/spec/replicas").is_some() {
            scale.put(body, &mut config);
        }
        let mut written = self.apply(target, &config, options, &options.manager)?;
        let object: Object = scale.of(&written.object).into();
        written.object = object;
        Ok(written)
    }
}

fn put_checked(
    target: Target<'_>,
    scale: &Scale,
    stated: &Value,
    old: &Value,
    new: &mut Value,
) -> Result<(), Failure> {
    let kind = stated
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let version = stated
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if (version, kind) != ("autoscaling/v1", "Scale") {
        return Err(Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a Scale: no kind {kind:?} is registered for version {version:?} in scheme"
        )));
    }
    let name = object::name(stated);
    if !name.is_empty() && name != target.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    if !scale.is_set(old) && stated.pointer("/spec/replicas").is_none() {
        return Err(Failure::new(
            StatusCode::BAD_REQUEST,
            "BadRequest",
            format!(
                "the spec replicas field {:?} cannot be empty",
                scale.wanted.replace('/', ".")
            ),
        ));
    }
    scale.put(stated, new);
    Ok(())
}
