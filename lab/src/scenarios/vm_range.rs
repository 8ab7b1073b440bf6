//! The VM range of a network grows and shrinks while a pod and a machine have addresses of it.

use std::net::Ipv4Addr;

use causeway_api::{Condition, VirtualPrivateCloud, ipam::InClusterIPPool, kubeovn};
use causeway_planner::model::VpcKey;
use kube::Api;

use super::{Checks, Guests, ScenarioError, removal::begin};
use crate::{
    Guest,
    embedded::{Embedded, EmbeddedError, PodAttachment, wait},
};

const ID: &str = "subnet-7bb6e3ad";
const FIRST: &str = "172.20.10.64-172.20.10.191";
const LARGER: &str = "172.20.10.32-172.20.10.223";
const SMALLER: &str = "172.20.10.64-172.20.10.99";
/// Takes in the pod's address, the first that Kube-OVN gives.
const OVER_THE_POD: &str = "172.20.10.2-172.20.10.99";

fn with_range(range: &str) -> String {
    format!(
        "apiVersion: apps.cozystack.io/v1alpha1\n\
         kind: VirtualPrivateCloud\n\
         metadata: {{name: main, namespace: tenant-example}}\n\
         spec:\n\
         \x20 subnets:\n\
         \x20 - {{name: workers, cidr: 172.20.10.0/24, proxmox: {{vmRange: {range}}}}}\n"
    )
}

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let vpc = VpcKey::new("tenant-example", "main");
    begin(embedded).await?;
    embedded.apply(&with_range(FIRST)).await?;
    let (workers, _) = embedded.network_ready(&vpc, "workers").await?;
    let gateway = Ipv4Addr::new(172, 20, 10, 1);
    let attachment = PodAttachment {
        subnet: "workers",
        gateway,
        routes: &[],
    };
    let pod = embedded.pod(&vpc, "web", "node1", &attachment).await?;
    let vm = Guests::new(embedded)
        .vm("pve1", "w1", &workers, [172, 20, 10, 64].into())
        .await?;
    both_are_reached(checks, "at first", &vm, &pod).await?;

    for (what, range, excludes) in [
        ("grown", LARGER, "172.20.10.32..172.20.10.223"),
        ("shrunk", SMALLER, "172.20.10.64..172.20.10.99"),
    ] {
        embedded.apply(&with_range(range)).await?;
        let (pool, kept) = when_ranged(embedded, &vpc, range, excludes).await?;
        checks.line(
            true,
            format!("{what}: the pool has {pool}"),
            format!("pods are kept off {kept}"),
        );
        both_are_reached(checks, what, &vm, &pod).await?;
    }

    embedded.apply(&with_range(OVER_THE_POD)).await?;
    let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(embedded.client(), vpc.namespace.as_str());
    let refused = wait(&vpcs, "main", |vpc: &VirtualPrivateCloud| {
        ready(vpc).is_some_and(|ready| ready.reason == "SpecRefused")
    })
    .await?;
    let said = ready(&refused).map_or("", |ready| ready.message.as_str());
    checks.line(
        said.contains("takes in addresses that pods have: pod tenant-example/web (172.20.10.2)"),
        "over the pod: refused",
        said,
    );
    when_ranged(embedded, &vpc, SMALLER, "172.20.10.64..172.20.10.99").await?;
    both_are_reached(checks, "and nothing has changed", &vm, &pod).await
}

async fn both_are_reached(
    checks: &mut Checks,
    when: &str,
    vm: &Guest,
    pod: &Guest,
) -> Result<(), ScenarioError> {
    let pod_address = Ipv4Addr::new(172, 20, 10, 2);
    checks
        .reaches(format!("{when}: VM → pod"), vm, pod_address)
        .await?;
    let vm_address = Ipv4Addr::new(172, 20, 10, 64);
    checks
        .reaches(format!("{when}: pod → VM"), pod, vm_address)
        .await?;
    Ok(())
}

/// Waits until machines get this range and pods are kept off it, and off nothing else.
async fn when_ranged(
    embedded: &Embedded,
    vpc: &VpcKey,
    range: &str,
    off_pods: &str,
) -> Result<(String, String), EmbeddedError> {
    let pools: Api<InClusterIPPool> = Api::namespaced(embedded.client(), vpc.namespace.as_str());
    let pool = wait(&pools, ID, |pool: &InClusterIPPool| {
        pool.spec.addresses == [range]
    })
    .await?;
    let subnets: Api<kubeovn::Subnet> = Api::all(embedded.client());
    let subnet = wait(&subnets, ID, |subnet: &kubeovn::Subnet| {
        let excluded = subnet.spec.exclude_ips.iter().flatten();
        excluded.eq(["172.20.10.1", off_pods])
    })
    .await?;
    let excluded = subnet.spec.exclude_ips.unwrap_or_default();
    Ok((pool.spec.addresses.join(", "), excluded.join(", ")))
}

fn ready(vpc: &VirtualPrivateCloud) -> Option<&Condition> {
    let conditions = &vpc.status.as_ref()?.conditions;
    conditions.iter().find(|one| one.type_ == "Ready")
}
