//! Typed rows: how a table's columns become the fields of a struct, and back.
//!
//! Used by [`nb`](crate::nb) and [`sb`](crate::sb), which state the tables, and by whoever reads a
//! [`Replica`](crate::Replica) or builds operations.
//! Must stay true: [`Table::COLUMNS`] are exactly the columns that reading and writing touch, so that
//! a monitor of them is enough to read and an insert states nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::notation::{Atom, Datum, Row, Uuid};

/// A table of which causeway touches some columns; the type is one row of it.
pub trait Table: Sized {
    /// The table's name in the schema.
    const NAME: &'static str;
    /// The columns that the type holds.
    const COLUMNS: &'static [&'static str];

    /// Reads a row.
    ///
    /// # Errors
    /// [`ColumnError`] if the row lacks a column or holds a value that does not fit.
    fn from_row(row: &Row) -> Result<Self, ColumnError>;

    /// The row to insert.
    fn to_row(&self) -> Row;
}

/// What a monitor asks for: the columns wanted of each table.
pub type Monitors = BTreeMap<String, Vec<String>>;

/// The entry of [`Monitors`] for all columns of `T`.
pub fn monitor<T: Table>() -> (String, Vec<String>) {
    (
        T::NAME.into(),
        T::COLUMNS.iter().map(|&column| column.into()).collect(),
    )
}

/// A row's column that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The row has no such column: it is not monitored.
    #[error("{table} row without column {column}")]
    Missing {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The value is of another type, or of another number of elements.
    #[error("column {column} of {table} holds {value}")]
    Unfit {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// What it holds.
        value: Datum,
    },
}

/// A type that a column's value can be read as.
pub trait Column: Sized {
    /// The value, or none if the datum does not fit.
    fn read(datum: &Datum) -> Option<Self>;

    /// The datum for this value.
    fn write(&self) -> Datum;
}

/// Reads one column of a row. Used by what [`tables!`] makes.
pub(crate) fn read<T: Column>(
    table: &'static str,
    row: &Row,
    column: &'static str,
) -> Result<T, ColumnError> {
    let datum = row
        .get(column)
        .ok_or(ColumnError::Missing { table, column })?;
    T::read(datum).ok_or_else(|| ColumnError::Unfit {
        table,
        column,
        value: datum.clone(),
    })
}

/// A type that one atom can be read as.
pub trait Scalar: Ord + Sized {
    /// The value, or none if the atom is of another type.
    fn from_atom(atom: &Atom) -> Option<Self>;

    /// The atom for this value.
    fn to_atom(&self) -> Atom;
}

macro_rules! scalars {
    ($($variant:ident($type:ty)),*) => { $(
        impl Scalar for $type {
            fn from_atom(atom: &Atom) -> Option<Self> {
                match atom {
                    Atom::$variant(value) => Some(value.clone()),
                    _ => None,
                }
            }

            fn to_atom(&self) -> Atom {
                Atom::$variant(self.clone())
            }
        }
    )* };
}
scalars!(Integer(i64), Boolean(bool), String(String), Uuid(Uuid));

impl<T: Scalar> Column for T {
    fn read(datum: &Datum) -> Option<Self> {
        match datum.as_set()? {
            [atom] => T::from_atom(atom),
            _ => None,
        }
    }

    fn write(&self) -> Datum {
        self.to_atom().into()
    }
}

impl<T: Scalar> Column for Option<T> {
    fn read(datum: &Datum) -> Option<Self> {
        match datum.as_set()? {
            [] => Some(None),
            _ => T::read(datum).map(Some),
        }
    }

    fn write(&self) -> Datum {
        Datum::set(self.iter().map(T::to_atom))
    }
}

impl<T: Scalar> Column for BTreeSet<T> {
    fn read(datum: &Datum) -> Option<Self> {
        datum.as_set()?.iter().map(T::from_atom).collect()
    }

    fn write(&self) -> Datum {
        Datum::set(self.iter().map(T::to_atom))
    }
}

impl<K: Scalar, V: Scalar> Column for BTreeMap<K, V> {
    fn read(datum: &Datum) -> Option<Self> {
        datum
            .as_map()?
            .iter()
            .map(|(key, value)| Some((K::from_atom(key)?, V::from_atom(value)?)))
            .collect()
    }

    fn write(&self) -> Datum {
        Datum::map(
            self.iter()
                .map(|(key, value)| (key.to_atom(), value.to_atom())),
        )
    }
}

/// Makes a struct and its [`Table`] of each table's columns, written `field = "column": Type`.
macro_rules! tables {
    ($(
        $(#[$about:meta])*
        $row:ident = $table:literal {
            $( $(#[$field_about:meta])* $field:ident = $column:literal : $type:ty, )*
        }
    )*) => { $(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $row {
            $( $(#[$field_about])* pub $field: $type, )*
        }

        impl $crate::table::Table for $row {
            const NAME: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$($column),*];

            fn from_row(
                row: &$crate::notation::Row,
            ) -> Result<Self, $crate::table::ColumnError> {
                Ok(Self {
                    $( $field: $crate::table::read(Self::NAME, row, $column)?, )*
                })
            }

            fn to_row(&self) -> $crate::notation::Row {
                $crate::notation::Row::from([
                    $( ($column.into(), $crate::table::Column::write(&self.$field)), )*
                ])
            }
        }
    )* };
}
pub(crate) use tables;
