//! One Proxmox-backed subnet, from its record to its pool (design 3.3.2). Each part says what it
//! waits for, as the finding of its condition; a part plans only what is safe once those before it
//! are good.

use super::Pass;
use crate::{
    admit::{ZoneRefusal, choose_zone, quota_refusal},
    alloc,
    conditions::{ConditionType, Finding, Reason},
    model::{
        Attachment, KubeOvnSubnet, NetworkRecord, Pool, SubnetBacking, SubnetId, SubnetName,
        SubnetSpec, Uid, Vid, ZoneName, ZoneSpec,
        objects::{self, Labels, keys},
    },
    northbound,
    plan::{self, Claim, Kind, Object, Step, Target, Wanted},
    snapshot::{Meta, Mirror, NetworkStatus, PoolState},
    zone,
};

/// Route metric of the first network's gateway in a guest (design 4.1).
const FIRST_METRIC: u32 = 1000;

/// What is found of a network, in the order of its conditions.
pub(super) struct Findings {
    pub zone: Finding,
    pub vlan: Finding,
    pub trunk: Finding,
    pub switch: Finding,
    pub gateway: Finding,
    pub pool: Finding,
}

impl Findings {
    /// In the order of the design's table, which is the order that Ready goes by.
    pub fn in_order(self) -> [(ConditionType, Finding); 6] {
        [
            (ConditionType::ZoneReady, self.zone),
            (ConditionType::VLANAllocated, self.vlan),
            (ConditionType::TrunkReady, self.trunk),
            (ConditionType::SwitchReady, self.switch),
            (ConditionType::GatewayReady, self.gateway),
            (ConditionType::PoolReady, self.pool),
        ]
    }
}

/// A claim that a network holds.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub name: String,
    pub vid: Vid,
}

impl Pass<'_> {
    /// Makes and keeps one network.
    pub(super) fn build_network(&mut self, id: &SubnetId, subnet: &SubnetSpec) {
        if let Some(why) = self.subnet_collision(id, subnet) {
            self.report_collision(id, Finding::bad(Reason::NameCollision, why));
            return;
        }
        if self.network(id).is_some_and(|seen| seen.meta.deleting) {
            self.remove_network(id);
            return;
        }
        let zone = self.ensure_record(id, subnet);
        let (Some(seen), Some(record)) = (self.network(id), self.record(id)) else {
            let finding = Finding::pending(format!("ProxmoxNetwork \"{id}\""));
            self.networks.insert(id.clone(), finding);
            return;
        };
        let found = self.keep_network(id, seen, record, zone);
        self.report_network(id, seen, record, found.in_order(), None);
    }

    /// Writes the record once, and its zone once it is resolved. The zone as it can be used now.
    fn ensure_record(&mut self, id: &SubnetId, subnet: &SubnetSpec) -> Result<ZoneSpec, Finding> {
        let SubnetBacking::Proxmox { zone, vm_range } = &subnet.backing else {
            return Err(Finding::pending("a zone"));
        };
        let recorded = self.record(id);
        let chosen = match recorded.and_then(|record| record.zone.clone()) {
            Some(zone) => Ok(zone),
            None => self.new_zone(zone.as_ref()),
        };
        let spec = NetworkRecord {
            zone: chosen.as_ref().ok().cloned(),
            vpc: self.key.name.clone(),
            vpc_id: self.id.clone(),
            subnet: subnet.name.clone(),
            cidr: subnet.cidr,
            gateway: subnet.gateway,
            vm_range: *vm_range,
            index: recorded.map_or(self.next_index, |record| record.index),
        };
        if recorded.is_none() {
            self.next_index += 1;
        }
        let key = self.subnet_key(id);
        let step = plan::ensure(self.network(id), &spec, || Wanted {
            object: Object::Network {
                key,
                spec: spec.clone(),
            },
            labels: self.labels(&subnet.name),
            annotations: Labels::new(),
            held: true,
        });
        self.plan.steps.extend(step);
        let chosen = chosen.map_err(|refusal| Finding::bad(refusal.reason, refusal.message))?;
        self.zone(&chosen).map_err(|finding| match finding.reason {
            Reason::ZoneNotFound => finding,
            _ => Finding::bad(
                Reason::ZoneNotReady,
                format!("zone \"{chosen}\": {}", finding.message),
            ),
        })
    }

    /// The zone of a network that has none yet, within what the zone admits.
    fn new_zone(&mut self, asked: Option<&ZoneName>) -> Result<ZoneName, ZoneRefusal> {
        let namespace = &self.key.namespace;
        let zone = choose_zone(namespace, asked, self.snapshot)?;
        let planned = self.zones_given.entry(zone.clone()).or_default();
        if let Some(refusal) = quota_refusal(namespace, &zone, *planned, self.snapshot) {
            return Err(refusal);
        }
        *planned += 1;
        Ok(zone)
    }

    /// Everything of a network that has a record. Also called while it is held in removal, when
    /// only the findings count.
    pub(super) fn keep_network(
        &mut self,
        id: &SubnetId,
        seen: &Mirror<NetworkRecord, NetworkStatus>,
        record: &NetworkRecord,
        zone: Result<ZoneSpec, Finding>,
    ) -> Findings {
        let (zone, spec) = match zone {
            Ok(spec) => (Finding::good(Reason::Ready, ""), Some(spec)),
            Err(finding) => (finding, None),
        };
        let (vlan, held) = self.claim(id, seen, record, spec.as_ref());
        let trunk = self.trunk(spec.as_ref(), held.as_ref());
        if trunk.is_true() {
            self.ensure_switch(id, record, spec.as_ref(), held.as_ref());
        }
        let switch = self.switch(id, &trunk);
        let gateway = if switch.is_true() {
            northbound::gateway_finding(id, record, spec.as_ref(), self.snapshot)
        } else {
            Finding::pending("the switch")
        };
        if switch.is_true() {
            self.ensure_pool(id, record);
        }
        let pool = self.pool(id, record, &switch);
        Findings {
            zone,
            vlan,
            trunk,
            switch,
            gateway,
            pool,
        }
    }

    /// The VLAN of a network: the one its Subnet names; without Subnet, its lowest claim.
    pub(super) fn held_vlan(&self, id: &SubnetId) -> Option<Held> {
        let owner = &self.network(id)?.meta.version.uid;
        let named = self
            .snapshot
            .subnets
            .get(id.as_str())
            .and_then(|seen| seen.spec.as_ref())
            .and_then(|spec| spec.vlan.as_ref());
        let mut claims: Vec<Held> = self
            .snapshot
            .vlans
            .iter()
            .filter(|(_, vlan)| vlan.spec.owner.as_ref() == Some(owner))
            .filter(|(name, vlan)| vlan.spec.released.is_none() || named == Some(*name))
            .filter(|(_, vlan)| !vlan.meta.deleting)
            .filter_map(|(name, vlan)| {
                Some(Held {
                    name: name.clone(),
                    vid: vlan.spec.vid?,
                })
            })
            .collect();
        // A Subnet that names what is no claim of the network was changed by hand, or its claim was
        // deleted: the network goes by its lowest claim, and the Subnet is put right.
        claims.sort_by_key(|claim| (named != Some(&claim.name), claim.vid));
        claims.into_iter().next()
    }

    fn claim(
        &mut self,
        id: &SubnetId,
        seen: &Mirror<NetworkRecord, NetworkStatus>,
        record: &NetworkRecord,
        zone: Option<&ZoneSpec>,
    ) -> (Finding, Option<Held>) {
        if let Some(held) = self.held_vlan(id) {
            self.release_claims(id, Some(&held.name));
            self.take_release_back(&held.name);
            let finding = Finding::good(Reason::Allocated, format!("VLAN {}", held.vid));
            return (finding, Some(held));
        }
        let Some(zone) = zone else {
            return (Finding::pending("the zone"), None);
        };
        if !self.snapshot.served.kube_ovn {
            return (Finding::pending("the kubeovn.io API"), None);
        }
        let lost = self.lost_claim(id, zone);
        if lost.is_none()
            && let Some(why) = self.previous(id)
        {
            return (Finding::bad(Reason::PreviousSubnetTerminating, why), None);
        }
        let mut holds = alloc::holds(&zone.wire, self.snapshot);
        holds.extend(self.proposed.iter().map(|vid| (*vid, alloc::Hold::Taken)));
        let lost = lost.filter(|vid| !holds.contains_key(vid));
        let finding = match lost.map_or_else(|| alloc::propose(&zone.offered(), &holds), Ok) {
            Ok(vid) => {
                self.propose(vid, seen.meta.version.uid.clone(), record, zone);
                Finding::pending(format!("the claim of VLAN {vid}"))
            }
            Err(full) => {
                let name = record.zone.as_ref().map_or("", |zone| zone.as_str());
                Finding::bad(
                    Reason::ZoneExhausted,
                    format!(
                        "zone \"{name}\" has no free VLAN ({full}); the administrator can extend \
                         spec.vlans.ranges"
                    ),
                )
            }
        };
        (finding, None)
    }

    pub(super) fn propose(
        &mut self,
        vid: Vid,
        owner: Uid,
        record: &NetworkRecord,
        zone: &ZoneSpec,
    ) {
        self.proposed.insert(vid);
        self.plan.steps.push(Step::Claim(Claim {
            name: objects::claim_name(&zone.wire, vid),
            vid,
            provider: zone.wire.provider_network(),
            owner,
            labels: self.labels(&record.subnet),
        }));
    }

    /// What carries traffic must not be given away, nor its number without a rest.
    fn take_release_back(&mut self, name: &str) {
        let vlan = self.snapshot.vlans.get(name);
        if let Some(vlan) = vlan.filter(|vlan| vlan.spec.released.is_some()) {
            self.plan.steps.push(Step::KeepClaim {
                name: name.to_owned(),
                seen: vlan.meta.version.clone(),
            });
        }
    }

    /// The number that the network's Subnet is on although nobody claims it: its Vlan was deleted by
    /// hand. The same number again frees what Kube-OVN has stuck.
    pub(super) fn lost_claim(&self, id: &SubnetId, zone: &ZoneSpec) -> Option<Vid> {
        let subnet = self.snapshot.subnets.get(id.as_str())?.spec.as_ref()?;
        let named = subnet.vlan.as_ref()?;
        let mut numbers = zone.ranges.iter();
        numbers.find(|vid| objects::claim_name(&zone.wire, *vid) == *named)
    }

    /// Releases the network's claims but the one that is kept.
    pub(super) fn release_claims(&mut self, id: &SubnetId, keep: Option<&String>) {
        let Some(network) = self.network(id) else {
            return;
        };
        let owner = &network.meta.version.uid;
        for (name, vlan) in &self.snapshot.vlans {
            let mine = vlan.spec.owner.as_ref() == Some(owner);
            if mine && vlan.spec.released.is_none() && keep != Some(name) {
                self.plan.steps.push(Step::ReleaseClaim {
                    name: name.clone(),
                    seen: vlan.meta.version.clone(),
                    subnet: id.clone(),
                });
            }
        }
    }

    /// What of an earlier object of this name is still going.
    pub(super) fn previous(&self, id: &SubnetId) -> Option<String> {
        match self.snapshot.subnets.get(id.as_str()) {
            Some(seen) if seen.meta.deleting => Some(format!(
                "the earlier Subnet \"{id}\" is still being removed"
            )),
            Some(_) => None,
            None => {
                let northbound = self.snapshot.northbound.as_ref()?;
                northbound
                    .switches
                    .contains(id.as_str())
                    .then(|| format!("the switch of an earlier Subnet \"{id}\" is still there"))
            }
        }
    }

    fn trunk(&self, zone: Option<&ZoneSpec>, held: Option<&Held>) -> Finding {
        let (Some(zone), Some(held)) = (zone, held) else {
            return Finding::pending("the VLAN");
        };
        let provider = zone.wire.provider_network();
        let Some(seen) = self.snapshot.provider_networks.get(&provider) else {
            return Finding::bad(
                Reason::WaitingForProviderNetwork,
                format!("ProviderNetwork \"{provider}\" does not exist yet"),
            );
        };
        let state = seen.status.clone().unwrap_or_default();
        let conflict = self
            .snapshot
            .vlans
            .get(&held.name)
            .and_then(|vlan| vlan.status.as_ref())
            .is_some_and(|status| status.conflict);
        if conflict || !state.vlans.contains(&held.name) {
            let why = if conflict {
                "another Vlan has the same number"
            } else {
                "Kube-OVN has not accepted it yet"
            };
            return Finding::bad(
                Reason::VLANNotCarried,
                format!(
                    "Vlan \"{}\" on ProviderNetwork \"{provider}\": {why}",
                    held.name
                ),
            );
        }
        let nodes = zone::trunk_nodes(zone, self.snapshot);
        if nodes.healthy.is_empty() {
            return Finding::bad(
                Reason::NoTrunkNodes,
                zone::no_trunk_nodes(&provider, &nodes),
            );
        }
        Finding::good(Reason::Ready, "")
    }

    /// The attachment and the Subnet.
    fn ensure_switch(
        &mut self,
        id: &SubnetId,
        record: &NetworkRecord,
        zone: Option<&ZoneSpec>,
        held: Option<&Held>,
    ) {
        let (Some(zone), Some(held)) = (zone, held) else {
            return;
        };
        let provider = id.provider(&self.key.namespace);
        let excludes = self.excludes(id, record);
        let vlan = held.name.clone();
        let subnet = KubeOvnSubnet::of_network(record, excludes, provider, vlan, zone.mtu);
        self.ensure_subnet(id, &record.subnet, &subnet, true);
    }

    /// The attachment and the Subnet of any kind.
    pub(super) fn ensure_subnet(
        &mut self,
        id: &SubnetId,
        name: &SubnetName,
        subnet: &KubeOvnSubnet,
        held: bool,
    ) {
        if !self.may_have_switch(id) {
            return;
        }
        let labels = self.labels(name);
        let key = self.subnet_key(id);
        if self.snapshot.served.multus {
            let spec = Attachment {
                provider: subnet.provider.clone(),
            };
            let seen = self.snapshot.attachments.get(&key);
            self.complete(Kind::Attachment, id, seen.map(|seen| &seen.meta));
            self.plan.steps.extend(plan::ensure(seen, &spec, || Wanted {
                object: Object::Attachment {
                    key: key.clone(),
                    spec: spec.clone(),
                },
                labels: labels.clone(),
                annotations: Labels::new(),
                held,
            }));
        }
        if self.snapshot.served.kube_ovn {
            let seen = self.snapshot.subnets.get(id.as_str());
            self.plan
                .steps
                .extend(plan::ensure(seen, subnet, || Wanted {
                    object: Object::Subnet {
                        id: id.clone(),
                        spec: subnet.clone(),
                    },
                    labels,
                    annotations: Labels::new(),
                    held: false,
                }));
        }
    }

    /// A Subnet is changed while its router stays, and made only where the northbound database
    /// shows that no switch of its name is left: names are never reused before.
    fn may_have_switch(&self, id: &SubnetId) -> bool {
        let known = self.snapshot.subnets.contains_key(id.as_str());
        self.router.is_some_and(|router| !router.meta.deleting)
            && self.previous(id).is_none()
            && (known || self.snapshot.northbound.is_some())
    }

    /// An object of ours that somebody deleted although it is wanted goes, to be made again, once
    /// nothing uses it.
    fn complete(&mut self, kind: Kind, id: &SubnetId, meta: Option<&Meta>) {
        let Some(meta) = meta.filter(|meta| meta.deleting) else {
            return;
        };
        if self.users(id).is_none() {
            let step = plan::remove(self.target(kind, id), meta);
            self.plan.steps.extend(step);
        }
    }

    /// What any switch needs before its Subnet can be looked at.
    pub(super) fn without_switch(&self, id: &SubnetId) -> Option<Finding> {
        if !self.snapshot.served.kube_ovn {
            return Some(Finding::bad(
                Reason::KubeOVNNotInstalled,
                "the kubeovn.io API is not installed",
            ));
        }
        if !self.snapshot.served.multus {
            return Some(Finding::bad(
                Reason::MultusNotInstalled,
                "the k8s.cni.cncf.io API is not installed",
            ));
        }
        if !self.router_is_up() {
            return Some(Finding::bad(Reason::WaitingForVPC, self.no_router()));
        }
        let known = self.snapshot.subnets.contains_key(id.as_str());
        (!known && self.snapshot.northbound.is_none())
            .then(|| Finding::pending("the OVN northbound database, to see that the name is free"))
    }

    fn switch(&self, id: &SubnetId, trunk: &Finding) -> Finding {
        if let Some(finding) = self.without_switch(id) {
            return finding;
        }
        let Some(seen) = self.snapshot.subnets.get(id.as_str()) else {
            return if trunk.is_true() {
                Finding::pending(format!("Subnet \"{id}\""))
            } else {
                Finding::pending("the trunk")
            };
        };
        let status = seen.status.clone().unwrap_or_default();
        let on_vlan = self.held_vlan(id).is_some_and(|held| {
            let vlan = self.snapshot.vlans.get(&held.name);
            vlan.and_then(|vlan| vlan.status.as_ref())
                .is_some_and(|status| status.subnets.contains(id.as_str()))
        });
        match (status.ready, on_vlan) {
            (Some(false), _) => Finding::bad(
                Reason::KubeOVNRejected,
                format!("Kube-OVN refuses Subnet \"{id}\": {}", status.message),
            ),
            (Some(true), true) => Finding::good(Reason::Ready, ""),
            _ => Finding::bad(
                Reason::WaitingForKubeOVN,
                format!("Kube-OVN has not made the switch of Subnet \"{id}\" yet"),
            ),
        }
    }

    fn ensure_pool(&mut self, id: &SubnetId, record: &NetworkRecord) {
        if !self.snapshot.served.ipam {
            return;
        }
        if self.range_is_not_free(id, record).is_some() {
            return;
        }
        let key = self.subnet_key(id);
        let spec = Pool::of(record);
        let metric = (FIRST_METRIC + record.index).to_string();
        let seen = self.snapshot.pools.get(&key);
        self.complete(Kind::Pool, id, seen.map(|seen| &seen.meta));
        self.plan.steps.extend(plan::ensure(seen, &spec, || Wanted {
            object: Object::Pool {
                key: key.clone(),
                spec: spec.clone(),
            },
            labels: self.labels(&record.subnet),
            annotations: Labels::from([
                (keys::METRIC.to_owned(), metric.clone()),
                (keys::GATEWAY_METRIC.to_owned(), metric),
            ]),
            held: true,
        }));
    }

    fn pool(&self, id: &SubnetId, record: &NetworkRecord, switch: &Finding) -> Finding {
        if !self.snapshot.served.ipam {
            return Finding::bad(
                Reason::IPAMNotInstalled,
                "the ipam.cluster.x-k8s.io API is not installed",
            );
        }
        if switch.is_true()
            && let Some(finding) = self.range_is_not_free(id, record)
        {
            return finding;
        }
        let Some(seen) = self.snapshot.pools.get(&self.subnet_key(id)) else {
            return Finding::pending(if switch.is_true() {
                "the pool"
            } else {
                "the switch"
            });
        };
        if seen.spec.as_ref() != Some(&Pool::of(record)) {
            return Finding::bad(
                Reason::PoolRejected,
                format!("InClusterIPPool \"{id}\" does not hold {}", record.vm_range),
            );
        }
        if seen.status.is_none() {
            return Finding::pending(format!("the figures of InClusterIPPool \"{id}\""));
        }
        Finding::good(Reason::Ready, "")
    }

    pub(super) fn pool_state(&self, id: &SubnetId) -> PoolState {
        let pool = self.snapshot.pools.get(&self.subnet_key(id));
        pool.and_then(|pool| pool.status).unwrap_or_default()
    }

    pub(super) fn target(&self, kind: Kind, id: &SubnetId) -> Target {
        Target::namespaced(kind, &self.subnet_key(id))
    }
}
