//! The VLAN numbers of one wire: which are held, and which one to ask for next.
//!
//! Called by the network plan for each network that holds no number. Proposes only: the claim is
//! the `create` of a Kube-OVN `Vlan`, and the API server decides it (design 3.2).
//! Must stay true: a number that anybody holds, or that is resting, is never proposed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    admit::admit_zone,
    model::{Vid, VidRanges, Wire},
    snapshot::Snapshot,
};

/// Who holds a number, as observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A Kube-OVN Vlan names it.
    Taken,
    /// A claim of ours that was released; its Vlan is deleted when it has rested.
    Resting,
}

/// Every number of the zone is held or resting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} of {total} in use{}", held + resting, self.rest())]
pub struct Exhausted {
    /// Numbers that the zone offers.
    pub total: usize,
    /// Held.
    pub held: usize,
    /// Resting.
    pub resting: usize,
}

impl Exhausted {
    fn rest(&self) -> String {
        if self.resting == 0 {
            return String::new();
        }
        format!(", {} of them resting", self.resting)
    }
}

/// The holds of all numbers of a wire. A Vlan counts whatever its `ProviderNetwork`, for someone
/// else's may be on the same wire; only what is surely on another wire of ours does not.
pub fn holds(wire: &Wire, snapshot: &Snapshot) -> BTreeMap<Vid, Hold> {
    let elsewhere: BTreeSet<String> = snapshot
        .zones
        .iter()
        .filter_map(|(name, zone)| admit_zone(name, &zone.spec).ok())
        .filter(|zone| zone.wire != *wire)
        .map(|zone| zone.wire.provider_network())
        .collect();
    let mut holds = BTreeMap::new();
    for vlan in snapshot.vlans.values() {
        let Some(vid) = vlan.spec.vid else { continue };
        if elsewhere.contains(&vlan.spec.provider) {
            continue;
        }
        let resting = vlan.spec.owner.is_some() && vlan.spec.released.is_some();
        let hold = if resting { Hold::Resting } else { Hold::Taken };
        let slot = holds.entry(vid).or_insert(hold);
        if hold == Hold::Taken {
            *slot = Hold::Taken;
        }
    }
    holds
}

/// The lowest number of `offered` that nobody holds.
///
/// # Errors
/// [`Exhausted`], with the figures for the condition's message, if there is none.
pub fn propose(offered: &VidRanges, holds: &BTreeMap<Vid, Hold>) -> Result<Vid, Exhausted> {
    let count = |hold| {
        offered
            .iter()
            .filter(|vid| holds.get(vid) == Some(&hold))
            .count()
    };
    offered
        .iter()
        .find(|vid| !holds.contains_key(vid))
        .ok_or_else(|| Exhausted {
            total: offered.len(),
            held: count(Hold::Taken),
            resting: count(Hold::Resting),
        })
}
