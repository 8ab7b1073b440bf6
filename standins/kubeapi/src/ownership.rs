//! Who set which field: `metadata.managedFields`, kept on every write, and server-side apply.
//!
//! Called by [`write`](crate::write). Works as `k8s.io/apimachinery/pkg/util/managedfields` and
//! `sigs.k8s.io/structured-merge-diff/v6/merge` do. Must stay true:
//! - a field belongs to everyone who set it to the value it has; who applies an object without a
//!   field that it applied before removes that field, unless somebody else owns it too;
//! - an apply takes no field of another manager without `force`;
//! - whoever changes a value takes the field from everyone else.

pub(crate) mod fields;
pub(crate) mod typed;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::{
    fields::Fields,
    typed::{Comparison, Shape},
};
use crate::{object, schema::Schema, status::Failure};

/// More managers by update than this are merged, oldest first.
const MOST_UPDATERS: usize = 10;
/// Who then owns their fields.
const OLD_UPDATERS: &str = "ancient-changes";
/// Who owns the fields of an object that nobody owned before it was first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// How a manager sets its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Whose fields they are. Updates count per API version, applies do not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ManagerId {
    operation: Operation,
    name: String,
    subresource: String,
    api_version: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Owned {
    fields: Fields,
    api_version: String,
    time: Option<String>,
}

type Managers = BTreeMap<ManagerId, Owned>;

/// Who writes, when, and what of it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// The field manager's name.
    pub(crate) manager: &'a str,
    /// `status`, or empty.
    pub(crate) subresource: &'a str,
    /// The version through which the object is written.
    pub(crate) api_version: &'a str,
    /// Now.
    pub(crate) now: &'a str,
    /// The kind's schema.
    pub(crate) schema: &'a Schema,
    /// Fields that this kind of write does not change, whatever it says.
    pub(crate) ignored: &'a Fields,
}

impl Writer<'_> {
    fn id(&self, operation: Operation) -> ManagerId {
        ManagerId {
            operation,
            name: if self.manager.is_empty() {
                "unknown".into()
            } else {
                self.manager.into()
            },
            subresource: self.subresource.into(),
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => self.api_version.into(),
            },
        }
    }

    fn owned(&self, fields: Fields) -> Owned {
        Owned {
            fields,
            api_version: self.api_version.into(),
            time: Some(self.now.into()),
        }
    }
}

/// Records an update: `new` gets the managedFields that follow from its difference to `live`
/// (an empty object for a create).
pub(crate) fn update(live: &Value, new: &mut Value, writer: Writer<'_>) {
    let mut managers = managers_of_update(live, new, !writer.subresource.is_empty());
    object::meta_mut(new).remove("managedFields");
    let live = without_managed_fields(live);
    if managers.is_empty() && !object::uid(&live).is_empty() {
        // An object that nobody owned when it was made is tracked from its first apply on.
        return;
    }
    record_update(&live, new, &mut managers, writer);
    cap_updaters(&mut managers);
    encode(new, &managers);
}

fn record_update(live: &Value, new: &Value, managers: &mut Managers, writer: Writer<'_>) {
    let shape = Shape::Known(writer.schema);
    let changes = typed::compare(live, new, shape).without_subtrees(writer.ignored);
    take_from_others(managers, &changes, None);
    let gained = changes
        .modified
        .union(&changes.added)
        .without_subtrees(writer.ignored);
    let gained = gained.difference(&system_fields());
    if gained.is_empty() {
        return;
    }
    let id = writer.id(Operation::Update);
    let before = managers
        .remove(&id)
        .map(|owned| owned.fields)
        .unwrap_or_default();
    managers.insert(id, writer.owned(before.union(&gained)));
}

/// The managers that an update starts from: those that it states itself, if it does.
fn managers_of_update(live: &Value, new: &Value, subresource: bool) -> Managers {
    if subresource {
        return decode(live);
    }
    let stated = new
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    if stated.is_some_and(|list| list.len() == 1 && list[0] == json!({})) {
        return Managers::new();
    }
    let stated = decode(new);
    if stated.is_empty() {
        decode(live)
    } else {
        stated
    }
}

/// Merges an applied configuration into `live` (an empty object of the kind if there is none) and
/// returns the object that follows, with its managedFields.
pub(crate) fn apply(
    live: &Value,
    config: &Value,
    force: bool,
    writer: Writer<'_>,
) -> Result<Value, Failure> {
    let mut managers = decode(live);
    let live = without_managed_fields(live);
    let shape = Shape::Known(writer.schema);
    if managers.is_empty() && !object::uid(&live).is_empty() {
        let empty = json!({"apiVersion": live["apiVersion"], "kind": live["kind"]});
        let before = Writer {
            manager: BEFORE_FIRST_APPLY,
            subresource: "",
            ..writer
        };
        record_update(&empty, &live, &mut managers, before);
    }
    let id = writer.id(Operation::Apply);
    let applied = typed::fields(config, shape).without_subtrees(writer.ignored);
    let merged = typed::merge(Some(&live), Some(config), shape).unwrap_or(Value::Null);
    let last = managers
        .insert(id.clone(), writer.owned(applied))
        .map(|owned| owned.fields);
    let mut new = match last {
        Some(last) if !last.is_empty() => prune(&merged, &managers, &last, shape),
        _ => merged,
    };
    let changes = typed::compare(&live, &new, shape).without_subtrees(writer.ignored);
    let conflicts = conflicts(&managers, &changes, &id);
    if !force && !conflicts.is_empty() {
        return Err(conflict_failure(&conflicts));
    }
    take_from_others(&mut managers, &changes, Some(&id));
    if let Some(owned) = managers.get_mut(&id) {
        owned.fields = owned.fields.difference(&system_fields());
    }
    managers.retain(|_, owned| !owned.fields.is_empty());
    encode(&mut new, &managers);
    Ok(new)
}

/// Removes what the manager applied before, does not apply now, and nobody else owns.
fn prune(merged: &Value, managers: &Managers, last: &Fields, shape: Shape<'_>) -> Value {
    let with_parents = |set: &Fields| set.with_declared_parents(shape);
    let last = with_parents(last);
    let pruned = typed::remove(merged, &last, shape);
    let merged_fields = with_parents(&typed::fields(merged, shape));
    // What others own, or the manager still applies, comes back.
    let owned = managers
        .values()
        .fold(Fields::default(), |all, owned| all.union(&owned.fields));
    let kept = with_parents(&typed::fields(&pruned, shape)).union(&with_parents(&owned));
    let pruned = typed::remove(merged, &merged_fields.difference(&kept), shape);
    // What the manager never applied comes back too.
    let pruned_fields = with_parents(&typed::fields(&pruned, shape));
    typed::remove(
        merged,
        &merged_fields.difference(&pruned_fields).intersection(&last),
        shape,
    )
}

fn conflicts(
    managers: &Managers,
    changes: &Comparison,
    own: &ManagerId,
) -> BTreeMap<ManagerId, Fields> {
    let touched = changes.modified.union(&changes.added);
    managers
        .iter()
        .filter(|(id, _)| *id != own)
        .map(|(id, owned)| (id.clone(), owned.fields.intersection(&touched)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect()
}

fn take_from_others(managers: &mut Managers, changes: &Comparison, own: Option<&ManagerId>) {
    let touched = changes
        .modified
        .union(&changes.added)
        .union(&changes.removed);
    for (_, owned) in managers.iter_mut().filter(|(id, _)| Some(*id) != own) {
        owned.fields = owned.fields.difference(&touched);
    }
    managers.retain(|id, owned| Some(id) == own || !owned.fields.is_empty());
}

fn conflict_failure(conflicts: &BTreeMap<ManagerId, Fields>) -> Failure {
    let shown = |id: &ManagerId| {
        let mut text = format!("{:?}", id.name);
        if !id.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", id.subresource);
        }
        if id.operation == Operation::Update {
            text = format!("{text} using {}", id.api_version);
        }
        text
    };
    let causes: Vec<_> = conflicts
        .iter()
        .flat_map(|(id, fields)| {
            let who = shown(id);
            fields
                .paths()
                .into_iter()
                .map(move |path| (format!("conflict with {who}"), path))
        })
        .collect();
    let message = if let [(message, path)] = causes.as_slice() {
        format!("Apply failed with 1 conflict: {message}: {path}")
    } else {
        let groups = conflicts.iter().map(|(id, fields)| {
            let paths: Vec<_> = fields
                .paths()
                .iter()
                .map(|path| format!("- {path}"))
                .collect();
            format!("conflicts with {}:\n{}", shown(id), paths.join("\n"))
        });
        let groups: Vec<_> = groups.collect();
        format!(
            "Apply failed with {} conflicts: {}",
            causes.len(),
            groups.join("\n")
        )
    };
    Failure::apply_conflict(message, causes)
}

/// What nobody owns.
fn system_fields() -> Fields {
    let mut all = Fields::of(&["apiVersion"]);
    let of_metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    for path in [vec!["kind"], vec!["metadata"]]
        .into_iter()
        .chain(of_metadata.into_iter().map(|field| vec!["metadata", field]))
    {
        all = all.union(&Fields::of(&path));
    }
    all
}

/// Merges the oldest updaters of one version until there are few enough.
fn cap_updaters(managers: &mut Managers) {
    let mut updaters: Vec<_> = managers
        .iter()
        .filter(|(id, _)| id.operation == Operation::Update)
        .map(|(id, owned)| (owned.time.clone(), id.clone()))
        .collect();
    updaters.sort();
    let mut excess = updaters.len().saturating_sub(MOST_UPDATERS);
    if excess == 0 {
        return;
    }
    let mut first: BTreeMap<String, ManagerId> = BTreeMap::new();
    for (_, id) in updaters {
        if excess == 0 {
            break;
        }
        let Some(holder) = first.get(&id.api_version).cloned() else {
            first.insert(id.api_version.clone(), id);
            continue;
        };
        let bucket = ManagerId {
            operation: Operation::Update,
            name: OLD_UPDATERS.into(),
            subresource: String::new(),
            api_version: id.api_version.clone(),
        };
        if !managers.contains_key(&bucket)
            && let Some(owned) = managers.remove(&holder)
        {
            managers.insert(bucket.clone(), owned);
        }
        if let (Some(newer), Some(older)) = (managers.remove(&id), managers.get(&bucket)) {
            let fields = older.fields.union(&newer.fields);
            managers.insert(bucket, Owned { fields, ..newer });
            excess -= 1;
        }
    }
}

fn without_managed_fields(object: &Value) -> Value {
    let mut copy = object.clone();
    if let Some(Value::Object(meta)) = copy.get_mut("metadata") {
        meta.remove("managedFields");
    }
    copy
}

/// Reads managedFields; entries that cannot be read make all of them unread, as in the real server.
fn decode(object: &Value) -> Managers {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let all: Option<Managers> = entries.into_iter().flatten().map(decode_entry).collect();
    all.unwrap_or_default()
}

fn decode_entry(entry: &Value) -> Option<(ManagerId, Owned)> {
    let text = |field: &str| {
        entry
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let operation = match text("operation").as_str() {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let api_version = text("apiVersion");
    let id = ManagerId {
        operation,
        name: text("manager"),
        subresource: text("subresource"),
        api_version: if operation == Operation::Apply {
            String::new()
        } else {
            api_version.clone()
        },
    };
    let fields = match entry.get("fieldsV1") {
        Some(json) => Fields::decode(json)?,
        None => Fields::default(),
    };
    let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
    Some((
        id,
        Owned {
            fields,
            api_version,
            time,
        },
    ))
}

/// Writes managedFields: applies first, then by time, then by name.
fn encode(object: &mut Value, managers: &Managers) {
    let mut sorted: Vec<_> = managers.iter().collect();
    sorted.sort_by(|(one, a), (two, b)| {
        let key = |id: &ManagerId, owned: &Owned| (id.operation, owned.time.clone(), id.clone());
        key(one, a).cmp(&key(two, b))
    });
    let entries: Vec<_> = sorted
        .into_iter()
        .map(|(id, owned)| encode_entry(id, owned))
        .collect();
    let value = if entries.is_empty() {
        Value::Null
    } else {
        Value::Array(entries)
    };
    object::set_meta(object, "managedFields", value);
}

fn encode_entry(id: &ManagerId, owned: &Owned) -> Value {
    let mut entry = Map::new();
    entry.insert("manager".into(), id.name.clone().into());
    entry.insert("operation".into(), id.operation.name().into());
    entry.insert("apiVersion".into(), owned.api_version.clone().into());
    entry.insert("fieldsType".into(), "FieldsV1".into());
    entry.insert("fieldsV1".into(), owned.fields.encode());
    if let Some(time) = &owned.time {
        entry.insert("time".into(), time.clone().into());
    }
    if !id.subresource.is_empty() {
        entry.insert("subresource".into(), id.subresource.clone().into());
    }
    Value::Object(entry)
}
