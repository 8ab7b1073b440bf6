//! Everything that the objects of a snapshot break, at once: what `causeway check` reports.
//!
//! Must stay true: an object is refused here exactly when the controller would not act on it.

use super::{
    FieldPath, Violation, admit_vpc, admit_zone, choose_zone, vpc_warnings, zone_conflict,
};
use crate::{
    conditions::Reason,
    model::{VpcKey, ZoneName},
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
    /// Cannot be said from what the snapshot holds.
    Unchecked,
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
    let mut remarks = Vec::new();
    for (name, zone) in &snapshot.zones {
        let subject = Subject::Zone(name.clone());
        let refused = admit_zone(name, &zone.spec).err().unwrap_or_default();
        let conflict = zone_conflict(name, snapshot).map(|conflict| conflict.violation);
        remark(&mut remarks, &subject, Weight::Error, refused);
        remark(&mut remarks, &subject, Weight::Error, conflict);
    }
    for (key, vpc) in &snapshot.vpcs {
        let subject = Subject::Vpc(key.clone());
        let refused = admit_vpc(key, &vpc.spec, &snapshot.settings).err();
        remark(
            &mut remarks,
            &subject,
            Weight::Error,
            refused.unwrap_or_default(),
        );
        remark(
            &mut remarks,
            &subject,
            Weight::Warning,
            vpc_warnings(&vpc.spec),
        );
        let subnets = FieldPath::spec().field("subnets");
        for (index, subnet) in vpc.spec.subnets.iter().enumerate() {
            let Some(proxmox) = &subnet.proxmox else {
                continue;
            };
            let asked = proxmox.zone.as_deref().map(ZoneName::from);
            let Err(refusal) = choose_zone(&key.namespace, asked.as_ref(), snapshot) else {
                continue;
            };
            let mut path = subnets.index(index).field("proxmox");
            if asked.is_some() {
                path = path.field("zone");
            }
            let weight = match refusal.reason {
                Reason::NoZone => Weight::Unchecked,
                _ => Weight::Error,
            };
            let message = refusal.message;
            remark(
                &mut remarks,
                &subject,
                weight,
                [Violation { path, message }],
            );
        }
    }
    remarks
}

fn remark(
    remarks: &mut Vec<Remark>,
    subject: &Subject,
    weight: Weight,
    violations: impl IntoIterator<Item = Violation>,
) {
    remarks.extend(violations.into_iter().map(|violation| Remark {
        subject: subject.clone(),
        weight,
        violation,
    }));
}
