//! What Kube-OVN leaves in Northbound for ever when its controller was away while a Subnet went: the
//! router port and the router policy (seen). Without them gone the network never ends.
//!
//! Called by the plan of the northbound rows. Must stay true: only rows of names from our own
//! records are touched, and only when Subnet and switch have been absent for [`LEFT_FOR`]; the time
//! is kept on the row itself, so that a restart does not forget it.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;

use super::NorthboundPlan;
use crate::{
    model::{SubnetId, VpcId, objects},
    snapshot::{Moment, Northbound, RowId, Snapshot},
};

/// external_ids key on a row whose Subnet and switch are gone: since when, in milliseconds.
pub const LEFT: &str = "causeway-left-since";

/// How long Kube-OVN has to remove a row itself: 500 times what it took (0.13 s, seen).
pub const LEFT_FOR: Duration = Duration::from_mins(1);

/// A row that may be left over, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// The Subnet that it was of.
    pub subnet: SubnetId,
    /// The router that holds it.
    pub router: VpcId,
    /// The row.
    pub row: LeftRow,
    /// What is done.
    pub action: LeftAction,
}

/// A row of a router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum LeftRow {
    /// A router port.
    Port(RowId),
    /// A router policy.
    Policy(RowId),
}

/// What is done with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LeftAction {
    /// It is noted since when.
    Mark(Moment),
    /// Its Subnet is back.
    Unmark,
    /// It has waited long enough.
    Delete,
}

/// Adds what is to be done with rows that are left over.
pub(super) fn plan_leftovers(
    northbound: &Northbound,
    snapshot: &Snapshot,
    plan: &mut NorthboundPlan,
) {
    for (id, router) in recorded(snapshot) {
        let gone = !snapshot.subnets.contains_key(id.as_str())
            && !northbound.switches.contains(id.as_str());
        let port = northbound.ports.get(&router.router_port(&id));
        let port = port.map(|port| (LeftRow::Port(port.row.clone()), port.external_ids.get(LEFT)));
        let policies = northbound.policies.iter();
        let policies = policies.filter(|(_, policy)| policy.subnet == id.as_str());
        let policies =
            policies.map(|(row, policy)| (LeftRow::Policy(row.clone()), policy.left.as_ref()));
        for (row, since) in port.into_iter().chain(policies) {
            let since = since.and_then(|text| text.parse().ok()).map(Moment);
            let action = match (gone, since) {
                (false, None) => continue,
                (false, Some(_)) => LeftAction::Unmark,
                (true, None) => LeftAction::Mark(snapshot.now),
                (true, Some(since)) => {
                    let end = since.after(LEFT_FOR);
                    // A clock that was set back must not keep it for longer.
                    if (since..end).contains(&snapshot.now) {
                        plan.wake_no_later(end);
                        continue;
                    }
                    LeftAction::Delete
                }
            };
            if matches!(action, LeftAction::Mark(_)) {
                plan.wake_no_later(snapshot.now.after(LEFT_FOR));
            }
            plan.leftovers.push(Leftover {
                subnet: id.clone(),
                router: router.clone(),
                row,
                action,
            });
        }
    }
}

/// Subnets that were ours by what outlives them: the record of a network, the attachment of any.
fn recorded(snapshot: &Snapshot) -> BTreeMap<SubnetId, VpcId> {
    let attachments = snapshot.attachments.iter().filter_map(|(key, seen)| {
        let vpc = objects::vpc_owner(&seen.meta.labels).filter(|_| seen.meta.is_ours())?;
        Some((key.id.clone(), vpc.id()))
    });
    let records = snapshot.networks.iter().filter_map(|(key, seen)| {
        let record = seen.spec.as_ref()?;
        Some((key.id.clone(), record.vpc_id.clone()))
    });
    attachments.chain(records).collect()
}
