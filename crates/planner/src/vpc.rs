//! What a VPC becomes (design 3.3), and how it goes (3.7).
//!
//! Called by the controller for key Vpc, for as long as anything bears the VPC's labels. Must stay
//! true: nothing that carries traffic is taken away while an address is in use, and the router goes
//! after the last subnet.

mod network;
mod overlay;
mod removal;
mod report;

use std::{collections::BTreeSet, fmt};

use crate::{
    admit::{VpcInput, admit_vpc},
    model::{
        KubeOvnVpc, NetworkRecord, SubnetBacking, SubnetId, SubnetKey, SubnetName, SubnetSpec, Vid,
        VpcId, VpcKey, VpcSpec,
        objects::{self, Labels},
    },
    plan::{self, Object, Plan, Wanted},
    snapshot::{Mirror, NetworkStatus, Seen, Snapshot, VpcState, VpcStatus},
};

/// Names listed in a message at the most.
const NAMES_MAX: usize = 5;

/// The first names, and how many there are besides.
pub fn some_names<T: ToString>(names: impl Iterator<Item = T>) -> String {
    let mut names = names;
    let shown: Vec<String> = names
        .by_ref()
        .take(NAMES_MAX)
        .map(|name| name.to_string())
        .collect();
    let more = names.count();
    let text = shown.join(", ");
    if more == 0 {
        text
    } else {
        format!("{text} and {more} more")
    }
}

/// The VPCs that something in the snapshot belongs to: those that exist, and those whose labels
/// something still bears.
pub fn known_vpcs(snapshot: &Snapshot) -> BTreeSet<VpcKey> {
    let labels = snapshot
        .networks
        .values()
        .map(|seen| &seen.meta)
        .chain(snapshot.routers.values().map(|seen| &seen.meta))
        .chain(snapshot.subnets.values().map(|seen| &seen.meta))
        .chain(snapshot.attachments.values().map(|seen| &seen.meta))
        .chain(snapshot.pools.values().map(|seen| &seen.meta))
        .filter(|meta| meta.is_ours())
        .filter_map(|meta| objects::vpc_owner(&meta.labels));
    snapshot.vpcs.keys().cloned().chain(labels).collect()
}

/// What the VPC should be now.
enum Intent {
    /// As its object says.
    Wanted { spec: VpcSpec, input: VpcInput },
    /// The object breaks a rule: the last good spec stays, or nothing is made.
    Refused { last: Option<VpcSpec>, why: String },
    /// The object is gone.
    Gone,
}

/// The plan of one VPC.
pub fn plan_vpc(key: &VpcKey, snapshot: &Snapshot) -> Plan {
    let mut pass = Pass::new(key, snapshot);
    let intent = pass.intent();
    if pass.collision().is_none() {
        match &intent {
            Intent::Wanted { spec, input } => pass.build(spec, Some(input)),
            Intent::Refused {
                last: Some(spec), ..
            } => pass.build(spec, None),
            Intent::Refused { last: None, .. } => {}
            Intent::Gone => pass.remove_vpc(),
        }
    }
    pass.report_vpc(&intent);
    pass.plan
}

/// One planning pass over one VPC.
struct Pass<'a> {
    key: &'a VpcKey,
    id: VpcId,
    snapshot: &'a Snapshot,
    object: Option<&'a Seen<VpcInput, VpcStatus>>,
    router: Option<&'a Mirror<KubeOvnVpc, VpcState>>,
    plan: Plan,
    /// Numbers that this pass claims already.
    proposed: BTreeSet<Vid>,
    /// Index of the next network made in this pass.
    next_index: u32,
    /// Ready of each network, as this pass finds it.
    networks: std::collections::BTreeMap<SubnetId, crate::conditions::Finding>,
}

impl<'a> Pass<'a> {
    fn new(key: &'a VpcKey, snapshot: &'a Snapshot) -> Self {
        let id = key.id();
        let next_index = records_of(key, &id, snapshot)
            .map(|(_, _, record)| record.index + 1)
            .max()
            .unwrap_or(0);
        Self {
            key,
            object: snapshot.vpcs.get(key),
            router: snapshot.routers.get(&id),
            id,
            snapshot,
            plan: Plan::default(),
            proposed: BTreeSet::new(),
            next_index,
            networks: std::collections::BTreeMap::new(),
        }
    }

    fn intent(&self) -> Intent {
        let Some(object) = self.object.filter(|object| !object.meta.deleting) else {
            return Intent::Gone;
        };
        let refused = |why| Intent::Refused {
            last: self.last_good(),
            why,
        };
        match admit_vpc(self.key, &object.spec, &self.snapshot.settings) {
            Ok(spec) => match self.forbidden_change(&spec) {
                Some(why) => refused(why),
                None => Intent::Wanted {
                    spec,
                    input: object.spec.clone(),
                },
            },
            Err(violations) => refused(some_names(violations.iter())),
        }
    }

    /// The last spec that kept every rule, from the record on the router.
    fn last_good(&self) -> Option<VpcSpec> {
        let input = self.router?.spec.as_ref()?.record.as_ref()?;
        admit_vpc(self.key, input, &self.snapshot.settings).ok()
    }

    /// A change that would break what runs: the controller's last look (design 2.2).
    fn forbidden_change(&self, spec: &VpcSpec) -> Option<String> {
        spec.subnets.iter().enumerate().find_map(|(position, subnet)| {
            let id = self.key.subnet_id(&subnet.name);
            let record = self.record(&id);
            let overlay = self.snapshot.subnets.get(id.as_str()).filter(|seen| {
                seen.meta.is_ours() && seen.spec.as_ref().is_some_and(|spec| spec.vlan.is_none())
            });
            let what = match (&subnet.backing, record) {
                (SubnetBacking::Overlay { .. }, Some(_)) => "proxmox cannot be removed",
                (SubnetBacking::Proxmox { .. }, None) if overlay.is_some() => {
                    "proxmox cannot be added"
                }
                (SubnetBacking::Proxmox { .. }, Some(record)) if record.cidr != subnet.cidr => {
                    "the cidr cannot be changed"
                }
                (SubnetBacking::Proxmox { vm_range, .. }, Some(record))
                    if record.vm_range != *vm_range =>
                {
                    "the vmRange cannot be changed"
                }
                (SubnetBacking::Overlay { .. }, None) => match overlay?.spec.as_ref()?.cidr {
                    cidr if cidr != subnet.cidr => "the cidr cannot be changed",
                    _ => return None,
                },
                _ => return None,
            };
            Some(format!(
                "spec.subnets[{position}]: {what} while subnet \"{}\" exists; remove it and add it \
                 under a new name",
                subnet.name
            ))
        })
    }

    /// Why the generated id cannot be used, if somebody else has it.
    fn collision(&self) -> Option<String> {
        let meta = &self.router?.meta;
        let owner = objects::vpc_owner(&meta.labels);
        (!meta.is_ours() || owner.as_ref() != Some(self.key)).then(|| {
            format!(
                "Vpc \"{}\" belongs to {}",
                self.id,
                owner_name(owner.as_ref())
            )
        })
    }

    /// Makes and keeps what the spec asks for, and takes away what it no longer does.
    fn build(&mut self, spec: &VpcSpec, input: Option<&VpcInput>) {
        if self.snapshot.served.kube_ovn {
            self.ensure_router(spec, input);
        }
        let mut wanted = BTreeSet::new();
        for subnet in &spec.subnets {
            let id = self.key.subnet_id(&subnet.name);
            match &subnet.backing {
                SubnetBacking::Proxmox { .. } => self.build_network(&id, subnet),
                SubnetBacking::Overlay { allow } => self.build_overlay(&id, subnet, allow),
            }
            wanted.insert(id);
        }
        self.remove_subnets_except(&wanted);
    }

    fn ensure_router(&mut self, spec: &VpcSpec, input: Option<&VpcInput>) {
        let kept = || self.router?.spec.as_ref()?.record.clone();
        let object = KubeOvnVpc {
            routes: spec.routes.clone(),
            record: input.cloned().or_else(kept),
        };
        let step = plan::ensure(self.router, &object, || Wanted {
            object: Object::Vpc {
                id: self.id.clone(),
                spec: object.clone(),
            },
            labels: objects::labels(&self.key.namespace, &self.key.name, None),
            annotations: Labels::new(),
            held: true,
        });
        self.plan.steps.extend(step);
    }

    fn router_is_up(&self) -> bool {
        let status = self.router.and_then(|router| router.status.as_ref());
        status.is_some_and(|status| status.standby)
    }

    fn subnet_key(&self, id: &SubnetId) -> SubnetKey {
        SubnetKey {
            namespace: self.key.namespace.clone(),
            id: id.clone(),
        }
    }

    fn labels(&self, subnet: &SubnetName) -> Labels {
        objects::labels(&self.key.namespace, &self.key.name, Some(subnet))
    }

    fn network(&self, id: &SubnetId) -> Option<&'a Mirror<NetworkRecord, NetworkStatus>> {
        self.snapshot.networks.get(&self.subnet_key(id))
    }

    fn record(&self, id: &SubnetId) -> Option<&'a NetworkRecord> {
        self.network(id)?.spec.as_ref()
    }

    /// Who else owns the id of a subnet, if somebody does.
    fn subnet_collision(&self, id: &SubnetId, subnet: &SubnetSpec) -> Option<String> {
        let mine = Some((self.key.clone(), subnet.name.clone()));
        let of_network = self.network(id).map(|seen| &seen.meta);
        let of_subnet = self
            .snapshot
            .subnets
            .get(id.as_str())
            .map(|seen| &seen.meta);
        let other = of_network
            .into_iter()
            .chain(of_subnet)
            .find(|meta| !meta.is_ours() || objects::owner(&meta.labels) != mine)?;
        let owner = objects::owner(&other.labels).map(|(vpc, name)| format!("{vpc} subnet {name}"));
        Some(format!(
            "\"{id}\" belongs to {}",
            owner_name(owner.as_ref())
        ))
    }
}

fn owner_name<T: fmt::Display>(owner: Option<&T>) -> String {
    owner.map_or_else(|| "somebody else".to_owned(), ToString::to_string)
}

/// The records of a VPC's networks.
fn records_of<'a>(
    key: &'a VpcKey,
    id: &'a VpcId,
    snapshot: &'a Snapshot,
) -> impl Iterator<
    Item = (
        &'a SubnetKey,
        &'a Mirror<NetworkRecord, NetworkStatus>,
        &'a NetworkRecord,
    ),
> {
    snapshot.networks.iter().filter_map(move |(name, seen)| {
        let record = seen.spec.as_ref()?;
        (name.namespace == key.namespace && record.vpc_id == *id && record.vpc == key.name)
            .then_some((name, seen, record))
    })
}
