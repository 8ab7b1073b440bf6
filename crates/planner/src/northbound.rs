//! The gateway must answer (design 3.4): `Gateway_Chassis` rows on the router ports of networks.
//!
//! Called by the controller for key Northbound, and by the network plan for GatewayReady. One
//! decision per (VPC, zone): all its ports have the same list. The decision is data: it stands on
//! each port as `external_ids:causeway-gateway`, so that rows taken away by hand can be told from
//! a node that has just come. Must stay true: the active chassis' row is never added, removed or
//! moved while others stay; that black-holes the VLAN for ever (seen). All rows go, the hypervisors
//! confirm, all rows come.

mod decision;
mod leftovers;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Serialize;

pub use decision::Decision;
pub use leftovers::{LEFT, LEFT_FOR, LeftAction, LeftRow, Leftover};

use crate::{
    conditions::{Finding, Reason},
    model::{
        ChassisName, Namespace, NetworkRecord, NodeName, SubnetId, VpcId, ZoneName, ZoneSpec,
        objects::Labels,
    },
    snapshot::{GatewayNode, Moment, Northbound, RouterPort, RowId, Snapshot, Southbound},
    zone,
};

/// external_ids key on every row and port that is ours; the value is the subnetId.
pub const OWNER: &str = "causeway";
/// external_ids key on a port: the decision, `<chassis>=<priority>,…`.
pub const DECISION: &str = "causeway-gateway";
/// external_ids key on a port whose rows were taken off: `<nb_cfg>@<milliseconds>`. Rows come back
/// once the chassis have confirmed that nb_cfg.
pub const PENDING: &str = "causeway-sync";

/// How long to wait for the chassis' confirmation: a dead chassis never confirms.
pub const CONFIRMATION_WAIT: Duration = Duration::from_secs(2);

/// The northbound rows to write, in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NorthboundPlan {
    /// Increment `NB_Global.nb_cfg`, so that the chassis confirm what they have processed.
    pub raise_nb_cfg: bool,
    /// Changes of router ports.
    pub ports: Vec<PortChange>,
    /// Rows that Kube-OVN has left behind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leftovers: Vec<Leftover>,
    /// Plan again then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Moment>,
}

impl NorthboundPlan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        !self.raise_nb_cfg && self.ports.is_empty() && self.leftovers.is_empty()
    }

    fn wake_no_later(&mut self, at: Moment) {
        self.wake_at = Some(self.wake_at.map_or(at, |set| set.min(at)));
    }
}

/// What changes on one router port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortChange {
    /// Name of the port.
    pub port: String,
    /// Its row.
    pub row: RowId,
    /// The `Gateway_Chassis` rows that the plan saw: the transaction waits for exactly these.
    pub seen: BTreeSet<RowId>,
    /// Owner written on new rows.
    pub owner: String,
    /// Rows to insert: chassis and priority. A row is named `<port>-<chassis>`.
    pub insert: BTreeMap<ChassisName, i64>,
    /// Rows to take off.
    pub remove: BTreeSet<RowId>,
    /// external_ids to set on the port.
    pub set: Labels,
    /// external_ids to take off the port.
    pub unset: BTreeSet<String>,
}

/// A network with what its gateway depends on.
struct Gateway<'a> {
    id: &'a SubnetId,
    record: &'a NetworkRecord,
    port_name: String,
    port: &'a RouterPort,
}

impl Gateway<'_> {
    /// The decision as it stands on the port.
    fn recorded(&self) -> Option<Decision> {
        Decision::parse(self.port.external_ids.get(DECISION)?)
    }

    /// The decision that the port's rows show: what is left where its record was lost.
    fn written(&self) -> Option<Decision> {
        let rows = &self.port.chassis;
        let ours = !rows.is_empty() && rows.iter().all(|row| row.ours);
        ours.then(|| Decision::of_rows(rows))
    }
}

/// The plan of all gateway rows of the site.
pub fn plan_northbound(snapshot: &Snapshot) -> NorthboundPlan {
    let mut plan = NorthboundPlan::default();
    let (Some(northbound), Some(southbound)) = (&snapshot.northbound, &snapshot.southbound) else {
        return plan;
    };
    let mut groups: BTreeMap<(&Namespace, &VpcId, &ZoneName), Vec<Gateway>> = BTreeMap::new();
    for (key, seen) in &snapshot.networks {
        let Some(record) = &seen.spec else { continue };
        let Some(zone) = &record.zone else { continue };
        let port_name = record.vpc_id.router_port(&key.id);
        if let Some(port) = northbound.ports.get(&port_name) {
            let group = groups
                .entry((&key.namespace, &record.vpc_id, zone))
                .or_default();
            group.push(Gateway {
                id: &key.id,
                record,
                port_name,
                port,
            });
        }
    }
    for ((_, vpc, zone), mut group) in groups {
        let Ok(spec) = zone::usable(zone, snapshot) else {
            continue;
        };
        group.sort_by_key(|gateway| gateway.record.index);
        let candidates = Candidates::of(vpc, &spec, snapshot, southbound);
        let recorded = group.iter().find_map(Gateway::recorded);
        let recorded = recorded.or_else(|| group.iter().find_map(Gateway::written));
        let decision = candidates.decide(recorded.as_ref());
        let known = &candidates.known;
        let site = Site {
            northbound,
            southbound,
            known,
            now: snapshot.now,
        };
        for gateway in &group {
            plan_port(gateway, &decision, &site, &mut plan);
        }
    }
    leftovers::plan_leftovers(northbound, snapshot, &mut plan);
    // A restarted gateway chassis of OVN 25.03 can forward nothing for ever while this is 0.
    plan.raise_nb_cfg |= northbound.nb_cfg < 1;
    plan
}

/// The chassis that may be listed for the gateways of one (VPC, zone).
struct Candidates {
    /// Chassis of healthy trunk nodes, best first.
    trunk: Vec<ChassisName>,
    /// Chassis of other nodes, best first.
    witnesses: Vec<ChassisName>,
    /// Chassis that Southbound knows.
    known: BTreeSet<ChassisName>,
    /// Trunk chassis listed at the most.
    max: usize,
}

impl Candidates {
    fn of(vpc: &VpcId, zone: &ZoneSpec, snapshot: &Snapshot, southbound: &Southbound) -> Self {
        let nodes = zone::trunk_nodes(zone, snapshot);
        let mut ranked: Vec<(u64, &NodeName, &ChassisName)> = snapshot
            .nodes
            .iter()
            .filter(|(_, node)| node.ready)
            .filter_map(|(name, node)| Some((name, node.chassis.as_ref()?)))
            .filter(|(_, chassis)| southbound.chassis.contains_key(*chassis))
            .map(|(name, chassis)| {
                let rank = crate::model::names::rendezvous(vpc.as_str(), name.as_str());
                (rank, name, chassis)
            })
            .collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        let (trunk, others): (Vec<_>, Vec<_>) = ranked
            .into_iter()
            .partition(|(_, name, _)| nodes.healthy.contains(*name));
        let witnesses = others
            .into_iter()
            .filter(|(_, name, _)| !nodes.selected.contains(*name));
        Self {
            trunk: trunk.into_iter().map(|(_, _, c)| c.clone()).collect(),
            witnesses: witnesses.map(|(_, _, c)| c.clone()).collect(),
            known: southbound.chassis.keys().cloned().collect(),
            max: usize::from(zone.max_chassis),
        }
    }

    fn decide(&self, recorded: Option<&Decision>) -> Decision {
        recorded.cloned().unwrap_or_default().evolve(
            &self.trunk,
            &self.witnesses,
            &self.known,
            self.max,
        )
    }
}

/// What a port's plan depends on besides the decision.
struct Site<'a> {
    northbound: &'a Northbound,
    southbound: &'a Southbound,
    /// Chassis that Southbound knows.
    known: &'a BTreeSet<ChassisName>,
    now: Moment,
}

fn plan_port(gateway: &Gateway, decision: &Decision, site: &Site, plan: &mut NorthboundPlan) {
    let port = gateway.port;
    if port.chassis.iter().any(|row| !row.ours) {
        // Somebody else's rows: theirs to keep. GatewayReady says who holds the port.
        return;
    }
    let rows = Decision::of_rows(&port.chassis);
    let recorded = port.external_ids.get(DECISION).map(String::as_str);
    let intact = recorded == Some(rows.to_string().as_str());
    let mut change = PortChange {
        port: gateway.port_name.clone(),
        row: port.row.clone(),
        seen: port.chassis.iter().map(|row| row.row.clone()).collect(),
        owner: gateway.id.to_string(),
        ..PortChange::default()
    };
    if rows.is_empty() {
        if decision.is_empty() {
            return;
        }
        if let Some(wait) = still_confirming(port, decision, site.southbound, site.now) {
            plan.wake_no_later(wait);
            return;
        }
        change.insert.clone_from(&decision.0);
    } else if rows == *decision {
        if intact {
            return;
        }
    } else if intact
        && decision.changes_only_below(&rows, active(gateway, site.southbound), site.known)
    {
        change.insert = decision.missing_from(&rows);
        change.remove = rows_not_in(port, decision);
    } else {
        take_all_off(&mut change, site.northbound, site.now);
        plan.raise_nb_cfg = true;
        plan.ports.push(change);
        return;
    }
    change.set = Labels::from([
        (OWNER.to_owned(), gateway.id.to_string()),
        (DECISION.to_owned(), decision.to_string()),
    ]);
    if port.external_ids.contains_key(PENDING) {
        change.unset.insert(PENDING.to_owned());
    }
    plan.ports.push(change);
}

/// First half of a move: all rows off, and the chassis asked to confirm.
fn take_all_off(change: &mut PortChange, northbound: &Northbound, now: Moment) {
    change.remove = change.seen.clone();
    change.set = Labels::from([
        (OWNER.to_owned(), change.owner.clone()),
        (
            PENDING.to_owned(),
            format!("{}@{}", northbound.nb_cfg + 1, now.0),
        ),
    ]);
}

/// Until when the second half of a move waits, if it must still wait.
fn still_confirming(
    port: &RouterPort,
    decision: &Decision,
    southbound: &Southbound,
    now: Moment,
) -> Option<Moment> {
    let (nb_cfg, since) = port.external_ids.get(PENDING)?.split_once('@')?;
    let nb_cfg: i64 = nb_cfg.parse().ok()?;
    let since = Moment(since.parse().ok()?);
    let until = since.after(CONFIRMATION_WAIT);
    let confirmed = decision
        .0
        .keys()
        .filter_map(|chassis| southbound.chassis.get(chassis))
        .all(|confirmed| *confirmed >= nb_cfg);
    // A clock that was set back must not keep a gateway silent.
    (!confirmed && (since..until).contains(&now)).then_some(until)
}

fn active<'a>(gateway: &Gateway, southbound: &'a Southbound) -> Option<&'a ChassisName> {
    southbound.claims.get(&gateway.port_name)
}

fn rows_not_in(port: &RouterPort, decision: &Decision) -> BTreeSet<RowId> {
    port.chassis
        .iter()
        .filter(|row| decision.0.get(&row.chassis) != Some(&row.priority))
        .map(|row| row.row.clone())
        .collect()
}

/// The nodes that may answer for a network's gateway, by priority.
pub fn gateway_nodes(
    id: &SubnetId,
    record: &NetworkRecord,
    snapshot: &Snapshot,
) -> Vec<GatewayNode> {
    let name = record.vpc_id.router_port(id);
    let Some(port) = snapshot
        .northbound
        .as_ref()
        .and_then(|northbound| northbound.ports.get(&name))
    else {
        return Vec::new();
    };
    let holder = snapshot
        .southbound
        .as_ref()
        .and_then(|southbound| southbound.claims.get(&name));
    let mut rows: Vec<_> = port.chassis.iter().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.priority), &row.chassis));
    rows.into_iter()
        .filter_map(|row| {
            Some(GatewayNode {
                node: node_of(&row.chassis, snapshot)?.clone(),
                active: holder == Some(&row.chassis),
            })
        })
        .collect()
}

fn node_of<'a>(chassis: &ChassisName, snapshot: &'a Snapshot) -> Option<&'a NodeName> {
    snapshot
        .nodes
        .iter()
        .find(|(_, node)| node.chassis.as_ref() == Some(chassis))
        .map(|(name, _)| name)
}

/// Condition GatewayReady: true only when Southbound shows the port held by a healthy trunk node.
pub fn gateway_finding(
    id: &SubnetId,
    record: &NetworkRecord,
    zone: Option<&ZoneSpec>,
    snapshot: &Snapshot,
) -> Finding {
    let (Some(northbound), Some(southbound)) = (&snapshot.northbound, &snapshot.southbound) else {
        return Finding {
            status: crate::conditions::Truth::Unknown,
            reason: Reason::OVNUnreachable,
            message: "no connection to the OVN databases".to_owned(),
        };
    };
    let Some(zone) = zone else {
        return Finding::pending("the zone");
    };
    let name = record.vpc_id.router_port(id);
    let Some(port) = northbound.ports.get(&name) else {
        return Finding::bad(
            Reason::RouterPortMissing,
            format!("router \"{}\" has no port \"{name}\"", record.vpc_id),
        );
    };
    let healthy = zone::trunk_nodes(zone, snapshot).healthy;
    if port.chassis.is_empty() {
        return Finding::bad(
            Reason::NoGatewayChassis,
            format!(
                "router port \"{name}\" has no gateway chassis ({})",
                crate::vpc::counted(healthy.len() as u64, "healthy trunk node")
            ),
        );
    }
    let holder = southbound.claims.get(&name);
    let Some(holder) = holder else {
        return Finding::bad(
            Reason::NotClaimed,
            format!("no chassis holds \"cr-{name}\""),
        );
    };
    match node_of(holder, snapshot) {
        Some(node) if healthy.contains(node) => {
            Finding::good(Reason::Ready, failover_note(port, &healthy, snapshot))
        }
        Some(node) => Finding::bad(
            Reason::NotClaimed,
            format!("\"cr-{name}\" is held by {node}, which is no healthy trunk node"),
        ),
        None => Finding::bad(
            Reason::NotClaimed,
            format!("\"cr-{name}\" is held by chassis {holder}, which is no node"),
        ),
    }
}

/// What the reader should know of failover: with one trunk node nobody can take over; with two
/// chassis the survivor thinks itself cut off and never claims (seen).
fn failover_note(
    port: &RouterPort,
    healthy: &BTreeSet<NodeName>,
    snapshot: &Snapshot,
) -> &'static str {
    let on_trunk = port
        .chassis
        .iter()
        .filter_map(|row| node_of(&row.chassis, snapshot))
        .filter(|node| healthy.contains(*node))
        .count();
    match (on_trunk, port.chassis.len()) {
        (1, _) => "no failover: one trunk node",
        (_, 2) => "no failover: two chassis",
        _ => "",
    }
}
