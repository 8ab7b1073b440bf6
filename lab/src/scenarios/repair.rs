//! Gateway rows removed by hand, with the controller stopped and running.

use std::{collections::BTreeSet, time::Instant};

use causeway_ovn::{Client, Monitors, Remote, Replica, Uuid, monitor, nb};
use causeway_planner::model::VpcKey;

use super::{Checks, Guests, ScenarioError, ZONE};
use crate::embedded::{Embedded, PATIENCE};

const VPC: &str = "\
apiVersion: apps.cozystack.io/v1alpha1
kind: VirtualPrivateCloud
metadata: {name: main, namespace: tenant-repair}
spec:
  subnets:
    - {name: workers, cidr: 172.20.10.0/24, proxmox: {}}
";

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let vpc = VpcKey::new("tenant-repair", "main");
    embedded.start_controller().await?;
    embedded.apply(ZONE).await?;
    embedded.apply(VPC).await?;
    let (network, _) = embedded.network_ready(&vpc, "workers").await?;
    let port = vpc.id().router_port(&vpc.subnet_id(&"workers".into()));
    let vm = Guests::new(embedded)
        .vm("pve1", "w1", &network, [172, 20, 10, 64].into())
        .await?;
    let rows = Rows::watch(embedded, port);
    let gateway = [172, 20, 10, 1].into();
    checks.reaches("VM → its gateway", &vm, gateway).await?;

    checks.say("  the controller is stopped, and all gateway rows are removed by hand");
    embedded.stop_controllers().await;
    let list = rows.list().await?;
    rows.remove(embedded, &rows.all().await?).await?;
    vm.flush_neighbours().await?;
    checks
        .never_reaches("VM ✗ its gateway, neighbour entry flushed", &vm, gateway)
        .await?;
    let answer = vm.arp_probe(gateway).await?;
    let silent = answer.is_none();
    let heard = answer.unwrap_or_else(|| "nobody answers".to_owned());
    checks.line(silent, "ARP for the gateway, seen from the VM", heard);

    checks.say("  the controller is started again");
    let start = Instant::now();
    embedded.start_controller().await?;
    back(checks, &rows, &list, &BTreeSet::new(), "started", start).await?;
    checks
        .reaches_again("VM → its gateway again", &vm, gateway, start)
        .await?;

    checks.say("  with the controller running, all rows are removed by hand");
    let removed = rows.all().await?;
    let start = Instant::now();
    rows.remove(embedded, &removed).await?;
    vm.flush_neighbours().await?;
    back(checks, &rows, &list, &removed, "all removed", start).await?;
    checks
        .reaches_again("VM → its gateway again", &vm, gateway, start)
        .await?;

    checks.say("  with the controller running, the active chassis' row alone is removed by hand");
    let removed = rows.active().await?;
    let start = Instant::now();
    rows.remove(embedded, &removed).await?;
    vm.flush_neighbours().await?;
    back(checks, &rows, &list, &removed, "one removed", start).await?;
    checks
        .reaches_again("VM → its gateway again", &vm, gateway, start)
        .await?;
    embedded.network_ready(&vpc, "workers").await?;
    Ok(())
}

/// Waits until the list is whole and none of the removed rows is among it.
async fn back(
    checks: &mut Checks,
    rows: &Rows,
    list: &BTreeSet<(String, i64)>,
    removed: &BTreeSet<Uuid>,
    what: &str,
    since: Instant,
) -> Result<(), ScenarioError> {
    let whole = |replica: &Replica| {
        let now = rows.read(replica);
        let same: BTreeSet<(String, i64)> = now.iter().map(GatewayRow::entry).collect();
        same == *list && now.iter().all(|row| !removed.contains(&row.row))
    };
    let waited = tokio::time::timeout(PATIENCE, rows.client.when(whole)).await;
    checks.line(
        waited.is_ok(),
        format!("gateway rows are back ({what})"),
        format!(
            "{} rows after {:.2} s",
            list.len(),
            since.elapsed().as_secs_f64()
        ),
    );
    Ok(())
}

/// The gateway rows of one port, watched.
struct Rows {
    client: Client,
    port: String,
}

struct GatewayRow {
    row: Uuid,
    chassis: nb::GatewayChassis,
}

impl GatewayRow {
    fn entry(&self) -> (String, i64) {
        (self.chassis.chassis_name.clone(), self.chassis.priority)
    }
}

impl Rows {
    fn watch(embedded: &Embedded, port: String) -> Self {
        let remote = embedded.site.nb_remote();
        let path = remote.strip_prefix("unix:").unwrap_or(&remote);
        let monitors = Monitors::from([
            monitor::<nb::LogicalRouterPort>(),
            monitor::<nb::GatewayChassis>(),
        ]);
        let client = Client::start(Remote::Unix(path.into()), "OVN_Northbound", monitors);
        Self { client, port }
    }

    /// The rows by falling priority; none while the database is not connected.
    fn read(&self, replica: &Replica) -> Vec<GatewayRow> {
        let (Ok(ports), Ok(chassis)) = (
            replica.rows::<nb::LogicalRouterPort>(),
            replica.rows::<nb::GatewayChassis>(),
        ) else {
            return Vec::new();
        };
        let mut rows: Vec<GatewayRow> = ports
            .into_values()
            .filter(|port| port.name == self.port)
            .flat_map(|port| port.gateway_chassis)
            .filter_map(|row| {
                let chassis = chassis.get(&row)?.clone();
                Some(GatewayRow { row, chassis })
            })
            .collect();
        rows.sort_by_key(|row| -row.chassis.priority);
        rows
    }

    async fn now(&self) -> Result<Vec<GatewayRow>, ScenarioError> {
        let connected = tokio::time::timeout(PATIENCE, self.client.connected()).await;
        let replica =
            connected.map_err(|_| ScenarioError::Missing("no northbound database".to_owned()))?;
        Ok(self.read(&replica))
    }

    async fn all(&self) -> Result<BTreeSet<Uuid>, ScenarioError> {
        Ok(self.now().await?.into_iter().map(|row| row.row).collect())
    }

    async fn list(&self) -> Result<BTreeSet<(String, i64)>, ScenarioError> {
        Ok(self.now().await?.iter().map(GatewayRow::entry).collect())
    }

    /// The row of the highest priority: its chassis holds the port.
    async fn active(&self) -> Result<BTreeSet<Uuid>, ScenarioError> {
        let rows = self.now().await?;
        Ok(rows.into_iter().take(1).map(|row| row.row).collect())
    }

    /// Removes rows as a person would, and waits until every chassis has heard of it.
    async fn remove(
        &self,
        embedded: &Embedded,
        rows: &BTreeSet<Uuid>,
    ) -> Result<(), ScenarioError> {
        let list: Vec<String> = rows.iter().map(ToString::to_string).collect();
        let list = list.join(",");
        embedded
            .site
            .nbctl(&[
                "--wait=hv",
                "remove",
                "Logical_Router_Port",
                &self.port,
                "gateway_chassis",
                &list,
            ])
            .await?;
        Ok(())
    }
}
