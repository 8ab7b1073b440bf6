//! The list of chassis that may answer for the gateways of one (VPC, zone), with priorities.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use crate::{model::ChassisName, snapshot::GatewayRow};

/// Priority of the first trunk chassis; the others follow downwards, as Kube-OVN does it.
const TRUNK_TOP: i64 = 100;
/// Priority of the first witness. Trunk chassis stay above it, so that one can be added at the end
/// of its kind without moving a witness.
const WITNESS_TOP: i64 = 50;
/// Chassis that a list needs for failover: with two, the survivor thinks itself cut off and never
/// claims (seen).
const FAILOVER_MIN: usize = 3;

/// Chassis with their priorities. Trunk chassis have more than [`WITNESS_TOP`], witnesses (nodes
/// without trunk, there only so that BFD has a majority) the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decision(pub BTreeMap<ChassisName, i64>);

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (chassis, priority)) in self.by_priority().into_iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{chassis}={priority}")?;
        }
        Ok(())
    }
}

impl Decision {
    /// Reads what [`fmt::Display`] writes; None if it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        text.split(',')
            .map(|entry| {
                let (chassis, priority) = entry.rsplit_once('=')?;
                Some((chassis.into(), priority.parse().ok()?))
            })
            .collect::<Option<_>>()
            .map(Self)
    }

    /// What rows of a port say.
    pub fn of_rows(rows: &[GatewayRow]) -> Self {
        Self(
            rows.iter()
                .map(|row| (row.chassis.clone(), row.priority))
                .collect(),
        )
    }

    /// Whether it lists nobody.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn by_priority(&self) -> Vec<(&ChassisName, i64)> {
        let mut all: Vec<_> = self.0.iter().map(|(name, rank)| (name, *rank)).collect();
        all.sort_by_key(|(name, rank)| (std::cmp::Reverse(*rank), *name));
        all
    }

    /// The decision that follows from this one: who is listed stays where it is while Southbound
    /// knows it, a new trunk chassis comes below the other trunk chassis, witnesses fill up below.
    #[must_use]
    pub fn evolve(
        &self,
        trunk: &[ChassisName],
        witnesses: &[ChassisName],
        known: &BTreeSet<ChassisName>,
        max: usize,
    ) -> Self {
        let stays = |name: &ChassisName, rank: i64| {
            known.contains(name) && (rank > WITNESS_TOP || !trunk.contains(name))
        };
        let mut next: BTreeMap<ChassisName, i64> = self
            .0
            .iter()
            .filter(|(name, rank)| stays(name, **rank))
            .map(|(name, rank)| (name.clone(), *rank))
            .collect();
        drop_below(&mut next, max);
        let fits = |next: &BTreeMap<ChassisName, i64>| {
            next.values().filter(|rank| **rank > WITNESS_TOP).count() < max
        };
        for name in trunk {
            if fits(&next) && !next.contains_key(name) {
                let rank = lowest_above(&next, WITNESS_TOP).map_or(TRUNK_TOP, |low| low - 1);
                next.insert(name.clone(), rank);
            }
        }
        if next.values().all(|rank| *rank <= WITNESS_TOP) {
            // Witnesses alone cannot forward to the VLAN: nobody is listed until a trunk node is.
            return Self::default();
        }
        for name in witnesses {
            if next.len() < FAILOVER_MIN && !next.contains_key(name) {
                let rank = lowest_witness(&next).map_or(WITNESS_TOP, |low| low - 1);
                next.insert(name.clone(), rank);
            }
        }
        Self(next).with_room()
    }

    /// Numbered afresh where trunk chassis have come down to the witnesses' priorities, which takes
    /// fifty replaced nodes.
    fn with_room(self) -> Self {
        let crowded = self.0.values().any(|rank| *rank == WITNESS_TOP + 1);
        if !crowded {
            return self;
        }
        let mut trunk = TRUNK_TOP;
        let renumbered = self
            .by_priority()
            .into_iter()
            .map(|(name, rank)| {
                if rank <= WITNESS_TOP {
                    return (name.clone(), rank);
                }
                trunk -= 1;
                (name.clone(), trunk + 1)
            })
            .collect();
        Self(renumbered)
    }

    /// Entries that `rows` lacks or has with another priority.
    pub fn missing_from(&self, rows: &Self) -> BTreeMap<ChassisName, i64> {
        self.0
            .iter()
            .filter(|(name, rank)| rows.0.get(*name) != Some(rank))
            .map(|(name, rank)| (name.clone(), *rank))
            .collect()
    }

    /// Whether going from `rows` to this decision touches nothing at or above the active chassis,
    /// so that plain inserts and deletes are safe. With nobody active nothing can be cut off, and
    /// the row of a chassis that Southbound has forgotten moves nobody.
    pub fn changes_only_below(
        &self,
        rows: &Self,
        active: Option<&ChassisName>,
        known: &BTreeSet<ChassisName>,
    ) -> bool {
        let Some(active) = active.and_then(|name| rows.0.get(name)) else {
            return true;
        };
        let comes = self.missing_from(rows);
        let goes = rows.missing_from(self);
        comes.values().all(|rank| rank < active)
            && goes
                .iter()
                .all(|(name, rank)| rank < active || !known.contains(name))
    }
}

/// Takes the lowest trunk chassis off a list that has more than `max` of them.
fn drop_below(ranks: &mut BTreeMap<ChassisName, i64>, max: usize) {
    let trunk = || ranks.values().copied().filter(|rank| *rank > WITNESS_TOP);
    let mut order: Vec<i64> = trunk().collect();
    order.sort_unstable_by_key(|rank| std::cmp::Reverse(*rank));
    if let Some(lowest) = max.checked_sub(1).and_then(|last| order.get(last)).copied() {
        ranks.retain(|_, rank| *rank >= lowest || *rank <= WITNESS_TOP);
    }
}

fn lowest_above(ranks: &BTreeMap<ChassisName, i64>, bound: i64) -> Option<i64> {
    ranks.values().copied().filter(|rank| *rank > bound).min()
}

fn lowest_witness(ranks: &BTreeMap<ChassisName, i64>) -> Option<i64> {
    ranks
        .values()
        .copied()
        .filter(|rank| *rank <= WITNESS_TOP)
        .min()
}
