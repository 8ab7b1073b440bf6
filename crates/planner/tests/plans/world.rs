//! A world for whole stories: the API server, Kube-OVN, the IPAM provider and OVN, as far as the
//! planner sees them. Carries plans out step by step; after every step no invariant may be broken.
//!
//! Kube-OVN's reactions are single moves ([`Reaction`]), so that a story can have them in any order.
//! What sticks the real one (notes on its deletion order) fails the test.

mod api;
mod ovn;
mod reaction;

use std::collections::{BTreeMap, BTreeSet};

use causeway_planner::{
    admit::{VpcInput, ZoneInput},
    invariants::{self, Broken},
    model::{ChassisName, Namespace, SubnetKey, VpcKey, ZoneName, objects::Labels},
    northbound::plan_northbound,
    plan::{Plan, Target},
    snapshot::{Meta, Moment, NamespaceState, NodeState, Northbound, Seen, Snapshot, Southbound},
    vpc::{known_vpcs, plan_vpc},
    zone::plan_zone,
};

pub use reaction::Reaction;

use crate::{build, random::Random};

/// Rounds after which a world that is not quiet never will be.
const ROUNDS_MAX: usize = 400;
/// Where stories begin.
const START: Moment = Moment(1_760_000_000_000);

/// What the scheduler calls with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Zone(ZoneName),
    Vpc(VpcKey),
    Northbound,
}

/// Everything there is.
#[derive(Clone)]
pub struct World {
    pub seen: Snapshot,
    /// Objects with Kube-OVN's finalizer.
    kube_ovn: BTreeSet<Target>,
    /// Addresses that Proxmox VMs hold.
    pub machines: BTreeMap<SubnetKey, u64>,
    /// Names of Subnets that went while Kube-OVN was away: what it forgot for ever.
    pub forgotten: BTreeSet<String>,
    /// Chassis whose node is dead.
    pub dead: BTreeSet<ChassisName>,
    /// Number of the next uid, version or row.
    next: u64,
    /// Writes carried out.
    pub writes: usize,
    /// The controller dies right after this write.
    pub crash_after: Option<usize>,
    /// Two controllers at once: a claim may be released that the other one puts a Subnet on.
    pub tolerates_released: bool,
    /// Somebody deleted a claim under its Subnet.
    pub tolerates_lost_claims: bool,
}

impl World {
    /// Nodes, their chassis, a namespace; nothing of causeway.
    pub fn new(nodes: impl IntoIterator<Item = (&'static str, bool)>) -> Self {
        let mut seen = Snapshot {
            now: START,
            nodes: nodes
                .into_iter()
                .map(|(name, trunk)| build::node(name, trunk))
                .collect(),
            northbound: Some(Northbound {
                global: "global".to_owned(),
                ..Northbound::default()
            }),
            ..Snapshot::default()
        };
        let chassis = seen.nodes.values().filter_map(|node| node.chassis.clone());
        seen.southbound = Some(Southbound {
            chassis: chassis.map(|name| (name, 0)).collect(),
            ..Southbound::default()
        });
        seen.namespaces.insert(
            Namespace::from("tenant-example"),
            NamespaceState {
                labels: Labels::new(),
            },
        );
        Self {
            seen,
            kube_ovn: BTreeSet::new(),
            machines: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            dead: BTreeSet::new(),
            next: 0,
            writes: 0,
            crash_after: None,
            tolerates_released: false,
            tolerates_lost_claims: false,
        }
    }

    /// Two nodes with the trunk and one without.
    pub fn of_three_nodes() -> Self {
        Self::new([("node-a", true), ("node-b", true), ("node-c", false)])
    }

    pub fn create_zone(&mut self, name: &str, spec: ZoneInput) {
        let meta = self.new_meta(&Labels::new(), false);
        let zone = Seen {
            meta,
            spec,
            status: None,
        };
        self.seen.zones.insert(name.into(), zone);
    }

    /// Creates a VPC, or changes its spec.
    pub fn write_vpc(&mut self, key: &VpcKey, spec: VpcInput) {
        let meta = match self.seen.vpcs.get(key) {
            Some(old) => Meta {
                generation: old.meta.generation + 1,
                ..old.meta.clone()
            },
            None => self.new_meta(&Labels::new(), false),
        };
        let status = self.seen.vpcs.remove(key).and_then(|old| old.status);
        self.seen
            .vpcs
            .insert(key.clone(), Seen { meta, spec, status });
    }

    pub fn delete_vpc(&mut self, key: &VpcKey) {
        self.seen.vpcs.remove(key).expect("a VPC to delete");
    }

    pub fn node(&mut self, name: &str) -> &mut NodeState {
        let node = self.seen.nodes.get_mut(&name.into());
        node.expect("a node of the story")
    }

    pub fn northbound(&mut self) -> &mut Northbound {
        self.seen.northbound.as_mut().expect("a connected database")
    }

    pub fn southbound(&mut self) -> &mut Southbound {
        self.seen.southbound.as_mut().expect("a connected database")
    }

    /// Lets time go by.
    pub fn wait(&mut self, seconds: u64) {
        let wait = std::time::Duration::from_secs(seconds);
        self.seen.now = self.seen.now.after(wait);
    }

    pub fn keys(&self) -> Vec<Key> {
        let zones = self.seen.zones.keys().cloned().map(Key::Zone);
        let vpcs = known_vpcs(&self.seen).into_iter().map(Key::Vpc);
        zones.chain(vpcs).chain([Key::Northbound]).collect()
    }

    /// Plans one key and carries that out. Whether there was anything to do.
    pub fn run(&mut self, key: &Key) -> bool {
        if *key == Key::Northbound {
            let plan = plan_northbound(&self.seen);
            return self.write_rows(&plan);
        }
        let plan = planned(key, &self.seen);
        let changed = !plan.is_empty();
        self.carry_out(plan, None);
        changed
    }

    /// The same, planned on what an older view shows; the writes are folded into the view.
    pub fn run_stale(&mut self, key: &Key, view: &mut Snapshot) {
        let plan = planned(key, view);
        if !plan.steps.is_empty() {
            self.carry_out(plan, Some(view));
        }
    }

    fn carry_out(&mut self, plan: Plan, mut view: Option<&mut Snapshot>) {
        if plan.steps.is_empty() {
            for status in plan.statuses {
                self.write_status(status);
            }
            return;
        }
        for step in plan.steps {
            let stale = self.step(&step).is_err();
            if let Some(view) = view.as_deref_mut() {
                self.fold(&step, view);
            }
            self.check(&format!("{step:?}"));
            self.writes += 1;
            if stale || self.crash_after == Some(self.writes) {
                return;
            }
        }
    }

    fn check(&self, after: &str) {
        let mut broken = invariants::check(&self.seen);
        broken.retain(|one| match one {
            Broken::ReleasedInUse { .. } => !self.tolerates_released,
            Broken::NotTheOwner { vlan, .. } => {
                !self.tolerates_lost_claims || self.seen.vlans.contains_key(vlan)
            }
            _ => true,
        });
        assert!(broken.is_empty(), "{broken:?} after {after}");
    }

    /// Everything until nothing is left to do: keys and reactions, all in turn.
    pub fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut changed = false;
            for key in self.keys() {
                changed |= self.run(&key);
            }
            for reaction in self.reactions() {
                self.react(&reaction);
                changed = true;
            }
            if !changed {
                return;
            }
        }
        panic!("never quiet: {:?}", self.pending());
    }

    /// The same, one thing at a time, in random order.
    pub fn settle_randomly(&mut self, random: &mut Random) {
        let mut quiet: BTreeSet<Key> = BTreeSet::new();
        for _ in 0..ROUNDS_MAX * 20 {
            let keys: Vec<Key> = self.keys();
            let keys: Vec<&Key> = keys.iter().filter(|key| !quiet.contains(*key)).collect();
            let reactions = self.reactions();
            let choices = keys.len() + reactions.len();
            if choices == 0 {
                return;
            }
            let choice = random.below(choices);
            match keys.get(choice) {
                Some(key) if !self.run(key) => {
                    quiet.insert((*key).clone());
                }
                Some(_) => quiet.clear(),
                None => {
                    self.react(&reactions[choice - keys.len()]);
                    quiet.clear();
                }
            }
        }
        panic!("never quiet: {:?}", self.pending());
    }

    /// What is still to do, if anything is.
    pub fn pending(&self) -> Vec<String> {
        let plans = self.keys().into_iter().filter_map(|key| {
            let plan = planned(&key, &self.seen);
            let rows = (key == Key::Northbound).then(|| plan_northbound(&self.seen));
            let rows = rows.filter(|rows| !rows.is_empty());
            (!plan.is_empty() || rows.is_some()).then(|| format!("{key:?}: {plan:?} {rows:?}"))
        });
        let reactions = self.reactions();
        plans
            .chain(reactions.iter().map(|reaction| format!("{reaction:?}")))
            .collect()
    }
}

/// The plan of a key; empty for Northbound, which has one of another kind.
fn planned(key: &Key, basis: &Snapshot) -> Plan {
    match key {
        Key::Zone(name) => plan_zone(name, basis),
        Key::Vpc(key) => plan_vpc(key, basis),
        Key::Northbound => Plan::default(),
    }
}
