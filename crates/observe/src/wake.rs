//! Whom a change concerns. Too many is harmless (a pass that writes nothing); too few is mended by
//! the next full pass.

use std::collections::BTreeSet;

use causeway_drive::Wakes;
use causeway_planner::{
    model::{NodeName, ProviderNetwork, SubnetId, VpcId, objects},
    snapshot::{Meta, Mirror, ProviderNetworkState, Seen, Snapshot},
    vpc::known_vpcs,
};

use crate::Key;

/// Every key.
pub(crate) fn everything(snapshot: &Snapshot, wakes: &Wakes<Key>) {
    zones(snapshot, wakes);
    vpcs(snapshot, wakes);
    wakes.wake(Key::Northbound);
}

/// Every zone.
pub(crate) fn zones(snapshot: &Snapshot, wakes: &Wakes<Key>) {
    for zone in snapshot.zones.keys() {
        wakes.wake(Key::Zone(zone.clone()));
    }
}

/// Every VPC.
pub(crate) fn vpcs(snapshot: &Snapshot, wakes: &Wakes<Key>) {
    for vpc in known_vpcs(snapshot) {
        wakes.wake(Key::Vpc(vpc));
    }
}

/// The VPC whose labels an object bears, or bore.
pub(crate) fn owners<T, S>(old: Option<&Seen<T, S>>, new: Option<&Seen<T, S>>, wakes: &Wakes<Key>) {
    for seen in old.into_iter().chain(new) {
        if let Some(vpc) = objects::vpc_owner(&seen.meta.labels) {
            wakes.wake(Key::Vpc(vpc));
        }
    }
}

/// An object without its status and versions: what others' decisions depend on.
pub(crate) fn content<T, S>(seen: Option<&Seen<T, S>>) -> Option<(&T, bool, &objects::Labels)> {
    let Seen { meta, spec, .. } = seen?;
    let Meta {
        deleting, labels, ..
    } = meta;
    Some((spec, *deleting, labels))
}

type SeenProviderNetwork = Mirror<ProviderNetwork, ProviderNetworkState>;

/// The nodes that a trunk is ready on.
pub(crate) fn ready_nodes(seen: Option<&SeenProviderNetwork>) -> Option<&BTreeSet<NodeName>> {
    Some(&seen?.status.as_ref()?.ready_nodes)
}

/// The owners of Vlans that a `ProviderNetwork` has begun or ceased to carry.
pub(crate) fn carried_vlans(
    snapshot: &Snapshot,
    old: Option<&SeenProviderNetwork>,
    new: Option<&SeenProviderNetwork>,
    wakes: &Wakes<Key>,
) {
    let none = BTreeSet::new();
    let vlans = |seen: Option<&SeenProviderNetwork>| {
        seen.and_then(|seen| seen.status.as_ref())
            .map_or_else(|| none.clone(), |status| status.vlans.clone())
    };
    for name in vlans(old).symmetric_difference(&vlans(new)) {
        owners(snapshot.vlans.get(name), None, wakes);
    }
}

/// The VPCs with a network that has no VLAN: a number may be free now.
pub(crate) fn without_vlan(snapshot: &Snapshot, wakes: &Wakes<Key>) {
    for seen in snapshot.networks.values() {
        if seen
            .status
            .as_ref()
            .is_none_or(|status| status.vlan.is_none())
        {
            owners(Some(seen), None, wakes);
        }
    }
}

/// The VPC whose router has this port: `<vpcId>-<subnetId>`.
pub(crate) fn port_owner(snapshot: &Snapshot, port: &str, wakes: &Wakes<Key>) {
    // A vpcId is `vpc-` and 6 hex digits.
    const ID: usize = 10;
    let router = port.get(..ID).map(VpcId::from);
    owners(router.and_then(|id| snapshot.routers.get(&id)), None, wakes);
}

/// The VPC of the network or overlay subnet of this id.
pub(crate) fn subnet_owner(snapshot: &Snapshot, id: &str, wakes: &Wakes<Key>) {
    owners(snapshot.subnets.get(id), None, wakes);
    let id = SubnetId::from(id);
    for (key, seen) in &snapshot.networks {
        if key.id == id {
            owners(Some(seen), None, wakes);
        }
    }
    // The Subnet may be gone and its attachment not: an overlay subnet that is being removed.
    for (key, seen) in &snapshot.attachments {
        if key.id == id {
            owners(Some(seen), None, wakes);
        }
    }
}
