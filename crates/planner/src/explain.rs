//! Why a network's conditions are what they are: each with the objects and rows behind it, and what
//! the planner finds now where that differs from what is written.
//!
//! Called by `causeway explain`. Decides what is said; the command decides how it looks. Must stay
//! true: nothing is concluded from what could not be looked at.

mod behind;

use std::collections::BTreeSet;

use crate::{
    conditions::{Condition, ConditionType, Finding, Reason, Truth},
    model::{NetworkRecord, SubnetKey, VpcKey},
    plan::{Kind, Object, Plan, StatusWrite, Step, Target},
    snapshot::{Meta, NetworkStatus, Snapshot},
    vpc::plan_vpc,
};

/// What somebody can see of the world.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// What was seen.
    pub snapshot: Snapshot,
    /// Kinds that could not be read.
    pub hidden: BTreeSet<String>,
    /// Of some kinds only the objects of one namespace could be read.
    pub partial: bool,
}

impl Sight {
    /// Whether everything could be read that plans are made of, but for the OVN databases.
    pub fn is_whole(&self) -> bool {
        self.hidden.is_empty() && !self.partial
    }

    fn hides(&self, kind: &str) -> bool {
        self.hidden.contains(kind)
    }
}

/// A network, explained.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The network.
    pub key: SubnetKey,
    /// Its record; None where its spec cannot be read.
    pub record: Option<NetworkRecord>,
    /// Its status as written.
    pub status: NetworkStatus,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its conditions in the order that Ready goes by.
    pub conditions: Vec<Explained>,
    /// What the controller has still to write; empty too where that cannot be said.
    pub to_do: Vec<Deed>,
}

/// One condition.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Which.
    pub kind: ConditionType,
    /// As written; None where nobody has written it yet.
    pub written: Option<Condition>,
    /// What the planner finds now, where that is something else.
    pub now: Option<Finding>,
    /// The objects and rows behind it.
    pub behind: Vec<Fact>,
}

impl Explained {
    /// Status and reason that hold: as found now, else as written.
    pub fn state(&self) -> Option<(Truth, Reason)> {
        let written = self.written.as_ref().map(|one| (one.status, one.reason));
        let now = self.now.as_ref().map(|one| (one.status, one.reason));
        now.or(written)
    }
}

/// An object or row, and what of it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Kind and name.
    pub object: String,
    /// What it says.
    pub says: String,
}

impl Fact {
    fn new(object: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            says: says.into(),
        }
    }
}

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// It is made.
    Make,
    /// It is there, and written again.
    Change,
    /// It goes.
    Remove,
}

/// A write, as people speak of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deed {
    /// What happens.
    pub verb: Verb,
    /// To which object.
    pub target: Target,
}

impl Deed {
    /// What a step does.
    pub fn of(step: &Step) -> Self {
        let (verb, target) = match step {
            Step::Apply { wanted, seen } => {
                let verb = match seen {
                    None => Verb::Make,
                    Some(_) => Verb::Change,
                };
                (verb, target_of(&wanted.object))
            }
            Step::Claim(claim) => (Verb::Make, Target::cluster(Kind::Vlan, &claim.name)),
            Step::ReleaseClaim { name, .. } => (Verb::Remove, Target::cluster(Kind::Vlan, name)),
            Step::KeepClaim { name, .. } => (Verb::Change, Target::cluster(Kind::Vlan, name)),
            Step::Delete { target, .. } | Step::LetGo { target, .. } => {
                (Verb::Remove, target.clone())
            }
            Step::Hold { target, .. } => (Verb::Change, target.clone()),
        };
        Self { verb, target }
    }
}

fn target_of(object: &Object) -> Target {
    match object {
        Object::ProviderNetwork { name, .. } => Target::cluster(Kind::ProviderNetwork, name),
        Object::Vpc { id, .. } => Target::cluster(Kind::Vpc, id),
        Object::Network { key, .. } => Target::namespaced(Kind::Network, key),
        Object::Attachment { key, .. } => Target::namespaced(Kind::Attachment, key),
        Object::Subnet { id, .. } => Target::cluster(Kind::Subnet, id),
        Object::Pool { key, .. } => Target::namespaced(Kind::Pool, key),
    }
}

/// The VPC of a network.
pub fn vpc_of(key: &SubnetKey, record: &NetworkRecord) -> VpcKey {
    VpcKey {
        namespace: key.namespace.clone(),
        name: record.vpc.clone(),
    }
}

/// Explains a network; None if there is none.
pub fn explain(key: &SubnetKey, sight: &Sight) -> Option<Explanation> {
    let snapshot = &sight.snapshot;
    let seen = snapshot.networks.get(key)?;
    let record = seen.spec.clone();
    let status = seen.status.clone().unwrap_or_default();
    let plan = record
        .as_ref()
        .filter(|_| sight.is_whole())
        .map(|record| plan_vpc(&vpc_of(key, record), snapshot));
    let found = plan.as_ref().and_then(|plan| status_in(plan, key));
    let conditions = ConditionType::ALL
        .iter()
        .map(|kind| {
            let written = status.conditions.iter().find(|one| one.kind == *kind);
            let now = found
                .and_then(|found| found.conditions.iter().find(|one| one.kind == *kind))
                .filter(|now| can_be_told(now, key, snapshot) && !is_same(written, now));
            Explained {
                kind: *kind,
                written: written.cloned(),
                now: now.map(Condition::finding),
                behind: behind::facts(*kind, key, &seen.meta, record.as_ref(), sight),
            }
        })
        .collect();
    let steps = plan.iter().flat_map(|plan| &plan.steps);
    Some(Explanation {
        key: key.clone(),
        status,
        deleting: seen.meta.deleting,
        conditions,
        to_do: steps
            .filter(|step| concerns(step, key, &seen.meta))
            .map(Deed::of)
            .collect(),
        record,
    })
}

/// The status of a network that a plan would write.
pub(crate) fn status_in<'a>(plan: &'a Plan, key: &SubnetKey) -> Option<&'a NetworkStatus> {
    plan.statuses.iter().find_map(|write| match write {
        StatusWrite::Network(one, status) if one == key => Some(status),
        _ => None,
    })
}

/// Whether a finding does not come from databases that were not looked at.
fn can_be_told(now: &Condition, key: &SubnetKey, snapshot: &Snapshot) -> bool {
    let with_rows = snapshot.northbound.is_some() && snapshot.southbound.is_some();
    with_rows
        || match now.kind {
            ConditionType::GatewayReady | ConditionType::Ready => false,
            ConditionType::SwitchReady => snapshot.subnets.contains_key(key.id.as_str()),
            _ => true,
        }
}

fn is_same(written: Option<&Condition>, now: &Condition) -> bool {
    written.map(Condition::finding) == Some(now.finding())
}

/// Whether a step is about this network.
fn concerns(step: &Step, key: &SubnetKey, meta: &Meta) -> bool {
    match step {
        Step::Claim(claim) => claim.owner == meta.version.uid,
        Step::ReleaseClaim { subnet, .. } => *subnet == key.id,
        _ => Deed::of(step).target.name == key.id.as_str(),
    }
}
