//! The OVN databases in the planner's words, and what their changes concern.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use causeway_drive::Wakes;
use causeway_ovn::{Client, Replica, ReplicaError, Uuid, monitor, nb, sb, table::Column};
use causeway_planner::{
    northbound::{LEFT, OWNER},
    snapshot::{GatewayRow, Northbound, RouterPolicy, RouterPort, Snapshot, Southbound},
};
use tokio::task::AbortHandle;

use crate::{Key, OvnRemotes, lock, wake};

/// Port bindings of this type say which chassis holds a gateway.
const GATEWAY_BINDING: &str = "chassisredirect";
/// Their name is this and the router port's.
const GATEWAY_PREFIX: &str = "cr-";

/// Both databases. The follower ends when this is dropped.
pub struct Ovn {
    /// Northbound: read and written.
    pub northbound: Client,
    /// Southbound: read only.
    pub southbound: Client,
    state: Arc<State>,
    follower: AbortHandle,
}

impl Drop for Ovn {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

struct State {
    northbound: Client,
    southbound: Client,
    snapshot: Arc<Mutex<Snapshot>>,
    wakes: Arc<Wakes<Key>>,
    /// Versions of the replicas that the snapshot shows.
    shown: Mutex<(u64, u64)>,
}

impl Ovn {
    pub(crate) fn start(
        remotes: OvnRemotes,
        snapshot: Arc<Mutex<Snapshot>>,
        wakes: Arc<Wakes<Key>>,
    ) -> Self {
        let (northbound, southbound) = clients(remotes);
        let state = Arc::new(State {
            northbound: northbound.clone(),
            southbound: southbound.clone(),
            snapshot,
            wakes,
            shown: Mutex::new((u64::MAX, u64::MAX)),
        });
        let follower = tokio::spawn(follow(Arc::clone(&state))).abort_handle();
        Self {
            northbound,
            southbound,
            state,
            follower,
        }
    }

    /// Brings the snapshot up to the replicas, if they have changed.
    pub fn refresh(&self) {
        self.state.refresh();
    }
}

/// Connections to both databases, of the columns that decisions look at.
fn clients(remotes: OvnRemotes) -> (Client, Client) {
    let northbound = Client::start(
        remotes.northbound,
        "OVN_Northbound",
        BTreeMap::from([
            monitor::<nb::NbGlobal>(),
            ("Logical_Switch".to_owned(), vec!["name".to_owned()]),
            monitor::<nb::LogicalRouterPort>(),
            monitor::<nb::GatewayChassis>(),
            (
                "Logical_Router_Policy".to_owned(),
                vec!["external_ids".to_owned()],
            ),
        ]),
    );
    let southbound = Client::start(
        remotes.southbound,
        "OVN_Southbound",
        BTreeMap::from([
            monitor::<sb::Chassis>(),
            monitor::<sb::ChassisPrivate>(),
            monitor::<sb::PortBinding>(),
        ]),
    );
    (northbound, southbound)
}

/// A database cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// Nobody answers.
    #[error("the {database} database does not answer within {} s", within.as_secs())]
    Silent {
        /// Which.
        database: &'static str,
        /// How long it was waited for.
        within: Duration,
    },
    /// Its rows do not fit.
    #[error("the rows of the {database} database cannot be read")]
    Rows {
        /// Which.
        database: &'static str,
        /// Why.
        #[source]
        source: ReplicaError,
    },
}

/// Both databases as they are now, read once.
///
/// # Errors
/// [`LookError`] if one of them does not answer in time, or has other rows.
pub async fn look(
    remotes: OvnRemotes,
    within: Duration,
) -> Result<(Northbound, Southbound), LookError> {
    let (northbound, southbound) = clients(remotes);
    Ok((
        look_at("northbound", &northbound, within, read_northbound).await?,
        look_at("southbound", &southbound, within, read_southbound).await?,
    ))
}

async fn look_at<T>(
    database: &'static str,
    client: &Client,
    within: Duration,
    read: impl FnOnce(&Replica) -> Result<T, ReplicaError>,
) -> Result<T, LookError> {
    let connected = tokio::time::timeout(within, client.connected()).await;
    let replica = connected.map_err(|_| LookError::Silent { database, within })?;
    read(&replica).map_err(|source| LookError::Rows { database, source })
}

async fn follow(state: Arc<State>) {
    let mut northbound = state.northbound.subscribe();
    let mut southbound = state.southbound.subscribe();
    loop {
        state.refresh();
        let alive = tokio::select! {
            changed = northbound.changed() => changed.is_ok(),
            changed = southbound.changed() => changed.is_ok(),
        };
        if !alive {
            return;
        }
    }
}

impl State {
    fn refresh(&self) {
        // Held throughout, so that an older replica is never shown after a newer one.
        let mut shown = self
            .shown
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (northbound, southbound) = (self.northbound.replica(), self.southbound.replica());
        let versions = (northbound.version, southbound.version);
        if *shown == versions {
            return;
        }
        let new_north =
            (shown.0 != versions.0).then(|| read("northbound", read_northbound(&northbound)));
        let new_south =
            (shown.1 != versions.1).then(|| read("southbound", read_southbound(&southbound)));
        *shown = versions;
        let mut snapshot = lock(&self.snapshot);
        if let Some(new) = new_north {
            let old = std::mem::replace(&mut snapshot.northbound, new);
            self.wake_for_northbound(&snapshot, old.as_ref());
        }
        if let Some(new) = new_south {
            let old = std::mem::replace(&mut snapshot.southbound, new);
            self.wake_for_southbound(&snapshot, old.as_ref());
        }
    }

    fn wake_for_northbound(&self, snapshot: &Snapshot, old: Option<&Northbound>) {
        let (Some(old), Some(new)) = (old, &snapshot.northbound) else {
            if old != snapshot.northbound.as_ref() {
                wake::everything(snapshot, &self.wakes);
            }
            return;
        };
        if old.ports != new.ports
            || old.policies != new.policies
            || old.switches != new.switches
            || old.nb_cfg != new.nb_cfg
        {
            self.wakes.wake(Key::Northbound);
        }
        for port in changed_keys(&old.ports, &new.ports) {
            wake::port_owner(snapshot, port, &self.wakes);
        }
        for subnet in old
            .switches
            .symmetric_difference(&new.switches)
            .chain(changed_policies(old, new))
        {
            wake::subnet_owner(snapshot, subnet, &self.wakes);
        }
    }

    fn wake_for_southbound(&self, snapshot: &Snapshot, old: Option<&Southbound>) {
        let (Some(old), Some(new)) = (old, &snapshot.southbound) else {
            if old != snapshot.southbound.as_ref() {
                wake::everything(snapshot, &self.wakes);
            }
            return;
        };
        if old.chassis != new.chassis {
            self.wakes.wake(Key::Northbound);
        }
        for port in changed_keys(&old.claims, &new.claims) {
            wake::port_owner(snapshot, port, &self.wakes);
        }
    }
}

/// Keys whose entry came, went or changed.
fn changed_keys<'a, V: PartialEq>(
    old: &'a BTreeMap<String, V>,
    new: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = &'a String> {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let other = new
        .iter()
        .filter(|(key, value)| old.get(*key) != Some(value))
        .map(|(key, _)| key);
    gone.chain(other)
}

/// Subnets of which a router policy came, went or changed.
fn changed_policies<'a>(
    old: &'a Northbound,
    new: &'a Northbound,
) -> impl Iterator<Item = &'a String> {
    let (old, new) = (&old.policies, &new.policies);
    let rows = changed_keys(old, new);
    rows.filter_map(|row| Some(&old.get(row).or_else(|| new.get(row))?.subnet))
}

/// A database that is not connected, or whose rows do not fit, is one that is not there.
fn read<T>(database: &str, read: Result<T, ReplicaError>) -> Option<T> {
    match read {
        Ok(content) => Some(content),
        Err(ReplicaError::NotConnected) => None,
        Err(error) => {
            tracing::error!(
                database,
                error = &error as &dyn std::error::Error,
                "unreadable rows"
            );
            None
        }
    }
}

fn read_northbound(replica: &Replica) -> Result<Northbound, ReplicaError> {
    let chassis = replica.rows::<nb::GatewayChassis>()?;
    let global = replica.rows::<nb::NbGlobal>()?.into_iter().next();
    let (global, nb_cfg) = global.map_or_else(Default::default, |(row, global)| {
        (row.to_string(), global.nb_cfg)
    });
    Ok(Northbound {
        nb_cfg,
        global,
        switches: texts(replica, "Logical_Switch", "name")?.collect(),
        ports: replica
            .rows::<nb::LogicalRouterPort>()?
            .into_iter()
            .map(|(row, port)| (port.name.clone(), router_port(row, port, &chassis)))
            .collect(),
        policies: replica
            .table("Logical_Router_Policy")?
            .iter()
            .filter_map(|(row, columns)| {
                let ids = BTreeMap::<String, String>::read(columns.get("external_ids")?)?;
                let policy = RouterPolicy {
                    subnet: ids.get("subnet")?.clone(),
                    left: ids.get(LEFT).cloned(),
                };
                Some((row.to_string(), policy))
            })
            .collect(),
    })
}

fn router_port(
    row: Uuid,
    port: nb::LogicalRouterPort,
    chassis: &BTreeMap<Uuid, nb::GatewayChassis>,
) -> RouterPort {
    RouterPort {
        row: row.to_string(),
        chassis: port
            .gateway_chassis
            .iter()
            .filter_map(|row| Some((row, chassis.get(row)?)))
            .map(|(row, chassis)| GatewayRow {
                row: row.to_string(),
                chassis: chassis.chassis_name.as_str().into(),
                priority: chassis.priority,
                ours: chassis.external_ids.contains_key(OWNER),
            })
            .collect(),
        external_ids: port.external_ids,
    }
}

fn read_southbound(replica: &Replica) -> Result<Southbound, ReplicaError> {
    let names: BTreeMap<Uuid, String> = replica
        .rows::<sb::Chassis>()?
        .into_iter()
        .map(|(row, chassis)| (row, chassis.name))
        .collect();
    let confirmed: BTreeMap<String, i64> = replica
        .rows::<sb::ChassisPrivate>()?
        .into_values()
        .map(|chassis| (chassis.name, chassis.nb_cfg))
        .collect();
    let claims = replica
        .rows::<sb::PortBinding>()?
        .into_values()
        .filter(|binding| binding.kind == GATEWAY_BINDING)
        .filter_map(|binding| {
            let port = binding
                .logical_port
                .strip_prefix(GATEWAY_PREFIX)?
                .to_owned();
            let chassis = names.get(&binding.chassis?)?;
            Some((port, chassis.as_str().into()))
        })
        .collect();
    Ok(Southbound {
        chassis: names
            .into_values()
            .map(|name| {
                let confirmed = confirmed.get(&name).copied().unwrap_or(0);
                (name.into(), confirmed)
            })
            .collect(),
        claims,
    })
}

/// A text column of every row.
fn texts<'a>(
    replica: &'a Replica,
    table: &str,
    column: &'a str,
) -> Result<impl Iterator<Item = String> + 'a, ReplicaError> {
    Ok(replica
        .table(table)?
        .values()
        .filter_map(move |row| String::read(row.get(column)?)))
}
