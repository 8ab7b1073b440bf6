//! Zones among each other (design 2.1, "The wire").
//!
//! Called by the planner before a zone allocates, and by `causeway check`.
//! Must stay true: of all zones that this lets work, no two have a VLAN number in common on one
//! wire, one NIC of one node, or one bridge under two wires, in whatever order they were created.
//! That holds because a zone works only if it fits every working zone created before it. A zone
//! that cannot work does not stand in others' way, unless networks still hold numbers of it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    FieldPath, Violation, ZoneInput, admit_zone,
    rules::{listed, selector_text},
    zone::{DEFAULT_WIRE, vid_entry},
};
use crate::{
    conditions::Reason,
    model::{NodeName, Requirement, Selector, Trunk, Vid, VidRanges, ZoneName},
    snapshot::{NodeState, Snapshot},
};

/// A zone contradicts one that was created earlier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneConflict {
    /// `WireConflict` or `NICShared`.
    pub reason: Reason,
    /// The field and message; names both sides.
    pub violation: Violation,
}

/// What keeps `zone` from working beside the zones created before it (creationTimestamp, then uid).
pub fn zone_conflict(zone: &ZoneName, snapshot: &Snapshot) -> Option<ZoneConflict> {
    let mut by_age: Vec<&ZoneName> = snapshot.zones.keys().collect();
    by_age.sort_by_key(|name| {
        let meta = snapshot.zones.get(*name).map(|zone| &zone.meta);
        meta.map(|meta| (meta.created, &meta.version.uid))
    });
    let holding: BTreeSet<&ZoneName> = snapshot
        .networks
        .values()
        .filter_map(|network| network.spec.as_ref()?.zone.as_ref())
        .collect();
    let mut standing: Vec<Ground> = Vec::new();
    for name in by_age {
        let input = &snapshot.zones.get(name)?.spec;
        let ground = Ground::of(name, input);
        let conflict = standing
            .iter()
            .find_map(|earlier| ground.conflict(earlier, &snapshot.nodes));
        if name == zone {
            return conflict;
        }
        let works = conflict.is_none() && admit_zone(name, input).is_ok();
        if works || holding.contains(name) {
            standing.push(ground);
        }
    }
    None
}

/// What a zone occupies. Entries that cannot be read occupy nothing.
struct Ground<'a> {
    name: &'a ZoneName,
    input: &'a ZoneInput,
    wire: &'a str,
    ranges: VidRanges,
    transit: Option<Vid>,
}

impl<'a> Ground<'a> {
    fn of(name: &'a ZoneName, input: &'a ZoneInput) -> Self {
        let mut ranges = VidRanges::default();
        for text in &input.vlans.ranges {
            ranges.add(&vid_entry(text).unwrap_or_default());
        }
        let transit = input.transit.as_ref();
        Self {
            name,
            input,
            wire: input.wire.as_deref().unwrap_or(DEFAULT_WIRE),
            ranges,
            transit: transit
                .and_then(|transit| u16::try_from(transit.vlan).ok())
                .and_then(|number| Vid::try_from(number).ok()),
        }
    }

    fn conflict(
        &self,
        earlier: &Self,
        nodes: &BTreeMap<NodeName, NodeState>,
    ) -> Option<ZoneConflict> {
        if self.wire == earlier.wire {
            self.trunk_differs(earlier)
                .or_else(|| self.number_shared(earlier))
        } else {
            self.nic_shared(earlier, nodes)
                .or_else(|| self.bridge_shared(earlier))
        }
    }

    fn trunk_differs(&self, earlier: &Self) -> Option<ZoneConflict> {
        let (mine, theirs) = (&self.input.trunk, &earlier.input.trunk);
        let equal = mine.interface == theirs.interface
            && exceptions(mine) == exceptions(theirs)
            && mine.node_selector == theirs.node_selector;
        (!equal).then(|| ZoneConflict {
            reason: Reason::WireConflict,
            violation: Violation {
                path: FieldPath::spec().field("trunk"),
                message: format!(
                    "zone \"{}\" and the earlier zone \"{}\" are on wire \"{}\" with different trunks: {}; {}. Write the same trunk block in both, or name another wire",
                    self.name,
                    earlier.name,
                    self.wire,
                    described(mine),
                    described(theirs),
                ),
            },
        })
    }

    fn number_shared(&self, earlier: &Self) -> Option<ZoneConflict> {
        let vlans = FieldPath::spec().field("vlans").field("ranges");
        let transit = FieldPath::spec().field("transit").field("vlan");
        let in_ranges = |vid: Vid| {
            let entry = self
                .input
                .vlans
                .ranges
                .iter()
                .position(|text| vid_entry(text).is_ok_and(|entry| entry.contains(vid)));
            entry.map_or_else(|| vlans.clone(), |index| vlans.index(index))
        };
        let (path, vid, whose) = if let Some(vid) = self.ranges.first_shared(&earlier.ranges) {
            (in_ranges(vid), vid, "hands out, too")
        } else if let Some(vid) = earlier.transit.filter(|vid| self.ranges.contains(*vid)) {
            (in_ranges(vid), vid, "has as its transit VLAN")
        } else if let Some(vid) = self.transit.filter(|vid| earlier.ranges.contains(*vid)) {
            (transit, vid, "hands out")
        } else {
            let vid = self.transit.filter(|vid| earlier.transit == Some(*vid))?;
            (transit, vid, "has as its transit VLAN, too")
        };
        Some(ZoneConflict {
            reason: Reason::WireConflict,
            violation: Violation {
                path,
                message: format!(
                    "zone \"{}\" has VLAN {vid}, which the earlier zone \"{}\" on the same wire \"{}\" {whose}; zones of one wire need disjoint numbers, transit included",
                    self.name, earlier.name, self.wire
                ),
            },
        })
    }

    fn nic_shared(
        &self,
        earlier: &Self,
        nodes: &BTreeMap<NodeName, NodeState>,
    ) -> Option<ZoneConflict> {
        let (nic, node) = shared_nic(&self.input.trunk, &earlier.input.trunk, nodes)?;
        Some(ZoneConflict {
            reason: Reason::NICShared,
            violation: Violation {
                path: FieldPath::spec().field("trunk").field("interface"),
                message: format!(
                    "{nic} of {node} is the trunk of wire \"{}\" (zone \"{}\") and of wire \"{}\" (earlier zone \"{}\"); one NIC carries one wire: name the same wire, another NIC, or other nodes",
                    self.wire, self.name, earlier.wire, earlier.name
                ),
            },
        })
    }

    fn bridge_shared(&self, earlier: &Self) -> Option<ZoneConflict> {
        let separate = self.input.separate_fabric || earlier.input.separate_fabric;
        (self.input.bridge == earlier.input.bridge && !separate).then(|| ZoneConflict {
            reason: Reason::WireConflict,
            violation: Violation {
                path: FieldPath::spec().field("wire"),
                message: format!(
                    "bridge {} is on wire \"{}\" in zone \"{}\" and on wire \"{}\" in the earlier zone \"{}\"; one switch fabric is one number space: name the same wire, or, if the two are separate fabrics, annotate one of the zones proxmox.cozystack.io/separate-fabric: \"true\"",
                    self.input.bridge, self.wire, self.name, earlier.wire, earlier.name
                ),
            },
        })
    }
}

fn described(trunk: &Trunk) -> String {
    let exceptions = trunk.exceptions.iter().map(|one| {
        let nodes = listed(&one.nodes);
        format!(", {} on {nodes}", one.interface)
    });
    let nodes = if trunk.node_selector.is_empty() {
        " on every node".to_owned()
    } else {
        format!(" on nodes with {}", selector_text(&trunk.node_selector))
    };
    [trunk.interface.clone(), nodes]
        .into_iter()
        .chain(exceptions)
        .collect()
}

fn exceptions(trunk: &Trunk) -> BTreeMap<&NodeName, &str> {
    let each = trunk.exceptions.iter();
    each.flat_map(|one| one.nodes.iter().map(|node| (node, one.interface.as_str())))
        .collect()
}

fn nic<'a>(trunk: &'a Trunk, node: &NodeName) -> &'a str {
    let exceptional = trunk.exceptions.iter().find(|one| one.nodes.contains(node));
    exceptional.map_or(&trunk.interface, |one| &one.interface)
}

/// A NIC that both trunks would take, and of what.
fn shared_nic(
    one: &Trunk,
    other: &Trunk,
    nodes: &BTreeMap<NodeName, NodeState>,
) -> Option<(String, String)> {
    if nodes.is_empty() {
        return shared_nic_anywhere(one, other);
    }
    nodes.iter().find_map(|(name, node)| {
        let both = [one, other]
            .iter()
            .all(|trunk| trunk.node_selector.matches(&node.labels));
        let same = nic(one, name) == nic(other, name);
        (both && same).then(|| (nic(one, name).to_owned(), format!("node \"{name}\"")))
    })
}

/// Without nodes to look at (files): only where one selector takes whatever the other takes.
fn shared_nic_anywhere(one: &Trunk, other: &Trunk) -> Option<(String, String)> {
    let (a, b) = (&one.node_selector, &other.node_selector);
    if !covers(a, b) && !covers(b, a) {
        return None;
    }
    if one.interface == other.interface {
        return Some((
            one.interface.clone(),
            "the nodes that both select".to_owned(),
        ));
    }
    let named = exceptions(one)
        .into_keys()
        .chain(exceptions(other).into_keys());
    named
        .filter(|node| nic(one, node) == nic(other, node))
        .map(|node| (nic(one, node).to_owned(), format!("node \"{node}\"")))
        .next()
}

/// Whether every node that `narrow` selects is surely one of `wide`'s.
fn covers(wide: &Selector, narrow: &Selector) -> bool {
    let labels = wide
        .labels
        .iter()
        .all(|(key, value)| narrow.labels.get(key) == Some(value));
    let listed = |one: &Requirement| narrow.expressions.contains(one);
    labels && wide.expressions.iter().all(listed)
}
