//! `Vpc`: a logical router.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KubeOvnCondition;

/// A logical router with the Subnets that name it. Ready when `status.standby` is true and
/// `status.router` is its own name: Kube-OVN never fills the conditions.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "Vpc",
    plural = "vpcs",
    shortname = "vpc",
    status = "VpcStatus",
    derive = "PartialEq",
    printcolumn(
        name = "EnableExternal",
        type_ = "boolean",
        json_path = ".status.enableExternal"
    ),
    printcolumn(name = "EnableBfd", type_ = "boolean", json_path = ".status.enableBfd"),
    printcolumn(name = "Standby", type_ = "boolean", json_path = ".status.standby"),
    printcolumn(name = "Subnets", type_ = "string", json_path = ".status.subnets"),
    printcolumn(
        name = "ExtraExternalSubnets",
        type_ = "string",
        json_path = ".status.extraExternalSubnets"
    ),
    printcolumn(name = "Namespaces", type_ = "string", json_path = ".spec.namespaces"),
    printcolumn(
        name = "DefaultSubnet",
        type_ = "string",
        json_path = ".status.defaultLogicalSwitch"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_spec)]
pub struct VpcSpec {
    /// Subnet that becomes the default switch of the listed namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_subnet: Option<String>,
    /// Namespaces that may bind to the VPC's subnets as their default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Static routes of the router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub static_routes: Option<Vec<StaticRoute>>,
    /// Policies of the router; they run after the routes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_routes: Option<Vec<PolicyRoute>>,
    /// Links to other routers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_peerings: Option<Vec<VpcPeering>>,
}

/// A static route of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticRoute {
    /// `policyDst` (default) or `policySrc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// CIDR that it matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr: Option<String>,
    /// Next hop.
    #[serde(default, rename = "nextHopIP", skip_serializing_if = "Option::is_none")]
    pub next_hop_ip: Option<String>,
    /// `ecmp_symmetric_reply`, or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecmp_mode: Option<String>,
    /// BFD session that it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd_id: Option<String>,
    /// Route table; empty is the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_table: Option<String>,
}

/// A policy of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRoute {
    /// Higher first, 0 to 32767.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// `allow`, `drop` or `reroute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// OVN match expression.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<String>,
    /// Next hops of `reroute`, separated by commas.
    #[serde(default, rename = "nextHopIP", skip_serializing_if = "Option::is_none")]
    pub next_hop_ip: Option<String>,
}

/// A link to another router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VpcPeering {
    /// Name of the other Vpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_vpc: Option<String>,
    /// This router's address on the link, with mask.
    #[serde(
        default,
        rename = "localConnectIP",
        skip_serializing_if = "Option::is_none"
    )]
    pub local_connect_ip: Option<String>,
}

/// What Kube-OVN reports of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_status)]
pub struct VpcStatus {
    /// Never filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<KubeOvnCondition>>,
    /// Whether it is the cluster's own router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// Name of its default switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_logical_switch: Option<String>,
    /// Name of the logical router: the Vpc's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// The router exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<bool>,
    /// Whether it has the default external network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_external: Option<bool>,
    /// Whether BFD is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_bfd: Option<bool>,
    /// Subnets of the router, without those that are being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<String>>,
    /// External subnets that it is connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra_external_subnets: Option<Vec<String>>,
    /// Names of the Vpcs that it is linked to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc_peerings: Option<Vec<String>>,
    /// Name of the TCP load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_load_balancer: Option<String>,
    /// Name of the TCP load balancer with session affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_session_load_balancer: Option<String>,
    /// Name of the UDP load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_load_balancer: Option<String>,
    /// Name of the UDP load balancer with session affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_session_load_balancer: Option<String>,
    /// Name of the SCTP load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp_load_balancer: Option<String>,
    /// Name of the SCTP load balancer with session affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sctp_session_load_balancer: Option<String>,
    /// The port that answers BFD; empty where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bfd_port: Option<BfdPortStatus>,
}

/// The router port that answers BFD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BfdPortStatus {
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nodes that may host it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
}
