//! Objects as trees of owned fields: what an object's fields are, how two objects merge, in what
//! they differ, and an object without some fields.
//!
//! Works as `sigs.k8s.io/structured-merge-diff/v6/typed` does. Must stay true: atomic lists and
//! maps are looked at as one value, everything else field by field; a list-map's elements are told
//! apart by their keys wherever they stand.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fields::{Element, Fields};
use crate::schema::{ListKind, Schema, Type};

/// What is known of a value's type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'a> {
    /// The schema states it.
    Known(&'a Schema),
    /// Nothing: maps field by field, lists as one value.
    Deduced,
}

/// How a value is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Atom {
    Scalar,
    AtomicMap,
    Map,
    AtomicList,
    List,
}

impl Shape<'_> {
    fn of_field(self, name: &str) -> Option<Self> {
        let Self::Known(schema) = self else {
            return Some(Self::Deduced);
        };
        match schema.field(name) {
            Some(field) => Some(Self::Known(field)),
            None if schema.preserve_unknown || schema.embedded || schema.kind == Type::Any => {
                Some(Self::Deduced)
            }
            None => None,
        }
    }

    fn of_item(self) -> Self {
        match self {
            Self::Known(Schema {
                items: Some(items), ..
            }) => Self::Known(items),
            _ => Self::Deduced,
        }
    }

    /// The shape one step down a path.
    pub(crate) fn at(self, element: &Element) -> Self {
        match element {
            Element::Field(name) => self.of_field(name).unwrap_or(Self::Deduced),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => self.of_item(),
        }
    }

    /// Whether the name is a field that the schema declares, not the key of a map.
    pub(crate) fn declares(self, name: &str) -> bool {
        matches!(self, Self::Known(schema) if schema.properties.contains_key(name))
    }

    fn map_atom(self) -> Atom {
        match self {
            Self::Known(schema) if schema.atomic_map => Atom::AtomicMap,
            _ => Atom::Map,
        }
    }

    fn list_atom(self) -> Atom {
        match self {
            Self::Known(schema) if schema.list != ListKind::Atomic => Atom::List,
            _ => Atom::AtomicList,
        }
    }

    /// How to look at a value; a null is looked at as what the schema wants.
    fn atom(self, value: &Value) -> Atom {
        match value {
            Value::Object(_) => self.map_atom(),
            Value::Array(_) => self.list_atom(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Atom::Scalar,
            Value::Null => match self {
                Self::Known(schema) if schema.kind.is_scalar() => Atom::Scalar,
                Self::Known(schema) if schema.kind == Type::Array => self.list_atom(),
                _ => self.map_atom(),
            },
        }
    }

    /// The element that stands for an item of this list; nothing if its keys are missing.
    fn element(self, item: &Value) -> Option<Element> {
        let Self::Known(schema) = self else {
            return None;
        };
        match &schema.list {
            ListKind::Atomic => None,
            ListKind::Set => (!item.is_object() && !item.is_array() && !item.is_null())
                .then(|| Element::Value(item.to_string())),
            ListKind::Map(keys) => {
                let map = item.as_object()?;
                let default =
                    |key: &str| schema.items.as_ref()?.properties.get(key)?.default.as_ref();
                let pairs: Vec<_> = keys
                    .iter()
                    .filter_map(|key| Some((key.as_str(), map.get(key).or_else(|| default(key))?)))
                    .collect();
                (!pairs.is_empty()).then(|| Element::key(pairs))
            }
        }
    }
}

fn as_map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn as_list(value: Option<&Value>) -> &[Value] {
    value
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Everything that keeps an object from being looked at by its schema, as text.
pub(crate) fn faults(value: &Value, shape: Shape<'_>, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    look(value, shape, path, &mut found);
    found
}

fn look(value: &Value, shape: Shape<'_>, path: &str, found: &mut Vec<String>) {
    if let Shape::Known(schema) = shape
        && let Some(wanted) = mismatch(value, schema.kind)
    {
        found.push(format!("{path}: expected {wanted}, got &{{{value}}}"));
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, child) in map {
                let below = format!("{path}.{name}");
                match shape.of_field(name) {
                    Some(field) => look(child, field, &below, found),
                    None => found.push(format!("{below}: field not declared in schema")),
                }
            }
        }
        Value::Array(items) => {
            let mut seen = Vec::new();
            for (index, item) in items.iter().enumerate() {
                let mut below = format!("{path}[{index}]");
                if shape.list_atom() == Atom::List {
                    let Some(element) = shape.element(item) else {
                        found.push(format!("{path}: element {index}: {}", unkeyed(shape)));
                        continue;
                    };
                    below = format!("{path}{element}");
                    if seen.contains(&element) {
                        found.push(format!("{path}: duplicate entries for key {element}"));
                    }
                    seen.push(element);
                }
                look(item, shape.of_item(), &below, found);
            }
        }
        _ => {}
    }
}

fn unkeyed(shape: Shape<'_>) -> String {
    match shape {
        Shape::Known(Schema {
            list: ListKind::Map(keys),
            ..
        }) => format!(
            "associative list with keys has an element that omits all key fields {keys:?} (and doesn't have default values for any key fields)"
        ),
        _ => "associative list without keys has an element that's a map type".to_owned(),
    }
}

fn mismatch(value: &Value, kind: Type) -> Option<&'static str> {
    let (fits, wanted) = match kind {
        Type::Any | Type::IntOrString => (true, ""),
        Type::Object => (value.is_object(), "map"),
        Type::Array => (value.is_array(), "list"),
        Type::String => (value.is_string(), "string"),
        Type::Integer | Type::Number => (value.is_number(), "numeric (int or float)"),
        Type::Boolean => (value.is_boolean(), "boolean"),
    };
    (!fits && !value.is_null()).then_some(wanted)
}

/// The fields of an object.
pub(crate) fn fields(value: &Value, shape: Shape<'_>) -> Fields {
    let mut set = Fields::default();
    gather(value, shape, &mut Vec::new(), &mut set);
    set
}

fn gather(value: &Value, shape: Shape<'_>, path: &mut Vec<Element>, set: &mut Fields) {
    match shape.atom(value) {
        Atom::Scalar | Atom::AtomicMap | Atom::AtomicList => set.insert(path),
        Atom::Map => {
            for (name, child) in as_map(Some(value)).into_iter().flatten() {
                path.push(Element::Field(name.clone()));
                gather(
                    child,
                    shape.of_field(name).unwrap_or(Shape::Deduced),
                    path,
                    set,
                );
                let empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                if empty || !shape.declares(name) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Atom::List => {
            for item in as_list(Some(value)) {
                let Some(element) = shape.element(item) else {
                    continue;
                };
                path.push(element);
                gather(item, shape.of_item(), path, set);
                set.insert(path);
                path.pop();
            }
        }
    }
}

/// The right object over the left one: what the right one does not mention stays.
pub(crate) fn merge(
    left: Option<&Value>,
    right: Option<&Value>,
    shape: Shape<'_>,
) -> Option<Value> {
    let Some(right_value) = right else {
        return left.cloned();
    };
    match shape.atom(right_value) {
        Atom::Scalar | Atom::AtomicMap | Atom::AtomicList => Some(right_value.clone()),
        Atom::Map => {
            let (left_map, right_map) = (as_map(left), as_map(right));
            if left_map.is_none_or(Map::is_empty) && right_map.is_none_or(Map::is_empty) {
                return Some(right_value.clone());
            }
            let mut out = left_map.cloned().unwrap_or_default();
            for (name, child) in right_map.into_iter().flatten() {
                let field = shape.of_field(name).unwrap_or(Shape::Deduced);
                if let Some(merged) = merge(out.get(name), Some(child), field) {
                    out.insert(name.clone(), merged);
                }
            }
            Some(Value::Object(out))
        }
        Atom::List => {
            let (left_list, right_list) = (as_list(left), as_list(right));
            if left_list.is_empty() && right_list.is_empty() {
                return Some(right_value.clone());
            }
            Some(Value::Array(merge_lists(left_list, right_list, shape)))
        }
    }
}

/// Both lists' elements; where the lists order shared elements differently, the right one's order
/// holds, and the left one's own elements keep their place among their neighbours.
fn merge_lists(left: &[Value], right: &[Value], shape: Shape<'_>) -> Vec<Value> {
    let keyed = |list: &[Value]| -> Vec<Element> {
        list.iter().filter_map(|item| shape.element(item)).collect()
    };
    let (left_keys, right_keys) = (keyed(left), keyed(right));
    let mut shared = right_keys
        .iter()
        .filter(|key| left_keys.contains(key))
        .peekable();
    let mut merged: Vec<&Element> = Vec::new();
    let mut out = Vec::new();
    let both = |key: &Element, right_item: &Value| {
        let left_item = left_keys
            .iter()
            .position(|own| own == key)
            .and_then(|at| left.get(at));
        merge(left_item, Some(right_item), shape.of_item())
    };
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left_keys.len() || at_right < right_keys.len() {
        if let (Some(key), Some(right_key)) = (left_keys.get(at_left), right_keys.get(at_right)) {
            if key == right_key {
                merged.push(right_key);
                out.extend(both(key, &right[at_right]));
                at_left += 1;
                at_right += 1;
                shared.next();
                continue;
            }
            if right_keys.contains(key) && shared.peek().is_some_and(|next| *next != key) {
                at_left += 1;
                continue;
            }
        }
        if let Some(key) = left_keys.get(at_left) {
            if !right_keys.contains(key) {
                out.push(left[at_left].clone());
                at_left += 1;
                continue;
            }
            if merged.contains(&key) {
                at_left += 1;
            }
        }
        if let Some(key) = right_keys.get(at_right) {
            merged.push(key);
            out.extend(both(key, &right[at_right]));
            at_right += 1;
            if shared.peek() == Some(&key) {
                shared.next();
            }
        }
    }
    out
}

/// In what two objects differ.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) removed: Fields,
    pub(crate) modified: Fields,
    pub(crate) added: Fields,
}

impl Comparison {
    /// The comparison without some fields and everything below them.
    pub(crate) fn without_subtrees(self, fields: &Fields) -> Self {
        Self {
            removed: self.removed.without_subtrees(fields),
            modified: self.modified.without_subtrees(fields),
            added: self.added.without_subtrees(fields),
        }
    }
}

/// Compares two objects.
pub(crate) fn compare(left: &Value, right: &Value, shape: Shape<'_>) -> Comparison {
    let mut comparison = Comparison::default();
    differ(
        Some(left),
        Some(right),
        shape,
        &mut Vec::new(),
        &mut comparison,
    );
    comparison
}

fn differ(
    left: Option<&Value>,
    right: Option<&Value>,
    shape: Shape<'_>,
    path: &mut Vec<Element>,
    found: &mut Comparison,
) {
    let atoms = (
        left.map(|value| shape.atom(value)),
        right.map(|value| shape.atom(value)),
    );
    let mut leaf = false;
    match atoms {
        (None, None) => {}
        (Some(atom), None) | (None, Some(atom)) => {
            leaf = differ_as(atom, left, right, shape, path, found);
        }
        (Some(left_atom), Some(right_atom)) => {
            if left_atom != right_atom {
                differ_as(left_atom, left, right, shape, path, found);
            }
            leaf = differ_as(right_atom, left, right, shape, path, found);
        }
    }
    if !leaf {
        match (left, right) {
            (None, Some(_)) => found.added.insert(path),
            (Some(_), None) => found.removed.insert(path),
            _ => {}
        }
    }
}

/// Whether the value was looked at as a whole.
fn differ_as(
    atom: Atom,
    left: Option<&Value>,
    right: Option<&Value>,
    shape: Shape<'_>,
    path: &mut Vec<Element>,
    found: &mut Comparison,
) -> bool {
    let empty = match atom {
        Atom::Map => [left, right]
            .into_iter()
            .all(|side| as_map(side).is_none_or(Map::is_empty)),
        Atom::List => [left, right]
            .into_iter()
            .all(|side| as_list(side).is_empty()),
        Atom::Scalar | Atom::AtomicMap | Atom::AtomicList => true,
    };
    if empty {
        match (left, right) {
            (None, _) => found.added.insert(path),
            (_, None) => found.removed.insert(path),
            (Some(left), Some(right)) if left != right => found.modified.insert(path),
            _ => {}
        }
        return true;
    }
    for (element, (left, right)) in pairs(atom, left, right, shape) {
        let below = shape.at(&element);
        path.push(element);
        differ(left, right, below, path, found);
        path.pop();
    }
    false
}

type Pair<'a> = (Option<&'a Value>, Option<&'a Value>);

/// What belongs together in two maps or two lists.
fn pairs<'a>(
    atom: Atom,
    left: Option<&'a Value>,
    right: Option<&'a Value>,
    shape: Shape<'_>,
) -> BTreeMap<Element, Pair<'a>> {
    let parts = |side: Option<&'a Value>| -> Vec<(Element, &'a Value)> {
        if atom == Atom::Map {
            let fields = as_map(side).into_iter().flatten();
            fields
                .map(|(name, child)| (Element::Field(name.clone()), child))
                .collect()
        } else {
            as_list(side)
                .iter()
                .filter_map(|item| Some((shape.element(item)?, item)))
                .collect()
        }
    };
    let mut pairs: BTreeMap<Element, Pair<'a>> = BTreeMap::new();
    for (element, part) in parts(left) {
        pairs.entry(element).or_default().0 = Some(part);
    }
    for (element, part) in parts(right) {
        pairs.entry(element).or_default().1 = Some(part);
    }
    pairs
}

/// The object without the fields of a set. A map or list that is emptied by it becomes null.
pub(crate) fn remove(value: &Value, gone: &Fields, shape: Shape<'_>) -> Value {
    match (shape.atom(value), value) {
        (Atom::Map, Value::Object(map)) => {
            let mut out = Map::new();
            for (name, child) in map {
                let element = Element::Field(name.clone());
                if gone.has(&element) {
                    continue;
                }
                let kept = match gone.below(&element) {
                    Some(below) => remove(child, below, shape.at(&element)),
                    None => child.clone(),
                };
                out.insert(name.clone(), kept);
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Object(out)
            }
        }
        (Atom::List, Value::Array(items)) => {
            let mut out = Vec::new();
            for item in items {
                let Some(element) = shape.element(item) else {
                    continue;
                };
                if gone.has(&element) {
                    continue;
                }
                out.push(match gone.below(&element) {
                    Some(below) => remove(item, below, shape.of_item()),
                    None => item.clone(),
                });
            }
            if out.is_empty() {
                Value::Null
            } else {
                Value::Array(out)
            }
        }
        (Atom::AtomicMap | Atom::AtomicList, _) => Value::Null,
        _ => value.clone(),
    }
}
