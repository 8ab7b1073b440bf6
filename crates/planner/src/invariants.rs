//! What must hold of any observed state, whatever was planned: checked after every step of every
//! scenario, independent of the planner's own code paths.

use std::{collections::BTreeMap, fmt};

use crate::{
    model::{AddrRange, SubnetId, Uid, Vid},
    snapshot::Snapshot,
};

/// A broken invariant, with its subjects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// Two claims hold one number of one `ProviderNetwork`.
    NumberTwice {
        /// The number.
        vid: Vid,
        /// Names of the Vlans.
        claims: [String; 2],
    },
    /// Two Subnets of ours are on one Vlan.
    VlanShared {
        /// Name of the Vlan.
        vlan: String,
        /// Names of the Subnets.
        subnets: [String; 2],
    },
    /// A Subnet of ours is on a Vlan that another network claims, or nobody.
    NotTheOwner {
        /// Name of the Subnet.
        subnet: String,
        /// Name of the Vlan.
        vlan: String,
    },
    /// A Subnet of ours is on a claim that is released.
    ReleasedInUse {
        /// Name of the Subnet.
        subnet: String,
        /// Name of the Vlan.
        vlan: String,
    },
    /// Kube-OVN may give pods an address that a pool gives to machines.
    GivenTwice {
        /// Name of the Subnet and of the pool.
        subnet: String,
        /// The pool's addresses.
        pool: AddrRange,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NumberTwice {
                vid,
                claims: [a, b],
            } => {
                write!(f, "VLAN {vid} is claimed twice: {a}, {b}")
            }
            Self::VlanShared {
                vlan,
                subnets: [a, b],
            } => {
                write!(f, "Vlan {vlan} carries two Subnets: {a}, {b}")
            }
            Self::NotTheOwner { subnet, vlan } => {
                write!(
                    f,
                    "Subnet {subnet} is on Vlan {vlan}, which is not its network's"
                )
            }
            Self::GivenTwice { subnet, pool } => {
                write!(
                    f,
                    "pods of Subnet {subnet} may get addresses of its pool, {pool}"
                )
            }
            Self::ReleasedInUse { subnet, vlan } => {
                write!(f, "Subnet {subnet} is on Vlan {vlan}, which is released")
            }
        }
    }
}

/// Every broken invariant.
pub fn check(snapshot: &Snapshot) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut by_number: BTreeMap<(&str, Vid), &String> = BTreeMap::new();
    for (name, vlan) in &snapshot.vlans {
        let (Some(_), Some(vid)) = (&vlan.spec.owner, vlan.spec.vid) else {
            continue;
        };
        if let Some(other) = by_number.insert((&vlan.spec.provider, vid), name) {
            broken.push(Broken::NumberTwice {
                vid,
                claims: [other.clone(), name.clone()],
            });
        }
    }
    let owners: BTreeMap<&SubnetId, &Uid> = snapshot
        .networks
        .iter()
        .map(|(key, seen)| (&key.id, &seen.meta.version.uid))
        .collect();
    let mut by_vlan: BTreeMap<&String, &String> = BTreeMap::new();
    for (name, seen) in snapshot.subnets.iter().filter(|(_, s)| s.meta.is_ours()) {
        let Some(vlan) = seen.spec.as_ref().and_then(|spec| spec.vlan.as_ref()) else {
            continue;
        };
        if let Some(other) = by_vlan.insert(vlan, name) {
            broken.push(Broken::VlanShared {
                vlan: vlan.clone(),
                subnets: [other.clone(), name.clone()],
            });
        }
        let owner = owners.get(&SubnetId::from(name.as_str())).copied();
        let claim = snapshot.vlans.get(vlan);
        if claim.and_then(|claim| claim.spec.owner.as_ref()) != owner || owner.is_none() {
            broken.push(Broken::NotTheOwner {
                subnet: name.clone(),
                vlan: vlan.clone(),
            });
        } else if claim.is_some_and(|claim| claim.spec.released.is_some()) {
            broken.push(Broken::ReleasedInUse {
                subnet: name.clone(),
                vlan: vlan.clone(),
            });
        }
    }
    broken.extend(given_twice(snapshot));
    broken
}

fn given_twice(snapshot: &Snapshot) -> impl Iterator<Item = Broken> {
    let ours = snapshot
        .pools
        .iter()
        .filter(|(_, seen)| seen.meta.is_ours());
    let ranges = ours.flat_map(|(key, seen)| {
        let texts = seen.spec.iter().flat_map(|pool| &pool.addresses);
        let ranges = texts.filter_map(|text| text.parse::<AddrRange>().ok());
        ranges.map(|range| (key.id.to_string(), range))
    });
    ranges.filter_map(|(subnet, pool)| {
        let status = snapshot.subnets.get(&subnet)?.status.as_ref()?;
        let available = status.available.as_ref()?;
        let given = available.iter().any(|range| range.overlaps(&pool));
        given.then_some(Broken::GivenTwice { subnet, pool })
    })
}
