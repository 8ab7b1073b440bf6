//! Everything that the objects of a snapshot break, at once: what `causeway check` reports.
//!
//! Must stay true: an object is refused here exactly when the controller would not act on it.

use std::fmt;

use std::collections::BTreeMap;

use super::{
    FieldPath, SubnetInput, Violation, VpcInput, ZoneInput, admit_vpc, admit_zone, choose_zone,
    must_drain, peering::peer_overlaps, quota_refusal, vpc_change, vpc_removals, vpc_warnings,
    zone_conflict,
};
use crate::{
    conditions::Reason,
    model::{SubnetKey, VpcKey, ZoneName},
    snapshot::Snapshot,
};

/// Whose field a remark is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A ProxmoxNetworkZone.
    Zone(ZoneName),
    /// A VirtualPrivateCloud.
    Vpc(VpcKey),
}

/// How much a remark weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// A rule is broken.
    Error,
    /// Accepted, with a surprise.
    Warning,
    /// Cannot be said from what is given.
    Unchecked,
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Unchecked => "unchecked",
        })
    }
}

/// Something to say about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The object.
    pub subject: Subject,
    /// How much it weighs.
    pub weight: Weight,
    /// Field and message.
    pub violation: Violation,
}

/// Every remark on every zone and VPC, zones first, each in the order of its fields.
pub fn review(snapshot: &Snapshot) -> Vec<Remark> {
    let zones = snapshot.zones.iter().flat_map(|(name, zone)| {
        let remarks = zone_remarks(name, &zone.spec, snapshot);
        remarks.about(&Subject::Zone(name.clone()))
    });
    let vpcs = snapshot.vpcs.iter().flat_map(|(key, vpc)| {
        let remarks = vpc_remarks(key, &vpc.spec, snapshot);
        remarks.about(&Subject::Vpc(key.clone()))
    });
    zones.chain(vpcs).collect()
}

/// What is said of one object.
#[derive(Debug, Default)]
pub(super) struct Remarks(Vec<(Weight, Violation)>);

impl Remarks {
    pub fn add(&mut self, weight: Weight, violations: impl IntoIterator<Item = Violation>) {
        self.0
            .extend(violations.into_iter().map(|one| (weight, one)));
    }

    fn about(self, subject: &Subject) -> impl Iterator<Item = Remark> + use<> {
        let subject = subject.clone();
        self.0.into_iter().map(move |(weight, violation)| Remark {
            subject: subject.clone(),
            weight,
            violation,
        })
    }

    /// Those of a weight.
    pub fn of(&self, weight: Weight) -> impl Iterator<Item = Violation> {
        let these = self.0.iter().filter(move |(one, _)| *one == weight);
        these.map(|(_, violation)| violation.clone())
    }
}

/// What is said of a zone.
pub(super) fn zone_remarks(name: &ZoneName, input: &ZoneInput, snapshot: &Snapshot) -> Remarks {
    let mut remarks = Remarks::default();
    remarks.add(
        Weight::Error,
        admit_zone(name, input).err().unwrap_or_default(),
    );
    let conflict = zone_conflict(name, snapshot).map(|conflict| conflict.violation);
    remarks.add(Weight::Error, conflict);
    remarks
}

/// What is said of a VPC, as it is or as somebody wants it.
pub(super) fn vpc_remarks(key: &VpcKey, input: &VpcInput, snapshot: &Snapshot) -> Remarks {
    let mut remarks = Remarks::default();
    match admit_vpc(key, input, &snapshot.settings) {
        Ok(spec) => {
            remarks.add(Weight::Error, vpc_change(key, &spec, snapshot));
            if snapshot.vpcs.contains_key(key) {
                remarks.add(Weight::Error, vpc_removals(key, &spec, snapshot));
            } else {
                let drains = must_drain(key, &spec, snapshot).into_iter();
                remarks.add(Weight::Warning, drains.map(|(_, violation)| violation));
            }
        }
        Err(refused) => remarks.add(Weight::Error, refused),
    }
    remarks.add(Weight::Error, peer_overlaps(key, input, snapshot));
    remarks.add(Weight::Warning, vpc_warnings(input));
    let mut planned: BTreeMap<ZoneName, usize> = BTreeMap::new();
    for (index, subnet) in input.subnets.iter().enumerate() {
        let Some(proxmox) = &subnet.proxmox else {
            continue;
        };
        if has_zone(key, subnet, snapshot) {
            continue;
        }
        let asked = proxmox.zone.as_deref().map(ZoneName::from);
        let chosen = choose_zone(&key.namespace, asked.as_ref(), snapshot).and_then(|zone| {
            let planned = planned.entry(zone.clone()).or_default();
            let full = quota_refusal(&key.namespace, &zone, *planned, snapshot);
            *planned += 1;
            full.map_or(Ok(()), Err)
        });
        let Err(refusal) = chosen else {
            continue;
        };
        let mut path = FieldPath::spec().field("subnets").index(index);
        path = path.field("proxmox");
        if asked.is_some() {
            path = path.field("zone");
        }
        let weight = match refusal.reason {
            Reason::NoZone => Weight::Unchecked,
            _ => Weight::Error,
        };
        let message = refusal.message;
        remarks.add(weight, [Violation { path, message }]);
    }
    remarks
}

/// Whether the subnet is a network that has its zone for good.
fn has_zone(key: &VpcKey, subnet: &SubnetInput, snapshot: &Snapshot) -> bool {
    let network = SubnetKey {
        namespace: key.namespace.clone(),
        id: key.subnet_id(&subnet.name.as_str().into()),
    };
    let record = snapshot.networks.get(&network);
    let record = record.and_then(|seen| seen.spec.as_ref());
    record.is_some_and(|record| record.vpc == key.name && record.zone.is_some())
}
