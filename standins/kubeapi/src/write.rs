//! Creating and changing objects.
//!
//! What `k8s.io/apiserver`'s create, update and patch handlers, its generic store and the
//! strategies of the kinds do together, in the same order. Deleting is in
//! [`remove`](crate::remove). Must stay true: a write that changes nothing keeps the
//! resourceVersion and is no event; a refused write changes nothing.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    admission::{Attributes, Operation, Visit},
    cel,
    clock::Clock,
    crd,
    incoming::{self, Unknown, check_config, check_name, decode, place},
    kinds::{Kind, Nature},
    metadata,
    object::{self, Object},
    options::Options,
    ownership,
    patch::{self, PatchKind},
    rbac::escalation,
    scale,
    schema::shape,
    status::{Failure, FieldFault},
    store::Store,
    strategy::{self, changed_faults, differs_only_in_times, faults, prepare_changed},
    user::User,
};

const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// What nobody states of a new object.
const SET_BY_THE_SERVER: [&str; 4] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

const RULES_NOT_CHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// One write on its way: the store under its lock, and who writes.
pub(crate) struct Desk<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) clock: &'a Clock,
    pub(crate) user: &'a User,
    pub(crate) visit: &'a Visit,
}

/// What is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) namespace: &'a str,
    /// Empty for a create.
    pub(crate) name: &'a str,
    pub(crate) part: Part,
}

/// Which part of an object a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// The status subresource.
    Status,
    /// The scale subresource.
    Scale,
}

impl Part {
    /// Reads a subresource's name.
    pub(crate) fn read(subresource: &str) -> Self {
        match subresource {
            "status" => Self::Status,
            "scale" => Self::Scale,
            _ => Self::Whole,
        }
    }

    /// The subresource's name; empty for the whole object.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Scale => "scale",
        }
    }
}

impl Target<'_> {
    pub(crate) fn is_status(&self) -> bool {
        self.part == Part::Status
    }

    pub(crate) fn not_found(&self) -> Failure {
        let resource = &self.kind.resource;
        Failure::not_found(&resource.group, &resource.plural, self.name)
    }

    pub(crate) fn conflict(&self, why: &str) -> Failure {
        let resource = &self.kind.resource;
        Failure::conflict(&resource.group, &resource.plural, self.name, why)
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
        let doubles = incoming::doubled(&options.doubles);
        let mut new = self.decoded(target, body, options, doubles, false)?;
        place(&mut new, target)?;
        for field in SET_BY_THE_SERVER {
            object::set_meta(&mut new, field, Value::Null);
        }
        self.own(&Value::Null, &mut new, target, options);
        new = self.admit_new(target, &new, options)?;
        if object::name(&new).is_empty() && !object::meta_str(&new, "generateName").is_empty() {
            let name = format!(
                "{}{}",
                object::meta_str(&new, "generateName"),
                self.visit.name_suffix(self.clock)
            );
            object::set_meta(&mut new, "name", name.into());
        }
        let object = self.store_new(target, new, options)?;
        Ok(self.written(StatusCode::CREATED, object))
    }

    /// PUT.
    pub(crate) fn update(
        &mut self,
        target: Target<'_>,
        body: Value,
        options: &Options,
    ) -> Result<Written, Failure> {
        let doubles = incoming::doubled(&options.doubles);
        let mut new = self.decoded(target, body, options, doubles, false)?;
        check_name(&new, target.name)?;
        place(&mut new, target)?;
        let Some(old) = self.live(target) else {
            if !target.kind.nature.creates_on_update() || target.is_status() {
                return Err(target.not_found());
            }
            object::set_meta(&mut new, "resourceVersion", Value::Null);
            self.own(&Value::Null, &mut new, target, options);
            let new = self.admit_new(target, &new, options)?;
            let object = self.store_new(target, new, options)?;
            return Ok(self.written(StatusCode::CREATED, object));
        };
        let uid = object::uid(&new);
        if !uid.is_empty() && uid != object::uid(&old) {
            return Err(target.conflict(&format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object::uid(&old)
            )));
        }
        self.replace(target, &old, new, options)
    }

    /// Stores an object over another.
    pub(crate) fn replace(
        &mut self,
        target: Target<'_>,
        old: &Object,
        mut new: Value,
        options: &Options,
    ) -> Result<Written, Failure> {
        self.own(old, &mut new, target, options);
        let object = self.store_changed(target, old, new, options)?;
        Ok(self.written(StatusCode::OK, object))
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
        let patched = patch::patched(kind, &target.kind.present(&old), body, &target.kind.schema)?;
        let mut strict = match kind {
            PatchKind::Json => incoming::of_operations(body, &options.doubles),
            _ => incoming::doubled(&options.doubles),
        };
        if options.unknown == Unknown::Drop {
            strict.clear();
        }
        let mut new = self.decoded(target, patched, options, strict, true)?;
        place(&mut new, target)?;
        check_name(&new, target.name)?;
        self.replace(target, &old, new, options)
    }

    /// PATCH with an apply configuration.
    pub(crate) fn apply(
        &mut self,
        target: Target<'_>,
        config: &Value,
        options: &Options,
        manager: &str,
    ) -> Result<Written, Failure> {
        check_manager(manager)?;
        for warning in incoming::doubled_in_yaml(&options.doubles, options.unknown)? {
            self.visit.warn(warning);
        }
        let old = self.live(target);
        if old.is_none() && target.part != Part::Whole {
            return Err(target.not_found());
        }
        check_config(target.kind, config, target.name)?;
        let now = self.stamp();
        let ignored = strategy::ignored(target);
        let writer = ownership::Writer {
            manager,
            subresource: target.part.name(),
            api_version: &target.kind.api_version(),
            now: &now,
            schema: &target.kind.schema,
            ignored: &ignored,
        };
        let live = match &old {
            Some(old) => target.kind.present(old),
            None => json!({"apiVersion": config["apiVersion"], "kind": config["kind"]}).into(),
        };
        let mut new = ownership::apply(&live, config, options.force == Some(true), writer)?;
        shape::default(&mut new, &target.kind.schema);
        if target.kind.nature == Nature::Definition {
            crd::default(&mut new);
        }
        if old.is_none() {
            refuse_uid(target, &new)?;
        }
        place(&mut new, target)?;
        check_name(&new, target.name)?;
        let (code, object) = if let Some(old) = &old {
            (
                StatusCode::OK,
                self.store_changed(target, old, new, options)?,
            )
        } else {
            // Only a POST minds it: an apply with a resourceVersion makes what is absent (seen).
            object::set_meta(&mut new, "resourceVersion", Value::Null);
            let new = self.admit_new(target, &new, options)?;
            (StatusCode::CREATED, self.store_new(target, new, options)?)
        };
        Ok(self.written(code, object))
    }

    fn written(&self, code: StatusCode, object: Object) -> Written {
        Written {
            code,
            object,
            warnings: self.visit.warnings(),
        }
    }

    /// Gives what came in the shape of its kind; what was wrong with it are warnings.
    fn decoded(
        &self,
        target: Target<'_>,
        body: Value,
        options: &Options,
        strict: Vec<String>,
        patched: bool,
    ) -> Result<Value, Failure> {
        let (new, warnings) = decode(target.kind, body, options.unknown, strict, patched)?;
        for warning in warnings {
            self.visit.warn(warning);
        }
        Ok(new)
    }

    /// Now, for the whole request.
    pub(crate) fn stamp(&self) -> String {
        self.visit.stamp(self.clock)
    }

    /// What the server's own admission and the mutating webhooks say of a new object.
    fn admit_new(
        &mut self,
        target: Target<'_>,
        new: &Value,
        options: &Options,
    ) -> Result<Value, Failure> {
        self.admit_into_namespace(target, object::name(new))?;
        let (operation, old) = (Operation::Create, &Value::Null);
        self.mutate(Attributes::of_write(target, operation, new, old, options))
    }

    /// Adds what the CEL rules of the kind find; what was so before is a warning.
    fn judge_rules(
        &self,
        target: Target<'_>,
        new: &Value,
        old: Option<&Value>,
        found: &mut Vec<FieldFault>,
    ) {
        if !target.kind.schema.ruled {
            return;
        }
        if found.iter().any(FieldFault::hinders_rules) {
            found.push(FieldFault::invalid(
                "<nil>",
                &Value::Null,
                RULES_NOT_CHECKED,
            ));
            return;
        }
        let outcome = cel::run(&target.kind.schema, new, old);
        found.extend(outcome.faults);
        for warning in outcome.warnings {
            self.visit.warn(warning);
        }
    }

    pub(crate) fn live(&self, target: Target<'_>) -> Option<Object> {
        let kind = target.kind;
        let stored = self
            .store
            .get(&kind.resource, target.namespace, target.name)?;
        Some(match kind.nature {
            Nature::Event => kind.present(&stored),
            _ => stored,
        })
    }

    /// Records who set what by an update.
    fn own(&self, live: &Value, new: &mut Value, target: Target<'_>, options: &Options) {
        let now = self.stamp();
        let ignored = strategy::ignored(target);
        let api_version = target.kind.api_version();
        let writer = ownership::Writer {
            manager: &options.manager,
            subresource: target.part.name(),
            api_version: &api_version,
            now: &now,
            schema: &target.kind.schema,
            ignored: &ignored,
        };
        let empty = json!({"apiVersion": api_version, "kind": target.kind.name});
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
        escalation::confirm(self.store, self.user, target, None, &new)?;
        object::set_meta(&mut new, "uid", self.visit.uid(self.clock).into());
        object::set_meta(&mut new, "creationTimestamp", self.stamp().into());
        strategy::prepare_new(kind, &mut new);
        self.finish_definition(kind, &mut new);
        let mut found = faults(kind, &new);
        self.judge_rules(target, &new, None, &mut found);
        if !found.is_empty() {
            return Err(Failure::invalid(
                &resource.group,
                &kind.name,
                object::name(&new),
                &found,
            ));
        }
        let (operation, old) = (Operation::Create, &Value::Null);
        self.validate(Attributes::of_write(target, operation, &new, old, options))?;
        if object::revision(&new) != 0 {
            return Err(Failure::internal(
                "resourceVersion should not be set on objects to be created",
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
        let operation = Operation::Update;
        let before = scale::shown(kind, target.part, old);
        let shown = scale::shown(kind, target.part, &new);
        let shown = self.mutate(Attributes::of_write(
            target, operation, &shown, &before, options,
        ))?;
        match (&kind.scale, target.part) {
            (Some(scale), Part::Scale) => scale.put(&shown, &mut new),
            _ => new = shown,
        }
        check_revision(target, old, &new)?;
        escalation::confirm(self.store, self.user, target, Some(old), &new)?;
        prepare_changed(target, old, &mut new);
        if !target.is_status() {
            self.finish_definition(kind, &mut new);
        }
        let mut found = metadata::update_faults(&new, old);
        found.extend(changed_faults(target, &new, old));
        self.judge_rules(target, &new, Some(old), &mut found);
        if !found.is_empty() {
            let group = &kind.resource.group;
            return Err(Failure::invalid(
                group,
                &kind.name,
                object::name(&new),
                &found,
            ));
        }
        let shown = scale::shown(kind, target.part, &new);
        self.validate(Attributes::of_write(
            target, operation, &shown, &before, options,
        ))?;
        if differs_only_in_times(&new, old) {
            return Ok(std::sync::Arc::clone(old));
        }
        if options.dry_run {
            return Ok(new.into());
        }
        if was_the_last_hold(kind, old, &new) {
            self.store.count(&self.user.name, &kind.name);
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
        self.store.count(&self.user.name, &kind.name);
        Ok(self.store.put(&kind.resource, new))
    }

    fn finish_definition(&self, kind: &Kind, new: &mut Value) {
        if kind.nature == Nature::Definition {
            crd::establish(new, &self.stamp());
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

/// An apply that names a uid is about an object that exists.
fn refuse_uid(target: Target<'_>, new: &Value) -> Result<(), Failure> {
    match object::uid(new) {
        "" => Ok(()),
        uid => Err(target.conflict(&format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        ))),
    }
}

fn check_manager(manager: &str) -> Result<(), Failure> {
    if !manager.is_empty() {
        return Ok(());
    }
    let fault = FieldFault::required("fieldManager", "is required for apply patch");
    let kind = "PatchOptions";
    Err(Failure::invalid("meta.k8s.io", kind, "", &[fault]))
}

/// An update says what it is an update of, where its kind wants that.
fn check_revision(target: Target<'_>, old: &Object, new: &Value) -> Result<(), Failure> {
    let kind = target.kind;
    match object::revision(new) {
        0 if kind.nature.updates_unconditionally() => Ok(()),
        0 => {
            let rule = "must be specified for an update";
            let fault = FieldFault::invalid("metadata.resourceVersion", &0.into(), rule);
            let resource = &kind.resource;
            Err(Failure::invalid(
                &resource.group,
                &resource.plural,
                target.name,
                &[fault],
            ))
        }
        stated if stated != object::revision(old) => Err(target.conflict(STALE)),
        _ => Ok(()),
    }
}

/// Nothing holds a deleted object any longer.
fn was_the_last_hold(kind: &Kind, old: &Object, new: &Value) -> bool {
    let held = !object::finalizers(new).is_empty()
        || (kind.nature == Nature::Namespace && new.pointer("/spec/finalizers/0").is_some());
    object::is_deleting(old)
        && old.pointer("/metadata/deletionGracePeriodSeconds") == Some(&0.into())
        && !held
}
