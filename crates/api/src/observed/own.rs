//! causeway's own kinds.

use causeway_planner::{
    admit::{
        EgressInput, PeerInput, ProxmoxInput, RouteInput, SubnetInput, TransitInput, VlansInput,
        VpcInput, ZoneInput,
    },
    model::{
        AntiSpoofing, NetworkRecord, Requirement, Selector, SelectorOperator, Trunk,
        TrunkException, Vid, objects::keys,
    },
    snapshot::{
        GatewayNode, Mirror, NetworkStatus, PoolState, Seen, SubnetReport, VpcStatus, ZoneStatus,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt;

use super::{conditions::conditions, meta};
use crate::{
    network::{ProxmoxNetwork, ProxmoxNetworkSpec},
    vpc::{Backing, VirtualPrivateCloud, VirtualPrivateCloudSpec},
    zone::{AntiSpoofing as ApiAntiSpoofing, ProxmoxNetworkZone},
};

/// A label selector.
pub fn selector(selector: &LabelSelector) -> Selector {
    // An operator that we do not know selects nothing: `In` without values.
    let requirement = |one: &LabelSelectorRequirement| {
        let known = match one.operator.as_str() {
            "In" => Some(SelectorOperator::In),
            "NotIn" => Some(SelectorOperator::NotIn),
            "Exists" => Some(SelectorOperator::Exists),
            "DoesNotExist" => Some(SelectorOperator::DoesNotExist),
            _ => None,
        };
        let values = one.values.clone().filter(|_| known.is_some());
        Requirement {
            key: one.key.clone(),
            operator: known.unwrap_or(SelectorOperator::In),
            values: values.unwrap_or_default(),
        }
    };
    Selector {
        labels: selector.match_labels.clone().unwrap_or_default(),
        expressions: selector
            .match_expressions
            .iter()
            .flatten()
            .map(requirement)
            .collect(),
    }
}

/// A zone's spec, with the annotation that belongs to it.
pub fn zone_input(zone: &ProxmoxNetworkZone) -> ZoneInput {
    let spec = &zone.spec;
    ZoneInput {
        bridge: spec.bridge.clone(),
        wire: Some(spec.wire.clone()),
        vlans: VlansInput {
            ranges: spec.vlans.ranges.clone(),
            reserved: spec.vlans.reserved.clone(),
        },
        mtu: Some(spec.mtu),
        trunk: Trunk {
            interface: spec.trunk.interface.clone(),
            exceptions: spec
                .trunk
                .interfaces
                .iter()
                .map(|one| TrunkException {
                    interface: one.interface.clone(),
                    nodes: one.nodes.iter().map(|node| node.as_str().into()).collect(),
                })
                .collect(),
            node_selector: spec
                .trunk
                .node_selector
                .as_ref()
                .map(selector)
                .unwrap_or_default(),
        },
        max_chassis: Some(spec.gateway.max_chassis),
        anti_spoofing: match spec.anti_spoofing {
            ApiAntiSpoofing::Off => AntiSpoofing::Off,
            ApiAntiSpoofing::Gateway => AntiSpoofing::Gateway,
            ApiAntiSpoofing::Addresses => AntiSpoofing::Addresses,
        },
        namespace_selector: spec.namespace_selector.as_ref().map(selector),
        max_networks_per_namespace: Some(spec.max_networks_per_namespace),
        transit: spec.transit.as_ref().map(|transit| TransitInput {
            vlan: transit.vlan,
            cidr: transit.cidr.clone(),
            gateway: transit.gateway.clone(),
            addresses: transit.addresses.clone(),
        }),
        separate_fabric: zone
            .annotations()
            .get(keys::SEPARATE_FABRIC)
            .is_some_and(|value| value == "true"),
    }
}

/// A zone.
pub fn zone(zone: &ProxmoxNetworkZone) -> Seen<ZoneInput, ZoneStatus> {
    Seen {
        meta: meta(zone),
        spec: zone_input(zone),
        status: zone.status.as_ref().map(|status| {
            let vlans = status.vlans.clone().unwrap_or_default();
            let nodes = status.trunk_nodes.clone().unwrap_or_default();
            ZoneStatus {
                observed_generation: status.observed_generation.unwrap_or(0),
                vlans_total: vlans.total as usize,
                vlans_used: vlans.used as usize,
                vlans_free: vlans.free as usize,
                held_back: vlans.held_back.iter().copied().filter_map(vid).collect(),
                trunk_nodes_total: nodes.total as usize,
                trunk_nodes_ready: nodes.ready as usize,
                trunk_nodes_not_ready: nodes.not_ready.into_iter().map(Into::into).collect(),
                networks: status.networks as usize,
                conditions: conditions(&status.conditions),
            }
        }),
    }
}

fn vid(number: u16) -> Option<Vid> {
    Vid::try_from(number).ok()
}

/// A VPC's spec.
pub fn vpc_input(spec: &VirtualPrivateCloudSpec) -> VpcInput {
    VpcInput {
        subnets: spec
            .subnets
            .iter()
            .map(|subnet| SubnetInput {
                name: subnet.name.clone(),
                cidr: subnet.cidr.clone(),
                proxmox: subnet.proxmox.as_ref().map(|proxmox| ProxmoxInput {
                    zone: proxmox.zone.clone(),
                    vm_range: proxmox.vm_range.clone(),
                }),
                allow_subnets: (!subnet.allow_subnets.is_empty())
                    .then(|| subnet.allow_subnets.clone()),
            })
            .collect(),
        peers: spec
            .peers
            .iter()
            .map(|peer| PeerInput {
                tenant_namespace: peer.tenant_namespace.clone(),
                vpc_name: peer.vpc_name.clone(),
            })
            .collect(),
        routes: spec
            .routes
            .iter()
            .map(|route| RouteInput {
                cidr: route.cidr.clone(),
                next_hop_ip: route.next_hop_ip.clone(),
            })
            .collect(),
        egress: spec.egress.as_ref().map(|egress| EgressInput {
            enabled: egress.enabled,
            replicas: egress.replicas,
            internal_cidr: egress.internal_cidr.clone(),
        }),
    }
}

/// A VPC.
pub fn vpc(vpc: &VirtualPrivateCloud) -> Seen<VpcInput, VpcStatus> {
    Seen {
        meta: meta(vpc),
        spec: vpc_input(&vpc.spec),
        status: vpc.status.as_ref().map(|status| VpcStatus {
            observed_generation: status.observed_generation.unwrap_or(0),
            router: status.router.clone(),
            subnets: status
                .subnets
                .iter()
                .map(|subnet| SubnetReport {
                    name: subnet.name.clone(),
                    id: subnet.id.clone(),
                    cidr: subnet.cidr.clone(),
                    proxmox: subnet.backing == Backing::Proxmox,
                    ready: subnet.ready,
                    reason: subnet.reason.clone(),
                })
                .collect(),
            conditions: conditions(&status.conditions),
        }),
    }
}

/// A network.
pub fn network(network: &ProxmoxNetwork) -> Mirror<NetworkRecord, NetworkStatus> {
    Seen {
        meta: meta(network),
        spec: record(&network.spec),
        status: network.status.as_ref().map(|status| NetworkStatus {
            observed_generation: status.observed_generation.unwrap_or(0),
            vlan: status.vlan.and_then(vid),
            bridge: status.bridge.clone(),
            mtu: status.mtu,
            pool: status.pool.as_ref().map(|pool| pool.name.clone()),
            addresses: status
                .addresses
                .map(|addresses| PoolState {
                    total: addresses.total.into(),
                    used: addresses.used.into(),
                    free: addresses.free.into(),
                })
                .unwrap_or_default(),
            gateway_chassis: status
                .gateway_chassis
                .iter()
                .map(|chassis| GatewayNode {
                    node: chassis.node.as_str().into(),
                    active: chassis.active,
                })
                .collect(),
            conditions: conditions(&status.conditions),
        }),
    }
}

fn record(spec: &ProxmoxNetworkSpec) -> Option<NetworkRecord> {
    Some(NetworkRecord {
        zone: spec.zone.as_deref().map(Into::into),
        vpc: spec.vpc.name.as_str().into(),
        vpc_id: spec.vpc.id.as_str().into(),
        subnet: spec.subnet.as_str().into(),
        cidr: spec.cidr.parse().ok()?,
        gateway: spec.gateway.parse().ok()?,
        vm_range: spec.vm_range.parse().ok()?,
        index: spec.index,
    })
}
