//! A VPC comes and goes: afterwards the API and the northbound database are as before.

use causeway_api::{ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud, kubeovn};
use causeway_planner::model::VpcKey;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams},
};

use super::{
    Checks, Guests, ScenarioError, ZONE,
    orders::{State, as_before},
};
use crate::embedded::{Embedded, EmbeddedError, gone, wait};

pub(super) const NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: tenant-example}
";
pub(super) const VPC: &str = include_str!("../../../examples/vpc.yaml");

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let vpc = VpcKey::new("tenant-example", "main");
    begin(embedded).await?;
    let before = State::of(embedded).await?;

    embedded.apply(VPC).await?;
    let (workers, _) = embedded.network_ready(&vpc, "workers").await?;
    embedded.network_ready(&vpc, "data").await?;
    embedded.vpc_ready(&vpc).await?;
    let vm = Guests::new(embedded)
        .vm("pve1", "w1", &workers, [172, 20, 10, 64].into())
        .await?;
    checks
        .reaches("VM → its gateway", &vm, [172, 20, 10, 1].into())
        .await?;
    let made = before.difference(&State::of(embedded).await?).len();
    let what = "the VPC has made objects and rows";
    checks.line(made > 0, what, format!("{made} of them"));

    delete_and_wait(embedded, &vpc).await?;
    let what = "the API and the northbound rows";
    as_before(embedded, &before, what, checks).await?;
    checks
        .never_reaches("VM ✗ its gateway", &vm, [172, 20, 10, 1].into())
        .await?;
    Ok(())
}

/// Ready says that one trunk node is; the dump from before wants the zone's last word.
pub(super) async fn every_trunk_is_ready(embedded: &Embedded) -> Result<(), EmbeddedError> {
    let zones = Api::all(embedded.client());
    wait(&zones, "default", |zone: &ProxmoxNetworkZone| {
        let nodes = zone.status.as_ref().and_then(|it| it.trunk_nodes.as_ref());
        nodes.is_some_and(|nodes| nodes.total > 0 && nodes.ready == nodes.total)
    })
    .await?;
    Ok(())
}

/// A controller, the tenant's namespace, and a zone that is ready on every trunk node.
pub(super) async fn begin(embedded: &mut Embedded) -> Result<(), EmbeddedError> {
    embedded.start_controller().await?;
    embedded.apply(NAMESPACE).await?;
    embedded.apply(ZONE).await?;
    every_trunk_is_ready(embedded).await
}

async fn delete_and_wait(embedded: &Embedded, vpc: &VpcKey) -> Result<(), EmbeddedError> {
    let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(embedded.client(), vpc.namespace.as_str());
    let deleted = vpcs
        .delete(vpc.name.as_str(), &DeleteParams::default())
        .await;
    deleted.map_err(failed("delete", "the VPC"))?;
    all_is_gone(embedded, vpc).await
}

/// Waits until nothing of a deleted VPC is left, its claims included.
pub(super) async fn all_is_gone(embedded: &Embedded, vpc: &VpcKey) -> Result<(), EmbeddedError> {
    let client = embedded.client();
    let networks: Api<ProxmoxNetwork> = Api::namespaced(client.clone(), vpc.namespace.as_str());
    let vlans: Api<kubeovn::Vlan> = Api::all(client.clone());
    let all = ListParams::default();
    let listed = networks
        .list(&all)
        .await
        .map_err(failed("list", "networks"))?;
    for name in listed.iter().map(ResourceExt::name_any) {
        gone(&networks, &name).await?;
    }
    let routers: Api<kubeovn::Vpc> = Api::all(client.clone());
    gone(&routers, vpc.id().as_str()).await?;
    let claims = vlans.list(&all).await.map_err(failed("list", "Vlans"))?;
    for name in claims.iter().map(ResourceExt::name_any) {
        gone(&vlans, &name).await?;
    }
    wait(&Api::all(client), "default", |zone: &ProxmoxNetworkZone| {
        zone.status.as_ref().is_some_and(|status| {
            let used = status.vlans.as_ref().map(|vlans| vlans.used);
            status.networks == 0 && used == Some(0)
        })
    })
    .await?;
    Ok(())
}

pub(super) fn failed(verb: &'static str, what: &str) -> impl FnOnce(kube::Error) -> EmbeddedError {
    let what = what.to_owned();
    move |source| EmbeddedError::Request {
        verb,
        what,
        source: Box::new(source),
    }
}

pub(super) fn compare(checks: &mut Checks, what: &str, difference: &[String]) {
    let seen = match difference {
        [] => "no difference".to_owned(),
        [first, ..] => format!("{} differences: {first}", difference.len()),
    };
    checks.line(difference.is_empty(), what, seen);
}
