//! What nobody may take from the platform by hand (design 9.2): objects that a network needs while
//! it exists.
//!
//! Called by the admission webhook, which is not asked about writes of causeway itself, of Kube-OVN,
//! the garbage collector and the namespace controller. Must stay true: what is refused names what to
//! write instead; the annotation that overrides names the object's uid, so that it is worth nothing
//! on a copy.

use super::{FieldPath, Verdict, Violation};
use crate::{
    model::{NetworkRecord, SubnetKey, VpcKey, objects::keys},
    snapshot::{Meta, Mirror, NetworkStatus, Snapshot},
    usage::Usage,
};

/// A network as it is, or as it would be.
pub type SeenNetwork = Mirror<NetworkRecord, NetworkStatus>;

/// Labels by which causeway finds its objects again.
const OUR_LABELS: [&str; 5] = [
    keys::MANAGED_BY,
    keys::TENANT_NAME,
    keys::VPC_NAME,
    keys::VPC_ID,
    keys::SUBNET_NAME,
];

/// The answer to somebody else's write of a ProxmoxNetwork. `old` is None for a create, `new` is
/// None for a delete.
pub fn guard_network(
    key: &SubnetKey,
    old: Option<&SeenNetwork>,
    new: Option<&SeenNetwork>,
    snapshot: &Snapshot,
) -> Verdict {
    let refused = match (old, new) {
        (None, None) => Vec::new(),
        (None, Some(_)) => vec![create()],
        (Some(old), _) if may_disrupt(&old.meta) => Vec::new(),
        (Some(old), Some(new)) => update(old, new),
        (Some(old), None) => delete(key, old, snapshot).into_iter().collect(),
    };
    if refused.is_empty() {
        Verdict::Allow {
            warnings: Vec::new(),
        }
    } else {
        Verdict::Deny(refused)
    }
}

/// Whether the administrator has said that this very object may be broken.
fn may_disrupt(meta: &Meta) -> bool {
    let named = meta.annotations.get(keys::ALLOW_DISRUPTION);
    let uid = meta.version.uid.as_str();
    !uid.is_empty() && named.is_some_and(|named| named == uid)
}

fn at(steps: &[&str], message: String) -> Violation {
    let root = FieldPath::default();
    let path = steps.iter().fold(root, |path, step| path.field(step));
    Violation { path, message }
}

fn create() -> Violation {
    at(
        &["metadata", "name"],
        "a ProxmoxNetwork is written by causeway alone; write a subnet with `proxmox: {}` in a \
         VirtualPrivateCloud, and it makes one"
            .to_owned(),
    )
}

fn update(old: &SeenNetwork, new: &SeenNetwork) -> Vec<Violation> {
    let mut broken = Vec::new();
    if old.spec != new.spec {
        let message = format!(
            "a ProxmoxNetwork is written by causeway alone; change {} instead",
            place(old)
        );
        broken.push(at(&["spec"], message));
    }
    if old.meta.held && !new.meta.held {
        let message = format!(
            "finalizer {} is causeway's, which takes it away when the network is gone",
            keys::HOLD
        );
        broken.push(at(&["metadata", "finalizers"], message));
    }
    for label in OUR_LABELS {
        let (was, is) = (old.meta.labels.get(label), new.meta.labels.get(label));
        if let Some(was) = was
            && is != Some(was)
        {
            let message = format!("causeway finds the network by label {label}; keep {was:?}");
            broken.push(at(&["metadata", "labels"], message));
        }
    }
    broken
}

fn delete(key: &SubnetKey, old: &SeenNetwork, snapshot: &Snapshot) -> Option<Violation> {
    if old.meta.deleting {
        return None;
    }
    let why = match wanted_by(key, old, snapshot) {
        Some(why) => why,
        None => format!(
            "{}; it goes when they are given back",
            users(key, snapshot)?
        ),
    };
    let message = format!(
        "network {key} is needed: {why} (annotation {}: {:?} overrides)",
        keys::ALLOW_DISRUPTION,
        old.meta.version.uid.as_str()
    );
    Some(at(&["metadata", "name"], message))
}

/// The subnet that a network stands for.
fn place(network: &SeenNetwork) -> String {
    match &network.spec {
        Some(record) => format!(
            "subnet {:?} of VirtualPrivateCloud {:?}",
            record.subnet.as_str(),
            record.vpc.as_str()
        ),
        None => "the subnet of its VirtualPrivateCloud".to_owned(),
    }
}

/// That a VPC has the network's subnet, Proxmox-backed.
fn wanted_by(key: &SubnetKey, network: &SeenNetwork, snapshot: &Snapshot) -> Option<String> {
    let record = network.spec.as_ref()?;
    let vpc = VpcKey {
        namespace: key.namespace.clone(),
        name: record.vpc.clone(),
    };
    let seen = snapshot.vpcs.get(&vpc).filter(|seen| !seen.meta.deleting)?;
    let name = record.subnet.as_str();
    let mut subnets = seen.spec.subnets.iter();
    subnets
        .any(|subnet| subnet.proxmox.is_some() && subnet.name == name)
        .then(|| {
            format!("it is subnet {name:?} of VPC {vpc}; remove the subnet there, and it goes")
        })
}

/// Who holds an address of the network, or waits for one.
fn users(key: &SubnetKey, snapshot: &Snapshot) -> Option<String> {
    let usage = Usage::of(key, snapshot);
    (!usage.is_none()).then(|| format!("in use by {}", usage.named(key)))
}
