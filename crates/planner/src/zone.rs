//! What a zone becomes (design 3.1): the `ProviderNetwork` of its wire, the end of its released
//! claims, and its status.
//!
//! Called by the controller for key Zone. Must stay true: a zone that contradicts an earlier one
//! writes nothing; a zone goes only when no network and no claim of it is left.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    admit::{admit_zone, zone_conflict},
    alloc,
    conditions::{ConditionType, Finding, Reason},
    model::{
        KubeOvnVlan, NodeName, ProviderNetwork, SubnetKey, Uid, Vid, Wire, ZoneName, ZoneSpec,
        objects::{self, Labels, keys},
    },
    plan::{self, Kind, Object, Plan, StatusWrite, Step, Target, Wanted},
    snapshot::{
        Meta, Mirror, Moment, NodeState, ProviderNetworkState, Seen, Snapshot, VlanState,
        ZoneStatus,
    },
    vpc::{counted, some_names},
};

/// Names listed in a status or message at the most.
const NAMES_MAX: usize = 50;

/// How old a claim is before it is called an orphan. Vlans and networks come by different watches:
/// the network of a claim that another controller made may only not be seen yet.
const ORPHAN_AFTER: Duration = Duration::from_mins(1);

/// A zone as the plan of its networks needs it.
///
/// # Errors
/// The finding that the zone's own Ready condition shows.
pub fn usable(name: &ZoneName, snapshot: &Snapshot) -> Result<ZoneSpec, Finding> {
    let Some(zone) = snapshot.zones.get(name) else {
        return Err(Finding::bad(
            Reason::ZoneNotFound,
            format!("ProxmoxNetworkZone \"{name}\" does not exist"),
        ));
    };
    let spec = admit_zone(name, &zone.spec).map_err(|violations| {
        let first = violations.first().map(ToString::to_string);
        Finding::bad(Reason::RangeInvalid, first.unwrap_or_default())
    })?;
    if let Some(conflict) = zone_conflict(name, snapshot) {
        let why = conflict.violation.to_string();
        return Err(Finding::bad(conflict.reason, why));
    }
    match foreign_provider_network(&spec.wire, snapshot) {
        Some(why) => Err(Finding::bad(Reason::WireConflict, why)),
        None => Ok(spec),
    }
}

/// Why the wire's `ProviderNetwork` cannot be used, if it is somebody else's. One that carries a
/// claim of ours is ours, whoever took its label off.
fn foreign_provider_network(wire: &Wire, snapshot: &Snapshot) -> Option<String> {
    let name = wire.provider_network();
    let meta = &snapshot.provider_networks.get(&name)?.meta;
    let mut vlans = snapshot.vlans.values().map(|vlan| &vlan.spec);
    let carries_a_claim = vlans.any(|vlan| vlan.provider == name && vlan.owner.is_some());
    (!meta.is_ours() && !carries_a_claim).then(|| {
        format!(
            "ProviderNetwork \"{name}\" (uid {}) was not made by causeway; remove it or give the \
             zone another spec.wire",
            meta.version.uid
        )
    })
}

/// The nodes that should carry the zone's trunk, and those that do.
pub struct TrunkNodes {
    /// Nodes that the selector names.
    pub selected: BTreeSet<NodeName>,
    /// Those whose trunk works and that are Ready themselves.
    pub healthy: BTreeSet<NodeName>,
}

/// The trunk nodes of a wire. Healthy, before an agent reports: in
/// ProviderNetwork.status.readyNodes, with the ready label, and Node Ready (design 3.4).
pub fn trunk_nodes(spec: &ZoneSpec, snapshot: &Snapshot) -> TrunkNodes {
    let provider = spec.wire.provider_network();
    let ready = snapshot
        .provider_networks
        .get(&provider)
        .and_then(|seen| seen.status.as_ref())
        .map(|status| &status.ready_nodes);
    let ready_label = format!("{provider}.provider-network.kubernetes.io/ready");
    let healthy = |name: &NodeName, node: &NodeState| {
        ready.is_some_and(|ready| ready.contains(name))
            && node.labels.get(&ready_label).map(String::as_str) == Some("true")
            && node.ready
    };
    let selected: BTreeMap<_, _> = snapshot
        .nodes
        .iter()
        .filter(|(_, node)| spec.trunk.node_selector.matches(&node.labels))
        .collect();
    TrunkNodes {
        healthy: selected
            .iter()
            .filter(|(name, node)| healthy(name, node))
            .map(|(name, _)| (*name).clone())
            .collect(),
        selected: selected.into_keys().cloned().collect(),
    }
}

/// The plan of one zone.
pub fn plan_zone(name: &ZoneName, snapshot: &Snapshot) -> Plan {
    let Some(zone) = snapshot.zones.get(name) else {
        return Plan::default();
    };
    let mut pass = Pass {
        name,
        zone,
        snapshot,
        plan: Plan::default(),
    };
    let usable = usable(name, snapshot);
    let ready = match (&usable, zone.meta.deleting) {
        (_, true) => pass.remove(),
        (Ok(spec), false) => pass.maintain(spec),
        (Err(finding), false) => finding.clone(),
    };
    if let Ok(spec) = &usable {
        pass.end_claims(spec);
    }
    pass.report(usable.ok().as_ref(), ready);
    pass.plan
}

struct Pass<'a> {
    name: &'a ZoneName,
    zone: &'a Seen<crate::admit::ZoneInput, ZoneStatus>,
    snapshot: &'a Snapshot,
    plan: Plan,
}

impl<'a> Pass<'a> {
    fn target(&self) -> Target {
        Target::cluster(Kind::Zone, self.name)
    }

    fn provider_network(
        &self,
        wire: &Wire,
    ) -> Option<&'a Mirror<ProviderNetwork, ProviderNetworkState>> {
        self.snapshot
            .provider_networks
            .get(&wire.provider_network())
    }

    /// Keeps the zone held and its trunk as written.
    fn maintain(&mut self, spec: &ZoneSpec) -> Finding {
        if !self.snapshot.served.kube_ovn {
            return Finding::bad(
                Reason::ProviderNetworkMissing,
                "the kubeovn.io API is not installed",
            );
        }
        if !self.zone.meta.held {
            self.plan.steps.push(Step::Hold {
                target: self.target(),
                seen: self.zone.meta.version.clone(),
            });
        }
        let provider = spec.wire.provider_network();
        let seen = self.provider_network(&spec.wire);
        let object = ProviderNetwork {
            trunk: spec.trunk.clone(),
        };
        self.plan
            .steps
            .extend(plan::ensure(seen, &object, || Wanted {
                object: Object::ProviderNetwork {
                    name: provider.clone(),
                    spec: object.clone(),
                },
                labels: Labels::from([(keys::MANAGED_BY.to_owned(), keys::MANAGER.to_owned())]),
                annotations: Labels::new(),
                held: false,
            }));
        if seen.is_none() {
            return Finding::bad(
                Reason::ProviderNetworkMissing,
                format!("ProviderNetwork \"{provider}\" does not exist yet"),
            );
        }
        let nodes = trunk_nodes(spec, self.snapshot);
        if nodes.healthy.is_empty() {
            return Finding::bad(Reason::NoTrunkNodes, no_trunk_nodes(&provider, &nodes));
        }
        Finding::good(Reason::Ready, "")
    }

    /// Takes the zone away once nothing of it is left.
    fn remove(&mut self) -> Finding {
        let networks = self.networks();
        if !networks.is_empty() {
            return Finding::bad(
                Reason::InUse,
                format!(
                    "held by {} of the zone: {}",
                    counted(networks.len() as u64, "network"),
                    some_names(networks.iter())
                ),
            );
        }
        let Ok(spec) = admit_zone(self.name, &self.zone.spec) else {
            return self.let_go();
        };
        if zone_conflict(self.name, self.snapshot).is_some() {
            return self.let_go();
        }
        let provider = spec.wire.provider_network();
        let on_provider: Vec<&String> = self
            .snapshot
            .vlans
            .iter()
            .filter(|(_, vlan)| vlan.spec.provider == provider)
            .map(|(name, _)| name)
            .collect();
        if self.others_on(&spec.wire).next().is_some() {
            let mine = self.claims(&spec);
            if mine.is_empty() {
                return self.let_go();
            }
            return waiting_for_vlans(mine.keys());
        }
        if !on_provider.is_empty() {
            return waiting_for_vlans(on_provider.into_iter());
        }
        match self.provider_network(&spec.wire) {
            Some(seen) if seen.meta.is_ours() => {
                self.plan.steps.extend(plan::remove(
                    Target::cluster(Kind::ProviderNetwork, &provider),
                    &seen.meta,
                ));
                Finding::bad(
                    Reason::Terminating,
                    format!("waits for ProviderNetwork \"{provider}\" to go"),
                )
            }
            _ => self.let_go(),
        }
    }

    fn let_go(&mut self) -> Finding {
        if self.zone.meta.held {
            self.plan.steps.push(Step::LetGo {
                target: self.target(),
                seen: self.zone.meta.version.clone(),
            });
        }
        Finding::bad(Reason::Terminating, "nothing uses the zone any more")
    }

    /// The other zones of the wire that stay.
    fn others_on(&self, wire: &Wire) -> impl Iterator<Item = ZoneSpec> {
        self.snapshot
            .zones
            .iter()
            .filter(|(name, other)| *name != self.name && !other.meta.deleting)
            .filter_map(|(name, other)| admit_zone(name, &other.spec).ok())
            .filter(|spec| spec.wire == *wire)
    }

    /// Claims of ours on the wire that are this zone's to look after, by name of their Vlan: those
    /// in its ranges, and those that no zone of the wire has in its ranges (any more).
    fn claims(&self, spec: &ZoneSpec) -> BTreeMap<&'a String, Vid> {
        let provider = spec.wire.provider_network();
        let others: Vec<ZoneSpec> = self.others_on(&spec.wire).collect();
        let in_others = |vid| others.iter().any(|other| other.ranges.contains(vid));
        self.snapshot
            .vlans
            .iter()
            .filter(|(_, vlan)| vlan.spec.owner.is_some() && vlan.spec.provider == provider)
            .filter_map(|(name, vlan)| Some((name, vlan.spec.vid?)))
            .filter(|(_, vid)| spec.ranges.contains(*vid) || !in_others(*vid))
            .collect()
    }

    /// Releases what has no owner, and deletes what has rested for the whole cool-down: only then
    /// the number is free. A claim that a Subnet is on is left alone, whatever it says of itself.
    fn end_claims(&mut self, spec: &ZoneSpec) {
        let owners: BTreeSet<&Uid> = self
            .snapshot
            .networks
            .values()
            .map(|network| &network.meta.version.uid)
            .collect();
        let used: BTreeSet<&String> = self
            .snapshot
            .subnets
            .values()
            .filter_map(|subnet| subnet.spec.as_ref()?.vlan.as_ref())
            .collect();
        for name in self.claims(spec).into_keys() {
            let Some(vlan) = self.snapshot.vlans.get(name) else {
                continue;
            };
            if used.contains(name) || self.has_switch(vlan) {
                continue;
            }
            let owned = vlan.spec.owner.as_ref().is_some_and(|o| owners.contains(o));
            match vlan.spec.released {
                Some(released) => self.end_rested(name, &vlan.meta, released),
                None if !owned => self.release_orphan(name, &vlan.meta),
                None => {}
            }
        }
    }

    /// Whether a switch is on the Vlan. A name of which neither Subnet nor switch exists was left in
    /// the Vlan's status by an outage of Kube-OVN (seen); it goes with the Vlan.
    fn has_switch(&self, vlan: &Seen<KubeOvnVlan, VlanState>) -> bool {
        let mut names = vlan.status.iter().flat_map(|status| &status.subnets);
        names.any(|name| {
            let northbound = self.snapshot.northbound.as_ref();
            self.snapshot.subnets.contains_key(name)
                || northbound.is_none_or(|northbound| northbound.switches.contains(name))
        })
    }

    fn end_rested(&mut self, name: &str, meta: &Meta, released: Moment) {
        let free_at = released.after(self.snapshot.settings.cool_down);
        if self.snapshot.now < free_at {
            self.plan.wake_no_later(free_at);
            return;
        }
        let step = plan::remove(Target::cluster(Kind::Vlan, name), meta);
        self.plan.steps.extend(step);
    }

    /// A claim whose network is not there any more: its record was taken away by force.
    fn release_orphan(&mut self, name: &str, meta: &Meta) {
        let Some((vpc, subnet)) = objects::owner(&meta.labels) else {
            return;
        };
        let orphaned_at = meta.created.after(ORPHAN_AFTER);
        if self.snapshot.now < orphaned_at {
            self.plan.wake_no_later(orphaned_at);
            return;
        }
        self.plan.steps.push(Step::ReleaseClaim {
            name: name.to_owned(),
            seen: meta.version.clone(),
            subnet: vpc.subnet_id(&subnet),
        });
    }

    fn networks(&self) -> Vec<&'a SubnetKey> {
        self.snapshot
            .networks
            .iter()
            .filter(|(_, network)| {
                let zone = network
                    .spec
                    .as_ref()
                    .and_then(|record| record.zone.as_ref());
                zone == Some(self.name)
            })
            .map(|(key, _)| key)
            .collect()
    }

    fn report(&mut self, spec: Option<&ZoneSpec>, ready: Finding) {
        let generation = self.zone.meta.generation;
        let earlier = self.zone.status.clone().unwrap_or_default();
        let mut status = ZoneStatus {
            observed_generation: generation,
            networks: self.networks().len(),
            conditions: vec![ready.into_condition(
                ConditionType::Ready,
                &earlier.conditions,
                generation,
                self.snapshot.now,
            )],
            ..ZoneStatus::default()
        };
        if let Some(spec) = spec {
            self.report_figures(spec, &mut status);
        }
        if self.zone.status.as_ref() != Some(&status) {
            self.plan
                .statuses
                .push(StatusWrite::Zone(self.name.clone(), status));
        }
    }

    fn report_figures(&self, spec: &ZoneSpec, status: &mut ZoneStatus) {
        let holds = alloc::holds(&spec.wire, self.snapshot);
        let offered = spec.offered();
        status.vlans_total = offered.len();
        status.vlans_used = offered.iter().filter(|vid| holds.contains_key(vid)).count();
        status.vlans_free = status.vlans_total - status.vlans_used;
        status.held_back = self
            .claims(spec)
            .into_values()
            .filter(|vid| spec.reserved.contains(*vid))
            .collect();
        let nodes = trunk_nodes(spec, self.snapshot);
        status.trunk_nodes_total = nodes.selected.len();
        status.trunk_nodes_ready = nodes.healthy.len();
        status.trunk_nodes_not_ready = nodes
            .selected
            .difference(&nodes.healthy)
            .take(NAMES_MAX)
            .cloned()
            .collect();
    }
}

/// Why no node carries the trunk, with the figures.
pub fn no_trunk_nodes(provider: &str, nodes: &TrunkNodes) -> String {
    if nodes.selected.is_empty() {
        "no node matches spec.trunk.nodeSelector; the administrator can label the nodes that have \
         the trunk NIC"
            .to_owned()
    } else {
        format!(
            "none of {} is ready on ProviderNetwork \"{provider}\": {}",
            counted(nodes.selected.len() as u64, "trunk node"),
            some_names(nodes.selected.iter())
        )
    }
}

fn waiting_for_vlans<T: ToString>(names: impl ExactSizeIterator<Item = T>) -> Finding {
    Finding::bad(
        Reason::Terminating,
        format!(
            "waits for {} to go: {}",
            counted(names.len() as u64, "Vlan"),
            some_names(names)
        ),
    )
}
