//! Who uses a subnet (design 3.7, "in use"): whoever has, or asks for, one of its addresses.
//!
//! Called by the plan of a VPC before it takes anything away, and by the rules of admission. Must
//! stay true: an address that a pool counts as used is counted here too, whether or not the object
//! that holds it was seen.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr};

use crate::{
    model::SubnetKey,
    snapshot::{AddressClaim, Snapshot},
    vpc::some_names,
};

/// An address that a machine has or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Kind and name of whose it is.
    pub name: String,
    /// None: asked for, not given yet.
    pub address: Option<Ipv4Addr>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{} ({address})", self.name),
            None => write!(f, "{} (no address yet)", self.name),
        }
    }
}

/// The users of one subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pods and KubeVirt VMs, with their addresses.
    pub pods: Vec<(String, Option<Ipv4Addr>)>,
    /// Machines with an address of the pool, or waiting for one.
    pub machines: Vec<Holder>,
    /// Addresses that the pool counts as used although nobody was seen to hold them.
    pub unseen: u64,
}

impl Usage {
    /// Who uses the subnet's switch and pool.
    pub fn of(key: &SubnetKey, snapshot: &Snapshot) -> Self {
        Self {
            pods: pods(key, snapshot),
            ..Self::of_pool(key, snapshot)
        }
    }

    /// Who uses the subnet's pool.
    pub fn of_pool(key: &SubnetKey, snapshot: &Snapshot) -> Self {
        let machines = machines(key, snapshot);
        let status = snapshot.pools.get(key).and_then(|pool| pool.status);
        let given = machines.iter().filter(|one| one.address.is_some()).count();
        let used = status.map_or(0, |figures| figures.used);
        Self {
            pods: Vec::new(),
            unseen: used.saturating_sub(given as u64),
            machines,
        }
    }

    /// Whether nobody does.
    pub fn is_none(&self) -> bool {
        self.pods.is_empty() && self.machines.is_empty() && self.unseen == 0
    }

    /// How many addresses are had or asked for.
    pub fn count(&self) -> u64 {
        (self.pods.len() + self.machines.len()) as u64 + self.unseen
    }

    /// The first of them by name, machines before pods, and how many more there are.
    pub fn named(&self, key: &SubnetKey) -> String {
        let machines = self.machines.iter().map(ToString::to_string);
        let pods = self.pods.iter().map(|(pod, _)| format!("pod {pod}"));
        let names = some_names(machines.chain(pods));
        let unseen = match self.unseen {
            0 => String::new(),
            more => format!("{more} of InClusterIPPool \"{}\"", key.id),
        };
        [names, unseen]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }
}

fn pods(key: &SubnetKey, snapshot: &Snapshot) -> Vec<(String, Option<Ipv4Addr>)> {
    let ips = snapshot.ips.values();
    ips.filter(|ip| ip.subnet == key.id.as_str())
        .map(|ip| (format!("{}/{}", ip.namespace, ip.pod), ip.address))
        .collect()
}

fn machines(key: &SubnetKey, snapshot: &Snapshot) -> Vec<Holder> {
    let of_pool = |pool: &SubnetKey| pool == key;
    let mut given: BTreeMap<&str, Ipv4Addr> = BTreeMap::new();
    let mut holders = Vec::new();
    for address in snapshot.addresses.values().filter(|one| of_pool(&one.pool)) {
        let Some(address_of_it) = address.address else {
            continue;
        };
        if snapshot.claims.contains_key(&address.claim) {
            given.insert(&address.claim, address_of_it);
        } else {
            holders.push(Holder {
                name: "IPAddress without claim".to_owned(),
                address: Some(address_of_it),
            });
        }
    }
    let claims = snapshot.claims.iter();
    let claims = claims.filter(|(_, claim)| of_pool(&claim.pool));
    let named = claims.map(|(name, claim)| Holder {
        name: claimant(name, claim),
        address: given.get(name.as_str()).copied(),
    });
    named.chain(holders).collect()
}

fn claimant(name: &str, claim: &AddressClaim) -> String {
    let plain = || format!("IPAddressClaim {name}");
    claim.owner.clone().unwrap_or_else(plain)
}
