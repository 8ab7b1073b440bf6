//! A VPC is deleted while a machine has an address: its network carries on until the address is given
//! back, and is taken over by the VPC made again.

use causeway_api::{Condition, ProxmoxNetwork, VirtualPrivateCloud, ipam::IPAddressClaim, kubeovn};
use causeway_planner::model::VpcKey;
use kube::{Api, api::DeleteParams};

use super::{
    Checks, Guests, ScenarioError,
    orders::{State, as_before},
    removal::{VPC, all_is_gone, begin, failed},
};
use crate::embedded::{Embedded, EmbeddedError, gone, wait};

/// What a machine's controller writes; nobody owns it here.
const CLAIM: &str = "\
apiVersion: ipam.cluster.x-k8s.io/v1beta1
kind: IPAddressClaim
metadata: {name: worker-1, namespace: tenant-example}
spec:
  poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: subnet-7bb6e3ad}
";
/// Ready's message while that machine holds the network.
const HELD: &str =
    "held by 1 address in use: IPAddressClaim tenant-example/worker-1 (172.20.10.64)";

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let vpc = VpcKey::new("tenant-example", "main");
    begin(embedded).await?;
    let before = State::of(embedded).await?;
    embedded.apply(VPC).await?;
    let (workers, _) = embedded.network_ready(&vpc, "workers").await?;
    embedded.vpc_ready(&vpc).await?;
    embedded.apply(CLAIM).await?;
    let client = embedded.client();
    let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), vpc.namespace.as_str());
    wait(&claims, "worker-1", |claim: &IPAddressClaim| {
        let status = claim.status.as_ref();
        status.is_some_and(|status| status.address_ref.is_some())
    })
    .await?;
    let vm = Guests::new(embedded)
        .vm("pve1", "w1", &workers, [172, 20, 10, 64].into())
        .await?;
    let gateway = [172, 20, 10, 1].into();
    checks.reaches("VM → its gateway", &vm, gateway).await?;

    delete_vpc(embedded, &vpc).await?;
    let networks: Api<ProxmoxNetwork> = Api::namespaced(client.clone(), vpc.namespace.as_str());
    let held = wait(&networks, "subnet-7bb6e3ad", |network| {
        ready(network).is_some_and(|ready| ready.reason == "InUse")
    })
    .await?;
    let message = ready(&held).map_or("", |ready| ready.message.as_str());
    checks.line(message == HELD, "the VPC is deleted: workers says", message);
    gone(&networks, vpc.subnet_id(&"data".into()).as_str()).await?;
    gone(
        &Api::<kubeovn::Subnet>::all(client.clone()),
        vpc.subnet_id(&"pods".into()).as_str(),
    )
    .await?;
    checks
        .reaches("the others are gone: VM → its gateway", &vm, gateway)
        .await?;

    embedded.apply(VPC).await?;
    let (again, _) = embedded.network_ready(&vpc, "workers").await?;
    embedded.vpc_ready(&vpc).await?;
    let (was, is) = (vlan(&workers), vlan(&again));
    checks.line(
        was == is && workers.metadata.uid == again.metadata.uid,
        "the VPC is made again: workers is the network that it was",
        format!("VLAN {}, then {}", was.unwrap_or(0), is.unwrap_or(0)),
    );
    checks.reaches("VM → its gateway", &vm, gateway).await?;

    delete_vpc(embedded, &vpc).await?;
    let deleted = claims.delete("worker-1", &DeleteParams::default()).await;
    deleted.map_err(failed("delete", "the claim"))?;
    all_is_gone(embedded, &vpc).await?;
    let what = "the claim goes, and the API and the northbound rows";
    as_before(embedded, &before, what, checks).await?;
    checks
        .never_reaches("VM ✗ its gateway", &vm, gateway)
        .await?;
    Ok(())
}

async fn delete_vpc(embedded: &Embedded, vpc: &VpcKey) -> Result<(), EmbeddedError> {
    let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(embedded.client(), vpc.namespace.as_str());
    let deleted = vpcs
        .delete(vpc.name.as_str(), &DeleteParams::default())
        .await;
    deleted.map_err(failed("delete", "the VPC"))?;
    gone(&vpcs, vpc.name.as_str()).await
}

fn ready(network: &ProxmoxNetwork) -> Option<&Condition> {
    let conditions = &network.status.as_ref()?.conditions;
    conditions.iter().find(|one| one.type_ == "Ready")
}

fn vlan(network: &ProxmoxNetwork) -> Option<u16> {
    network.status.as_ref()?.vlan
}
