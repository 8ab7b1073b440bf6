//! Whether a write may happen: what the admission webhook answers (design 9).
//!
//! Called by the webhook with the object as it is and as it would be. Must stay true: nothing is
//! allowed on a reference that the snapshot does not know; a write that changes no field a rule
//! looks at is allowed, so that an object which an older rule let in can still be labelled, held
//! and deleted.

use std::collections::BTreeSet;

use super::{
    Violation, VpcInput, Weight, ZoneInput,
    review::{Remarks, vpc_remarks, zone_remarks},
    zone_change::{zone_change, zones_hurt},
};
use crate::{
    model::{VpcKey, ZoneName},
    snapshot::{Seen, Snapshot, VpcStatus, ZoneStatus},
};

type SeenVpc = Seen<VpcInput, VpcStatus>;
type SeenZone = Seen<ZoneInput, ZoneStatus>;

/// A write that somebody asks for. `old` is None for a create, `new` is None for a delete.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Of a VirtualPrivateCloud.
    Vpc {
        /// Which.
        key: &'a VpcKey,
        /// As it is.
        old: Option<&'a SeenVpc>,
        /// As it would be.
        new: Option<&'a SeenVpc>,
    },
    /// Of a ProxmoxNetworkZone.
    Zone {
        /// Which.
        name: &'a ZoneName,
        /// As it is.
        old: Option<&'a SeenZone>,
        /// As it would be.
        new: Option<&'a SeenZone>,
    },
}

/// Something that the snapshot does not hold although a rule needs it: to be read live, and asked
/// again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// A ProxmoxNetworkZone.
    Zone(ZoneName),
    /// Every ProxmoxNetworkZone.
    Zones,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen; each warning goes to the writer.
    Allow {
        /// Surprises.
        warnings: Vec<Violation>,
    },
    /// It may not, for all of these reasons.
    Deny(Vec<Violation>),
    /// Not known enough to say.
    Need(BTreeSet<Reference>),
}

/// The answer to a write in the world of the snapshot.
pub fn decide(write: Write<'_>, snapshot: &Snapshot) -> Verdict {
    match write {
        Write::Vpc { key, old, new } => match new {
            Some(new) if !is_as_it_was(old, new) => verdict(&vpc_remarks(key, &new.spec, snapshot)),
            _ => allow(),
        },
        Write::Zone { name, old, new } => match new {
            Some(new) if !is_as_it_was(old, new) => zone_verdict(name, old, new, snapshot),
            _ => allow(),
        },
    }
}

fn zone_verdict(
    name: &ZoneName,
    old: Option<&SeenZone>,
    new: &SeenZone,
    snapshot: &Snapshot,
) -> Verdict {
    let mut then = snapshot.clone();
    then.zones.insert(name.clone(), new.clone());
    let mut remarks = zone_remarks(name, &new.spec, &then);
    if let Some(old) = old {
        let change = zone_change(name, &old.spec, &new.spec, snapshot);
        remarks.add(Weight::Error, change);
    }
    remarks.add(Weight::Error, zones_hurt(name, snapshot, &then));
    verdict(&remarks)
}

/// Whether a write leaves alone what rules look at; what is being deleted is written by whoever
/// takes it apart.
fn is_as_it_was<T: PartialEq, S>(old: Option<&Seen<T, S>>, new: &Seen<T, S>) -> bool {
    new.meta.deleting || old.is_some_and(|old| old.spec == new.spec)
}

fn allow() -> Verdict {
    Verdict::Allow {
        warnings: Vec::new(),
    }
}

fn verdict(remarks: &Remarks) -> Verdict {
    let unknown = remarks.of(Weight::Unchecked).next();
    let broken: Vec<Violation> = remarks.of(Weight::Error).chain(unknown).collect();
    if broken.is_empty() {
        let warnings = remarks.of(Weight::Warning).collect();
        Verdict::Allow { warnings }
    } else {
        Verdict::Deny(broken)
    }
}
