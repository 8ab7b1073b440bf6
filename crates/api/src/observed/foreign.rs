//! Kinds of Kube-OVN, Multus, the IPAM provider and Kubernetes itself.

use std::collections::BTreeSet;

use causeway_planner::{
    model::{
        AddrRange, Attachment, Cidr, KubeOvnSubnet, KubeOvnVlan, KubeOvnVpc, Pool, ProviderNetwork,
        Route, SubnetKey, Trunk, TrunkException, Vid,
    },
    snapshot::{
        AddressClaim, GivenAddress, IpObject, Mirror, Moment, NamespaceState, NodeState, PoolState,
        ProviderNetworkState, Seen, SubnetState, VlanState, VpcState,
    },
};
use k8s_openapi::{
    api::{
        core::v1::{Namespace, Node},
        networking::v1::ServiceCIDR,
    },
    jiff::Timestamp,
};
use kube::ResourceExt;

use super::{meta, selector};
use crate::{
    ipam::{IPAddress, IPAddressClaim, InClusterIPPool, PoolRef},
    keys,
    kubeovn::{self, condition},
    multus::NetworkAttachmentDefinition,
};

/// Name of the Vpc that Kube-OVN makes for the cluster itself.
const DEFAULT_VPC: &str = "ovn-cluster";

/// A `ProviderNetwork`.
pub fn provider_network(
    object: &kubeovn::ProviderNetwork,
) -> Mirror<ProviderNetwork, ProviderNetworkState> {
    let spec = &object.spec;
    // What we never write: an object with it is not as wanted.
    let plain = spec.exclude_nodes.as_ref().is_none_or(Vec::is_empty)
        && spec.exchange_link_name != Some(true);
    let exceptions = spec.custom_interfaces.iter().flatten().map(|one| {
        Some(TrunkException {
            interface: one.interface.clone()?,
            nodes: one
                .nodes
                .iter()
                .flatten()
                .map(|n| n.as_str().into())
                .collect(),
        })
    });
    let exceptions: Option<Vec<TrunkException>> = exceptions.collect();
    Seen {
        meta: meta(object),
        spec: exceptions
            .filter(|_| plain)
            .map(|exceptions| ProviderNetwork {
                trunk: Trunk {
                    interface: spec.default_interface.clone(),
                    exceptions,
                    node_selector: spec
                        .node_selector
                        .as_ref()
                        .map(selector)
                        .unwrap_or_default(),
                },
            }),
        status: object.status.as_ref().map(|status| ProviderNetworkState {
            ready_nodes: names(status.ready_nodes.as_ref()),
            not_ready_nodes: names(status.not_ready_nodes.as_ref()),
            vlans: names(status.vlans.as_ref()),
        }),
    }
}

fn names<T: for<'a> From<&'a str> + Ord>(list: Option<&Vec<String>>) -> BTreeSet<T> {
    list.into_iter()
        .flatten()
        .map(|name| name.as_str().into())
        .collect()
}

/// A `Vlan`.
pub fn vlan(object: &kubeovn::Vlan) -> Seen<KubeOvnVlan, VlanState> {
    let annotation = |key| object.annotations().get(key);
    Seen {
        meta: meta(object),
        spec: KubeOvnVlan {
            vid: object.spec.id.and_then(|id| Vid::try_from(id).ok()),
            provider: object.spec.provider.clone(),
            owner: annotation(keys::OWNER_UID).map(|uid| uid.as_str().into()),
            released: annotation(keys::RELEASED_AT).map(|text| released(text)),
        },
        status: object.status.as_ref().map(|status| VlanState {
            subnets: names(status.subnets.as_ref()),
            conflict: status.conflict.unwrap_or(false),
        }),
    }
}

/// A time that cannot be read counts as "just now, for ever": the number stays taken.
fn released(text: &str) -> Moment {
    let time: Result<Timestamp, _> = text.parse();
    time.map_or(Moment(i64::MAX), |time| Moment(time.as_millisecond()))
}

/// A Kube-OVN `Vpc`.
pub fn router(object: &kubeovn::Vpc) -> Mirror<KubeOvnVpc, VpcState> {
    let spec = &object.spec;
    let plain = spec.policy_routes.as_ref().is_none_or(Vec::is_empty)
        && spec.vpc_peerings.as_ref().is_none_or(Vec::is_empty)
        && spec.default_subnet.as_ref().is_none_or(String::is_empty)
        && spec.namespaces.as_ref().is_none_or(Vec::is_empty);
    let routes: Option<Vec<Route>> = spec
        .static_routes
        .iter()
        .flatten()
        .map(|route| {
            let by_destination = route.policy.as_deref().unwrap_or("policyDst") == "policyDst";
            Some(Route {
                cidr: route.cidr.as_ref()?.parse().ok()?,
                next_hop: route.next_hop_ip.as_ref()?.parse().ok()?,
            })
            .filter(|_| by_destination)
        })
        .collect();
    let record = object.annotations().get(keys::SPEC);
    Seen {
        meta: meta(object),
        spec: routes.filter(|_| plain).map(|routes| KubeOvnVpc {
            routes,
            owner: object
                .annotations()
                .get(keys::OWNER_UID)
                .map(|owner| owner.as_str().into()),
            record: record.and_then(|json| serde_json::from_str(json).ok()),
        }),
        status: object.status.as_ref().map(|status| VpcState {
            standby: status.standby.unwrap_or(false),
        }),
    }
}

/// A Kube-OVN `Subnet`.
pub fn subnet(object: &kubeovn::Subnet) -> Mirror<KubeOvnSubnet, SubnetState> {
    Seen {
        meta: meta(object),
        spec: subnet_spec(&object.spec),
        status: object.status.as_ref().map(|status| {
            let ready = condition(status.conditions.as_deref(), "Ready");
            let text = |text: Option<&String>| text.filter(|text| !text.is_empty()).cloned();
            SubnetState {
                ready: ready.and_then(|ready| match ready.status.as_deref() {
                    Some("True") => Some(true),
                    Some("False") => Some(false),
                    _ => None,
                }),
                message: ready
                    .and_then(|ready| {
                        text(ready.message.as_ref()).or_else(|| text(ready.reason.as_ref()))
                    })
                    .unwrap_or_default(),
                available: text(status.v4_available_ip_range.as_ref()).map(|text| ranges(&text)),
            }
        }),
    }
}

/// `a-b,c,d-e`, as Kube-OVN writes addresses that it has.
fn ranges(text: &str) -> Vec<AddrRange> {
    let entries = text.split(',').map(str::trim);
    let entries = entries.filter_map(|entry| match entry.split_once('-') {
        Some((first, last)) => AddrRange::new(first.parse().ok()?, last.parse().ok()?),
        None => AddrRange::new(entry.parse().ok()?, entry.parse().ok()?),
    });
    entries.collect()
}

/// The IPv4 CIDR of a Subnet of Kube-OVN's default VPC: the site's own (`ovn-default`, `join`).
pub fn site_subnet(object: &kubeovn::Subnet) -> Option<Cidr> {
    let spec = &object.spec;
    let vpc = spec.vpc.as_deref().unwrap_or_default();
    let default = matches!(vpc, "" | DEFAULT_VPC) && spec.vlan.as_deref().is_none_or(str::is_empty);
    let mut families = spec.cidr_block.as_deref()?.split(',');
    default
        .then(|| {
            families.find_map(|cidr| cidr.parse().ok().filter(|cidr: &Cidr| cidr.v4().is_some()))
        })
        .flatten()
}

/// The IPv4 CIDRs of a `ServiceCIDR`.
pub fn service_cidr(object: &ServiceCIDR) -> Vec<Cidr> {
    let cidrs = object.spec.as_ref().and_then(|spec| spec.cidrs.as_ref());
    let cidrs = cidrs.into_iter().flatten();
    let cidrs = cidrs.filter_map(|cidr| cidr.parse().ok());
    cidrs.filter(|cidr: &Cidr| cidr.v4().is_some()).collect()
}

fn subnet_spec(spec: &kubeovn::SubnetSpec) -> Option<KubeOvnSubnet> {
    let vlan = spec.vlan.clone().filter(|vlan| !vlan.is_empty());
    // Fields that are always the same on ours: an object with another value is not as wanted.
    let as_ours = spec.logical_gateway.unwrap_or(false) == vlan.is_some()
        && spec.nat_outgoing == Some(false)
        && spec.enable_lb == Some(false)
        && spec.acls.as_ref().is_none_or(Vec::is_empty)
        && spec.u2o_interconnection != Some(true);
    let allow: Option<Vec<_>> = spec
        .allow_subnets
        .iter()
        .flatten()
        .map(|cidr| cidr.parse().ok())
        .collect();
    Some(KubeOvnSubnet {
        vpc: spec.vpc.as_deref()?.into(),
        vlan,
        cidr: spec.cidr_block.as_ref()?.parse().ok()?,
        gateway: spec.gateway.as_ref()?.parse().ok()?,
        exclude_ips: spec.exclude_ips.clone().unwrap_or_default(),
        provider: spec.provider.clone().unwrap_or_default(),
        private: spec.private.unwrap_or(false),
        allow: allow?,
        mtu: spec.mtu.unwrap_or(0),
    })
    .filter(|_| as_ours)
}

/// A `NetworkAttachmentDefinition`.
pub fn attachment(object: &NetworkAttachmentDefinition) -> Mirror<Attachment> {
    let config = object.spec.config.as_deref().and_then(|config| {
        let config: serde_json::Value = serde_json::from_str(config).ok()?;
        let ours = config.get("type")?.as_str()? == "kube-ovn";
        let provider = config.get("provider")?.as_str()?.to_owned();
        ours.then_some(Attachment { provider })
    });
    Seen {
        meta: meta(object),
        spec: config,
        status: None,
    }
}

/// An `InClusterIPPool`.
pub fn pool(object: &InClusterIPPool) -> Mirror<Pool, PoolState> {
    let spec = &object.spec;
    let gateway = spec
        .gateway
        .as_ref()
        .and_then(|gateway| gateway.parse().ok());
    let figures = object
        .status
        .as_ref()
        .and_then(|status| status.ip_addresses.as_ref());
    let count = |figure: i64| u64::try_from(figure).unwrap_or(0);
    Seen {
        meta: meta(object),
        spec: gateway.map(|gateway| Pool {
            addresses: spec.addresses.clone(),
            prefix: spec.prefix,
            gateway,
        }),
        status: figures.map(|figures| PoolState {
            total: count(figures.total),
            used: count(figures.used),
            free: count(figures.free),
        }),
    }
}

/// An `IPAddressClaim`; None where it asks a pool of another kind.
pub fn address_claim(object: &IPAddressClaim) -> Option<AddressClaim> {
    let owners = object.owner_references().iter();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    Some(AddressClaim {
        pool: pool_key(&object.spec.pool_ref, object.namespace())?,
        owner: controllers
            .next()
            .map(|owner| format!("{} {}", owner.kind, owner.name)),
    })
}

/// An `IPAddress`; None where it is of a pool of another kind.
pub fn given_address(object: &IPAddress) -> Option<GivenAddress> {
    let namespace = object.namespace().unwrap_or_default();
    Some(GivenAddress {
        pool: pool_key(&object.spec.pool_ref, object.namespace())?,
        claim: format!("{namespace}/{}", object.spec.claim_ref.name),
        address: object.spec.address.parse().ok(),
    })
}

/// The `InClusterIPPool` that is meant; pools of other kinds are nothing to us.
fn pool_key(pool: &PoolRef, namespace: Option<String>) -> Option<SubnetKey> {
    let ours = pool.kind == "InClusterIPPool"
        && pool.api_group.as_deref() == Some("ipam.cluster.x-k8s.io");
    ours.then(|| SubnetKey {
        namespace: namespace.unwrap_or_default().into(),
        id: pool.name.as_str().into(),
    })
}

/// A Kube-OVN `IP`.
pub fn ip(object: &kubeovn::IP) -> IpObject {
    let spec = &object.spec;
    IpObject {
        subnet: spec.subnet.clone().unwrap_or_default(),
        namespace: spec.namespace.clone().unwrap_or_default(),
        pod: spec.pod_name.clone().unwrap_or_default(),
        address: spec
            .v4_ip_address
            .as_ref()
            .and_then(|address| address.parse().ok()),
    }
}

/// A `Node`.
pub fn node(object: &Node) -> NodeState {
    let conditions = object
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let addresses = object
        .status
        .as_ref()
        .and_then(|status| status.addresses.as_ref());
    NodeState {
        addresses: addresses
            .into_iter()
            .flatten()
            .filter_map(|one| one.address.parse().ok())
            .collect(),
        labels: object.labels().clone(),
        chassis: object
            .annotations()
            .get(keys::CHASSIS)
            .map(|chassis| chassis.as_str().into()),
        ready: conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
    }
}

/// A `Namespace`.
pub fn namespace(object: &Namespace) -> NamespaceState {
    NamespaceState {
        labels: object.labels().clone(),
    }
}
