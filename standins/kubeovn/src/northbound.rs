//! Reading and writing rows of NB as Kube-OVN does: found by name, told apart by `external_ids`.
//!
//! Used by every pass that has rows.

use std::collections::{BTreeMap, BTreeSet};

use causeway_ovn::{
    Atom, Condition, Datum, Monitors, Mutation, NamedUuid, Operation, Replica, ReplicaError, Table,
    Uuid, monitor,
    nb::{
        Acl, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalRouterStaticRoute,
        LogicalSwitch, LogicalSwitchPort,
    },
};

use crate::VENDOR;

pub(crate) fn monitors() -> Monitors {
    Monitors::from([
        monitor::<LogicalSwitch>(),
        monitor::<LogicalSwitchPort>(),
        monitor::<LogicalRouter>(),
        monitor::<LogicalRouterPort>(),
        monitor::<LogicalRouterPolicy>(),
        monitor::<LogicalRouterStaticRoute>(),
        monitor::<Acl>(),
    ])
}

/// The row of this name.
pub(crate) fn named<T: Table>(
    replica: &Replica,
    name: &str,
) -> Result<Option<(Uuid, T)>, ReplicaError> {
    let wanted = Datum::from(name);
    let found = replica
        .table(T::NAME)?
        .iter()
        .find(|(_, row)| row.get("name") == Some(&wanted));
    let Some((uuid, _)) = found else {
        return Ok(None);
    };
    Ok(replica.row::<T>(*uuid)?.map(|row| (*uuid, row)))
}

/// The rows that a set of references names.
pub(crate) fn referred<T: Table>(
    replica: &Replica,
    references: &BTreeSet<Uuid>,
) -> Result<Vec<(Uuid, T)>, ReplicaError> {
    let rows = references
        .iter()
        .filter_map(|uuid| Some(replica.row::<T>(*uuid).transpose()?.map(|row| (*uuid, row))));
    rows.collect()
}

/// `external_ids` with Kube-OVN's mark and these pairs.
pub(crate) fn ids<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let vendor = [("vendor", VENDOR)];
    let all = vendor.into_iter().chain(pairs);
    all.map(|(key, value)| (key.into(), value.into())).collect()
}

/// Whether `external_ids` hold this pair.
pub(crate) fn has(ids: &BTreeMap<String, String>, key: &str, value: &str) -> bool {
    ids.get(key).is_some_and(|held| held == value)
}

/// Whether it is Kube-OVN's.
pub(crate) fn ours(ids: &BTreeMap<String, String>) -> bool {
    has(ids, "vendor", VENDOR)
}

/// A row that operations refer to: one that is there, or one that this transaction inserts.
#[derive(Clone, Debug)]
pub(crate) struct Reference(Atom);

impl Reference {
    pub(crate) fn is(&self) -> Condition {
        Condition::is(self.0.clone())
    }
}

impl From<Uuid> for Reference {
    fn from(uuid: Uuid) -> Self {
        Self(uuid.into())
    }
}

impl From<NamedUuid> for Reference {
    fn from(name: NamedUuid) -> Self {
        Self(name.into())
    }
}

/// Adds `row` to the set `column` of `parent`. `label` is unique within the transaction.
pub(crate) fn add_to<Parent: Table, T: Table>(
    parent: &Reference,
    column: &str,
    label: &str,
    row: &T,
) -> [Operation; 2] {
    let name = NamedUuid::of(&format!("{column} {label}"));
    Operation::insert_into::<Parent, T>(parent.is(), column, name, row)
}

/// Takes rows out of the set `column` of whichever `Parent` has them; nothing refers to them then,
/// so they are gone.
pub(crate) fn take_out<Parent: Table>(
    column: &str,
    rows: impl IntoIterator<Item = Uuid>,
) -> Vec<Operation> {
    let take = |uuid: Uuid| {
        let held = Condition::includes(column, uuid);
        Operation::mutate::<Parent>(held, [Mutation::delete(column, uuid)])
    };
    rows.into_iter().map(take).collect()
}
