//! What may be changed of a zone that networks are in (design 2.1, "Zone edits").
//!
//! Called by the webhook. Must stay true: no edit moves a network to another wire or trunk, and no
//! number leaves the ranges while its VLAN exists.

use super::{
    FieldPath, Violation, ZoneInput, conflict::zone_conflict, rules::Broken, rules::listed,
    zone::admit_zone,
};
use crate::{
    model::{VidRanges, ZoneName, ZoneSpec},
    snapshot::Snapshot,
};

/// Every change that the zone's networks do not bear, in the order of the fields. The snapshot
/// holds the zone as it is.
pub(super) fn zone_change(
    name: &ZoneName,
    old: &ZoneInput,
    new: &ZoneInput,
    snapshot: &Snapshot,
) -> Vec<Violation> {
    let mut broken = Broken::default();
    let networks = networks_of(name, snapshot);
    if !networks.is_empty() {
        fixed_fields(old, new, &networks, &mut broken);
    }
    // Specs that cannot be read hold nothing that could be lost.
    if let (Ok(old), Ok(new)) = (admit_zone(name, old), admit_zone(name, new)) {
        numbers_in_use(&old, &new, snapshot, &mut broken);
    }
    broken.0
}

/// The zone's networks, as `tenant-a/main subnet workers`.
fn networks_of(zone: &ZoneName, snapshot: &Snapshot) -> Vec<String> {
    let records = snapshot.networks.iter();
    let records = records.filter_map(|(key, seen)| Some((key, seen.spec.as_ref()?)));
    records
        .filter(|(_, record)| record.zone.as_ref() == Some(zone))
        .map(|(key, record)| format!("{}/{} subnet {}", key.namespace, record.vpc, record.subnet))
        .collect()
}

fn fixed_fields(old: &ZoneInput, new: &ZoneInput, networks: &[String], broken: &mut Broken) {
    let spec = FieldPath::spec();
    let trunk = spec.field("trunk");
    let wire = |zone: &ZoneInput| zone.wire.clone().unwrap_or_else(|| "default".to_owned());
    let mtu = |zone: &ZoneInput| zone.mtu.unwrap_or(1500).to_string();
    let exceptions = |zone: &ZoneInput| format!("{:?}", zone.trunk.exceptions);
    let fields = [
        (spec.field("bridge"), old.bridge.clone(), new.bridge.clone()),
        (spec.field("wire"), wire(old), wire(new)),
        (spec.field("mtu"), mtu(old), mtu(new)),
        (
            trunk.field("interface"),
            old.trunk.interface.clone(),
            new.trunk.interface.clone(),
        ),
    ];
    let why = format!(
        "cannot be changed while networks are in the zone: {}; make another zone",
        listed(networks)
    );
    for (path, was, is) in fields {
        if was != is {
            broken.refuse(&path, format!("{was} {why}"));
        }
    }
    if exceptions(old) != exceptions(new) {
        broken.refuse(&trunk.field("interfaces"), &why);
    }
}

/// Numbers may leave the ranges once no Vlan has them; one that rests still counts.
fn numbers_in_use(old: &ZoneSpec, new: &ZoneSpec, snapshot: &Snapshot, broken: &mut Broken) {
    let left: VidRanges = old.ranges.without(&new.ranges);
    let provider = old.wire.provider_network();
    let held: Vec<String> = snapshot
        .vlans
        .values()
        .filter(|vlan| vlan.spec.provider == provider && vlan.spec.owner.is_some())
        .filter_map(|vlan| {
            let vid = vlan.spec.vid.filter(|vid| left.contains(*vid))?;
            let owner = crate::model::objects::owner(&vlan.meta.labels);
            let owner = owner.map_or_else(
                || "somebody".to_owned(),
                |(vpc, subnet)| format!("{vpc} subnet {subnet}"),
            );
            let rest = match vlan.spec.released {
                Some(_) => ", resting",
                None => "",
            };
            Some(format!("{vid} ({owner}{rest})"))
        })
        .collect();
    if !held.is_empty() {
        broken.refuse(
            &FieldPath::spec().field("vlans").field("ranges"),
            format!(
                "numbers in use would leave the ranges: {}; keep them, or reserve them so that \
                 they are not handed out again",
                listed(held)
            ),
        );
    }
}

/// Other zones that work now and would not beside the zone as it would be.
pub(super) fn zones_hurt(name: &ZoneName, now: &Snapshot, then: &Snapshot) -> Vec<Violation> {
    let others = then.zones.keys().filter(|other| *other != name);
    let hurt = others.filter(|other| zone_conflict(other, now).is_none());
    hurt.filter_map(|other| zone_conflict(other, then))
        .map(|conflict| conflict.violation)
        .collect()
}
