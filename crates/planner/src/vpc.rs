//! What a VPC becomes (design 3.3), and how it goes (3.7).
//!
//! Called by the controller for key Vpc, for as long as anything bears the VPC's labels. Must stay
//! true: nothing that carries traffic is taken away while an address is in use, and the router goes
//! after the last subnet.

mod network;
mod overlay;
mod removal;
mod report;
mod vm_range;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    admit::{Violation, VpcInput, admit_vpc, must_drain, vpc_change},
    conditions::Finding,
    model::{
        KubeOvnVpc, NetworkRecord, SubnetBacking, SubnetId, SubnetKey, SubnetName, SubnetSpec, Uid,
        Vid, VpcId, VpcKey, VpcSpec, ZoneName, ZoneSpec,
        objects::{self, Labels},
    },
    plan::{self, Kind, Object, Plan, Wanted},
    snapshot::{Mirror, NetworkStatus, Seen, Snapshot, VpcState, VpcStatus},
    zone,
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

/// `1 network`, `2 networks`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// The VPCs that something in the snapshot belongs to: those that exist, and those whose labels
/// something still bears.
pub fn known_vpcs(snapshot: &Snapshot) -> BTreeSet<VpcKey> {
    let labels = snapshot
        .routers
        .values()
        .map(|seen| &seen.meta)
        .chain(snapshot.subnets.values().map(|seen| &seen.meta))
        .chain(snapshot.attachments.values().map(|seen| &seen.meta))
        .chain(snapshot.pools.values().map(|seen| &seen.meta))
        .filter(|meta| meta.is_ours())
        .filter_map(|meta| objects::vpc_owner(&meta.labels));
    let records = snapshot.networks.iter().filter_map(|(key, seen)| {
        Some(VpcKey {
            namespace: key.namespace.clone(),
            name: seen.spec.as_ref()?.vpc.clone(),
        })
    });
    let objects = snapshot.vpcs.keys().cloned();
    objects.chain(labels).chain(records).collect()
}

/// What the VPC should be now.
enum Intent {
    /// As its object says.
    Wanted { spec: VpcSpec, input: VpcInput },
    /// As its object says, which was made again with other subnets than the earlier object's that
    /// are still there: those drain first.
    Draining {
        spec: VpcSpec,
        drains: BTreeSet<SubnetName>,
    },
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
            // Deleted by hand while wanted: goes wholly, to be made again, once nothing uses it.
            Intent::Wanted { .. } if pass.router_is_going() && !pass.is_used() => {
                pass.remove_vpc();
            }
            Intent::Wanted { spec, input } => pass.build(spec, Some(input), &BTreeSet::new()),
            Intent::Draining { spec, drains } => pass.build(spec, None, drains),
            Intent::Refused {
                last: Some(spec), ..
            } => pass.build(spec, None, &BTreeSet::new()),
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
    /// Networks that this pass gives to a zone.
    zones_given: BTreeMap<ZoneName, usize>,
    /// Index of the next network made in this pass.
    next_index: u32,
    /// Ready of each network, as this pass finds it.
    networks: BTreeMap<SubnetId, Finding>,
    /// The zones looked at so far: judging one looks at all others.
    zones: BTreeMap<ZoneName, Result<ZoneSpec, Finding>>,
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
            zones_given: BTreeMap::new(),
            next_index,
            networks: BTreeMap::new(),
            zones: BTreeMap::new(),
        }
    }

    /// [`zone::usable`], once a pass.
    fn zone(&mut self, name: &ZoneName) -> Result<ZoneSpec, Finding> {
        if let Some(known) = self.zones.get(name) {
            return known.clone();
        }
        let found = zone::usable(name, self.snapshot);
        self.zones.insert(name.clone(), found.clone());
        found
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
            Ok(spec) => {
                let drains = self.drains(&spec, &object.meta.version.uid);
                if !drains.is_empty() {
                    return Intent::Draining { spec, drains };
                }
                let broken = vpc_change(self.key, &spec, self.snapshot);
                if !broken.is_empty() {
                    return refused(in_words(&broken));
                }
                Intent::Wanted {
                    spec,
                    input: object.spec.clone(),
                }
            }
            Err(violations) => refused(in_words(&violations)),
        }
    }

    /// Subnets that an earlier VPC of this name has left otherwise than they are wanted now.
    fn drains(&self, spec: &VpcSpec, uid: &Uid) -> BTreeSet<SubnetName> {
        let earlier = self.router.is_none_or(|router| {
            let owner = router.spec.as_ref().and_then(|spec| spec.owner.as_ref());
            owner.is_some_and(|owner| owner != uid)
        });
        if !earlier {
            return BTreeSet::new();
        }
        let drains = must_drain(self.key, spec, self.snapshot).into_iter();
        drains.map(|(name, _)| name).collect()
    }

    /// The last spec that kept every rule, from the record on the router.
    fn last_good(&self) -> Option<VpcSpec> {
        let input = self.router?.spec.as_ref()?.record.as_ref()?;
        admit_vpc(self.key, input, &self.snapshot.settings).ok()
    }

    /// Why the generated id cannot be used, if somebody else has it.
    fn collision(&self) -> Option<String> {
        let meta = &self.router?.meta;
        meta.is_of_another(self.key).then(|| {
            let owner = objects::vpc_owner(&meta.labels);
            format!(
                "Vpc \"{}\" belongs to {}",
                self.id,
                owner_name(owner.as_ref())
            )
        })
    }

    /// Makes and keeps what the spec asks for, and takes away what it no longer does.
    fn build(&mut self, spec: &VpcSpec, input: Option<&VpcInput>, drains: &BTreeSet<SubnetName>) {
        if self.snapshot.served.kube_ovn {
            self.ensure_router(spec, input);
        }
        let mut wanted = BTreeSet::new();
        for subnet in &spec.subnets {
            let id = self.key.subnet_id(&subnet.name);
            if drains.contains(&subnet.name) {
                continue;
            }
            match &subnet.backing {
                SubnetBacking::Proxmox { .. } => self.build_network(&id, subnet),
                SubnetBacking::Overlay { allow } => self.build_overlay(&id, subnet, allow),
            }
            wanted.insert(id);
        }
        self.remove_subnets_except(&wanted);
    }

    fn ensure_router(&mut self, spec: &VpcSpec, input: Option<&VpcInput>) {
        let seen = self.router.and_then(|router| router.spec.as_ref());
        let (owner, record) = match (input, seen) {
            (Some(input), _) => (
                self.object.map(|one| one.meta.version.uid.clone()),
                Some(input.clone()),
            ),
            (None, Some(seen)) => (seen.owner.clone(), seen.record.clone()),
            (None, None) => (None, None),
        };
        let object = KubeOvnVpc {
            routes: spec.routes.clone(),
            owner,
            record,
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

    fn router_is_going(&self) -> bool {
        self.router.is_some_and(|router| router.meta.deleting)
    }

    /// What a switch that has no router yet waits for.
    fn no_router(&self) -> String {
        format!(
            "Kube-OVN has not made the router of Vpc \"{}\" yet",
            self.id
        )
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
        if let Some(record) = self.record(id)
            && (&record.vpc, &record.subnet) != (&self.key.name, &subnet.name)
        {
            return Some(format!(
                "ProxmoxNetwork \"{id}\" belongs to VPC {} subnet {}",
                record.vpc, record.subnet
            ));
        }
        let (key, seen) = (self.subnet_key(id), self.snapshot);
        let (subnet_meta, attachment, pool) = (
            seen.subnets.get(id.as_str()).map(|seen| &seen.meta),
            seen.attachments.get(&key).map(|seen| &seen.meta),
            seen.pools.get(&key).map(|seen| &seen.meta),
        );
        let metas = [
            (Kind::Subnet, subnet_meta),
            (Kind::Attachment, attachment),
            (Kind::Pool, pool),
        ];
        metas.into_iter().find_map(|(kind, meta)| {
            let meta = meta?;
            let owner = objects::owner(&meta.labels);
            let other = owner.as_ref().is_some_and(|(_, name)| *name != subnet.name);
            (other || meta.is_of_another(self.key)).then(|| {
                let owner = owner.map(|(vpc, name)| format!("{vpc} subnet {name}"));
                format!("{kind} \"{id}\" belongs to {}", owner_name(owner.as_ref()))
            })
        })
    }
}

fn in_words(broken: &[Violation]) -> String {
    let broken: Vec<String> = broken.iter().map(ToString::to_string).collect();
    broken.join("; ")
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
