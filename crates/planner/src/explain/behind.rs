//! The objects and rows that each condition of a network looks at.
//!
//! Must stay true: an object that is not there is said not to be there only where it was looked for.

use super::{Fact, Sight};
use crate::{
    admit::{admit_zone, choose_zone},
    alloc,
    conditions::ConditionType,
    model::{NetworkRecord, NodeName, SubnetKey, ZoneName, ZoneSpec},
    northbound,
    snapshot::{Meta, NodeState, ProviderNetworkState, Snapshot},
    usage::Usage,
    vpc::{counted, some_names},
    zone,
};

const ZONE: &str = "ProxmoxNetworkZone";
const PROVIDER_NETWORK: &str = "ProviderNetwork";
const VLAN: &str = "Vlan";
const VPC: &str = "Vpc";
const SUBNET: &str = "Subnet";
const ATTACHMENT: &str = "NetworkAttachmentDefinition";
const POOL: &str = "InClusterIPPool";
const NODE: &str = "Node";
const NOT_READABLE: &str = "not readable with these rights";
const NOT_THERE: &str = "does not exist";
const NO_ROWS: &str = "not looked at";
/// Zones and nodes shown at the most.
const LISTED_MAX: usize = 8;

/// A network as the facts about it need it.
struct Network<'a> {
    key: &'a SubnetKey,
    meta: &'a Meta,
    record: &'a NetworkRecord,
    zone: Option<(&'a ZoneName, ZoneSpec)>,
    sight: &'a Sight,
    seen: &'a Snapshot,
}

/// What is behind one condition of a network.
pub fn facts(
    kind: ConditionType,
    key: &SubnetKey,
    meta: &Meta,
    record: Option<&NetworkRecord>,
    sight: &Sight,
) -> Vec<Fact> {
    let Some(record) = record else {
        return Vec::new();
    };
    let seen = &sight.snapshot;
    let zone = record.zone.as_ref().and_then(|name| {
        let spec = admit_zone(name, &seen.zones.get(name)?.spec).ok()?;
        Some((name, spec))
    });
    let network = Network {
        key,
        meta,
        record,
        zone,
        sight,
        seen,
    };
    match kind {
        ConditionType::ZoneReady => network.zones(),
        ConditionType::VLANAllocated => network.claims(),
        ConditionType::TrunkReady => network.trunk(),
        ConditionType::SwitchReady => network.switch(),
        ConditionType::GatewayReady => network.gateway(),
        ConditionType::PoolReady => network.pool(),
        ConditionType::Ready => network.users(),
    }
}

impl Network<'_> {
    /// The object, unless it is there: then what it says is the caller's to say.
    fn absent(&self, kind: &str, name: &str) -> Fact {
        let says = if self.sight.hides(kind) {
            NOT_READABLE
        } else {
            NOT_THERE
        };
        Fact::new(format!("{kind} {name}"), says)
    }

    fn zones(&self) -> Vec<Fact> {
        if let Some(name) = &self.record.zone {
            return vec![self.zone_fact(name)];
        }
        if self.sight.hides(ZONE) {
            return vec![Fact::new(ZONE, NOT_READABLE)];
        }
        let zones = self.seen.zones.keys().take(LISTED_MAX);
        let admits = |name: &ZoneName| {
            let asked = choose_zone(&self.key.namespace, Some(name), self.seen);
            asked.map_or_else(|no| no.message, |_| "admits the namespace".to_owned())
        };
        zones
            .map(|name| Fact::new(format!("{ZONE} {name}"), admits(name)))
            .collect()
    }

    fn zone_fact(&self, name: &ZoneName) -> Fact {
        let Some(seen) = self.seen.zones.get(name) else {
            return self.absent(ZONE, name.as_str());
        };
        let mut says = vec![format!("bridge {}", seen.spec.bridge)];
        if let Some((_, spec)) = &self.zone {
            says.push(format!("wire {}", spec.wire));
        }
        says.push(format!("VLANs {}", seen.spec.vlans.ranges.join(", ")));
        if !seen.spec.vlans.reserved.is_empty() {
            let reserved = seen.spec.vlans.reserved.join(", ");
            says.push(format!("reserved {reserved}"));
        }
        let status = seen.status.as_ref();
        let ready = status.and_then(|status| {
            status
                .conditions
                .iter()
                .find(|one| one.kind == ConditionType::Ready)
        });
        says.push(ready.map_or_else(
            || "no status yet".to_owned(),
            |ready| format!("Ready {} {}", ready.status, ready.reason),
        ));
        if seen.meta.deleting {
            says.push("being deleted".to_owned());
        }
        Fact::new(format!("{ZONE} {name}"), says.join("; "))
    }

    fn claims(&self) -> Vec<Fact> {
        if self.sight.hides(VLAN) {
            return vec![Fact::new(VLAN, NOT_READABLE)];
        }
        let owner = &self.meta.version.uid;
        let mine = self.seen.vlans.iter();
        let mine = mine.filter(|(_, vlan)| vlan.spec.owner.as_ref() == Some(owner));
        let mut facts: Vec<Fact> = mine
            .map(|(name, vlan)| {
                let number = vlan
                    .spec
                    .vid
                    .map_or("none".to_owned(), |vid| vid.to_string());
                let mut says = vec![
                    format!("number {number}"),
                    format!("of {PROVIDER_NETWORK} {}", vlan.spec.provider),
                    "claimed by this network".to_owned(),
                ];
                says.push(match vlan.spec.released {
                    Some(at) => {
                        let gone = self.seen.now.since(at).as_secs();
                        format!("released {gone} s ago")
                    }
                    None => "not released".to_owned(),
                });
                if vlan.meta.deleting {
                    says.push("being deleted".to_owned());
                }
                Fact::new(format!("{VLAN} {name}"), says.join("; "))
            })
            .collect();
        if facts.is_empty() {
            facts.push(Fact::new(VLAN, "none names this network as its owner"));
        }
        facts.extend(self.numbers());
        facts
    }

    /// The zone's numbers.
    fn numbers(&self) -> Option<Fact> {
        let (name, spec) = self.zone.as_ref()?;
        let holds = alloc::holds(&spec.wire, self.seen);
        let offered = spec.offered();
        let count = |hold| {
            let these = offered.iter().filter(|vid| holds.get(vid) == Some(&hold));
            these.count()
        };
        let (held, resting) = (count(alloc::Hold::Taken), count(alloc::Hold::Resting));
        let free = offered.len() - held - resting;
        let says = format!(
            "{} offered: {held} held, {resting} resting, {free} free",
            counted(offered.len() as u64, "number")
        );
        Some(Fact::new(format!("{ZONE} {name}"), says))
    }

    fn trunk(&self) -> Vec<Fact> {
        let Some((_, spec)) = &self.zone else {
            return Vec::new();
        };
        let provider = spec.wire.provider_network();
        let Some(seen) = self.seen.provider_networks.get(&provider) else {
            return vec![self.absent(PROVIDER_NETWORK, &provider)];
        };
        let state = seen.status.clone().unwrap_or_default();
        let carried = match self.vlan_name() {
            Some(name) if state.vlans.contains(&name) => format!("carries Vlan {name}"),
            Some(name) => format!("does not carry Vlan {name}"),
            None => format!("carries {}", counted(state.vlans.len() as u64, "Vlan")),
        };
        let says = format!(
            "NIC {}; ready on {}; not ready on {}; {carried}",
            spec.trunk.interface,
            names_or_none(state.ready_nodes.iter()),
            names_or_none(state.not_ready_nodes.iter()),
        );
        let mut facts = vec![Fact::new(format!("{PROVIDER_NETWORK} {provider}"), says)];
        facts.extend(self.nodes(spec, &provider, &state));
        facts
    }

    /// The nodes that the zone's selector names, the unhealthy first.
    fn nodes(&self, spec: &ZoneSpec, provider: &str, state: &ProviderNetworkState) -> Vec<Fact> {
        if self.sight.hides(NODE) {
            return vec![Fact::new(NODE, NOT_READABLE)];
        }
        let nodes = zone::trunk_nodes(spec, self.seen);
        let label = format!("{provider}.provider-network.kubernetes.io/ready");
        let says = |name: &NodeName, node: &NodeState| {
            let mut says = vec![if node.ready { "Ready" } else { "not Ready" }.to_owned()];
            if !state.ready_nodes.contains(name) {
                says.push("not among the ready nodes".to_owned());
            }
            if node.labels.get(&label).map(String::as_str) != Some("true") {
                says.push(format!("has no label {label}=true"));
            }
            let healthy = nodes.healthy.contains(name);
            says.push(if healthy { "healthy" } else { "not healthy" }.to_owned());
            says.join("; ")
        };
        let ill = nodes.selected.difference(&nodes.healthy);
        let shown = ill.chain(&nodes.healthy).take(LISTED_MAX);
        let facts = shown.filter_map(|name| {
            let node = self.seen.nodes.get(name)?;
            Some(Fact::new(format!("{NODE} {name}"), says(name, node)))
        });
        let mut facts: Vec<Fact> = facts.collect();
        if nodes.selected.is_empty() {
            facts.push(Fact::new(
                NODE,
                "none matches the zone's trunk.nodeSelector",
            ));
        }
        facts
    }

    /// The Vlan that the network's switch is, or will be, on.
    fn vlan_name(&self) -> Option<String> {
        let subnet = self.seen.subnets.get(self.key.id.as_str());
        let named = subnet.and_then(|seen| seen.spec.as_ref()?.vlan.clone());
        let claimed = || {
            let mut vlans = self.seen.vlans.iter();
            let uid = &self.meta.version.uid;
            let mine = vlans.find(|(_, vlan)| vlan.spec.owner.as_ref() == Some(uid));
            mine.map(|(name, _)| name.clone())
        };
        named.or_else(claimed)
    }

    fn switch(&self) -> Vec<Fact> {
        let (id, mut facts) = (self.key.id.as_str(), Vec::new());
        let router = self.record.vpc_id.as_str();
        facts.push(match self.seen.routers.get(&self.record.vpc_id) {
            None => self.absent(VPC, router),
            Some(seen) => {
                let up = seen.status.as_ref().is_some_and(|state| state.standby);
                let says = match (seen.meta.deleting, up) {
                    (true, _) => "being deleted",
                    (false, true) => "its router is there",
                    (false, false) => "Kube-OVN has not reported its router",
                };
                Fact::new(format!("{VPC} {router}"), says)
            }
        });
        facts.push(self.subnet());
        if let Some((name, vlan)) = self.vlan_name().and_then(|name| {
            let vlan = self.seen.vlans.get(&name)?;
            Some((name, vlan))
        }) {
            let state = vlan.status.clone().unwrap_or_default();
            let on = if state.subnets.contains(id) {
                "is"
            } else {
                "is not"
            };
            let says = format!("the Subnet {on} in its status");
            facts.push(Fact::new(format!("{VLAN} {name}"), says));
        }
        facts.push(match self.seen.attachments.get(self.key) {
            None => self.absent(ATTACHMENT, &self.key.to_string()),
            Some(seen) => {
                let spec = seen.spec.as_ref();
                let says = spec.map_or("cannot be read".to_owned(), |spec| {
                    format!("provider {}", spec.provider)
                });
                Fact::new(format!("{ATTACHMENT} {}", self.key), says)
            }
        });
        let says = match &self.seen.northbound {
            None => NO_ROWS,
            Some(rows) if rows.switches.contains(id) => "is in the northbound database",
            Some(_) => "is not in the northbound database",
        };
        facts.push(Fact::new(format!("logical switch {id}"), says));
        facts
    }

    fn subnet(&self) -> Fact {
        let id = self.key.id.as_str();
        let Some(seen) = self.seen.subnets.get(id) else {
            return self.absent(SUBNET, id);
        };
        let mut says = Vec::new();
        if let Some(spec) = &seen.spec {
            let vlan = spec.vlan.as_deref().unwrap_or("none");
            says.push(format!("{} on Vlan {vlan}", spec.cidr));
            says.push(format!("excluded {}", spec.exclude_ips.join(", ")));
        }
        let state = seen.status.clone().unwrap_or_default();
        says.push(match state.ready {
            Some(true) => "Ready True".to_owned(),
            Some(false) => format!("Ready False: {}", state.message),
            None => "Kube-OVN has not reported on it".to_owned(),
        });
        if seen.meta.deleting {
            says.push("being deleted".to_owned());
        }
        Fact::new(format!("{SUBNET} {id}"), says.join("; "))
    }

    fn gateway(&self) -> Vec<Fact> {
        let name = self.record.vpc_id.router_port(&self.key.id);
        let (Some(northbound), Some(southbound)) = (&self.seen.northbound, &self.seen.southbound)
        else {
            return vec![Fact::new(format!("router port {name}"), NO_ROWS)];
        };
        let Some(port) = northbound.ports.get(&name) else {
            return vec![Fact::new(format!("router port {name}"), NOT_THERE)];
        };
        let decision = port.external_ids.get(northbound::DECISION);
        let says = decision.map_or("no decision on it".to_owned(), |text| {
            format!("decided: {text}")
        });
        let mut facts = vec![Fact::new(format!("router port {name}"), says)];
        let mut rows: Vec<_> = port.chassis.iter().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.priority), &row.chassis));
        for row in rows {
            let node = self.node_of(row.chassis.as_str());
            let whose = if row.ours {
                ""
            } else {
                "; not written by causeway"
            };
            facts.push(Fact::new(
                format!("Gateway_Chassis {}", row.chassis),
                format!("{node}; priority {}{whose}", row.priority),
            ));
        }
        let holder = southbound.claims.get(&name);
        let says = holder.map_or("held by no chassis".to_owned(), |chassis| {
            format!(
                "held by chassis {chassis} ({})",
                self.node_of(chassis.as_str())
            )
        });
        facts.push(Fact::new(format!("Port_Binding cr-{name}"), says));
        facts
    }

    fn node_of(&self, chassis: &str) -> String {
        let mut nodes = self.seen.nodes.iter();
        let node = nodes.find(|(_, node)| {
            let own = node.chassis.as_ref();
            own.is_some_and(|own| own.as_str() == chassis)
        });
        node.map_or("no node".to_owned(), |(name, _)| format!("node {name}"))
    }

    fn pool(&self) -> Vec<Fact> {
        let Some(seen) = self.seen.pools.get(self.key) else {
            return vec![self.absent(POOL, &self.key.to_string())];
        };
        let mut says = Vec::new();
        if let Some(spec) = &seen.spec {
            let (prefix, gateway) = (spec.prefix, spec.gateway);
            let addresses = spec.addresses.join(", ");
            says.push(format!("{addresses} /{prefix}, gateway {gateway}"));
        }
        says.push(seen.status.map_or("no figures yet".to_owned(), |figures| {
            let (total, used, free) = (figures.total, figures.used, figures.free);
            format!("{used} of {total} used, {free} free")
        }));
        let pool = Fact::new(format!("{POOL} {}", self.key), says.join("; "));
        vec![pool]
    }

    /// Who holds or asks for an address.
    fn users(&self) -> Vec<Fact> {
        let hidden: Vec<&str> = ["IPAddressClaim", "IPAddress", "IP"]
            .into_iter()
            .filter(|kind| self.sight.hides(kind))
            .collect();
        let mut facts: Vec<Fact> = hidden
            .into_iter()
            .map(|kind| Fact::new(kind, NOT_READABLE))
            .collect();
        let usage = Usage::of(self.key, self.seen);
        let says = if usage.is_none() {
            "none seen".to_owned()
        } else {
            format!("{}: {}", usage.count(), usage.named(self.key))
        };
        facts.push(Fact::new("addresses in use", says));
        facts
    }
}

fn names_or_none<'a>(names: impl Iterator<Item = &'a NodeName>) -> String {
    let names = some_names(names);
    if names.is_empty() {
        "none".to_owned()
    } else {
        names
    }
}
