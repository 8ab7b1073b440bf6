//! Sets of field paths, and their form in `metadata.managedFields` (`FieldsV1`).
//!
//! The data type under [`ownership`](crate::ownership); works as
//! `sigs.k8s.io/structured-merge-diff/v6/fieldpath` does. Must stay true: a path may be a member
//! without its parents being members (owning `spec.a` is not owning `spec`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde_json::{Map, Value};

use super::typed::Shape;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field of a map.
    Field(String),
    /// An element of a list-map: its keys as JSON, keys sorted.
    Key(String),
    /// An element of a set: its value as JSON.
    Value(String),
    /// An element by its place; only read, never made here.
    Index(String),
}

impl Element {
    /// The element of a list-map with these keys.
    pub(crate) fn key(mut pairs: Vec<(&str, &Value)>) -> Self {
        pairs.sort_by_key(|(name, _)| *name);
        let parts: Vec<_> = pairs
            .iter()
            .map(|(name, value)| format!("{}:{value}", Value::from(*name)))
            .collect();
        Self::Key(format!("{{{}}}", parts.join(",")))
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(json) => format!("k:{json}"),
            Self::Value(json) => format!("v:{json}"),
            Self::Index(place) => format!("i:{place}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::Field(rest.to_owned())),
            "i" => Some(Self::Index(rest.to_owned())),
            "v" => {
                let value: Value = serde_json::from_str(rest).ok()?;
                Some(Self::Value(value.to_string()))
            }
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).ok()?;
                Some(Self::key(
                    keys.iter()
                        .map(|(name, value)| (name.as_str(), value))
                        .collect(),
                ))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(json) => write!(f, "[={json}]"),
            Self::Index(place) => write!(f, "[{place}]"),
            Self::Key(json) => {
                let keys: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
                let parts: Vec<_> = keys
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                write!(f, "[{}]", parts.join(","))
            }
        }
    }
}

/// A set of field paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, Fields>,
}

impl Fields {
    /// The set with one path of field names.
    pub(crate) fn of(path: &[&str]) -> Self {
        let elements: Vec<_> = path
            .iter()
            .map(|name| Element::Field((*name).to_owned()))
            .collect();
        let mut set = Self::default();
        set.insert(&elements);
        set
    }

    /// Adds a path. The empty path is no path.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Whether the path of this one element is a member.
    pub(crate) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    /// The paths below an element.
    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        self.children.get(element).filter(|set| !set.is_empty())
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = result.children.get(element).map(|own| own.union(child));
            result
                .children
                .insert(element.clone(), merged.unwrap_or_else(|| child.clone()));
        }
        result
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, child)| {
            let common = child.intersection(other.children.get(element)?);
            (!common.is_empty()).then(|| (element.clone(), common))
        });
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The paths of this set that are not in the other; the paths below a path are paths of their
    /// own.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.subtract(other, false)
    }

    /// The paths of this set that are neither in the other nor below a path of it.
    pub(crate) fn without_subtrees(&self, other: &Self) -> Self {
        self.subtract(other, true)
    }

    fn subtract(&self, other: &Self, subtrees: bool) -> Self {
        let children = self.children.iter().filter_map(|(element, child)| {
            if subtrees && other.members.contains(element) {
                return None;
            }
            let rest = match other.children.get(element) {
                Some(others) => child.subtract(others, subtrees),
                None => child.clone(),
            };
            (!rest.is_empty()).then(|| (element.clone(), rest))
        });
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: children.collect(),
        }
    }

    /// The set with the declared fields on the way to its paths added: owning `a.b` then counts as
    /// owning `a`, if `a` is a field that the schema declares and not the key of a map.
    pub(crate) fn with_declared_parents(&self, shape: Shape<'_>) -> Self {
        let mut members = self.members.clone();
        let mut children = BTreeMap::new();
        for (element, child) in &self.children {
            if let Element::Field(name) = element
                && shape.declares(name)
            {
                members.insert(element.clone());
            }
            children.insert(
                element.clone(),
                child.with_declared_parents(shape.at(element)),
            );
        }
        Self { members, children }
    }

    /// Every path as text, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        for element in &self.members {
            paths.push(format!("{prefix}{element}"));
        }
        for (element, child) in &self.children {
            child.collect(&format!("{prefix}{element}"), paths);
        }
    }

    /// The `FieldsV1` form.
    pub(crate) fn encode(&self) -> Value {
        let mut map = Map::new();
        for (element, child) in self.children.iter().filter(|(_, child)| !child.is_empty()) {
            let mut below = child.encode();
            if self.members.contains(element) {
                below["."] = Value::Object(Map::new());
            }
            map.insert(element.encode(), below);
        }
        for element in &self.members {
            map.entry(element.encode())
                .or_insert_with(|| Value::Object(Map::new()));
        }
        Value::Object(map)
    }

    /// Reads the `FieldsV1` form; nothing if it is not that.
    pub(crate) fn decode(json: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (text, below) in json.as_object()?.iter().filter(|(text, _)| *text != ".") {
            let element = Element::decode(text)?;
            let below_map = below.as_object()?;
            if below_map.is_empty() || below_map.contains_key(".") {
                set.members.insert(element.clone());
            }
            let child = Self::decode(below)?;
            if !child.is_empty() {
                set.children.insert(element, child);
            }
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(json: &Value) -> Fields {
        Fields::decode(json).expect("test sets are well-formed")
    }

    #[test]
    fn what_is_written_to_managed_fields_is_read_back_the_same() {
        let json = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}},
        });
        assert_eq!(set(&json).encode(), json);
    }

    #[test]
    fn a_difference_keeps_what_is_below_a_removed_path_unless_whole_subtrees_go() {
        let all = set(&json!({"f:spec": {".": {}, "f:a": {}}, "f:b": {}}));
        let spec = Fields::of(&["spec"]);
        assert_eq!(
            all.difference(&spec).encode(),
            json!({"f:spec": {"f:a": {}}, "f:b": {}})
        );
        assert_eq!(all.without_subtrees(&spec).encode(), json!({"f:b": {}}));
    }

    #[test]
    fn paths_are_spelled_as_kubectl_shows_them() {
        let all = set(&json!({
            "f:metadata": {"f:finalizers": {"v:\"x\"": {}}},
            "f:spec": {"f:ports": {"k:{\"protocol\":\"TCP\",\"port\":80}": {"f:name": {}}}},
        }));
        assert_eq!(
            all.paths(),
            [
                ".metadata.finalizers[=\"x\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].name"
            ]
        );
    }

    #[test]
    fn what_is_no_field_set_is_not_read() {
        assert_eq!(Fields::decode(&json!({"spec": {}})), None);
        assert_eq!(Fields::decode(&json!([])), None);
    }
}
