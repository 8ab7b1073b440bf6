//! Every order in which a person can remove things ends in the state from before.

use std::time::{Duration, Instant};

use causeway_api::{
    Condition, ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud, ipam::InClusterIPPool,
    kubeovn, multus::NetworkAttachmentDefinition,
};
use causeway_drive::Watched;
use causeway_planner::model::VpcKey;
use futures::{FutureExt, future::LocalBoxFuture};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::json;

use super::{
    Checks, ScenarioError, ZONE,
    removal::{NAMESPACE, VPC, begin, compare, every_trunk_is_ready, failed},
};
use crate::{
    NbDump,
    embedded::{ApiDump, Embedded, EmbeddedError, gone, wait},
};

const TENANT: &str = "tenant-example";
const WORKERS: &str = "subnet-7bb6e3ad";
/// How long an end state may take: Kube-OVN's minute for what it has forgotten, and much more.
const PATIENCE: Duration = Duration::from_mins(3);
/// Between two looks at everything.
const PAUSE: Duration = Duration::from_millis(200);

type Removing<'a> = LocalBoxFuture<'a, Result<(), ScenarioError>>;

/// What a person does, from a VPC that is Ready.
struct Order {
    what: &'static str,
    remove: for<'a> fn(&'a Embedded) -> Removing<'a>,
}

const ORDERS: &[Order] = &[
    Order {
        what: "the VPC",
        remove: |site| vpc(site).boxed_local(),
    },
    Order {
        what: "subnet after subnet, then the VPC",
        remove: |site| subnets_then_vpc(site).boxed_local(),
    },
    Order {
        what: "the namespace",
        remove: |site| namespace(site).boxed_local(),
    },
    Order {
        what: "the zone, then the VPC",
        remove: |site| zone_then_vpc(site).boxed_local(),
    },
    Order {
        what: "every object by hand, then the VPC",
        remove: |site| by_hand_then_vpc(site).boxed_local(),
    },
    Order {
        what: "the VPC, then every object by hand",
        remove: |site| vpc_then_by_hand(site).boxed_local(),
    },
];

pub(super) async fn show(
    embedded: &mut Embedded,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    begin(embedded).await?;
    let before = State::of(embedded).await?;
    for order in ORDERS {
        make(embedded).await?;
        (order.remove)(embedded).await?;
        as_before(embedded, &before, order.what, checks).await?;
    }
    half_made(embedded).await?;
    as_before(embedded, &before, "the VPC while it is being made", checks).await
}

async fn make(embedded: &Embedded) -> Result<(), EmbeddedError> {
    embedded.apply(VPC).await?;
    let vpc = VpcKey::new(TENANT, "main");
    embedded.network_ready(&vpc, "workers").await?;
    embedded.network_ready(&vpc, "data").await?;
    embedded.vpc_ready(&vpc).await?;
    Ok(())
}

async fn vpc(embedded: &Embedded) -> Result<(), ScenarioError> {
    let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(embedded.client(), TENANT);
    delete(&vpcs, "main").await
}

async fn subnets_then_vpc(embedded: &Embedded) -> Result<(), ScenarioError> {
    let vpcs: Api<VirtualPrivateCloud> = Api::namespaced(embedded.client(), TENANT);
    let object = vpcs.get("main").await.map_err(failed("read", "the VPC"))?;
    let mut subnets = object.spec.subnets;
    for left in [2, 1, 0] {
        subnets.truncate(left);
        let patch = Patch::Merge(json!({"spec": {"subnets": subnets, "egress": null}}));
        let written = vpcs.patch("main", &PatchParams::default(), &patch).await;
        written.map_err(failed("write", "the VPC"))?;
        wait(&vpcs, "main", |vpc: &VirtualPrivateCloud| {
            let status = vpc.status.as_ref();
            status
                .is_some_and(|status| status.subnets.len() == left && is_ready(&status.conditions))
        })
        .await?;
    }
    delete(&vpcs, "main").await
}

async fn namespace(embedded: &Embedded) -> Result<(), ScenarioError> {
    let namespaces: Api<Namespace> = Api::all(embedded.client());
    delete(&namespaces, TENANT).await?;
    gone(&namespaces, TENANT).await?;
    embedded.apply(NAMESPACE).await?;
    Ok(())
}

async fn zone_then_vpc(embedded: &Embedded) -> Result<(), ScenarioError> {
    let zones: Api<ProxmoxNetworkZone> = Api::all(embedded.client());
    delete(&zones, "default").await?;
    wait(&zones, "default", |zone: &ProxmoxNetworkZone| {
        let conditions = zone.status.as_ref().map(|status| &status.conditions);
        conditions.is_some_and(|all| all.iter().any(|one| one.reason == "InUse"))
    })
    .await?;
    vpc(embedded).await?;
    gone(&zones, "default").await?;
    embedded.apply(ZONE).await?;
    every_trunk_is_ready(embedded).await?;
    Ok(())
}

async fn by_hand_then_vpc(embedded: &Embedded) -> Result<(), ScenarioError> {
    by_hand(embedded).await?;
    vpc(embedded).await
}

async fn vpc_then_by_hand(embedded: &Embedded) -> Result<(), ScenarioError> {
    vpc(embedded).await?;
    by_hand(embedded).await
}

/// Everything of `workers`, and the router, in the order that sticks Kube-OVN for ever.
async fn by_hand(embedded: &Embedded) -> Result<(), ScenarioError> {
    let client = embedded.client();
    let networks: Api<ProxmoxNetwork> = Api::namespaced(client.clone(), TENANT);
    let network = networks.get_opt(WORKERS).await;
    let network = network.map_err(failed("read", "the network"))?;
    let vlan = network.and_then(|network| network.status?.vlan);
    delete(&Api::<kubeovn::Vpc>::all(client.clone()), "vpc-4cf9df").await?;
    if let Some(vlan) = vlan {
        let name = format!("pve-default-{vlan}");
        delete(&Api::<kubeovn::Vlan>::all(client.clone()), &name).await?;
    }
    delete(&networks, WORKERS).await?;
    let attachments: Api<NetworkAttachmentDefinition> = Api::namespaced(client.clone(), TENANT);
    delete(&attachments, WORKERS).await?;
    delete(&Api::<kubeovn::Subnet>::all(client.clone()), WORKERS).await?;
    let pools: Api<InClusterIPPool> = Api::namespaced(client, TENANT);
    delete(&pools, WORKERS).await
}

async fn half_made(embedded: &Embedded) -> Result<(), ScenarioError> {
    embedded.apply(VPC).await?;
    let networks: Api<ProxmoxNetwork> = Api::namespaced(embedded.client(), TENANT);
    wait(&networks, WORKERS, |_: &ProxmoxNetwork| true).await?;
    vpc(embedded).await
}

/// Deletes an object; one that is gone already is no failure.
async fn delete<K: Watched + Serialize>(api: &Api<K>, name: &str) -> Result<(), ScenarioError> {
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(source) => Err(failed("delete", name)(source).into()),
    }
}

fn is_ready(conditions: &[Condition]) -> bool {
    let mut ready = conditions.iter().filter(|one| one.type_ == "Ready");
    ready.any(|one| one.status == "True")
}

/// The API and the northbound rows.
pub(super) struct State {
    api: ApiDump,
    northbound: NbDump,
}

impl State {
    /// As it is now.
    pub async fn of(embedded: &Embedded) -> Result<Self, ScenarioError> {
        Ok(Self {
            api: embedded.dump().await?,
            northbound: embedded.site.dump_nb().await?,
        })
    }

    /// What one has and the other has not, or has otherwise.
    pub fn difference(&self, after: &Self) -> Vec<String> {
        let mut all = self.api.difference(&after.api);
        all.extend(self.northbound.difference(&after.northbound));
        all
    }
}

/// Says whether the state from before comes back, as Kube-OVN and others catch up; bounded.
pub(super) async fn as_before(
    embedded: &Embedded,
    before: &State,
    what: &str,
    checks: &mut Checks,
) -> Result<(), ScenarioError> {
    let start = Instant::now();
    let difference = loop {
        let difference = before.difference(&State::of(embedded).await?);
        if difference.is_empty() || start.elapsed() > PATIENCE {
            break difference;
        }
        tokio::time::sleep(PAUSE).await;
    };
    compare(checks, &format!("as before: {what}"), &difference);
    Ok(())
}
