//! Statuses, as the planner found them, written to the API.

use causeway_api::{
    ProxmoxNetwork, ProxmoxNetworkStatus, ProxmoxNetworkZone, ProxmoxNetworkZoneStatus,
    VirtualPrivateCloud, VirtualPrivateCloudStatus, keys, network,
    observed::condition_to_api,
    vpc::{Backing, SubnetStatus},
    zone::{TrunkNodes, VlanUsage},
};
use causeway_drive::{Cache, Watched, apply_status};
use causeway_observe::Caches;
use causeway_planner::{
    conditions::Condition,
    plan::StatusWrite,
    snapshot::{NetworkStatus, PoolState, VpcStatus, ZoneStatus},
};
use kube::Api;
use serde::Serialize;
use serde_json::json;

use crate::PassError;

/// Writes one status. An object that has gone needs none.
pub(crate) async fn status(caches: &Caches, write: &StatusWrite) -> Result<(), PassError> {
    let client = caches.client.clone();
    match write {
        StatusWrite::Zone(name, status) => {
            let api: Api<ProxmoxNetworkZone> = Api::all(client);
            put(&api, &caches.zones, name.as_str(), &zone(status)).await
        }
        StatusWrite::Network(key, status) => {
            let api: Api<ProxmoxNetwork> = Api::namespaced(client, key.namespace.as_str());
            put(&api, &caches.networks, key.id.as_str(), &network(status)).await
        }
        StatusWrite::Vpc(key, status) => {
            let Some(cache) = &caches.vpcs else {
                return Ok(());
            };
            let api: Api<VirtualPrivateCloud> = Api::namespaced(client, key.namespace.as_str());
            put(&api, cache, key.name.as_str(), &vpc(status)).await
        }
    }
}

async fn put<K: Watched>(
    api: &Api<K>,
    cache: &Cache<K>,
    name: &str,
    status: &(impl Serialize + Sync),
) -> Result<(), PassError> {
    let object = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name},
        "status": status,
    });
    match apply_status(api, keys::FIELD_MANAGER, name, &object).await {
        Ok(object) => {
            cache.fold(object);
            Ok(())
        }
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
        Err(source) => Err(PassError::Report {
            kind: K::kind(&()).into_owned(),
            name: name.to_owned(),
            source: Box::new(source),
        }),
    }
}

fn conditions(
    conditions: &[Condition],
) -> Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    conditions.iter().map(condition_to_api).collect()
}

/// Figures beyond what the status can hold are shown as the most that it can.
fn figure(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn zone(status: &ZoneStatus) -> ProxmoxNetworkZoneStatus {
    ProxmoxNetworkZoneStatus {
        observed_generation: Some(status.observed_generation),
        vlans: Some(VlanUsage {
            total: figure(status.vlans_total),
            used: figure(status.vlans_used),
            free: figure(status.vlans_free),
            summary: format!("{}/{}", status.vlans_used, status.vlans_total),
            held_back: status.held_back.iter().map(|vid| (*vid).into()).collect(),
        }),
        trunk_nodes: Some(TrunkNodes {
            total: figure(status.trunk_nodes_total),
            ready: figure(status.trunk_nodes_ready),
            summary: format!("{}/{}", status.trunk_nodes_ready, status.trunk_nodes_total),
            not_ready: status
                .trunk_nodes_not_ready
                .iter()
                .map(ToString::to_string)
                .collect(),
        }),
        networks: figure(status.networks),
        conditions: conditions(&status.conditions),
    }
}

fn network(status: &NetworkStatus) -> ProxmoxNetworkStatus {
    let PoolState { total, used, free } = status.addresses;
    let figure = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    ProxmoxNetworkStatus {
        observed_generation: Some(status.observed_generation),
        vlan: status.vlan.map(Into::into),
        bridge: status.bridge.clone(),
        mtu: status.mtu,
        pool: status.pool.as_ref().map(|name| network::PoolRef {
            api_group: "ipam.cluster.x-k8s.io".to_owned(),
            kind: "InClusterIPPool".to_owned(),
            name: name.clone(),
        }),
        addresses: Some(network::AddressUsage {
            total: figure(total),
            used: figure(used),
            free: figure(free),
        }),
        gateway_chassis: status
            .gateway_chassis
            .iter()
            .map(|chassis| network::GatewayChassis {
                node: chassis.node.to_string(),
                active: chassis.active,
            })
            .collect(),
        conditions: conditions(&status.conditions),
    }
}

fn vpc(status: &VpcStatus) -> VirtualPrivateCloudStatus {
    VirtualPrivateCloudStatus {
        observed_generation: Some(status.observed_generation),
        router: status.router.clone(),
        subnets: status
            .subnets
            .iter()
            .map(|subnet| SubnetStatus {
                name: subnet.name.clone(),
                id: subnet.id.clone(),
                cidr: subnet.cidr.clone(),
                backing: if subnet.proxmox {
                    Backing::Proxmox
                } else {
                    Backing::Overlay
                },
                ready: subnet.ready,
                reason: subnet.reason.clone(),
            })
            .collect(),
        conditions: conditions(&status.conditions),
        ..VirtualPrivateCloudStatus::default()
    }
}
