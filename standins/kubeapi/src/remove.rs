//! Deleting objects.
//!
//! As `k8s.io/apiserver`'s generic store and the Namespace and Pod strategies do it. Must stay
//! true: an object with finalizers is never removed, only marked; what is marked never becomes
//! unmarked.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    admission::{Attributes, Operation},
    body::Body,
    crd,
    kinds::Nature,
    object::{self, FOREGROUND, ORPHAN, Object},
    request,
    status::{Failure, FieldFault},
    write::{Desk, Target},
};

/// Set on a CRD that is being deleted, until its objects are gone.
pub(crate) const CRD_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// How long a pod may take to stop if nobody says otherwise, in seconds.
const POD_GRACE: i64 = 30;

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    dry_run: bool,
    /// As they came.
    stated: Value,
    uid: Option<String>,
    revision: Option<String>,
    grace: Option<i64>,
    propagation: Option<Propagation>,
}

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl DeleteOptions {
    /// Reads the body and, where it says nothing, the query.
    pub(crate) fn read(query: &request::Query, body: &[u8]) -> Result<Self, Failure> {
        let json = if body.is_empty() {
            Value::Null
        } else {
            Body::read(body)?.json
        };
        let text = |pointer: &str| {
            json.pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let stated =
            text("/propagationPolicy").unwrap_or_else(|| query.text("propagationPolicy").into());
        let orphans = json.get("orphanDependents").and_then(Value::as_bool);
        let propagation = match (stated.as_str(), orphans) {
            ("", None) => None,
            ("Background", _) => Some(Propagation::Background),
            ("Foreground", _) | ("", Some(false)) => Some(Propagation::Foreground),
            ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
            (other, _) => {
                let allowed = ["Foreground", "Background", "Orphan", "nil"].map(Value::from);
                let fault = FieldFault::not_supported("propagationPolicy", &other.into(), &allowed);
                return Err(Failure::invalid(
                    "meta.k8s.io",
                    "DeleteOptions",
                    "",
                    &[fault],
                ));
            }
        };
        let listed = json
            .pointer("/dryRun/0")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let dry_run = |text: &str| {
            request::dry_run(text)
                .map_err(|fault| Failure::invalid("meta.k8s.io", "DeleteOptions", "", &[fault]))
        };
        let grace = match json.get("gracePeriodSeconds").and_then(Value::as_i64) {
            Some(grace) => Some(grace),
            None => query
                .number("gracePeriodSeconds")?
                .and_then(|grace| i64::try_from(grace).ok()),
        };
        Ok(Self {
            dry_run: dry_run(query.text("dryRun"))? || dry_run(listed)?,
            stated: if json.is_object() {
                json.clone()
            } else {
                json!({})
            },
            uid: text("/preconditions/uid"),
            revision: text("/preconditions/resourceVersion"),
            grace,
            propagation,
        })
    }

    /// Options for the deletion of exactly this object, as the garbage collector asks for it.
    pub(crate) fn of_exactly(object: &Value) -> Self {
        Self {
            uid: Some(object::uid(object).to_owned()),
            stated: json!({}),
            ..Self::default()
        }
    }
}

/// What became of an object that was to be deleted.
pub(crate) enum Removed {
    /// It is gone; its last state.
    Gone(Object),
    /// It is marked and waits for its finalizers, its grace period or its contents.
    Waiting(Object),
}

impl Desk<'_> {
    /// DELETE of one object.
    pub(crate) fn delete(
        &mut self,
        target: Target<'_>,
        options: &DeleteOptions,
    ) -> Result<Removed, Failure> {
        let old = self.live(target).ok_or_else(|| target.not_found())?;
        check_preconditions(target, &old, options)?;
        self.admit_deletion(target, &old, options)?;
        let mut new = Value::clone(&old);
        match target.kind.nature {
            Nature::Namespace => self.mark_namespace(&mut new, options),
            Nature::Pod => self.mark_pod(&mut new, options),
            Nature::Definition => self.mark_definition(&mut new),
            Nature::Custom
            | Nature::Node
            | Nature::Event
            | Nature::Lease
            | Nature::Webhooks
            | Nature::Plain
            | Nature::Secret
            | Nature::Access
            | Nature::Review => {}
        }
        if target.kind.nature != Nature::Namespace {
            set_propagation(&mut new, options.propagation);
        }
        let graceful = new
            .pointer("/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64);
        let held = !object::finalizers(&new).is_empty()
            || (target.kind.nature == Nature::Namespace
                && new.pointer("/spec/finalizers/0").is_some())
            || (target.kind.nature == Nature::Pod && graceful.is_some_and(|grace| grace > 0));
        if held {
            mark(&mut new, &self.stamp());
            if new == *old || options.dry_run {
                return Ok(Removed::Waiting(if options.dry_run {
                    new.into()
                } else {
                    old
                }));
            }
            return Ok(Removed::Waiting(self.put(target.kind, new)?));
        }
        if options.dry_run {
            return Ok(Removed::Gone(old));
        }
        self.store.count(&self.user.name, &target.kind.name);
        Ok(Removed::Gone(
            self.store.remove(&target.kind.resource, &old),
        ))
    }

    /// Asks the webhooks about a deletion.
    fn admit_deletion(
        &mut self,
        target: Target<'_>,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<(), Failure> {
        let asked = Attributes {
            target,
            operation: Operation::Delete,
            name: target.name,
            object: &Value::Null,
            old,
            dry_run: options.dry_run,
            options: &options.stated,
        };
        self.mutate(asked)?;
        self.validate(asked)
    }

    fn mark_namespace(&self, new: &mut Value, options: &DeleteOptions) {
        object::map_mut(new, "status").insert("phase".into(), "Terminating".into());
        if !object::is_deleting(new) {
            object::set_meta(new, "deletionTimestamp", self.stamp().into());
            set_propagation(new, options.propagation);
        }
    }

    /// A pod on a node stops in its own time, unless told otherwise.
    fn mark_pod(&self, new: &mut Value, options: &DeleteOptions) {
        let text = |pointer: &str| {
            new.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let idle = text("/spec/nodeName").is_empty()
            || matches!(text("/status/phase"), "Succeeded" | "Failed");
        let own = new
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64);
        let before = new
            .pointer("/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64);
        let asked = options.grace.map(|grace| if grace < 0 { 1 } else { grace });
        let grace = match (object::is_deleting(new), asked) {
            (true, asked) => asked.unwrap_or(i64::MAX).min(before.unwrap_or_default()),
            (false, _) if idle => 0,
            (false, asked) => asked.or(own).unwrap_or(POD_GRACE),
        };
        if object::is_deleting(new) && Some(grace) == before {
            return;
        }
        let end = self.clock.now() + jiff::SignedDuration::from_secs(grace.max(0));
        if !object::is_deleting(new) {
            let generation = object::generation(new);
            if generation > 0 {
                object::set_meta(new, "generation", (generation + 1).into());
            }
        }
        let stamp = end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        object::set_meta(new, "deletionTimestamp", stamp.into());
        object::set_meta(new, "deletionGracePeriodSeconds", grace.into());
    }

    /// A CRD goes after its objects.
    fn mark_definition(&self, new: &mut Value) {
        let mut finalizers: Vec<String> = object::finalizers(new)
            .into_iter()
            .map(str::to_owned)
            .collect();
        if !object::is_deleting(new) && !finalizers.iter().any(|finalizer| finalizer == CRD_CLEANUP)
        {
            finalizers.push(CRD_CLEANUP.to_owned());
            object::set_finalizers(new, &finalizers);
            crd::terminate(new, &self.stamp());
        }
    }
}

fn check_preconditions(
    target: Target<'_>,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), Failure> {
    let group = &target.kind.resource.group;
    let wanted = [
        ("UID", &options.uid, "uid", "deleted and then recreated"),
        (
            "ResourceVersion",
            &options.revision,
            "resourceVersion",
            "modified",
        ),
    ];
    for (name, wanted, field, fate) in wanted {
        let is = object::meta_str(old, field);
        let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != is) else {
            continue;
        };
        if target.kind.nature == Nature::Namespace {
            return Err(target.conflict(&format!(
                "Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {is}"
            )));
        }
        let why = format!(
            "the {name} in the precondition ({wanted}) does not match the {name} in record ({is}). The object might have been {fate}"
        );
        return Err(Failure::conflict(
            group,
            &target.kind.name,
            target.name,
            &why,
        ));
    }
    Ok(())
}

/// Which of its two finalizers the garbage collector gets.
fn set_propagation(new: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else {
        return;
    };
    let mut finalizers: Vec<String> = object::finalizers(new)
        .into_iter()
        .filter(|finalizer| ![FOREGROUND, ORPHAN].contains(finalizer))
        .map(str::to_owned)
        .collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
    }
    object::set_finalizers(new, &finalizers);
}

/// Marks an object as being deleted.
fn mark(new: &mut Value, now: &str) {
    if !object::is_deleting(new) {
        let generation = object::generation(new);
        if generation > 0 {
            object::set_meta(new, "generation", (generation + 1).into());
        }
        object::set_meta(new, "deletionTimestamp", now.into());
    }
    let grace = object::meta_mut(new).entry("deletionGracePeriodSeconds");
    grace.or_insert_with(|| 0.into());
}

/// The body that answers a deletion.
pub(crate) fn answer(target: Target<'_>, removed: Removed) -> (StatusCode, Object) {
    let gone = match removed {
        Removed::Waiting(object) => return (StatusCode::OK, object),
        // Pods are the one kind here whose last state is the answer.
        Removed::Gone(object) if target.kind.nature == Nature::Pod => {
            return (StatusCode::OK, object);
        }
        Removed::Gone(object) => object,
    };
    let resource = &target.kind.resource;
    let mut details =
        json!({"name": target.name, "kind": resource.plural, "uid": object::uid(&gone)});
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    });
    (StatusCode::OK, status.into())
}
