//! What a session must know of the database's schema: which columns a change notification gives
//! whole, and what a column is when a notification leaves it out.
//!
//! Read by the session from `get_schema` before it monitors; used by the replica with each update.
//! Must stay true: every monitored column is in here, or the session does not begin.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    notation::{Atom, Datum, Uuid},
    table::Monitors,
};

/// The monitored columns of each monitored table.
pub(crate) type Schema = BTreeMap<String, BTreeMap<String, ColumnType>>;

/// One column's type, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnType {
    /// The value of a column that is left out of a new row.
    pub default: Datum,
    /// Whether the column may hold several elements: then a change names only those that differ.
    pub several: bool,
}

/// Takes what `monitors` asks for out of the answer to `get_schema`.
///
/// # Errors
/// [`SchemaError`] if a table or column is missing or the answer is no schema.
pub(crate) fn read(answer: Value, monitors: &Monitors) -> Result<Schema, SchemaError> {
    let mut database: DatabaseJson = serde_json::from_value(answer)?;
    monitors
        .iter()
        .map(|(table, columns)| {
            let mut known = database
                .tables
                .remove(table)
                .ok_or_else(|| SchemaError::NoTable {
                    database: database.name.clone(),
                    table: table.clone(),
                })?
                .columns;
            let columns = columns
                .iter()
                .map(|column| {
                    let json = known.remove(column).ok_or_else(|| SchemaError::NoColumn {
                        table: table.clone(),
                        column: column.clone(),
                    })?;
                    Ok((column.clone(), ColumnType::try_from(json.kind)?))
                })
                .collect::<Result<_, SchemaError>>()?;
            Ok((table.clone(), columns))
        })
        .collect()
}

/// RFC 7047, section 3.2: `<database-schema>`, `<table-schema>`, `<column-schema>`, `<type>`,
/// `<base-type>`; all other members are left out.
#[derive(Deserialize)]
struct DatabaseJson {
    name: String,
    tables: BTreeMap<String, TableJson>,
}

#[derive(Deserialize)]
struct TableJson {
    columns: BTreeMap<String, ColumnJson>,
}

#[derive(Deserialize)]
struct ColumnJson {
    #[serde(rename = "type")]
    kind: TypeJson,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TypeJson {
    Scalar(String),
    Full {
        key: BaseJson,
        value: Option<BaseJson>,
        min: Option<u64>,
        max: Option<Value>,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BaseJson {
    Name(String),
    Full {
        #[serde(rename = "type")]
        kind: String,
    },
}

impl BaseJson {
    fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Full { kind: name } => name,
        }
    }
}

impl TryFrom<TypeJson> for ColumnType {
    type Error = SchemaError;

    fn try_from(kind: TypeJson) -> Result<Self, SchemaError> {
        match kind {
            TypeJson::Scalar(name) => Ok(Self {
                default: default_atom(&name)?.into(),
                several: false,
            }),
            TypeJson::Full {
                key,
                value,
                min,
                max,
            } => Ok(Self {
                default: match (value, min) {
                    (Some(_), _) => Datum::empty_map(),
                    (None, Some(0)) => Datum::empty_set(),
                    (None, _) => default_atom(key.name())?.into(),
                },
                several: max.is_some_and(|max| max.as_u64() != Some(1)),
            }),
        }
    }
}

fn default_atom(kind: &str) -> Result<Atom, SchemaError> {
    match kind {
        "integer" => Ok(Atom::Integer(0)),
        "boolean" => Ok(Atom::Boolean(false)),
        "string" => Ok(Atom::String(String::new())),
        "uuid" => Ok(Atom::Uuid(Uuid::default())),
        _ => Err(SchemaError::UnknownType { kind: kind.into() }),
    }
}

/// A schema that does not have what is to be monitored.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The answer is no schema.
    #[error("the schema cannot be read")]
    Malformed(#[from] serde_json::Error),
    /// The database lacks a table.
    #[error("database {database} has no table {table}")]
    NoTable {
        /// The database.
        database: String,
        /// The missing table.
        table: String,
    },
    /// A table lacks a column.
    #[error("table {table} has no column {column}")]
    NoColumn {
        /// The table.
        table: String,
        /// The missing column.
        column: String,
    },
    /// A column's values are none that this crate reads.
    #[error("a column's type is `{kind}`")]
    UnknownType {
        /// The type's name.
        kind: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_and_multiplicity_come_from_the_columns_type() {
        let columns = [
            ("a", json!("integer"), Datum::from(0), false),
            (
                "b",
                json!({"key": {"type": "uuid", "refTable": "T"}}),
                Datum::from(Uuid::default()),
                false,
            ),
            (
                "c",
                json!({"key": "string", "min": 0, "max": 1}),
                Datum::empty_set(),
                false,
            ),
            (
                "d",
                json!({"key": "string", "min": 0, "max": "unlimited"}),
                Datum::empty_set(),
                true,
            ),
            (
                "e",
                json!({"key": "boolean", "min": 1, "max": 4}),
                Datum::from(false),
                true,
            ),
            (
                "f",
                json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"}),
                Datum::empty_map(),
                true,
            ),
        ];
        let json: BTreeMap<_, _> = columns
            .iter()
            .map(|(name, kind, ..)| (name, json!({"type": kind})))
            .collect();
        let monitors = Monitors::from([(
            "T".into(),
            columns.iter().map(|(name, ..)| (*name).into()).collect(),
        )]);
        let schema = read(
            json!({"name": "D", "version": "1", "tables": {"T": {"columns": json}}}),
            &monitors,
        )
        .expect("is a schema");
        for (name, _, default, several) in columns {
            assert_eq!(schema["T"][name], ColumnType { default, several }, "{name}");
        }
    }

    #[test]
    fn a_missing_table_or_column_is_named() {
        let schema = json!({"name": "D", "tables": {"T": {"columns": {}}}});
        let refused = |table: &str| {
            let monitors = Monitors::from([(table.into(), vec!["c".into()])]);
            read(schema.clone(), &monitors)
                .expect_err("is not there")
                .to_string()
        };
        assert_eq!(refused("U"), "database D has no table U");
        assert_eq!(refused("T"), "table T has no column c");
    }
}
