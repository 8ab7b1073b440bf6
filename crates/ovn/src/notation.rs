//! Values as OVSDB writes them in JSON (RFC 7047, section 5.1): atoms, sets, maps, rows, and the
//! conditions and mutations of operations.
//!
//! Used by everything else in this crate, and by whoever builds operations by hand.
//! Must stay true: one value has one form here, whatever form it came in, so that `==` compares
//! values. A set of one element and that element alone are the same value in OVSDB; here both are a
//! [`Datum::Set`] of one.
//!
//! Real numbers are left out: no column of OVN or Open vSwitch holds one. A message with one is an
//! error, not a rounded number.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    str::FromStr,
};

use serde::{Deserialize, Serialize, Serializer, ser::SerializeSeq};
use serde_json::Value;

/// A row: column names and their values.
pub type Row = BTreeMap<String, Datum>;

/// The name that a database gives to a row, `_uuid`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Uuid(u128);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| (self.0 >> shift) & ((1 << bits) - 1);
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            part(96, 32),
            part(80, 16),
            part(64, 16),
            part(48, 16),
            part(0, 48)
        )
    }
}

impl FromStr for Uuid {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Self, NotationError> {
        let well_formed = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match at {
                8 | 13 | 18 | 23 => byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            });
        well_formed
            .then(|| u128::from_str_radix(&text.replace('-', ""), 16).ok())
            .flatten()
            .map(Self)
            .ok_or_else(|| NotationError::Uuid { text: text.into() })
    }
}

impl TryFrom<String> for Uuid {
    type Error = NotationError;

    fn try_from(text: String) -> Result<Self, NotationError> {
        text.parse()
    }
}

impl From<Uuid> for String {
    fn from(uuid: Uuid) -> Self {
        uuid.to_string()
    }
}

/// A name for a row that an operation inserts, by which later operations of the same transaction
/// refer to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct NamedUuid(String);

impl NamedUuid {
    /// The name for `label`, which may hold any characters. OVSDB allows letters, digits and `_`
    /// only, so others are written as `_<hex>_`; two labels never get one name.
    pub fn of(label: &str) -> Self {
        let mut name = String::from("row_");
        for character in label.chars() {
            if character.is_ascii_alphanumeric() {
                name.push(character);
            } else {
                // Writing to a String cannot fail.
                let _ = write!(name, "_{:x}_", u32::from(character));
            }
        }
        Self(name)
    }
}

impl fmt::Display for NamedUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

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

/// The value of a column. A scalar is a set of one, an optional column a set of none or one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "Value")]
pub enum Datum {
    /// Any number of different atoms.
    Set(BTreeSet<Atom>),
    /// Keys with one value each.
    Map(BTreeMap<Atom, Atom>),
}

impl Datum {
    /// A set of these atoms.
    pub fn set<A: Into<Atom>>(atoms: impl IntoIterator<Item = A>) -> Self {
        Self::Set(atoms.into_iter().map(Into::into).collect())
    }

    /// A map of these keys and values.
    pub fn map<K: Into<Atom>, V: Into<Atom>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Map(
            pairs
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }
}

impl<A: Into<Atom>> From<A> for Datum {
    fn from(atom: A) -> Self {
        Self::set([atom])
    }
}

impl Serialize for Datum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // As servers write it.
            Self::Set(atoms) if atoms.len() == 1 => {
                let mut atoms = atoms.iter();
                atoms.next().serialize(serializer)
            }
            Self::Set(atoms) => ("set", atoms).serialize(serializer),
            Self::Map(pairs) => {
                let mut tagged = serializer.serialize_seq(Some(2))?;
                tagged.serialize_element("map")?;
                tagged.serialize_element(&pairs.iter().collect::<Vec<_>>())?;
                tagged.end()
            }
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
                .collect::<Result<_, _>>()
                .map(Self::Set),
            (Some("map"), Value::Array(pairs)) => pairs
                .into_iter()
                .map(pair)
                .collect::<Result<_, _>>()
                .map(Self::Map),
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

/// Which rows an operation is about: those whose column stands so to the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition(String, Function, Datum);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Function {
    #[serde(rename = "==")]
    Equals,
    #[serde(rename = "includes")]
    Includes,
    #[serde(rename = "excludes")]
    Excludes,
}

impl Condition {
    /// The column is exactly this value.
    pub fn equals(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Self(column.into(), Function::Equals, value.into())
    }

    /// The column holds at least these elements or pairs.
    pub fn includes(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Self(column.into(), Function::Includes, value.into())
    }

    /// The column holds none of these elements or pairs.
    pub fn excludes(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Self(column.into(), Function::Excludes, value.into())
    }

    /// The row with this name: a [`Uuid`], or the [`NamedUuid`] of one that the same transaction
    /// inserts.
    pub fn is(row: impl Into<Atom>) -> Self {
        Self::equals("_uuid", row.into())
    }
}

impl From<Condition> for Vec<Condition> {
    fn from(condition: Condition) -> Self {
        vec![condition]
    }
}

/// A change to part of a column's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mutation(String, Mutator, Datum);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Mutator {
    #[serde(rename = "+=")]
    Add,
    #[serde(rename = "insert")]
    Insert,
    #[serde(rename = "delete")]
    Delete,
}

impl Mutation {
    /// Adds to a number.
    pub fn add(column: impl Into<String>, number: i64) -> Self {
        Self(column.into(), Mutator::Add, number.into())
    }

    /// Puts elements into a set, or pairs into a map. A key that the map has keeps its old value:
    /// use [`Mutation::replace`] where that may be.
    pub fn insert(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Self(column.into(), Mutator::Insert, value.into())
    }

    /// Takes elements out of a set; out of a map pairs (given a map) or keys (given a set).
    pub fn delete(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Self(column.into(), Mutator::Delete, value.into())
    }

    /// Gives a map's key this value, whether the map has the key or not; other keys stay.
    pub fn replace(
        column: impl Into<String>,
        key: impl Into<Atom>,
        value: impl Into<Atom>,
    ) -> [Self; 2] {
        let (column, key) = (column.into(), key.into());
        [
            Self::delete(column.clone(), Datum::set([key.clone()])),
            Self::insert(column, Datum::map([(key, value)])),
        ]
    }
}

/// JSON that is no OVSDB value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotationError {
    /// Not of the form 8-4-4-4-12 hexadecimal digits.
    #[error("`{text}` is no UUID")]
    Uuid {
        /// What was there.
        text: String,
    },
    /// Neither an integer, a boolean, a string nor a reference.
    #[error("{json} is no OVSDB atom")]
    Atom {
        /// What was there.
        json: String,
    },
    /// Neither an atom, a set nor a map.
    #[error("{json} is no OVSDB value")]
    Datum {
        /// What was there.
        json: String,
    },
}

impl NotationError {
    fn atom(value: &Value) -> Self {
        Self::Atom {
            json: value.to_string(),
        }
    }

    fn datum(value: &Value) -> Self {
        Self::Datum {
            json: value.to_string(),
        }
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
    fn uuids_sort_as_their_texts_do() {
        let texts = [
            "00000000-0000-0000-0000-000000000001",
            "0fffffff-0000-0000-0000-000000000000",
            "f0000000-0000-0000-0000-000000000000",
        ];
        let uuids = texts.map(|text| text.parse::<Uuid>().expect("is a UUID"));
        assert!(uuids.is_sorted());
        assert_eq!(uuids.map(|uuid| uuid.to_string()), texts);
    }

    #[test]
    fn names_of_new_rows_are_ovsdb_identifiers_and_never_collide() {
        let labels = ["a-b", "a_b", "a.b", "ab", "a_2d_b", "", "ä"];
        let names: BTreeSet<_> = labels.iter().map(|label| NamedUuid::of(label)).collect();
        assert_eq!(names.len(), labels.len());
        assert!(names.iter().all(|NamedUuid(name)| {
            name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        }));
    }
}
