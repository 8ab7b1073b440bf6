//! What a VPC may become, seen from what runs (design 2.2): rules that need the networks that exist,
//! their addresses, or the site around them.
//!
//! Called by the controller's last look, by the webhook, and by `check` and `plan` with `--live`. Must
//! stay true: a subnet that exists and is left as it is breaks none of these rules, whatever has
//! changed around it; it runs on.

use super::{
    FieldPath, Violation,
    reserved::reserved,
    rules::{Broken, listed},
};
use crate::{
    model::{
        AddrRange, Cidr, KubeOvnSubnet, NetworkRecord, SubnetBacking, SubnetKey, SubnetName,
        SubnetSpec, VpcKey, VpcSpec, ZoneName,
    },
    snapshot::Snapshot,
    usage::Usage,
};

/// Every change that what runs does not bear, in the order of the fields. A VPC that is not in the
/// snapshot is new: what an earlier one has left is no change of it, but see [`must_drain`].
pub fn vpc_change(key: &VpcKey, spec: &VpcSpec, snapshot: &Snapshot) -> Vec<Violation> {
    let mut broken = Broken::default();
    let is_new = !snapshot.vpcs.contains_key(key);
    let list = FieldPath::spec().field("subnets");
    let site = reserved(snapshot);
    for (index, subnet) in spec.subnets.iter().enumerate() {
        let path = list.index(index);
        match Existing::of(key, subnet, snapshot) {
            Some(existing) if is_new && existing.difference(subnet).is_some() => {}
            Some(existing) => existing.change(&path, key, subnet, snapshot, &mut broken),
            None => on_the_site(&path, subnet, &site, &mut broken),
        }
    }
    broken.0
}

/// Subnets that cannot take over what an earlier VPC of the same name has left: that drains first
/// (design 3.7).
pub fn must_drain(
    key: &VpcKey,
    spec: &VpcSpec,
    snapshot: &Snapshot,
) -> Vec<(SubnetName, Violation)> {
    let list = FieldPath::spec().field("subnets");
    let subnets = spec.subnets.iter().enumerate();
    let drains = subnets.filter_map(|(index, subnet)| {
        let difference = Existing::of(key, subnet, snapshot)?.difference(subnet)?;
        let network = network_key(key, subnet);
        let usage = Usage::of(&network, snapshot);
        let by = if usage.is_none() {
            String::new()
        } else {
            format!(", held by {}", usage.named(&network))
        };
        let message = format!(
            "an earlier subnet \"{}\" is {} and still drains{by}; the new one is made when it is gone",
            subnet.name,
            difference.was()
        );
        let path = difference.path(&list.index(index));
        Some((subnet.name.clone(), Violation { path, message }))
    });
    drains.collect()
}

fn on_the_site(
    path: &FieldPath,
    subnet: &SubnetSpec,
    site: &[(Cidr, String)],
    broken: &mut Broken,
) {
    let taken = site.iter().filter(|(taken, _)| subnet.cidr.overlaps(taken));
    for (taken, what) in taken {
        let message = format!(
            "{} overlaps {taken}, {what}; choose another CIDR",
            subnet.cidr
        );
        broken.refuse(&path.field("cidr"), message);
    }
}

fn network_key(key: &VpcKey, subnet: &SubnetSpec) -> SubnetKey {
    SubnetKey {
        namespace: key.namespace.clone(),
        id: key.subnet_id(&subnet.name),
    }
}

/// What of a subnet that exists would be another.
enum Difference {
    WasNetwork,
    WasOverlay,
    Cidr(Cidr),
    Zone(ZoneName),
}

impl Difference {
    /// The field, below the subnet's path.
    fn path(&self, subnet: &FieldPath) -> FieldPath {
        match self {
            Self::WasNetwork | Self::WasOverlay => subnet.field("proxmox"),
            Self::Cidr(_) => subnet.field("cidr"),
            Self::Zone(_) => subnet.field("proxmox").field("zone"),
        }
    }

    /// What cannot be done.
    fn refusal(&self) -> String {
        match self {
            Self::WasNetwork => "cannot be removed".to_owned(),
            Self::WasOverlay => "cannot be added".to_owned(),
            Self::Cidr(cidr) => format!("{cidr} cannot be changed"),
            Self::Zone(zone) => format!("zone \"{zone}\" cannot be changed"),
        }
    }

    /// How it was.
    fn was(&self) -> String {
        match self {
            Self::WasNetwork => "Proxmox-backed".to_owned(),
            Self::WasOverlay => "an overlay subnet".to_owned(),
            Self::Cidr(cidr) => cidr.to_string(),
            Self::Zone(zone) => format!("in zone \"{zone}\""),
        }
    }
}

/// What is there of a subnet's name.
enum Existing<'a> {
    Network(&'a NetworkRecord),
    Overlay(&'a KubeOvnSubnet),
}

impl<'a> Existing<'a> {
    fn of(key: &VpcKey, subnet: &SubnetSpec, snapshot: &'a Snapshot) -> Option<Self> {
        let network = network_key(key, subnet);
        let record = snapshot.networks.get(&network);
        if let Some(record) = record.and_then(|seen| seen.spec.as_ref()) {
            return Some(Self::Network(record));
        }
        let overlay = snapshot.subnets.get(network.id.as_str())?;
        let spec = overlay.spec.as_ref().filter(|spec| spec.vlan.is_none())?;
        (!overlay.meta.is_of_another(key)).then_some(Self::Overlay(spec))
    }

    /// What is fixed and would be another.
    fn difference(&self, subnet: &SubnetSpec) -> Option<Difference> {
        match (self, &subnet.backing) {
            (Self::Network(_), SubnetBacking::Overlay { .. }) => Some(Difference::WasNetwork),
            (Self::Overlay(_), SubnetBacking::Proxmox { .. }) => Some(Difference::WasOverlay),
            (Self::Overlay(overlay), SubnetBacking::Overlay { .. }) => {
                (overlay.cidr != subnet.cidr).then_some(Difference::Cidr(overlay.cidr))
            }
            (Self::Network(record), SubnetBacking::Proxmox { zone, .. }) => {
                if record.cidr != subnet.cidr {
                    return Some(Difference::Cidr(record.cidr));
                }
                // Naming the zone that it has is no change.
                let (has, named) = (record.zone.as_ref()?, zone.as_ref()?);
                (has != named).then(|| Difference::Zone(has.clone()))
            }
        }
    }

    fn change(
        &self,
        path: &FieldPath,
        key: &VpcKey,
        subnet: &SubnetSpec,
        snapshot: &Snapshot,
        broken: &mut Broken,
    ) {
        if let Some(difference) = self.difference(subnet) {
            let message = format!(
                "{} while subnet \"{}\" exists; remove it and add it under a new name",
                difference.refusal(),
                subnet.name
            );
            broken.refuse(&difference.path(path), message);
            return;
        }
        let (Self::Network(record), SubnetBacking::Proxmox { vm_range, .. }) =
            (self, &subnet.backing)
        else {
            return;
        };
        let path = path.field("proxmox").field("vmRange");
        let network = network_key(key, subnet);
        for message in vm_range_change(&network, record.vm_range, *vm_range, snapshot) {
            broken.refuse(&path, message);
        }
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
