//! A plan as people read it in `plan.yaml`: steps as they are, conditions one line each.

use std::collections::BTreeMap;

use causeway_planner::{
    conditions::Condition,
    invariants,
    northbound::{NorthboundPlan, plan_northbound},
    plan::{Plan, StatusWrite, Step},
    snapshot::{GatewayNode, Moment, PoolState, Snapshot, SubnetReport, ZoneStatus},
    vpc::{known_vpcs, plan_vpc},
    zone::plan_zone,
};
use serde::Serialize;

/// The plans of every key that has something to do.
#[derive(Serialize)]
pub struct Plans {
    /// Invariants that the observed state breaks: somebody was there by hand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    broken: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    zones: BTreeMap<String, KeyPlan>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    vpcs: BTreeMap<String, KeyPlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    northbound: Option<NorthboundPlan>,
}

#[derive(Serialize)]
struct KeyPlan {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    statuses: BTreeMap<String, Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_at: Option<Moment>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Status {
    Zone {
        vlans: String,
        held_back: Vec<String>,
        trunk_nodes: String,
        not_ready: Vec<String>,
        networks: usize,
        conditions: Vec<String>,
    },
    Vpc {
        router: Option<String>,
        subnets: Vec<String>,
        conditions: Vec<String>,
    },
    Network {
        vlan: Option<u16>,
        bridge: Option<String>,
        mtu: Option<u32>,
        pool: Option<String>,
        addresses: String,
        gateway_chassis: Vec<String>,
        conditions: Vec<String>,
    },
}

impl Plans {
    /// Plans everything that a snapshot shows.
    pub fn of(snapshot: &Snapshot) -> Self {
        let zones = snapshot.zones.keys();
        let zones = zones.map(|name| (name.to_string(), plan_zone(name, snapshot)));
        let vpcs = known_vpcs(snapshot).into_iter();
        let vpcs = vpcs.map(|key| (key.to_string(), plan_vpc(&key, snapshot)));
        let busy = |plan: &Plan| !plan.is_empty() || plan.wake_at.is_some();
        let northbound = plan_northbound(snapshot);
        let broken = invariants::check(snapshot);
        Self {
            broken: broken.iter().map(ToString::to_string).collect(),
            zones: zones
                .filter(|(_, plan)| busy(plan))
                .map(|(name, plan)| (name, KeyPlan::of(plan)))
                .collect(),
            vpcs: vpcs
                .filter(|(_, plan)| busy(plan))
                .map(|(name, plan)| (name, KeyPlan::of(plan)))
                .collect(),
            northbound: (!northbound.is_empty() || northbound.wake_at.is_some())
                .then_some(northbound),
        }
    }
}

impl KeyPlan {
    fn of(plan: Plan) -> Self {
        Self {
            steps: plan.steps,
            statuses: plan.statuses.into_iter().map(status).collect(),
            wake_at: plan.wake_at,
        }
    }
}

fn status(write: StatusWrite) -> (String, Status) {
    match write {
        StatusWrite::Zone(name, status) => (format!("zone {name}"), zone(&status)),
        StatusWrite::Vpc(key, status) => (
            format!("vpc {key}"),
            Status::Vpc {
                router: status.router,
                subnets: status.subnets.iter().map(subnet).collect(),
                conditions: conditions(&status.conditions),
            },
        ),
        StatusWrite::Network(key, status) => (
            format!("network {key}"),
            Status::Network {
                vlan: status.vlan.map(u16::from),
                bridge: status.bridge,
                mtu: status.mtu,
                pool: status.pool,
                addresses: addresses(status.addresses),
                gateway_chassis: status.gateway_chassis.iter().map(node).collect(),
                conditions: conditions(&status.conditions),
            },
        ),
    }
}

fn zone(status: &ZoneStatus) -> Status {
    let names = |names: &mut dyn Iterator<Item = String>| names.collect();
    Status::Zone {
        vlans: format!(
            "{} of {} used, {} free",
            status.vlans_used, status.vlans_total, status.vlans_free
        ),
        held_back: names(&mut status.held_back.iter().map(ToString::to_string)),
        trunk_nodes: format!(
            "{} of {} ready",
            status.trunk_nodes_ready, status.trunk_nodes_total
        ),
        not_ready: names(&mut status.trunk_nodes_not_ready.iter().map(ToString::to_string)),
        networks: status.networks,
        conditions: conditions(&status.conditions),
    }
}

fn conditions(conditions: &[Condition]) -> Vec<String> {
    let line = |one: &Condition| {
        let colon = if one.message.is_empty() { "" } else { ": " };
        format!(
            "{} {} {}{colon}{}",
            one.kind, one.status, one.reason, one.message
        )
    };
    conditions.iter().map(line).collect()
}

fn subnet(report: &SubnetReport) -> String {
    let kind = if report.proxmox { "network" } else { "overlay" };
    format!(
        "{} {} {} {kind} ready={} {}",
        report.name, report.id, report.cidr, report.ready, report.reason
    )
}

fn node(node: &GatewayNode) -> String {
    let active = if node.active { " active" } else { "" };
    format!("{}{active}", node.node)
}

fn addresses(pool: PoolState) -> String {
    format!(
        "{} total, {} used, {} free",
        pool.total, pool.used, pool.free
    )
}
