//! A VPC with VMs only: two trunk nodes, nothing else anywhere. With two chassis in the list the
//! survivor would think itself cut off and never claim the gateway (seen); the witness row of the
//! third is what lets it.

use std::time::Duration;

use causeway_api::ProxmoxNetwork;
use causeway_planner::model::VpcKey;
use kube::Api;

use super::{Checks, Guests, ScenarioError, ZONE};
use crate::embedded::{Embedded, PATIENCE, wait};

const VPC: &str = "\
apiVersion: apps.cozystack.io/v1alpha1
kind: VirtualPrivateCloud
metadata: {name: main, namespace: tenant-vms}
spec:
  subnets:
    - {name: workers, cidr: 172.20.10.0/24, proxmox: {}}
    - {name: data, cidr: 172.20.11.0/24, proxmox: {}}
";

/// A pause between replies that is an outage.
const PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let vpc = VpcKey::new("tenant-vms", "main");
    embedded.start_controller().await?;
    embedded.apply(ZONE).await?;
    embedded.apply(VPC).await?;
    let (workers, _) = embedded.network_ready(&vpc, "workers").await?;
    let (data, _) = embedded.network_ready(&vpc, "data").await?;
    let mut guests = Guests::new(embedded);
    let w1 = guests
        .vm("pve1", "w1", &workers, [172, 20, 10, 64].into())
        .await?;
    let d1 = guests
        .vm("pve2", "d1", &data, [172, 20, 11, 64].into())
        .await?;
    checks
        .reaches("VM w1 → VM d1 through the router", &w1, d1.address())
        .await?;
    // Else the survivor has not seen the other alive, and answers beside it all the time.
    embedded.site.bfd_up(&["node1", "node2"]).await?;
    let active = settled_holder(embedded, &vpc, &workers).await?;
    let mut pinger = w1.pinger(d1.address())?;
    pinger.reply(PATIENCE).await?;
    checks.say(format!("  {active}, which holds the gateways, is killed"));
    embedded.site.kill(&active)?;
    match pinger.outage(PAUSE, PATIENCE).await {
        Ok(gap) => checks.line(
            true,
            "VM w1 → VM d1 comes back",
            format!("after {:.1} s", gap.as_secs_f64()),
        ),
        Err(error) => checks.line(false, "VM w1 → VM d1 comes back", error),
    }
    checks
        .reaches("VM w1 → VM d1 by the survivor", &w1, d1.address())
        .await?;
    let name = workers.metadata.name.unwrap_or_default();
    let api: Api<ProxmoxNetwork> = Api::namespaced(embedded.client(), vpc.namespace.as_str());
    let moved = wait(&api, &name, |network| {
        self::active(network).is_some_and(|now| now != active)
    })
    .await?;
    let now = self::active(&moved).unwrap_or_default();
    let good = now != active;
    checks.line(good, "status shows who holds the gateway", now);
    embedded.network_ready(&vpc, "workers").await?;
    Ok(())
}

/// The node that holds the network's gateway once the election is over. In the first second after
/// the rows are written another chassis may hold the port, until BFD is up; the list's first keeps
/// it.
async fn settled_holder(
    embedded: &Embedded,
    vpc: &VpcKey,
    network: &ProxmoxNetwork,
) -> Result<String, ScenarioError> {
    let api: Api<ProxmoxNetwork> = Api::namespaced(embedded.client(), vpc.namespace.as_str());
    let name = network.metadata.name.as_deref().unwrap_or_default();
    let first = |network: &ProxmoxNetwork| {
        let status = network.status.as_ref()?;
        let first = status.gateway_chassis.first()?;
        first.active.then(|| first.node.clone())
    };
    let settled = wait(&api, name, |network| first(network).is_some()).await?;
    first(&settled)
        .ok_or_else(|| ScenarioError::Missing("no node is shown to hold the gateway".to_owned()))
}

/// The node that holds the network's gateway, by its status.
fn active(network: &ProxmoxNetwork) -> Option<String> {
    let chassis = &network.status.as_ref()?.gateway_chassis;
    let active = chassis.iter().find(|chassis| chassis.active)?;
    Some(active.node.clone())
}
