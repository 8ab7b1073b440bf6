//! The main job, shown: the source document's VPC goes in word for word, and packets flow.
//!
//! Run by `causeway demo`.

use std::{net::Ipv4Addr, time::Instant};

use causeway_api::ProxmoxNetwork;
use causeway_kubeapi::table;
use causeway_planner::model::VpcKey;

use super::{Checks, Guests, ScenarioError, ZONE};
use crate::{
    Guest,
    embedded::{Embedded, EmbeddedError, PodAttachment},
};

const VPC: &str = include_str!("../../../examples/vpc.yaml");
const SECOND_TENANT: &str = include_str!("../../../examples/second-tenant.yaml");
/// What the second apply adds: an overlay subnet that lists nobody.
const CLOSED: &str = "    - name: closed\n      cidr: 172.20.21.0/24\n";
/// The line of the VPC before which it goes.
const AFTER_SUBNETS: &str = "  egress:\n";

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let example = VpcKey::new("tenant-example", "main");
    let other = VpcKey::new("tenant-other", "main");
    embedded.start_controller().await?;
    checks.say("\nThe administrator applies examples/zone.yaml, two tenants apply examples/vpc.yaml and examples/second-tenant.yaml");
    let start = Instant::now();
    embedded.apply(ZONE).await?;
    embedded.apply(VPC).await?;
    embedded.apply(SECOND_TENANT).await?;
    embedded.zone_ready("default").await?;
    let (workers, _) = embedded.network_ready(&example, "workers").await?;
    let (data, _) = embedded.network_ready(&example, "data").await?;
    let (theirs, _) = embedded.network_ready(&other, "workers").await?;
    embedded.vpc_ready(&example).await?;
    embedded.vpc_ready(&other).await?;
    checks.line(
        true,
        "zone, VPCs and networks of both tenants are Ready",
        format!("after {:.1} s", start.elapsed().as_secs_f64()),
    );
    show_tables(embedded, checks).await?;

    let mut guests = Guests::new(embedded);
    let path = Path {
        w1: guests
            .vm("pve1", "w1", &workers, address([172, 20, 10, 64]))
            .await?,
        w2: guests
            .vm("pve2", "w2", &workers, address([172, 20, 10, 65]))
            .await?,
        d1: guests
            .vm("pve2", "d1", &data, address([172, 20, 11, 100]))
            .await?,
        theirs: guests
            .vm("pve1", "o1", &theirs, address([172, 20, 10, 99]))
            .await?,
        db: on_workers(embedded, &example, "db", "node1").await?,
        web: overlay_pod(embedded, &example, "web", "pods", [172, 20, 20, 1]).await?,
        their_web: overlay_pod(embedded, &other, "web", "pods", [172, 20, 30, 1]).await?,
    };
    path.show(checks, &workers).await?;
    path.show_closed(embedded, &example, checks).await
}

/// The tables as the API makes them and kubectl prints them.
async fn show_tables(embedded: &Embedded, checks: &Checks) -> Result<(), ScenarioError> {
    let group = "/apis/proxmox.cozystack.io/v1alpha1";
    for (command, path) in [
        (
            "kubectl get proxmoxnetworkzones -o wide",
            format!("{group}/proxmoxnetworkzones"),
        ),
        (
            "kubectl get proxmoxnetworks -n tenant-example -o wide",
            format!("{group}/namespaces/tenant-example/proxmoxnetworks"),
        ),
        (
            "kubectl get proxmoxnetworks -n tenant-other -o wide",
            format!("{group}/namespaces/tenant-other/proxmoxnetworks"),
        ),
    ] {
        let table = table::fetch(&embedded.client(), &path).await;
        let table = table.map_err(|error| ScenarioError::Missing(error.to_string()))?;
        checks.say(format!(
            "\n$ {command}\n{}",
            table::print(&table, true).trim_end()
        ));
    }
    Ok(())
}

fn address(octets: [u8; 4]) -> Ipv4Addr {
    octets.into()
}

/// A pod on `workers`, with routes to the VPC's other subnets.
async fn on_workers(
    embedded: &Embedded,
    vpc: &VpcKey,
    name: &str,
    node: &str,
) -> Result<Guest, EmbeddedError> {
    let attachment = PodAttachment {
        subnet: "workers",
        gateway: address([172, 20, 10, 1]),
        routes: &["172.20.0.0/16"],
    };
    let pod = embedded.pod(vpc, name, node, &attachment).await?;
    Ok(pod.at("net1").unwrap_or(pod))
}

/// A pod on an overlay subnet, on the node without trunk.
async fn overlay_pod(
    embedded: &Embedded,
    vpc: &VpcKey,
    name: &str,
    subnet: &str,
    gateway: [u8; 4],
) -> Result<Guest, EmbeddedError> {
    let attachment = PodAttachment {
        subnet,
        gateway: gateway.into(),
        routes: &["172.20.0.0/16"],
    };
    let pod = embedded.pod(vpc, name, "node3", &attachment).await?;
    Ok(pod.at("net1").unwrap_or(pod))
}

struct Path {
    w1: Guest,
    w2: Guest,
    d1: Guest,
    theirs: Guest,
    db: Guest,
    web: Guest,
    their_web: Guest,
}

impl Path {
    async fn show(
        &self,
        checks: &mut Checks,
        workers: &ProxmoxNetwork,
    ) -> Result<(), ScenarioError> {
        let Self {
            w1,
            w2,
            d1,
            theirs,
            db,
            web,
            their_web,
        } = self;
        let gateway = workers.spec.gateway.parse().map_err(|_| {
            ScenarioError::Missing(format!("{:?} is no gateway", workers.spec.gateway))
        })?;
        checks.say("\nVM w1 on pve1 and VM w2 on pve2 are on workers, VM d1 on data; pod db is on workers (node1), pod web on the overlay (node3, no trunk)");
        for (what, from, to) in [
            ("VM w1 → its gateway", w1, gateway),
            ("VM w1 → VM w2 on the other hypervisor", w1, w2.address()),
            ("VM w1 → pod db on the same subnet", w1, db.address()),
            ("pod db → VM w2", db, w2.address()),
            (
                "VM w1 → overlay pod web, node without trunk",
                w1,
                web.address(),
            ),
            ("overlay pod web → VM w2", web, w2.address()),
            ("VM w1 → VM d1 through the router", w1, d1.address()),
            ("VM d1 → pod db through the router", d1, db.address()),
            (
                "the other tenant's VM → its gateway, same address",
                theirs,
                gateway,
            ),
        ] {
            checks.reaches(what, from, to).await?;
        }
        for (what, from, to) in [
            ("VM w1 ✗ the other tenant's VM on its VLAN", w1, theirs),
            ("the other tenant's VM ✗ VM w2", theirs, w2),
            ("VM w1 ✗ the other tenant's overlay pod", w1, their_web),
        ] {
            checks.never_reaches(what, from, to.address()).await?;
        }
        Ok(())
    }

    /// The VPC again, with a subnet that lists nobody.
    async fn show_closed(
        &self,
        embedded: &Embedded,
        vpc: &VpcKey,
        checks: &mut Checks,
    ) -> Result<(), ScenarioError> {
        let (before, after) = VPC.split_once(AFTER_SUBNETS).ok_or_else(|| {
            ScenarioError::Missing("the example has no egress after its subnets".to_owned())
        })?;
        checks.say(
            "\nThe tenant applies the VPC again with an overlay subnet `closed` that lists nobody",
        );
        embedded
            .apply(&format!("{before}{CLOSED}{AFTER_SUBNETS}{after}"))
            .await?;
        embedded.vpc_ready(vpc).await?;
        let gateway = [172, 20, 21, 1];
        let vault = overlay_pod(embedded, vpc, "vault", "closed", gateway).await?;
        let clerk = overlay_pod(embedded, vpc, "clerk", "closed", gateway).await?;
        checks
            .reaches(
                "pod clerk → pod vault, both on closed",
                &clerk,
                vault.address(),
            )
            .await?;
        checks
            .never_reaches("VM w1 ✗ pod vault on closed", &self.w1, vault.address())
            .await?;
        checks
            .reaches(
                "VM w1 → overlay pod web, as before",
                &self.w1,
                self.web.address(),
            )
            .await?;
        Ok(())
    }
}
