//! Kube-OVN, the IPAM provider and OVN: what each would do next, move by move.

use std::net::Ipv4Addr;

use causeway_planner::{
    model::{
        AddrRange, ChassisName, KubeOvnSubnet, Namespace, NodeName, Pool, SubnetId, SubnetKey,
        VpcId,
    },
    northbound::OWNER,
    plan::{Kind, Target},
    snapshot::{
        Mirror, PoolState, ProviderNetworkState, RouterPolicy, RouterPort, SubnetState, VlanState,
        VpcState,
    },
};

use super::World;

/// One move of somebody else.
#[derive(Clone, Debug)]
pub enum Reaction {
    /// kube-ovn-cni has made the bridges.
    TrunkReady(String),
    /// A Vlan is accepted by its `ProviderNetwork`.
    Carry(String),
    /// A Vlan that is gone leaves the list of its `ProviderNetwork`.
    Uncarry(String, String),
    /// The router of a Vpc is there.
    Router(VpcId),
    /// A deleted Vpc without Subnets loses Kube-OVN's finalizer.
    RouterGone(VpcId),
    /// Switch, port and policy of a Subnet are there, but its Vlan does not list it yet.
    Switch(String),
    /// The Vlan lists the Subnet, and the Subnet is Ready.
    SubnetReady(String),
    /// A deleted Subnet without addresses loses Kube-OVN's finalizer: before its switch goes.
    SubnetGone(String),
    /// The switch, port and policy of a Subnet that is gone.
    SwitchGone(String),
    /// The name of a switch that is gone leaves its Vlan.
    NameGone(String, String),
    /// The IPAM provider writes a pool's figures.
    Figures(SubnetKey),
    /// A deleted pool without addresses goes.
    PoolGone(SubnetKey),
    /// A chassis takes a router port.
    Take(String, ChassisName),
    /// Nobody holds a router port any more.
    Drop(String),
    /// A chassis confirms what it has processed.
    Confirm(ChassisName),
}

/// Namespace and name of a namespaced object.
pub fn subnet_key(target: &Target) -> SubnetKey {
    SubnetKey {
        namespace: target
            .namespace
            .clone()
            .unwrap_or_else(|| Namespace::from("")),
        id: SubnetId::from(target.name.as_str()),
    }
}

impl World {
    /// Every move that is possible now.
    pub fn reactions(&self) -> Vec<Reaction> {
        let mut all = self.trunk_moves();
        all.extend(self.router_moves());
        all.extend(self.subnet_moves());
        all.extend(self.switch_moves());
        all.extend(self.pool_moves());
        all.extend(self.ovn_moves());
        all
    }

    fn trunk_moves(&self) -> Vec<Reaction> {
        let mut moves = Vec::new();
        for (name, provider) in &self.seen.provider_networks {
            let Some(state) = &provider.status else {
                moves.push(Reaction::TrunkReady(name.clone()));
                continue;
            };
            let gone = state.vlans.iter();
            let gone = gone.filter(|vlan| !self.seen.vlans.contains_key(*vlan));
            moves.extend(gone.map(|vlan| Reaction::Uncarry(name.clone(), vlan.clone())));
        }
        for (name, vlan) in &self.seen.vlans {
            let provider = self.seen.provider_networks.get(&vlan.spec.provider);
            let state = provider.and_then(|provider| provider.status.as_ref());
            let added = vlan.status.is_some();
            if state.is_some_and(|state| !added || !state.vlans.contains(name)) {
                moves.push(Reaction::Carry(name.clone()));
            }
        }
        moves
    }

    fn router_moves(&self) -> Vec<Reaction> {
        let mut moves = Vec::new();
        for (id, router) in &self.seen.routers {
            let up = router.status.as_ref().is_some_and(|state| state.standby);
            let mut subnets = self.seen.subnets.values().filter_map(|s| s.spec.as_ref());
            let ours = self.kube_ovn.contains(&Target::cluster(Kind::Vpc, id));
            if !up && !router.meta.deleting {
                moves.push(Reaction::Router(id.clone()));
            } else if router.meta.deleting && ours && !subnets.any(|spec| spec.vpc == *id) {
                moves.push(Reaction::RouterGone(id.clone()));
            }
        }
        moves
    }

    fn subnet_moves(&self) -> Vec<Reaction> {
        let mut moves = Vec::new();
        let northbound = self.seen.northbound.as_ref().expect("a database");
        for (name, seen) in &self.seen.subnets {
            let Some(spec) = &seen.spec else { continue };
            let vlan = spec.vlan.as_ref();
            if vlan.is_some_and(|vlan| !self.seen.vlans.contains_key(vlan)) {
                continue; // The real one says ValidateSubnetVlanFailed, deleting or not: stuck.
            }
            let router = self.seen.routers.get(&spec.vpc);
            let router = router.and_then(|router| router.status.as_ref());
            let up = router.is_some_and(|state| state.standby);
            let ready = seen
                .status
                .as_ref()
                .is_some_and(|s| s.ready == Some(true) && s.available == Some(available(spec)));
            let used = self.seen.ips.values().any(|ip| ip.subnet == *name);
            if seen.meta.deleting {
                if !used {
                    moves.push(Reaction::SubnetGone(name.clone()));
                }
            } else if up && !northbound.switches.contains(name) {
                moves.push(Reaction::Switch(name.clone()));
            } else if up && !ready {
                moves.push(Reaction::SubnetReady(name.clone()));
            }
        }
        moves
    }

    fn switch_moves(&self) -> Vec<Reaction> {
        let northbound = self.seen.northbound.as_ref().expect("a database");
        let gone = northbound.switches.iter();
        let gone = gone.filter(|name| !self.seen.subnets.contains_key(*name));
        let mut moves: Vec<Reaction> = gone
            .map(|name| Reaction::SwitchGone(name.clone()))
            .collect();
        for (vlan, seen) in &self.seen.vlans {
            let names = seen.status.iter().flat_map(|state| &state.subnets);
            let gone = names.filter(|name| {
                !northbound.switches.contains(*name)
                    && !self.seen.subnets.contains_key(*name)
                    && !self.forgotten.contains(*name)
            });
            moves.extend(gone.map(|name| Reaction::NameGone(vlan.clone(), name.clone())));
        }
        moves
    }

    fn pool_moves(&self) -> Vec<Reaction> {
        let mut moves = Vec::new();
        for (key, pool) in &self.seen.pools {
            let used = self.machines.get(key).copied().unwrap_or(0);
            if pool.meta.deleting && used == 0 && !pool.meta.held {
                moves.push(Reaction::PoolGone(key.clone()));
            } else if pool.status.is_none_or(|state| {
                (state.used, Some(state.total)) != (used, pool_range(pool).map(|range| range.len()))
            }) {
                moves.push(Reaction::Figures(key.clone()));
            }
        }
        moves
    }

    pub fn react(&mut self, reaction: &Reaction) {
        match reaction {
            Reaction::TrunkReady(name) => self.trunk_ready(name),
            Reaction::Carry(name) => {
                let provider = self.vlan(name).spec.provider.clone();
                self.provider_state(&provider).vlans.insert(name.clone());
                let live = self.switches_on(name);
                self.vlan(name)
                    .status
                    .get_or_insert_default()
                    .subnets
                    .extend(live);
            }
            Reaction::Uncarry(provider, vlan) => {
                self.provider_state(provider).vlans.remove(vlan);
            }
            Reaction::Router(id) => {
                self.kube_ovn.insert(Target::cluster(Kind::Vpc, id));
                let router = self.seen.routers.get_mut(id).expect("the Vpc");
                router.status = Some(VpcState { standby: true });
            }
            Reaction::RouterGone(id) => self.let_go(&Target::cluster(Kind::Vpc, id)),
            Reaction::Switch(name) => self.make_switch(name),
            Reaction::SubnetReady(name) => self.subnet_ready(name),
            Reaction::SubnetGone(name) => self.let_go(&Target::cluster(Kind::Subnet, name)),
            Reaction::SwitchGone(name) => self.remove_switch(name),
            Reaction::NameGone(vlan, name) => {
                let state = self.vlan(vlan).status.as_mut().expect("a status");
                state.subnets.remove(name);
                self.touch(&Target::cluster(Kind::Vlan, &vlan));
            }
            Reaction::Figures(key) => self.write_figures(key),
            Reaction::PoolGone(key) => self.end_if_free(&Target::namespaced(Kind::Pool, key)),
            Reaction::Take(port, chassis) => {
                let claims = &mut self.southbound().claims;
                claims.insert(port.clone(), chassis.clone());
            }
            Reaction::Drop(port) => {
                self.southbound().claims.remove(port);
            }
            Reaction::Confirm(chassis) => {
                let nb_cfg = self.northbound().nb_cfg;
                self.southbound().chassis.insert(chassis.clone(), nb_cfg);
            }
        }
    }

    /// Ready Subnets on a Vlan: a Vlan that comes back lists them again.
    fn switches_on(&self, vlan: &str) -> Vec<String> {
        let on = self.seen.subnets.iter().filter(|(_, seen)| {
            let spec = seen.spec.as_ref();
            let ready = seen.status.as_ref().is_some_and(|s| s.ready == Some(true));
            ready && spec.is_some_and(|spec| spec.vlan.as_deref() == Some(vlan))
        });
        on.map(|(name, _)| name.clone()).collect()
    }

    fn let_go(&mut self, target: &Target) {
        self.kube_ovn.remove(target);
        self.touch(target);
        self.end_if_free(target);
    }

    fn provider_state(&mut self, name: &str) -> &mut ProviderNetworkState {
        let provider = self.seen.provider_networks.get_mut(name);
        let provider = provider.expect("the ProviderNetwork");
        provider.status.get_or_insert_default()
    }

    fn trunk_ready(&mut self, name: &str) {
        let provider = self.seen.provider_networks.get(name);
        let spec = provider.and_then(|provider| provider.spec.clone());
        let trunk = spec.expect("the ProviderNetwork").trunk;
        let nodes: Vec<NodeName> = self
            .seen
            .nodes
            .iter()
            .filter(|(_, node)| trunk.node_selector.matches(&node.labels))
            .map(|(name, _)| name.clone())
            .collect();
        let label = format!("{name}.provider-network.kubernetes.io/ready");
        for node in &nodes {
            let node = self.seen.nodes.get_mut(node).expect("a node");
            node.labels.insert(label.clone(), "true".to_owned());
        }
        self.provider_state(name).ready_nodes.extend(nodes);
    }

    fn make_switch(&mut self, name: &str) {
        self.kube_ovn.insert(Target::cluster(Kind::Subnet, name));
        let vpc = self.subnet_vpc(name);
        let row = format!("port-{}", self.number());
        let northbound = self.northbound();
        northbound.switches.insert(name.to_owned());
        let policy = RouterPolicy {
            subnet: name.to_owned(),
            left: None,
        };
        northbound.policies.insert(format!("policy-{row}"), policy);
        let port = RouterPort {
            row,
            ..RouterPort::default()
        };
        northbound.ports.insert(vpc.router_port(&name.into()), port);
    }

    fn subnet_vpc(&self, name: &str) -> VpcId {
        let subnet = self.seen.subnets.get(name);
        let spec = subnet.and_then(|subnet| subnet.spec.as_ref());
        spec.expect("a Subnet with a Vpc").vpc.clone()
    }

    fn subnet_ready(&mut self, name: &str) {
        let subnet = self.seen.subnets.get_mut(name).expect("the Subnet");
        let available = subnet.spec.as_ref().map(available);
        subnet.status = Some(SubnetState {
            ready: Some(true),
            message: String::new(),
            available,
        });
        let vlan = subnet.spec.as_ref().and_then(|spec| spec.vlan.clone());
        self.touch(&Target::cluster(Kind::Subnet, name));
        if let Some(vlan) = vlan {
            let state: &mut VlanState = self.vlan(&vlan).status.get_or_insert_default();
            state.subnets.insert(name.to_owned());
            self.touch(&Target::cluster(Kind::Vlan, &vlan));
        }
    }

    fn remove_switch(&mut self, name: &str) {
        let northbound = self.northbound();
        northbound.switches.remove(name);
        northbound
            .policies
            .retain(|_, policy| policy.subnet != name);
        let of_subnet = format!("-{name}");
        northbound
            .ports
            .retain(|port, _| !port.ends_with(&of_subnet));
    }

    fn write_figures(&mut self, key: &SubnetKey) {
        let used = self.machines.get(key).copied().unwrap_or(0);
        let pool = self.seen.pools.get_mut(key).expect("the pool");
        let range = pool_range(pool).expect("a range");
        pool.status = Some(PoolState {
            total: range.len(),
            used,
            free: range.len() - used,
        });
        self.touch(&Target::namespaced(Kind::Pool, key));
    }

    /// A Subnet goes while Kube-OVN is away: of all that it had, only the switch is collected later
    /// (seen).
    pub fn lose_subnet(&mut self, name: &str) {
        self.seen.subnets.remove(name).expect("the Subnet");
        self.kube_ovn.remove(&Target::cluster(Kind::Subnet, name));
        self.northbound().switches.remove(name);
        self.forgotten.insert(name.to_owned());
    }

    /// A pod gets an address of a subnet.
    pub fn start_pod(&mut self, subnet: &SubnetId, name: &str) {
        let ip = causeway_planner::snapshot::IpObject {
            subnet: subnet.to_string(),
            namespace: "tenant-example".to_owned(),
            pod: name.to_owned(),
            address: None,
        };
        self.seen.ips.insert(format!("{name}.{subnet}"), ip);
    }

    /// Whether any port row of ours is left.
    pub fn marked_ports(&self) -> usize {
        let northbound = self.seen.northbound.as_ref().expect("a database");
        let ports = northbound.ports.values();
        ports
            .filter(|port| port.external_ids.contains_key(OWNER))
            .count()
    }
}

fn pool_range(pool: &Mirror<Pool, PoolState>) -> Option<AddrRange> {
    let range = pool.spec.as_ref()?.addresses.first()?;
    range.parse().ok()
}

/// What Kube-OVN gives to pods: the Subnet without network, broadcast and excluded addresses.
fn available(subnet: &KubeOvnSubnet) -> Vec<AddrRange> {
    let net = subnet.cidr.v4().expect("an IPv4 Subnet");
    let excluded = subnet.exclude_ips.iter().map(|text| {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let address = |text: &str| u32::from(text.parse::<Ipv4Addr>().expect("an address"));
        (address(first), address(last))
    });
    let mut excluded: Vec<(u32, u32)> = excluded.collect();
    excluded.sort_unstable();
    let (mut free, end) = (u32::from(net.network()) + 1, u32::from(net.broadcast()));
    let mut left = Vec::new();
    for (first, last) in excluded.into_iter().chain([(end, end)]) {
        left.extend(
            first
                .checked_sub(1)
                .filter(|last| *last >= free)
                .map(|last| (free, last)),
        );
        free = free.max(last.saturating_add(1));
    }
    let ranges = left.into_iter();
    let ranges = ranges.filter_map(|(first, last)| AddrRange::new(first.into(), last.into()));
    ranges.collect()
}
