//! Creating and changing objects.
//!
//! What `k8s.io/apiserver`'s create, update and patch handlers, its generic store and the
//! strategies of the kinds do together, in the same order. Deleting is in
//! [`remove`](crate::remove). Must stay true: a write that changes nothing keeps the
//! resourceVersion and is no event; a refused write changes nothing.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    builtin,
    clock::Clock,
    crd,
    kinds::{Kind, Nature},
    metadata,
    object::{self, Object},
    ownership::{self, fields::Fields, typed},
    patch::{self, PatchKind},
    request::Query,
    schema::{check, shape},
    status::{Failure, FieldFault},
    store::Store,
};

const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// One write on its way: the store under its lock, and who writes.
pub(crate) struct Desk<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) clock: &'a Clock,
    pub(crate) identity: &'a str,
}

/// What is written to.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: &'a str,
    /// Empty for a create.
    pub(crate) name: &'a str,
    /// Whether it is the status subresource.
    pub(crate) status: bool,
}

impl Target<'_> {
    pub(crate) fn not_found(&self) -> Failure {
        let resource = &self.kind.resource;
        Failure::not_found(&resource.group, &resource.plural, self.name)
    }

    pub(crate) fn conflict(&self, why: &str) -> Failure {
        let resource = &self.kind.resource;
        Failure::conflict(&resource.group, &resource.plural, self.name, why)
    }

    /// Fields that this kind of write leaves alone (`GetResetFields` of the real strategies).
    fn ignored(&self) -> Fields {
        match (self.kind.has_status, self.status, self.kind.nature) {
            (false, _, _) => Fields::default(),
            (true, false, _) => Fields::of(&["status"]),
            (true, true, Nature::Definition) => {
                Fields::of(&["spec"]).union(&Fields::of(&["metadata"]))
            }
            (true, true, Nature::Pod) => Fields::of(&["spec"])
                .union(&Fields::of(&["metadata", "deletionTimestamp"]))
                .union(&Fields::of(&["metadata", "ownerReferences"])),
            (true, true, _) => Fields::of(&["spec"]),
        }
    }
}

/// How unknown fields are met (`fieldValidation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    Drop,
    Warn,
    Refuse,
}

/// The options of a write.
#[derive(Debug)]
pub(crate) struct Options {
    dry_run: bool,
    manager: String,
    force: Option<bool>,
    unknown: Unknown,
}

impl Options {
    pub(crate) fn read(query: &Query, identity: &str) -> Result<Self, Failure> {
        let manager = match query.text("fieldManager") {
            "" => identity,
            stated => stated,
        };
        let unknown = match query.text("fieldValidation") {
            "" | "Warn" => Unknown::Warn,
            "Ignore" => Unknown::Drop,
            "Strict" => Unknown::Refuse,
            other => {
                let allowed = ["Ignore", "Strict", "Warn"].map(Value::from);
                let fault = FieldFault::not_supported("fieldValidation", &other.into(), &allowed);
                return Err(Failure::invalid(
                    "meta.k8s.io",
                    "CreateOptions",
                    "",
                    &[fault],
                ));
            }
        };
        let force = query.text("force");
        Ok(Self {
            dry_run: query.dry_run()?,
            manager: manager.to_owned(),
            force: (!force.is_empty()).then(|| query.flag("force")),
            unknown,
        })
    }
}

/// The answer to a write.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) code: StatusCode,
    pub(crate) object: Object,
    /// For `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl Desk<'_> {
    /// POST.
    pub(crate) fn create(
        &mut self,
        target: Target<'_>,
        body: Value,
        options: &Options,
    ) -> Result<Written, Failure> {
        let (mut new, warnings) = decode(target.kind, body, options.unknown)?;
        place(&mut new, target)?;
        if object::name(&new).is_empty() && !object::meta_str(&new, "generateName").is_empty() {
            let name = format!(
                "{}{}",
                object::meta_str(&new, "generateName"),
                self.clock.name_suffix()
            );
            object::set_meta(&mut new, "name", name.into());
        }
        self.own(&Value::Null, &mut new, target, options);
        let object = self.store_new(target, new, options)?;
        Ok(Written {
            code: StatusCode::CREATED,
            object,
            warnings,
        })
    }

    /// PUT.
    pub(crate) fn update(
        &mut self,
        target: Target<'_>,
        body: Value,
        options: &Options,
    ) -> Result<Written, Failure> {
        let (mut new, warnings) = decode(target.kind, body, options.unknown)?;
        let name = object::name(&new);
        if name.is_empty() {
            return Err(undeterminable(target.name));
        }
        if name != target.name {
            return Err(wrong_name(name, target.name));
        }
        place(&mut new, target)?;
        let Some(old) = self.live(target) else {
            if !target.kind.nature.creates_on_update() || target.status {
                return Err(target.not_found());
            }
            self.own(&Value::Null, &mut new, target, options);
            let object = self.store_new(target, new, options)?;
            return Ok(Written {
                code: StatusCode::CREATED,
                object,
                warnings,
            });
        };
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(&old) {
            return Err(target.conflict(&format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(&old)
            )));
        }
        self.own(&old, &mut new, target, options);
        let object = self.store_changed(target, &old, new, options)?;
        Ok(Written {
            code: StatusCode::OK,
            object,
            warnings,
        })
    }

    /// PATCH with a JSON patch or a merge patch.
    pub(crate) fn patch(
        &mut self,
        target: Target<'_>,
        kind: PatchKind,
        body: &Value,
        options: &Options,
    ) -> Result<Written, Failure> {
        if options.force.is_some() {
            let fault = FieldFault::forbidden("force", "may not be specified for non-apply patch");
            return Err(Failure::invalid(
                "meta.k8s.io",
                "PatchOptions",
                "",
                &[fault],
            ));
        }
        let old = self.live(target).ok_or_else(|| target.not_found())?;
        let patched = patch::patched(kind, &target.kind.present(&old), body)?;
        let (mut new, warnings) = decode(target.kind, patched, options.unknown)?;
        place(&mut new, target)?;
        if object::name(&new) != target.name {
            return Err(wrong_name(object::name(&new), target.name));
        }
        self.own(&old, &mut new, target, options);
        let object = self.store_changed(target, &old, new, options)?;
        Ok(Written {
            code: StatusCode::OK,
            object,
            warnings,
        })
    }

    /// PATCH with an apply configuration.
    pub(crate) fn apply(
        &mut self,
        target: Target<'_>,
        config: &Value,
        options: &Options,
        manager: &str,
    ) -> Result<Written, Failure> {
        if manager.is_empty() {
            let fault = FieldFault::required("fieldManager", "is required for apply patch");
            return Err(Failure::invalid(
                "meta.k8s.io",
                "PatchOptions",
                "",
                &[fault],
            ));
        }
        let old = self.live(target);
        if old.is_none() && target.status {
            return Err(target.not_found());
        }
        check_config(target.kind, config, target.name)?;
        let now = self.clock.stamp();
        let ignored = target.ignored();
        let writer = ownership::Writer {
            manager,
            subresource: if target.status { "status" } else { "" },
            api_version: &target.kind.api_version(),
            now: &now,
            schema: &target.kind.schema,
            ignored: &ignored,
        };
        let empty = json!({"apiVersion": config["apiVersion"], "kind": config["kind"]});
        let live = old.as_ref().map(|old| target.kind.present(old));
        let live = live.as_deref().unwrap_or(&empty);
        let mut new = ownership::apply(live, config, options.force == Some(true), writer)?;
        shape::default(&mut new, &target.kind.schema);
        if target.kind.nature == Nature::Definition {
            crd::default(&mut new);
        }
        if old.is_none() && !object::uid(&new).is_empty() {
            return Err(target.conflict(&format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                object::uid(&new)
            )));
        }
        place(&mut new, target)?;
        match object::name(&new) {
            "" => return Err(undeterminable(target.name)),
            name if name != target.name => return Err(wrong_name(name, target.name)),
            _ => {}
        }
        let (code, object) = match &old {
            Some(old) => (
                StatusCode::OK,
                self.store_changed(target, old, new, options)?,
            ),
            None => (StatusCode::CREATED, self.store_new(target, new, options)?),
        };
        Ok(Written {
            code,
            object,
            warnings: Vec::new(),
        })
    }

    pub(crate) fn live(&self, target: Target<'_>) -> Option<Object> {
        self.store
            .get(&target.kind.resource, target.namespace, target.name)
    }

    /// Records who set what by an update.
    fn own(&self, live: &Value, new: &mut Value, target: Target<'_>, options: &Options) {
        let now = self.clock.stamp();
        let ignored = target.ignored();
        let api_version = target.kind.api_version();
        let writer = ownership::Writer {
            manager: &options.manager,
            subresource: if target.status { "status" } else { "" },
            api_version: &api_version,
            now: &now,
            schema: &target.kind.schema,
            ignored: &ignored,
        };
        let empty = json!({"apiVersion": api_version, "kind": target.kind.kind});
        let live = if live.is_null() { &empty } else { live };
        ownership::update(live, new, writer);
    }

    fn store_new(
        &mut self,
        target: Target<'_>,
        mut new: Value,
        options: &Options,
    ) -> Result<Object, Failure> {
        let kind = target.kind;
        let resource = &kind.resource;
        self.admit_into_namespace(target, object::name(&new))?;
        let stated_revision = object::revision(&new) != 0;
        for (field, value) in [
            ("uid", self.clock.uid().into()),
            ("creationTimestamp", self.clock.stamp().into()),
            ("deletionTimestamp", Value::Null),
            ("deletionGracePeriodSeconds", Value::Null),
            (
                "generation",
                if kind.nature.has_generation() {
                    1.into()
                } else {
                    Value::Null
                },
            ),
        ] {
            object::set_meta(&mut new, field, value);
        }
        if kind.has_status
            && kind.nature != Nature::Node
            && let Value::Object(map) = &mut new
        {
            map.remove("status");
        }
        builtin::prepare_new(kind.nature, &mut new);
        self.finish_definition(kind, &mut new);
        let faults = faults(kind, &new);
        if !faults.is_empty() {
            return Err(Failure::invalid(
                &resource.group,
                &kind.kind,
                object::name(&new),
                &faults,
            ));
        }
        if self
            .store
            .get(resource, target.namespace, object::name(&new))
            .is_some()
        {
            return Err(Failure::already_exists(
                &resource.group,
                &resource.plural,
                object::name(&new),
            ));
        }
        if stated_revision {
            return Err(Failure::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if options.dry_run {
            return Ok(new.into());
        }
        self.put(kind, new)
    }

    fn store_changed(
        &mut self,
        target: Target<'_>,
        old: &Object,
        mut new: Value,
        options: &Options,
    ) -> Result<Object, Failure> {
        let kind = target.kind;
        match object::revision(&new) {
            0 if kind.nature.updates_unconditionally() => {}
            0 => {
                let rule = "must be specified for an update";
                let fault = FieldFault::invalid("metadata.resourceVersion", &0.into(), rule);
                let resource = &kind.resource;
                return Err(Failure::invalid(
                    &resource.group,
                    &resource.plural,
                    target.name,
                    &[fault],
                ));
            }
            stated if stated != object::revision(old) => return Err(target.conflict(STALE)),
            _ => {}
        }
        prepare_changed(target, old, &mut new);
        if !target.status {
            self.finish_definition(kind, &mut new);
        }
        let mut found = metadata::update_faults(&new, old);
        found.extend(changed_faults(target, &new, old));
        if !found.is_empty() {
            let group = &kind.resource.group;
            return Err(Failure::invalid(
                group,
                &kind.kind,
                object::name(&new),
                &found,
            ));
        }
        if differs_only_in_times(&new, old) {
            return Ok(std::sync::Arc::clone(old));
        }
        let held = !object::finalizers(&new).is_empty()
            || (kind.nature == Nature::Namespace && new.pointer("/spec/finalizers/0").is_some());
        let last = object::is_deleting(old)
            && old.pointer("/metadata/deletionGracePeriodSeconds") == Some(&0.into())
            && !held;
        if options.dry_run {
            return Ok(new.into());
        }
        if last {
            self.store.count(self.identity, &kind.kind);
            return Ok(self.store.remove(&kind.resource, &new));
        }
        self.put(kind, new)
    }

    /// Stores the object and, if it is a CRD, serves what it defines.
    pub(crate) fn put(&mut self, kind: &Kind, new: Value) -> Result<Object, Failure> {
        if kind.nature == Nature::Definition && !object::is_deleting(&new) {
            let kinds = crd::kinds(&new).map_err(|error| Failure::internal(error.to_string()))?;
            self.store.serve(crd::resource(&new), kinds);
        }
        self.store.count(self.identity, &kind.kind);
        Ok(self.store.put(&kind.resource, new))
    }

    fn finish_definition(&self, kind: &Kind, new: &mut Value) {
        if kind.nature == Nature::Definition {
            crd::establish(new, &self.clock.stamp());
        }
    }

    /// Objects are made only in namespaces that exist and stay.
    fn admit_into_namespace(&self, target: Target<'_>, name: &str) -> Result<(), Failure> {
        if !target.kind.namespaced {
            return Ok(());
        }
        let namespaces = self.store.kinds.find("", "v1", "namespaces");
        let namespace =
            namespaces.and_then(|kind| self.store.get(&kind.resource, "", target.namespace));
        let Some(namespace) = namespace else {
            return Err(Failure::not_found("", "namespaces", target.namespace));
        };
        if object::is_deleting(&namespace) {
            let resource = &target.kind.resource;
            let why = format!(
                "unable to create new content in namespace {} because it is being terminated",
                target.namespace
            );
            let mut failure = Failure::forbidden(&resource.group, &resource.plural, name, &why);
            failure.details["causes"] = json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {} is being terminated", target.namespace),
                "field": "metadata.namespace",
            }]);
            return Err(failure);
        }
        Ok(())
    }
}

fn wrong_name(name: &str, wanted: &str) -> Failure {
    Failure::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({wanted})"
    ))
}

fn undeterminable(name: &str) -> Failure {
    Failure::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Gives an object the shape of its kind, and says which fields it had too many.
fn decode(kind: &Kind, mut new: Value, unknown: Unknown) -> Result<(Value, Vec<String>), Failure> {
    if !new.is_object() {
        return Err(Failure::bad_request(
            "error decoding request body: expected a JSON object",
        ));
    }
    for (field, wanted) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.kind.clone()),
    ] {
        match new.get(field).and_then(Value::as_str) {
            None | Some("") if kind.nature == Nature::Custom => {
                let field = if field == "kind" { "Kind" } else { field };
                return Err(Failure::bad_request(format!(
                    "Object '{field}' is missing in '{new}'"
                )));
            }
            None | Some("") => new[field] = wanted.into(),
            Some(stated) if stated != wanted => {
                return Err(Failure::bad_request(format!(
                    "the {} in the data ({stated}) does not match the expected {} ({wanted})",
                    if field == "kind" {
                        "kind"
                    } else {
                        "API version"
                    },
                    if field == "kind" {
                        "kind"
                    } else {
                        "API version"
                    },
                )));
            }
            Some(_) => {}
        }
    }
    object::meta_mut(&mut new);
    let dropped = shape::prune(&mut new, &kind.schema);
    let mut warnings = Vec::new();
    if !dropped.is_empty() && unknown != Unknown::Drop {
        warnings = dropped
            .iter()
            .map(|field| format!("unknown field {field:?}"))
            .collect();
        if unknown == Unknown::Refuse {
            return Err(Failure::bad_request(format!(
                "strict decoding error: {}",
                warnings.join(", ")
            )));
        }
    }
    shape::default(&mut new, &kind.schema);
    if let (Some(metadata), Some(schema)) =
        (new.get("metadata"), kind.schema.properties.get("metadata"))
        && let Some(fault) = check::faults(metadata, schema, "metadata")
            .iter()
            .find(|fault| fault.kind == "FieldValueTypeInvalid")
    {
        return Err(Failure::bad_request(format!(
            "{}: {}",
            fault.field, fault.message
        )));
    }
    if kind.nature == Nature::Definition {
        crd::default(&mut new);
    }
    Ok((new, warnings))
}

/// Puts the object into the namespace of the request.
fn place(new: &mut Value, target: Target<'_>) -> Result<(), Failure> {
    let wanted = if target.kind.namespaced {
        target.namespace
    } else {
        ""
    };
    let stated = object::namespace(new);
    if stated != wanted && !stated.is_empty() && !wanted.is_empty() {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let value = if wanted.is_empty() {
        Value::Null
    } else {
        wanted.into()
    };
    object::set_meta(new, "namespace", value);
    Ok(())
}

/// What an apply configuration must be before it is merged.
fn check_config(kind: &Kind, config: &Value, name: &str) -> Result<(), Failure> {
    let stated = config
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if stated != kind.api_version() {
        return Err(Failure::bad_request(format!(
            "Incorrect version specified in apply patch. Specified patch version: {stated}, expected: {}",
            kind.api_version()
        )));
    }
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let faults = typed::faults(config, typed::Shape::Known(&kind.schema), "");
    if faults.is_empty() {
        return Ok(());
    }
    let namespace = object::namespace(config);
    let place = if namespace.is_empty() { "" } else { "/" };
    let list = match faults.as_slice() {
        [one] => one.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    Err(Failure::internal(format!(
        "failed to create typed patch object ({namespace}{place}{name}; {stated}, Kind={}): {list}",
        kind.kind
    )))
}

/// What the kind's strategy does to an object before it is stored over the old one.
fn prepare_changed(target: Target<'_>, old: &Value, new: &mut Value) {
    let kind = target.kind;
    if target.status {
        prepare_status(kind.nature, old, new);
    } else {
        let mut kept = Vec::new();
        if kind.has_status {
            kept.push("status");
        }
        for field in kept {
            keep_field(old, new, field);
        }
        if kind.nature == Nature::Namespace {
            object::map_mut(new, "spec");
            new["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
        }
    }
    let mut generation = old
        .pointer("/metadata/generation")
        .cloned()
        .unwrap_or_default();
    if !target.status && kind.nature.has_generation() && spec_differs(kind, old, new) {
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
        Nature::Namespace | Nature::Node | Nature::Event | Nature::Lease => {
            keep_field(old, new, "spec")
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
    let parts = |object: &Value| -> Vec<(String, Value)> {
        let ignored = |field: &str| {
            matches!(field, "metadata" | "apiVersion") || (field == "status" && kind.has_status)
        };
        let map = object.as_object().into_iter().flatten();
        map.filter(|(field, _)| !ignored(field))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    parts(old) != parts(new)
}

/// Every fault of a new object.
fn faults(kind: &Kind, new: &Value) -> Vec<FieldFault> {
    let mut found = check::faults(new, &kind.schema, "");
    if kind.nature == Nature::Definition {
        found.extend(crd::faults(new));
    }
    found.extend(metadata::faults(
        new,
        kind.nature,
        kind.metadata_rules.as_ref(),
    ));
    found
}

/// The faults that an update brings: what was wrong before and is unchanged is let through, as the
/// real server's ratcheting does.
fn changed_faults(target: Target<'_>, new: &Value, old: &Value) -> Vec<FieldFault> {
    let found = faults(target.kind, new);
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

fn differs_only_in_times(new: &Value, old: &Value) -> bool {
    let timeless = |object: &Value| {
        let mut copy = object.clone();
        let entries = copy
            .pointer_mut("/metadata/managedFields")
            .and_then(Value::as_array_mut);
        for entry in entries
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            entry.remove("time");
        }
        copy
    };
    new == old || timeless(new) == timeless(old)
}
