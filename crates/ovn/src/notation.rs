//! Values as OVSDB writes them in JSON (RFC 7047, section 5.1): atoms, sets, maps, rows, and the
//! conditions and mutations of operations.
//!
//! Used by everything else in this crate, and by whoever builds operations by hand.
//! Must stay true: what these types write is what a server reads; text from outside becomes one of
//! them only through a parser that refuses the rest.

mod datum;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use datum::{Atom, Datum};

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
    use std::collections::BTreeSet;

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
