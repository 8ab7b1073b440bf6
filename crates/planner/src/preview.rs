//! What zones and VPCs would become, before anything is written.
//!
//! Called by `causeway plan` with the objects of its files laid over what there is. The planner's own
//! passes are made; their records and claims are taken as written, as the API server would answer, so
//! that the numbers are those that the controller would ask for. Must stay true: what foreign
//! controllers would make of it is not guessed.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use crate::{
    admit::admit_vpc,
    conditions::{Condition, ConditionType, Finding, Reason, Truth},
    explain::{Deed, Verb, status_in},
    model::{
        AddrRange, Cidr, KubeOvnVlan, NetworkRecord, SubnetBacking, SubnetId, SubnetKey,
        SubnetName, SubnetSpec, Uid, Vid, VpcId, VpcKey, VpcSpec, ZoneName,
        objects::{self, Labels},
    },
    plan::{Claim, Kind, Object, Plan, StatusWrite, Step, Target},
    snapshot::{Meta, NetworkStatus, Seen, Snapshot, Version, ZoneStatus},
    usage::Usage,
    vpc::plan_vpc,
    zone::plan_zone,
};

/// Passes until records and claims are written: one for each, one that has neither.
const PASSES_MAX: usize = 4;

/// What a zone would become.
#[derive(Clone, Debug)]
pub struct ZonePreview {
    /// The zone.
    pub name: ZoneName,
    /// Its bridge.
    pub bridge: String,
    /// What would be written to its ProviderNetwork.
    pub deeds: Vec<Deed>,
    /// Its figures.
    pub status: ZoneStatus,
}

/// What a VPC would become.
#[derive(Clone, Debug)]
pub struct VpcPreview {
    /// The VPC.
    pub key: VpcKey,
    /// Its id: the name of its router.
    pub id: VpcId,
    /// What would happen to its router; None: nothing.
    pub router: Option<Verb>,
    /// Why the controller would not act on it, if it would not.
    pub refused: Option<Finding>,
    /// Its subnets in the order written, then those that go.
    pub subnets: Vec<SubnetPreview>,
}

/// What a subnet would become.
#[derive(Clone, Debug)]
pub struct SubnetPreview {
    /// Its name in the VPC.
    pub name: SubnetName,
    /// Its id.
    pub id: SubnetId,
    /// What would be written.
    pub deeds: Vec<Deed>,
    /// Its addresses; None where it goes and has no record.
    pub addresses: Option<Addresses>,
    /// Its VLAN; None: on the overlay.
    pub network: Option<NetworkPreview>,
    /// Whether it goes.
    pub goes: bool,
    /// Who keeps it from going.
    pub held_by: Option<String>,
}

/// Who gets which addresses.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// The subnet's.
    pub cidr: Cidr,
    /// The router port's.
    pub gateway: Ipv4Addr,
    /// VMs': what the pool holds.
    pub machines: Option<AddrRange>,
    /// Pods'.
    pub pods: Vec<AddrRange>,
}

/// What a Proxmox-backed subnet would be on.
#[derive(Clone, Debug)]
pub struct NetworkPreview {
    /// Its zone, if one can be given.
    pub zone: Option<ZoneName>,
    /// Bridge on the Proxmox nodes.
    pub bridge: Option<String>,
    /// Bytes.
    pub mtu: Option<u32>,
    /// Its number.
    pub vlan: Number,
    /// What Kube-OVN is told not to give to pods.
    pub excluded: Vec<String>,
}

/// A network's VLAN number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// It has it.
    Held(Vid),
    /// It would ask for it; the API server decides.
    Proposed(Vid),
    /// It would wait.
    Waits(Finding),
}

/// What these zones would become.
pub fn preview_zones(names: &[ZoneName], snapshot: &Snapshot) -> Vec<ZonePreview> {
    let preview = |name: &ZoneName| {
        let zone = snapshot.zones.get(name)?;
        let plan = plan_zone(name, snapshot);
        let written = plan.statuses.into_iter().find_map(|write| match write {
            StatusWrite::Zone(_, status) => Some(status),
            _ => None,
        });
        let deeds = plan.steps.iter().map(Deed::of);
        Some(ZonePreview {
            name: name.clone(),
            bridge: zone.spec.bridge.clone(),
            deeds: deeds
                .filter(|deed| deed.target.kind == Kind::ProviderNetwork)
                .collect(),
            status: written.or_else(|| zone.status.clone()).unwrap_or_default(),
        })
    };
    names.iter().filter_map(preview).collect()
}

/// What these VPCs would become, one after the other: each sees what the earlier ones claimed.
pub fn preview_vpcs(keys: &[VpcKey], snapshot: &Snapshot) -> Vec<VpcPreview> {
    let mut world = snapshot.clone();
    let preview = |key: &VpcKey| Outcome::of(key, &mut world).preview(snapshot);
    keys.iter().filter_map(preview).collect()
}

/// A VPC after its records and claims are written.
struct Outcome<'a> {
    key: &'a VpcKey,
    spec: VpcSpec,
    refused: Option<Finding>,
    deeds: BTreeMap<Target, Verb>,
    /// Claims asked for, by owner.
    proposed: BTreeMap<Uid, Claim>,
    /// Statuses of its networks.
    found: BTreeMap<SubnetId, NetworkStatus>,
    records: BTreeMap<SubnetId, NetworkRecord>,
    uids: BTreeMap<SubnetId, Uid>,
}

impl<'a> Outcome<'a> {
    fn of(key: &'a VpcKey, world: &mut Snapshot) -> Self {
        let spec = world
            .vpcs
            .get(key)
            .and_then(|vpc| admit_vpc(key, &vpc.spec, &world.settings).ok());
        let mut outcome = Self {
            key,
            spec: spec.unwrap_or_default(),
            refused: None,
            deeds: BTreeMap::new(),
            proposed: BTreeMap::new(),
            found: BTreeMap::new(),
            records: BTreeMap::new(),
            uids: BTreeMap::new(),
        };
        for _ in 0..PASSES_MAX {
            let plan = plan_vpc(key, world);
            let mut written = false;
            for step in &plan.steps {
                outcome.note(step);
                written |= write(step, world);
            }
            if !written {
                outcome.conclude(&plan, world);
                break;
            }
        }
        outcome
    }

    fn note(&mut self, step: &Step) {
        let Deed { verb, target } = Deed::of(step);
        self.deeds.entry(target).or_insert(verb);
        if let Step::Claim(claim) = step {
            self.proposed.insert(claim.owner.clone(), claim.clone());
        }
    }

    fn conclude(&mut self, plan: &Plan, world: &Snapshot) {
        self.refused = plan.statuses.iter().find_map(|write| match write {
            StatusWrite::Vpc(_, status) => status.conditions.iter().find_map(refusal),
            _ => None,
        });
        for (key, seen) in &world.networks {
            let Some(record) = seen.spec.as_ref().filter(|one| one.vpc == self.key.name) else {
                continue;
            };
            if key.namespace != self.key.namespace {
                continue;
            }
            let status = status_in(plan, key).or(seen.status.as_ref());
            self.found
                .insert(key.id.clone(), status.cloned().unwrap_or_default());
            self.records.insert(key.id.clone(), record.clone());
            let uid = seen.meta.version.uid.clone();
            self.uids.insert(key.id.clone(), uid);
        }
    }

    /// `before`: what there is, without what this preview wrote.
    fn preview(self, before: &Snapshot) -> Option<VpcPreview> {
        before.vpcs.get(self.key)?;
        let id = self.key.id();
        let subnets = if self.refused.is_some() {
            Vec::new()
        } else {
            let staying = self.spec.subnets.iter();
            let staying = staying.map(|subnet| self.stays(subnet, before));
            staying.chain(self.leaving(before)).collect()
        };
        Some(VpcPreview {
            router: self.deeds.get(&Target::cluster(Kind::Vpc, &id)).copied(),
            key: self.key.clone(),
            id,
            refused: self.refused,
            subnets,
        })
    }

    fn stays(&self, subnet: &SubnetSpec, before: &Snapshot) -> SubnetPreview {
        let id = self.key.subnet_id(&subnet.name);
        let network = match subnet.backing {
            SubnetBacking::Proxmox { .. } => self.network(&id),
            SubnetBacking::Overlay { .. } => None,
        };
        let machines = match subnet.backing {
            SubnetBacking::Proxmox { vm_range, .. } => Some(vm_range),
            SubnetBacking::Overlay { .. } => None,
        };
        SubnetPreview {
            deeds: self.deeds_of(&id, network.as_ref(), before),
            addresses: Some(Addresses::of(subnet.cidr, subnet.gateway, machines)),
            name: subnet.name.clone(),
            id,
            network,
            goes: false,
            held_by: None,
        }
    }

    fn network(&self, id: &SubnetId) -> Option<NetworkPreview> {
        let (record, status) = (self.records.get(id)?, self.found.get(id)?);
        let proposed = self.claim(id);
        let waits = || {
            let failing = status
                .conditions
                .iter()
                .find(|one| one.status != Truth::True);
            failing.map_or_else(|| Finding::pending("the VLAN"), Condition::finding)
        };
        let vlan = match (status.vlan, proposed) {
            (Some(vid), Some(_)) => Number::Proposed(vid),
            (Some(vid), None) => Number::Held(vid),
            (None, _) => Number::Waits(waits()),
        };
        Some(NetworkPreview {
            zone: record.zone.clone(),
            bridge: status.bridge.clone(),
            mtu: status.mtu,
            vlan,
            excluded: objects::network_excludes(record.gateway, &[record.vm_range]),
        })
    }

    /// What is written, and what is made once it can be: the objects that are not there.
    fn deeds_of(
        &self,
        id: &SubnetId,
        network: Option<&NetworkPreview>,
        before: &Snapshot,
    ) -> Vec<Deed> {
        let key = self.subnet_key(id);
        let waits = network.is_some_and(|one| matches!(one.vlan, Number::Waits(_)));
        let parts = [
            (
                Kind::Network,
                network.is_some() && !before.networks.contains_key(&key),
            ),
            (Kind::Vlan, self.claim(id).is_some()),
            (
                Kind::Attachment,
                !waits && before.served.multus && !before.attachments.contains_key(&key),
            ),
            (
                Kind::Subnet,
                !waits && before.served.kube_ovn && !before.subnets.contains_key(id.as_str()),
            ),
            (
                Kind::Pool,
                network.is_some()
                    && !waits
                    && before.served.ipam
                    && !before.pools.contains_key(&key),
            ),
        ];
        let verb = |kind, missing: bool| {
            let planned = self
                .deeds
                .iter()
                .find(|(target, _)| target.kind == kind && target.name == id.as_str());
            match planned {
                Some((_, verb)) => Some(*verb),
                None => missing.then_some(Verb::Make),
            }
        };
        parts
            .into_iter()
            .filter_map(|(kind, missing)| {
                let verb = verb(kind, missing)?;
                let target = self.target(kind, id);
                Some(Deed { verb, target })
            })
            .collect()
    }

    fn claim(&self, id: &SubnetId) -> Option<&Claim> {
        self.proposed.get(self.uids.get(id)?)
    }

    fn target(&self, kind: Kind, id: &SubnetId) -> Target {
        match (kind, self.claim(id)) {
            (Kind::Vlan, Some(claim)) => Target::cluster(kind, &claim.name),
            (Kind::Subnet, _) => Target::cluster(kind, id),
            _ => Target::namespaced(kind, &self.subnet_key(id)),
        }
    }

    /// Subnets that the VPC has and no longer wants.
    fn leaving(&self, before: &Snapshot) -> Vec<SubnetPreview> {
        let mut gone: BTreeMap<SubnetId, SubnetName> = BTreeMap::new();
        for (id, seen) in &before.subnets {
            if let Some((owner, name)) = objects::owner(&seen.meta.labels)
                && owner == *self.key
                && seen.meta.is_ours()
            {
                gone.insert(id.as_str().into(), name);
            }
        }
        let records = self.records.iter();
        gone.extend(records.map(|(id, record)| (id.clone(), record.subnet.clone())));
        let wanted = self.spec.subnets.iter();
        let wanted: BTreeSet<SubnetId> = wanted
            .map(|subnet| self.key.subnet_id(&subnet.name))
            .collect();
        gone.retain(|id, _| !wanted.contains(id));
        gone.into_iter()
            .map(|(id, name)| self.leaves(id, name, before))
            .collect()
    }

    fn leaves(&self, id: SubnetId, name: SubnetName, before: &Snapshot) -> SubnetPreview {
        let key = self.subnet_key(&id);
        let usage = Usage::of(&key, before);
        let there = [
            (Kind::Pool, before.pools.contains_key(&key)),
            (Kind::Subnet, before.subnets.contains_key(id.as_str())),
            (Kind::Attachment, before.attachments.contains_key(&key)),
            (Kind::Network, before.networks.contains_key(&key)),
        ];
        let going = there.into_iter().filter(|(_, there)| *there);
        let record = self.records.get(&id);
        SubnetPreview {
            deeds: going
                .map(|(kind, _)| Deed {
                    verb: Verb::Remove,
                    target: self.target(kind, &id),
                })
                .collect(),
            addresses: record
                .map(|record| Addresses::of(record.cidr, record.gateway, Some(record.vm_range))),
            network: self.network(&id),
            held_by: (!usage.is_none()).then(|| usage.named(&key)),
            name,
            id,
            goes: true,
        }
    }

    fn subnet_key(&self, id: &SubnetId) -> SubnetKey {
        SubnetKey {
            namespace: self.key.namespace.clone(),
            id: id.clone(),
        }
    }
}

/// What keeps the controller from acting on a VPC at all.
fn refusal(condition: &Condition) -> Option<Finding> {
    let refuses = [Reason::SpecRefused, Reason::NameCollision].contains(&condition.reason);
    (condition.kind == ConditionType::Ready && refuses).then(|| condition.finding())
}

/// Takes a record or a claim as written. Whether the step is one.
fn write(step: &Step, world: &mut Snapshot) -> bool {
    match step {
        Step::Apply { wanted, .. } => {
            let Object::Network { key, spec } = &wanted.object else {
                return false;
            };
            let earlier = world.networks.remove(key);
            let meta = earlier.as_ref().map(|seen| seen.meta.clone());
            let network = Seen {
                meta: meta.unwrap_or_else(|| made(key.id.as_str(), wanted.labels.clone())),
                spec: Some(spec.clone()),
                status: earlier.and_then(|seen| seen.status),
            };
            world.networks.insert(key.clone(), network);
            true
        }
        Step::Claim(claim) => {
            let vlan = Seen {
                meta: made(&claim.name, claim.labels.clone()),
                spec: KubeOvnVlan {
                    vid: Some(claim.vid),
                    provider: claim.provider.clone(),
                    owner: Some(claim.owner.clone()),
                    released: None,
                },
                status: None,
            };
            world.vlans.insert(claim.name.clone(), vlan);
            true
        }
        _ => false,
    }
}

/// Metadata of an object that would be new. No uid of a real object looks like this.
fn made(name: &str, labels: Labels) -> Meta {
    Meta {
        version: Version {
            uid: format!("new {name}").into(),
            resource_version: String::new(),
        },
        generation: 1,
        created: crate::snapshot::Moment::default(),
        deleting: false,
        held: true,
        labels,
        annotations: Labels::new(),
    }
}

impl Addresses {
    fn of(cidr: Cidr, gateway: Ipv4Addr, machines: Option<AddrRange>) -> Self {
        let taken = AddrRange::new(gateway, gateway).into_iter().chain(machines);
        Self {
            cidr,
            gateway,
            machines,
            pods: rest(cidr, taken.collect()),
        }
    }
}

/// The hosts of a CIDR that are not taken.
fn rest(cidr: Cidr, mut taken: Vec<AddrRange>) -> Vec<AddrRange> {
    let Some(net) = cidr.v4() else {
        return Vec::new();
    };
    taken.sort_by_key(AddrRange::first);
    let last = u32::from(net.broadcast()).saturating_sub(1);
    let mut from = u32::from(net.network()).saturating_add(1);
    let mut left = Vec::new();
    let mut push = |from: u32, to: u32| {
        if from <= to {
            left.extend(AddrRange::new(from.into(), to.into()));
        }
    };
    for range in &taken {
        push(from, u32::from(range.first()).saturating_sub(1));
        from = u32::from(range.last()).saturating_add(1);
    }
    push(from, last);
    left
}
