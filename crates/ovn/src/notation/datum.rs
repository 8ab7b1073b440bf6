//! Atoms, and the sets and maps of them that columns hold.
//!
//! Used by everything else in this crate, and by whoever builds operations by hand.
//! Must stay true: one value has one form here, whatever form it came in, so that `==` compares
//! values. A set of one element and that element alone are the same value in OVSDB, and here.
//!
//! Real numbers are left out: no column of OVN or Open vSwitch holds one. A message with one is an
//! error, not a rounded number.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{NamedUuid, NotationError, Uuid};

/// One indivisible value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A whole number.
    Integer(i64),
    /// A truth value.
    Boolean(bool),
    /// A text.
    String(String),
    /// A reference to a row.
    Uuid(Uuid),
    /// A reference to a row that the same transaction inserts; only in operations, never in replies.
    NamedUuid(NamedUuid),
}

impl Serialize for Atom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => number.serialize(serializer),
            Self::Boolean(truth) => truth.serialize(serializer),
            Self::String(text) => text.serialize(serializer),
            Self::Uuid(uuid) => ("uuid", uuid).serialize(serializer),
            Self::NamedUuid(name) => ("named-uuid", name).serialize(serializer),
        }
    }
}

impl TryFrom<Value> for Atom {
    type Error = NotationError;

    fn try_from(value: Value) -> Result<Self, NotationError> {
        match value {
            Value::Bool(truth) => Ok(Self::Boolean(truth)),
            Value::String(text) => Ok(Self::String(text)),
            Value::Number(ref number) => number
                .as_i64()
                .map(Self::Integer)
                .ok_or_else(|| NotationError::atom(&value)),
            Value::Array(ref pair) => match pair.as_slice() {
                [Value::String(tag), Value::String(text)] if tag == "uuid" => {
                    text.parse().map(Self::Uuid)
                }
                _ => Err(NotationError::atom(&value)),
            },
            Value::Null | Value::Object(_) => Err(NotationError::atom(&value)),
        }
    }
}

impl From<i64> for Atom {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<bool> for Atom {
    fn from(truth: bool) -> Self {
        Self::Boolean(truth)
    }
}

impl From<&str> for Atom {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Atom {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<Uuid> for Atom {
    fn from(uuid: Uuid) -> Self {
        Self::Uuid(uuid)
    }
}

impl From<NamedUuid> for Atom {
    fn from(name: NamedUuid) -> Self {
        Self::NamedUuid(name)
    }
}

/// The value of a column: a set, or a map of keys with one value each. A scalar is a set of one, an
/// optional column a set of none or one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "Value")]
pub struct Datum(Content);

/// Sorted and without doubles. Slices, because nearly all values have one element, for which a tree
/// would take ten times the room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Content {
    Set(Box<[Atom]>),
    Map(Box<[(Atom, Atom)]>),
}

impl Datum {
    /// A set of these atoms.
    pub fn set<A: Into<Atom>>(atoms: impl IntoIterator<Item = A>) -> Self {
        let atoms: BTreeSet<_> = atoms.into_iter().map(Into::into).collect();
        Self(Content::Set(atoms.into_iter().collect()))
    }

    /// A map of these keys and values. Of two values for one key the last counts.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let pairs: BTreeMap<_, _> = pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect();
        Self(Content::Map(pairs.into_iter().collect()))
    }

    /// A set without elements.
    pub fn empty_set() -> Self {
        Self(Content::Set(Box::default()))
    }

    /// A map without keys.
    pub fn empty_map() -> Self {
        Self(Content::Map(Box::default()))
    }

    /// The elements in their order, if it is a set.
    pub fn as_set(&self) -> Option<&[Atom]> {
        match &self.0 {
            Content::Set(atoms) => Some(atoms),
            Content::Map(_) => None,
        }
    }

    /// The keys and values in the order of the keys, if it is a map.
    pub fn as_map(&self) -> Option<&[(Atom, Atom)]> {
        match &self.0 {
            Content::Map(pairs) => Some(pairs),
            Content::Set(_) => None,
        }
    }

    /// Applies the difference that a change notification gives of a column that may hold several
    /// elements: what is in both is taken out, what is new is put in, and a key with another value
    /// gets that. False, and nothing done, if one is a set and the other a map.
    pub(crate) fn apply_difference(&mut self, difference: Self) -> bool {
        match (&mut self.0, difference.0) {
            (Content::Set(atoms), Content::Set(differing)) => {
                let mut kept = mem::take(atoms).into_vec();
                for atom in differing {
                    match kept.binary_search(&atom) {
                        Ok(place) => drop(kept.remove(place)),
                        Err(place) => kept.insert(place, atom),
                    }
                }
                *atoms = kept.into();
            }
            (Content::Map(pairs), Content::Map(differing)) => {
                let mut kept = mem::take(pairs).into_vec();
                for (key, value) in differing {
                    match kept.binary_search_by(|(other, _)| other.cmp(&key)) {
                        Ok(place) if kept[place].1 == value => drop(kept.remove(place)),
                        Ok(place) => kept[place].1 = value,
                        Err(place) => kept.insert(place, (key, value)),
                    }
                }
                *pairs = kept.into();
            }
            _ => return false,
        }
        true
    }
}

impl<A: Into<Atom>> From<A> for Datum {
    fn from(atom: A) -> Self {
        Self(Content::Set([atom.into()].into()))
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            // As servers write it.
            Content::Set(atoms) => match atoms.as_ref() {
                [atom] => atom.serialize(serializer),
                atoms => ("set", atoms).serialize(serializer),
            },
            Content::Map(pairs) => ("map", pairs).serialize(serializer),
        }
    }
}

impl TryFrom<Value> for Datum {
    type Error = NotationError;

    fn try_from(value: Value) -> Result<Self, NotationError> {
        let Value::Array(tagged) = value else {
            return Atom::try_from(value).map(Self::from);
        };
        let [tag, content] = <[Value; 2]>::try_from(tagged)
            .map_err(|tagged| NotationError::datum(&Value::Array(tagged)))?;
        match (tag.as_str(), content) {
            (Some("set"), Value::Array(atoms)) => atoms
                .into_iter()
                .map(Atom::try_from)
                .collect::<Result<Vec<_>, _>>()
                .map(Self::set),
            (Some("map"), Value::Array(pairs)) => pairs
                .into_iter()
                .map(pair)
                .collect::<Result<Vec<_>, _>>()
                .map(Self::map),
            (_, content) => Atom::try_from(Value::Array(vec![tag, content])).map(Self::from),
        }
    }
}

fn pair(value: Value) -> Result<(Atom, Atom), NotationError> {
    let Value::Array(pair) = value else {
        return Err(NotationError::datum(&value));
    };
    let [key, value] =
        <[Value; 2]>::try_from(pair).map_err(|pair| NotationError::datum(&Value::Array(pair)))?;
    Ok((key.try_into()?, value.try_into()?))
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(json: Value) -> Result<Datum, NotationError> {
        Datum::try_from(json)
    }

    #[test]
    fn an_element_alone_and_a_set_of_it_are_one_value() {
        assert_eq!(read(json!("a")), read(json!(["set", ["a"]])));
        assert_eq!(
            serde_json::to_value(Datum::from("a")).expect("serializes"),
            json!("a")
        );
    }

    #[test]
    fn every_form_comes_back_as_it_was_written() {
        let uuid = "7ec644e5-4c34-4cb6-bb4a-d86bbec34165";
        for form in [
            json!(-7),
            json!(true),
            json!("text with \"quotes\" and {braces}"),
            json!(["uuid", uuid]),
            json!(["set", []]),
            json!(["set", [["uuid", uuid], ["uuid", uuid.replace('7', "8")]]]),
            json!(["map", []]),
            json!(["map", [["key", "value"], ["other", "value"]]]),
        ] {
            let datum = read(form.clone()).expect("is a value");
            assert_eq!(serde_json::to_value(&datum).expect("serializes"), form);
        }
    }

    #[test]
    fn what_is_no_value_is_refused_with_its_text() {
        for form in [
            json!(null),
            json!({}),
            json!(1.5),
            json!([]),
            json!(["uuid", "12"]),
            json!(["uuid", "+ec644e5-4c34-4cb6-bb4a-d86bbec34165"]),
            json!(["list", []]),
            json!(["set", [["set", []]]]),
            json!(["map", [["key"]]]),
        ] {
            assert!(read(form.clone()).is_err(), "{form} was taken");
        }
        assert_eq!(
            read(json!(1.5)).expect_err("is no value").to_string(),
            "1.5 is no OVSDB atom"
        );
    }

    #[test]
    fn a_difference_takes_out_what_is_there_and_puts_in_what_is_not() {
        let mut set = Datum::set(["a", "b", "d"]);
        assert!(set.apply_difference(Datum::set(["b", "c"])));
        assert_eq!(set, Datum::set(["a", "c", "d"]));

        let mut map = Datum::map([("a", "1"), ("b", "2"), ("d", "4")]);
        assert!(map.apply_difference(Datum::map([("a", "1"), ("b", "9"), ("c", "3")])));
        assert_eq!(map, Datum::map([("b", "9"), ("c", "3"), ("d", "4")]));

        assert!(!map.apply_difference(Datum::empty_set()));
        assert_eq!(map, Datum::map([("b", "9"), ("c", "3"), ("d", "4")]));
    }

    #[test]
    fn order_and_doubles_make_no_difference() {
        assert_eq!(
            read(json!(["set", ["b", "a", "b"]])),
            Ok(Datum::set(["a", "b"]))
        );
        assert_eq!(
            read(json!(["map", [["b", 2], ["a", 1]]])),
            Ok(Datum::map([("a", 1), ("b", 2)]))
        );
    }
}
