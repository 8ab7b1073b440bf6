//! The copy of the monitored rows that the session keeps, and how updates change it.
//!
//! Filled by the session; read by whoever holds a [`Client`](crate::Client).
//! Must stay true: a replica is whole or says that it is not connected. The first update that does
//! not fit the rows ends the session, which drops them all.
//!
//! A replica that someone holds never changes: tables and rows are shared, and an update copies a
//! table's list of rows (not the rows) only while somebody still holds the state before it.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use serde::Deserialize;

use crate::{
    notation::{Row, Uuid},
    schema::{ColumnType, Schema},
    session::SessionError,
    table::{ColumnError, Table},
};

type Rows = BTreeMap<Uuid, Arc<Row>>;

/// The monitored rows of a database, as of its last update.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// Whether the rows are those of the server. If not, there are none.
    pub connected: bool,
    /// Why there is no session, since the last one ended or failed to begin.
    pub trouble: Option<Arc<SessionError>>,
    /// The last transaction that the rows contain, as the server names it; zero where the server
    /// keeps no history.
    pub last_txn_id: Uuid,
    /// Grows with each change to anything here, for as long as the client lives.
    pub version: u64,
    tables: BTreeMap<String, Arc<Rows>>,
}

impl Replica {
    /// All rows of a table.
    ///
    /// # Errors
    /// [`ReplicaError`] if there is no session, the table is not monitored, or a row does not fit.
    pub fn rows<T: Table>(&self) -> Result<BTreeMap<Uuid, T>, ReplicaError> {
        self.table(T::NAME)?
            .iter()
            .map(|(uuid, row)| Ok((*uuid, read(*uuid, row)?)))
            .collect()
    }

    /// One row of a table, if it is there.
    ///
    /// # Errors
    /// As [`Replica::rows`].
    pub fn row<T: Table>(&self, uuid: Uuid) -> Result<Option<T>, ReplicaError> {
        self.table(T::NAME)?
            .get(&uuid)
            .map(|row| read(uuid, row))
            .transpose()
    }

    /// All rows of a table, as they came.
    ///
    /// # Errors
    /// [`ReplicaError`] if there is no session or the table is not monitored.
    pub fn table(&self, name: &str) -> Result<&BTreeMap<Uuid, Arc<Row>>, ReplicaError> {
        if !self.connected {
            return Err(ReplicaError::NotConnected);
        }
        self.tables
            .get(name)
            .map(Arc::as_ref)
            .ok_or_else(|| ReplicaError::NotMonitored { table: name.into() })
    }

    /// Begins anew with the answer to a monitor request.
    pub(crate) fn fill(
        &mut self,
        schema: &Schema,
        last_txn_id: Uuid,
        initial: TableUpdates,
    ) -> Result<(), UpdateError> {
        self.tables = schema
            .keys()
            .map(|table| (table.clone(), Arc::default()))
            .collect();
        self.apply(schema, last_txn_id, initial)?;
        self.connected = true;
        self.trouble = None;
        Ok(())
    }

    /// Takes in one notification. After an error the replica is not connected, so that nobody sees
    /// the half that was taken in.
    pub(crate) fn apply(
        &mut self,
        schema: &Schema,
        last_txn_id: Uuid,
        updates: TableUpdates,
    ) -> Result<(), UpdateError> {
        let applied = updates
            .into_iter()
            .try_for_each(|(table, updates)| self.apply_to(table, schema, updates));
        self.connected &= applied.is_ok();
        self.last_txn_id = last_txn_id;
        self.version += 1;
        applied
    }

    fn apply_to(
        &mut self,
        table: String,
        schema: &Schema,
        updates: BTreeMap<Uuid, RowUpdate>,
    ) -> Result<(), UpdateError> {
        let (Some(rows), Some(columns)) = (self.tables.get_mut(&table), schema.get(&table)) else {
            return Err(UpdateError::Table { table });
        };
        let rows = Arc::make_mut(rows);
        updates.into_iter().try_for_each(|(uuid, update)| {
            update
                .apply(columns, rows, uuid)
                .map_err(|fault| UpdateError::Row {
                    table: table.clone(),
                    uuid,
                    fault,
                })
        })
    }

    /// Forgets all rows.
    pub(crate) fn drop_rows(&mut self, trouble: SessionError) {
        *self = Self {
            trouble: Some(Arc::new(trouble)),
            version: self.version + 1,
            ..Self::default()
        };
    }
}

fn read<T: Table>(uuid: Uuid, row: &Row) -> Result<T, ReplicaError> {
    T::from_row(row).map_err(|source| ReplicaError::Row { uuid, source })
}

/// Changes of several tables: `<table-updates2>` of ovsdb-server(7).
pub(crate) type TableUpdates = BTreeMap<String, BTreeMap<Uuid, RowUpdate>>;

/// The change of one row: `<row-update2>` of ovsdb-server(7).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RowUpdate {
    /// The row was there when monitoring began. Columns with their default are left out.
    Initial(Row),
    /// The row is new. Columns with their default are left out.
    Insert(Row),
    /// The row changed, in these columns.
    Modify(Row),
    /// The row is gone.
    Delete(()),
}

impl RowUpdate {
    fn apply(
        self,
        columns: &BTreeMap<String, ColumnType>,
        rows: &mut Rows,
        uuid: Uuid,
    ) -> Result<(), RowFault> {
        match (self, rows.entry(uuid)) {
            (Self::Initial(row) | Self::Insert(row), Entry::Vacant(place)) => {
                place.insert(Arc::new(whole(columns, row)?));
            }
            (Self::Modify(changes), Entry::Occupied(mut place)) => {
                modify(columns, Arc::make_mut(place.get_mut()), changes)?;
            }
            (Self::Delete(()), Entry::Occupied(place)) => {
                place.remove();
            }
            (Self::Initial(_) | Self::Insert(_), Entry::Occupied(_)) => {
                return Err(RowFault::Twice);
            }
            (Self::Modify(_) | Self::Delete(()), Entry::Vacant(_)) => {
                return Err(RowFault::Absent);
            }
        }
        Ok(())
    }
}

fn whole(columns: &BTreeMap<String, ColumnType>, mut given: Row) -> Result<Row, RowFault> {
    let row = columns
        .iter()
        .map(|(name, kind)| {
            let value = given.remove(name).unwrap_or_else(|| kind.default.clone());
            (name.clone(), value)
        })
        .collect();
    match given.pop_first() {
        None => Ok(row),
        Some((column, _)) => Err(RowFault::Column { column }),
    }
}

fn modify(
    columns: &BTreeMap<String, ColumnType>,
    row: &mut Row,
    changes: Row,
) -> Result<(), RowFault> {
    for (column, change) in changes {
        let (Some(kind), Some(value)) = (columns.get(&column), row.get_mut(&column)) else {
            return Err(RowFault::Column { column });
        };
        if !kind.several {
            *value = change;
        } else if !value.apply_difference(change) {
            return Err(RowFault::Column { column });
        }
    }
    Ok(())
}

/// An update that does not fit the rows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// It is about a table that is not monitored.
    #[error("an update of table {table}, which is not monitored")]
    Table {
        /// The table.
        table: String,
    },
    /// It is about a row that the update cannot have found so.
    #[error("an update of row {uuid} of {table} does not fit")]
    Row {
        /// The table.
        table: String,
        /// The row.
        uuid: Uuid,
        /// In what way.
        #[source]
        fault: RowFault,
    },
}

/// In what way an update does not fit its row.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// It adds a row that is there.
    #[error("the row is there already")]
    Twice,
    /// It changes or removes a row that is not there.
    #[error("the row is not there")]
    Absent,
    /// It changes a column in a way that the column cannot change.
    #[error("column {column} is not monitored or of another kind")]
    Column {
        /// The column.
        column: String,
    },
}

/// Rows that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// There is no session, so there are no rows.
    #[error("not connected to the database")]
    NotConnected,
    /// The client was not told to monitor the table.
    #[error("table {table} is not monitored")]
    NotMonitored {
        /// The table.
        table: String,
    },
    /// A row does not fit its type.
    #[error("row {uuid} cannot be read")]
    Row {
        /// The row.
        uuid: Uuid,
        /// Why.
        source: ColumnError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notation::Datum;

    const ROW: &str = "7ec644e5-4c34-4cb6-bb4a-d86bbec34165";

    fn schema() -> Schema {
        let name = ColumnType {
            default: "".into(),
            several: false,
        };
        Schema::from([("T".into(), BTreeMap::from([("name".into(), name)]))])
    }

    fn change(uuid: &str, update: fn(Row) -> RowUpdate, name: &str) -> (Uuid, RowUpdate) {
        let uuid = uuid.parse().expect("is a UUID");
        (uuid, update(Row::from([("name".into(), name.into())])))
    }

    fn updates(changes: impl Into<BTreeMap<Uuid, RowUpdate>>) -> TableUpdates {
        TableUpdates::from([("T".into(), changes.into())])
    }

    fn filled() -> Replica {
        let mut replica = Replica::default();
        let rows = updates([change(ROW, RowUpdate::Initial, "before")]);
        replica
            .fill(&schema(), Uuid::default(), rows)
            .expect("fits");
        replica
    }

    #[test]
    fn a_change_that_begins_well_and_ends_badly_is_never_seen_in_half() {
        let mut replica = filled();
        let absent = "fd7c0289-0216-43d5-9f4b-3373159a760b";
        let changes = [
            change(ROW, RowUpdate::Modify, "half"),
            change(absent, RowUpdate::Modify, "absent"),
        ];
        let error = replica
            .apply(&schema(), Uuid::default(), updates(changes))
            .expect_err("does not fit");
        assert!(matches!(error, UpdateError::Row { uuid, .. } if uuid.to_string() == absent));
        assert_eq!(replica.table("T"), Err(ReplicaError::NotConnected));
    }

    #[test]
    fn an_update_copies_no_row_that_it_does_not_change() {
        let mut replica = filled();
        let held = replica.clone();
        let other = "fd7c0289-0216-43d5-9f4b-3373159a760b";
        let changes = updates([change(other, RowUpdate::Insert, "other")]);
        replica
            .apply(&schema(), Uuid::default(), changes)
            .expect("fits");
        let row = ROW.parse().expect("is a UUID");
        let (before, after) = (&held.tables["T"], &replica.tables["T"]);
        assert_eq!((before.len(), after.len()), (1, 2));
        assert!(Arc::ptr_eq(&before[&row], &after[&row]));

        let changes = updates([change(ROW, RowUpdate::Modify, "after")]);
        replica
            .apply(&schema(), Uuid::default(), changes)
            .expect("fits");
        assert_eq!(held.tables["T"][&row]["name"], Datum::from("before"));
        assert_eq!(replica.tables["T"][&row]["name"], Datum::from("after"));
    }
}
