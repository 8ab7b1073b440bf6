//! A northbound plan as one transaction.
//!
//! Must stay true: of a port's row only single map keys and set members are changed, and the whole
//! transaction fails unless each port has exactly the gateway rows that the plan saw, and NB_Global
//! the nb_cfg that it counted from.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
};

use causeway_ovn::{
    Atom, Client, Condition, Datum, Mutation, NamedUuid, Operation, Row, Table, Uuid, nb,
};
use causeway_planner::{
    model::ChassisName,
    northbound::{LEFT, LeftAction, LeftRow, Leftover, NorthboundPlan, OWNER, PortChange},
    snapshot::RowId,
};

use crate::PassError;

/// Writes the rows of a plan. `global` is the row of NB_Global and its nb_cfg as the plan saw it:
/// what a port's `causeway-sync` names is one more.
pub(crate) async fn write(
    northbound: &Client,
    (global, nb_cfg): (RowId, i64),
    plan: &NorthboundPlan,
) -> Result<(), PassError> {
    let mut operations = Vec::new();
    if plan.raise_nb_cfg {
        let at = Condition::is(uuid(&global)?);
        operations.push(Operation::require::<nb::NbGlobal>(
            at.clone(),
            Row::from([("nb_cfg".to_owned(), Datum::from(nb_cfg))]),
        ));
        operations.push(Operation::mutate::<nb::NbGlobal>(
            at,
            [Mutation::add("nb_cfg", 1)],
        ));
    }
    for change in &plan.ports {
        port(change, &mut operations)?;
    }
    for one in &plan.leftovers {
        leftover(one, &mut operations)?;
    }
    let written = northbound.transact(operations).await;
    written.map_err(PassError::Northbound)?;
    for change in &plan.ports {
        tracing::info!(
            port = change.port,
            inserted = change.insert.len(),
            removed = change.remove.len(),
            "gateway rows written"
        );
    }
    Ok(())
}

fn port(change: &PortChange, operations: &mut Vec<Operation>) -> Result<(), PassError> {
    let row = uuid(&change.row)?;
    let rows = |rows: &BTreeSet<RowId>| {
        let atoms: Result<Vec<Atom>, PassError> =
            rows.iter().map(|row| Ok(Atom::from(uuid(row)?))).collect();
        Ok::<_, PassError>(Datum::set(atoms?))
    };
    operations.push(Operation::require::<nb::LogicalRouterPort>(
        Condition::is(row),
        Row::from([("gateway_chassis".to_owned(), rows(&change.seen)?)]),
    ));
    let mut mutations = vec![Mutation::delete("gateway_chassis", rows(&change.remove)?)];
    mutations.extend(
        change.set.iter().flat_map(|(key, value)| {
            Mutation::replace("external_ids", key.as_str(), value.as_str())
        }),
    );
    let unset = change.unset.iter().map(|key| Atom::from(key.as_str()));
    mutations.push(Mutation::delete("external_ids", Datum::set(unset)));
    operations.push(Operation::mutate::<nb::LogicalRouterPort>(
        Condition::is(row),
        mutations,
    ));
    for (chassis, priority) in &change.insert {
        let chassis = gateway_chassis(change, chassis, *priority);
        operations.extend(Operation::insert_into::<nb::LogicalRouterPort, _>(
            Condition::is(row),
            "gateway_chassis",
            NamedUuid::of(&chassis.name),
            &chassis,
        ));
    }
    Ok(())
}

/// A row that Kube-OVN has left behind: marked, or taken off its router, if it is as the plan saw it.
fn leftover(one: &Leftover, operations: &mut Vec<Operation>) -> Result<(), PassError> {
    match &one.row {
        LeftRow::Port(row) => {
            left_row::<nb::LogicalRouterPort>(one, "ports", uuid(row)?, operations);
        }
        LeftRow::Policy(row) => {
            left_row::<nb::LogicalRouterPolicy>(one, "policies", uuid(row)?, operations);
        }
    }
    tracing::info!(router = %one.router, row = ?one.row, action = ?one.action, "row left behind");
    Ok(())
}

fn left_row<T: Table>(one: &Leftover, column: &str, row: Uuid, operations: &mut Vec<Operation>) {
    let mutation = match one.action {
        LeftAction::Mark(now) => {
            let marks = Mutation::replace("external_ids", LEFT, now.0.to_string().as_str());
            operations.push(Operation::mutate::<T>(Condition::is(row), marks));
            return;
        }
        LeftAction::Unmark => {
            let mark = Datum::set([Atom::from(LEFT)]);
            let unmark = [Mutation::delete("external_ids", mark)];
            operations.push(Operation::mutate::<T>(Condition::is(row), unmark));
            return;
        }
        LeftAction::Delete => Mutation::delete(column, Datum::set([Atom::from(row)])),
    };
    // Nobody has made the Subnet again since the plan's snapshot.
    let switch = Condition::equals("name", one.subnet.as_str());
    operations.push(Operation::require_none::<nb::LogicalSwitch>(switch));
    let router = Condition::equals("name", one.router.as_str());
    operations.push(Operation::mutate::<nb::LogicalRouter>(router, [mutation]));
}

/// A row as Kube-OVN names them: `<port>-<chassis>`.
fn gateway_chassis(
    change: &PortChange,
    chassis: &ChassisName,
    priority: i64,
) -> nb::GatewayChassis {
    nb::GatewayChassis {
        name: format!("{}-{chassis}", change.port),
        chassis_name: chassis.to_string(),
        priority,
        external_ids: BTreeMap::from([(OWNER.to_owned(), change.owner.clone())]),
    }
}

fn uuid(row: &str) -> Result<Uuid, PassError> {
    Uuid::from_str(row).map_err(|_| PassError::NoRow {
        row: row.to_owned(),
    })
}
