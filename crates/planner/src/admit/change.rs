//! What a VPC may become, seen from what runs (design 2.2): rules that need the networks that exist,
//! their addresses, or the site around them.
//!
//! Called by the controller's last look, by the webhook and by `causeway check --live`. Must stay
//! true: a subnet that exists and is left as it is breaks none of these rules, whatever has changed
//! around it; it runs on.

use super::{
    FieldPath, Violation,
    reserved::reserved,
    rules::{Broken, listed},
};
use crate::{
    model::{
        AddrRange, KubeOvnSubnet, NetworkRecord, SubnetBacking, SubnetKey, SubnetSpec, VpcKey,
        VpcSpec,
    },
    snapshot::Snapshot,
    usage::Usage,
};

/// Every change that what runs does not bear, in the order of the fields.
pub fn vpc_change(key: &VpcKey, spec: &VpcSpec, snapshot: &Snapshot) -> Vec<Violation> {
    let mut broken = Broken::default();
    let list = FieldPath::spec().field("subnets");
    let site = reserved(snapshot);
    for (index, subnet) in spec.subnets.iter().enumerate() {
        let path = list.index(index);
        let id = key.subnet_id(&subnet.name);
        let network = SubnetKey {
            namespace: key.namespace.clone(),
            id: id.clone(),
        };
        let record = snapshot.networks.get(&network);
        if let Some(record) = record.and_then(|seen| seen.spec.as_ref()) {
            network_change(&path, &network, record, subnet, snapshot, &mut broken);
            continue;
        }
        let overlay = snapshot.subnets.get(id.as_str());
        let overlay = overlay.filter(|seen| !seen.meta.is_of_another(key));
        match overlay.and_then(|seen| seen.spec.as_ref()) {
            Some(overlay) if overlay.vlan.is_none() => {
                overlay_change(&path, overlay, subnet, &mut broken);
            }
            _ => {
                for (taken, what) in &site {
                    if subnet.cidr.overlaps(taken) {
                        let message = format!(
                            "{} overlaps {taken}, {what}; choose another CIDR",
                            subnet.cidr
                        );
                        broken.refuse(&path.field("cidr"), message);
                    }
                }
            }
        }
    }
    broken.0
}

fn stays(subnet: &SubnetSpec) -> String {
    format!(
        "while subnet \"{}\" exists; remove it and add it under a new name",
        subnet.name
    )
}

fn network_change(
    path: &FieldPath,
    key: &SubnetKey,
    record: &NetworkRecord,
    subnet: &SubnetSpec,
    snapshot: &Snapshot,
    broken: &mut Broken,
) {
    let stays = stays(subnet);
    let proxmox = path.field("proxmox");
    let SubnetBacking::Proxmox { zone, vm_range } = &subnet.backing else {
        broken.refuse(&proxmox, format!("cannot be removed {stays}"));
        return;
    };
    if record.cidr != subnet.cidr {
        let message = format!("{} cannot be changed {stays}", record.cidr);
        broken.refuse(&path.field("cidr"), message);
        return;
    }
    // Naming the zone that it has is no change.
    if let (Some(has), Some(named)) = (&record.zone, zone)
        && has != named
    {
        let message = format!("zone \"{has}\" cannot be changed {stays}");
        broken.refuse(&proxmox.field("zone"), message);
    }
    let refused = vm_range_change(key, record.vm_range, *vm_range, snapshot);
    for message in refused {
        broken.refuse(&proxmox.field("vmRange"), message);
    }
}

/// Addresses are never taken from a machine that has one, nor given to one while a pod has it.
fn vm_range_change(
    key: &SubnetKey,
    old: AddrRange,
    new: AddrRange,
    snapshot: &Snapshot,
) -> Vec<String> {
    if old == new {
        return Vec::new();
    }
    let usage = Usage::of(key, snapshot);
    let given = |one: &&crate::usage::Holder| one.address.is_some_and(|at| !new.contains(at));
    let left_out: Vec<_> = usage.machines.iter().filter(given).collect();
    let inside = |at: &std::net::Ipv4Addr| new.contains(*at) && !old.contains(*at);
    let pods: Vec<String> = usage
        .pods
        .iter()
        .filter_map(|(pod, at)| at.filter(inside).map(|at| format!("pod {pod} ({at})")))
        .collect();
    let mut refused = Vec::new();
    if !left_out.is_empty() {
        refused.push(format!(
            "{new} leaves out addresses that are in use: {}; remove those machines first, or keep \
             their addresses in the range",
            listed(left_out)
        ));
    }
    if !pods.is_empty() {
        refused.push(format!(
            "{new} takes in addresses that pods have: {}; remove those pods first, or leave their \
             addresses out",
            listed(pods)
        ));
    }
    refused
}

fn overlay_change(
    path: &FieldPath,
    overlay: &KubeOvnSubnet,
    subnet: &SubnetSpec,
    broken: &mut Broken,
) {
    let stays = stays(subnet);
    match subnet.backing {
        SubnetBacking::Proxmox { .. } => {
            broken.refuse(&path.field("proxmox"), format!("cannot be added {stays}"));
        }
        SubnetBacking::Overlay { .. } if overlay.cidr != subnet.cidr => {
            let message = format!("{} cannot be changed {stays}", overlay.cidr);
            broken.refuse(&path.field("cidr"), message);
        }
        SubnetBacking::Overlay { .. } => {}
    }
}

/// Networks that a spec takes away under their machines. Only a writer is refused so: once it is
/// written, the network is held until the last machine is gone (design 3.7). Pods do not refuse.
pub fn vpc_removals(key: &VpcKey, spec: &VpcSpec, snapshot: &Snapshot) -> Vec<Violation> {
    let mut broken = Broken::default();
    for (name, seen) in &snapshot.networks {
        let Some(record) = seen.spec.as_ref() else {
            continue;
        };
        let ours = name.namespace == key.namespace && record.vpc == key.name;
        let stays = spec.subnets.iter().any(|one| one.name == record.subnet);
        let usage = Usage::of_pool(name, snapshot);
        if ours && !stays && !usage.is_none() {
            let message = format!(
                "subnet \"{}\" cannot be removed while machines are on it: {}; remove them first",
                record.subnet,
                usage.named(name)
            );
            broken.refuse(&FieldPath::spec().field("subnets"), message);
        }
    }
    broken.0
}
