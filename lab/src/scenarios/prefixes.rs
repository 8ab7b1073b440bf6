//! Networks of different sizes in one VPC: the router's route choice must not depend on the length
//! of prefixes.

use causeway_planner::model::VpcKey;

use super::{Checks, Guests, ScenarioError, ZONE};
use crate::embedded::Embedded;

const VPC: &str = "\
apiVersion: apps.cozystack.io/v1alpha1
kind: VirtualPrivateCloud
metadata: {name: main, namespace: tenant-sizes}
spec:
  subnets:
    - {name: wide, cidr: 10.1.0.0/16, proxmox: {}}
    - {name: usual, cidr: 172.20.10.0/24, proxmox: {}}
    - {name: small, cidr: 192.168.5.16/28, proxmox: {}}
";

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let vpc = VpcKey::new("tenant-sizes", "main");
    embedded.start_controller().await?;
    embedded.apply(ZONE).await?;
    embedded.apply(VPC).await?;
    // The first address of each default VM range.
    let plan = [
        ("wide", "/16", [10, 1, 64, 0]),
        ("usual", "/24", [172, 20, 10, 64]),
        ("small", "/28", [192, 168, 5, 20]),
    ];
    let mut guests = Guests::new(embedded);
    let mut vms = Vec::new();
    for (subnet, prefix, address) in plan {
        let (network, _) = embedded.network_ready(&vpc, subnet).await?;
        let vm = guests.vm("pve1", subnet, &network, address.into()).await?;
        vms.push((prefix, vm));
    }
    for (from, sender) in &vms {
        for (to, receiver) in &vms {
            if from != to {
                let what = format!("VM in the {from} → VM in the {to}");
                checks.reaches(what, sender, receiver.address()).await?;
            }
        }
    }
    Ok(())
}
