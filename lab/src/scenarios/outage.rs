//! Kube-OVN is away while a VPC goes: what it forgets for ever is removed, and the same networks can be
//! made again.

use causeway_api::{VirtualPrivateCloud, kubeovn};
use causeway_planner::model::VpcKey;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use super::{
    Checks, Guests, ScenarioError,
    orders::{State, as_before},
    removal::{VPC, begin, failed},
};
use crate::embedded::{Embedded, gone, wait};

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let vpc = VpcKey::new("tenant-example", "main");
    begin(embedded).await?;
    let before = State::of(embedded).await?;
    make(embedded, &vpc).await?;

    embedded.stop_kube_ovn().await;
    let client = embedded.client();
    let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(client.clone(), vpc.namespace.as_str());
    let deleted = vpcs.delete("main", &DeleteParams::default()).await;
    deleted.map_err(failed("delete", "the VPC"))?;
    let subnets: Api<kubeovn::Subnet> = Api::all(client);
    for name in ["workers", "data", "pods"] {
        let id = vpc.subnet_id(&name.into());
        wait(&subnets, id.as_str(), |subnet: &kubeovn::Subnet| {
            subnet.metadata.deletion_timestamp.is_some()
        })
        .await?;
        // Somebody is impatient.
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let freed = subnets
            .patch(id.as_str(), &PatchParams::default(), &patch)
            .await;
        freed.map_err(failed("free", "a Subnet"))?;
        gone(&subnets, id.as_str()).await?;
    }
    embedded.start_kube_ovn().await?;
    checks.say("Kube-OVN is back; a minute for what it has forgotten");
    let what = "Kube-OVN was away while the VPC went";
    as_before(embedded, &before, what, checks).await?;

    let workers = make(embedded, &vpc).await?;
    let vm = Guests::new(embedded)
        .vm("pve1", "w1", &workers, [172, 20, 10, 64].into())
        .await?;
    let line = format!("made again on VLAN {}: VM → its gateway", vlan(&workers));
    checks.reaches(line, &vm, [172, 20, 10, 1].into()).await?;
    Ok(())
}

async fn make(
    embedded: &Embedded,
    vpc: &VpcKey,
) -> Result<causeway_api::ProxmoxNetwork, ScenarioError> {
    embedded.apply(VPC).await?;
    let (workers, _) = embedded.network_ready(vpc, "workers").await?;
    embedded.vpc_ready(vpc).await?;
    Ok(workers)
}

fn vlan(network: &causeway_api::ProxmoxNetwork) -> String {
    let vlan = network.status.as_ref().and_then(|status| status.vlan);
    vlan.map_or_else(|| network.name_any(), |vlan| vlan.to_string())
}
