//! `Subnet`: a logical switch, on the overlay or on a VLAN.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{KubeOvnCondition, counter};
use crate::schema;

/// A logical switch. Kube-OVN rewrites a spec that is not in its own canonical form (network
/// address, explicit gateway, provider and enableLb, excludeIps merged and sorted as strings).
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "Subnet",
    plural = "subnets",
    shortname = "subnet",
    status = "SubnetStatus",
    derive = "PartialEq",
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Vpc", type_ = "string", json_path = ".spec.vpc"),
    printcolumn(name = "Vlan", type_ = "string", json_path = ".spec.vlan"),
    printcolumn(name = "Protocol", type_ = "string", json_path = ".spec.protocol"),
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidrBlock"),
    printcolumn(name = "Private", type_ = "boolean", json_path = ".spec.private"),
    printcolumn(name = "NAT", type_ = "boolean", json_path = ".spec.natOutgoing"),
    printcolumn(name = "Default", type_ = "boolean", json_path = ".spec.default"),
    printcolumn(
        name = "GatewayType",
        type_ = "string",
        json_path = ".spec.gatewayType"
    ),
    printcolumn(name = "V4Used", type_ = "number", json_path = ".status.v4usingIPs"),
    printcolumn(
        name = "V4Available",
        type_ = "number",
        json_path = ".status.v4availableIPs"
    ),
    printcolumn(name = "V6Used", type_ = "number", json_path = ".status.v6usingIPs"),
    printcolumn(
        name = "V6Available",
        type_ = "number",
        json_path = ".status.v6availableIPs"
    ),
    printcolumn(name = "ExcludeIPs", type_ = "string", json_path = ".spec.excludeIps"),
    printcolumn(
        name = "U2OInterconnectionIP",
        type_ = "string",
        json_path = ".status.u2oInterconnectionIP"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::foreign_spec)]
pub struct SubnetSpec {
    /// Name of the Vpc whose router it is behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<String>,
    /// Whether it is the cluster's default subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<bool>,
    /// `IPv4`, `IPv6` or `Dual`; Kube-OVN overwrites it from the CIDR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["IPv4", "IPv6", "Dual"]))]
    pub protocol: Option<String>,
    /// CIDR on its network address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cidr_block: Option<String>,
    /// Namespaces whose default switch it becomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// The router's address on it; default the first host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Whose pods it serves: `ovn`, or `<nad>.<namespace>.ovn` for a secondary network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Addresses that Kube-OVN gives to nobody: `a` or `a..b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_ips: Option<Vec<String>>,
    /// `distributed` or `centralized`; matters in the default Vpc only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_type: Option<String>,
    /// Node of a centralized gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_node: Option<String>,
    /// CIDRs that reach a private subnet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_subnets: Option<Vec<String>>,
    /// Whether nodes masquerade what leaves it; default Vpc only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_outgoing: Option<bool>,
    /// MTU in bytes of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 68, max = 65535))]
    pub mtu: Option<u32>,
    /// Whether only allowSubnets reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
    /// Name of the Vlan object that it is on; absent on the overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<String>,
    /// Whether a subnet on a VLAN has its gateway on the router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_gateway: Option<bool>,
    /// Whether pods start without waiting for the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_gateway_check: Option<bool>,
    /// Whether it is kept apart from the router's other subnets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_inter_connection: Option<bool>,
    /// Whether cluster services are balanced on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_lb: Option<bool>,
    /// Whether it answers DHCP, to OVN's own ports only.
    #[serde(
        default,
        rename = "enableDHCP",
        skip_serializing_if = "Option::is_none"
    )]
    pub enable_dhcp: Option<bool>,
    /// Filters on its switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acls: Option<Vec<Acl>>,
    /// Whether a private subnet's own pods reach each other whatever the filters say.
    #[serde(
        default,
        rename = "allowEWTraffic",
        skip_serializing_if = "Option::is_none"
    )]
    pub allow_ew_traffic: Option<bool>,
    /// Whether a subnet on a VLAN without logical gateway is connected to the overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub u2o_interconnection: Option<bool>,
}

/// A filter on a logical switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acl {
    /// `from-lport` or `to-lport`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["from-lport", "to-lport"]))]
    pub direction: Option<String>,
    /// Higher first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 32767))]
    pub priority: Option<i32>,
    /// OVN match expression.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<String>,
    /// `allow-related`, `allow-stateless`, `allow`, `drop` or `reject`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["allow-related", "allow-stateless", "allow", "drop", "reject"]))]
    pub action: Option<String>,
}

/// What Kube-OVN reports of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::foreign_status)]
pub struct SubnetStatus {
    /// `Validated`, `Ready`, `Error`; see [`KubeOvnCondition`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<KubeOvnCondition>>,
    /// IPv4 addresses left for pods.
    #[serde(
        default,
        rename = "v4availableIPs",
        deserialize_with = "counter",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::number")]
    pub v4_available_ips: Option<u64>,
    /// The addresses left, as ranges.
    #[serde(
        default,
        rename = "v4availableIPrange",
        skip_serializing_if = "Option::is_none"
    )]
    pub v4_available_ip_range: Option<String>,
    /// IPv4 addresses in use, without those inside excludeIps.
    #[serde(
        default,
        rename = "v4usingIPs",
        deserialize_with = "counter",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::number")]
    pub v4_using_ips: Option<u64>,
    /// The addresses in use, as ranges.
    #[serde(
        default,
        rename = "v4usingIPrange",
        skip_serializing_if = "Option::is_none"
    )]
    pub v4_using_ip_range: Option<String>,
    /// IPv6 addresses left for pods.
    #[serde(
        default,
        rename = "v6availableIPs",
        deserialize_with = "counter",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::number")]
    pub v6_available_ips: Option<u64>,
    /// The addresses left, as ranges.
    #[serde(
        default,
        rename = "v6availableIPrange",
        skip_serializing_if = "Option::is_none"
    )]
    pub v6_available_ip_range: Option<String>,
    /// IPv6 addresses in use.
    #[serde(
        default,
        rename = "v6usingIPs",
        deserialize_with = "counter",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::number")]
    pub v6_using_ips: Option<u64>,
    /// The addresses in use, as ranges.
    #[serde(
        default,
        rename = "v6usingIPrange",
        skip_serializing_if = "Option::is_none"
    )]
    pub v6_using_ip_range: Option<String>,
    /// Node of a centralized gateway in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activate_gateway: Option<String>,
    /// Row of the IPv4 DHCP options in OVN.
    #[serde(
        default,
        rename = "dhcpV4OptionsUUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub dhcp_v4_options_uuid: Option<String>,
    /// Row of the IPv6 DHCP options in OVN.
    #[serde(
        default,
        rename = "dhcpV6OptionsUUID",
        skip_serializing_if = "Option::is_none"
    )]
    pub dhcp_v6_options_uuid: Option<String>,
    /// Address of the connection to the overlay.
    #[serde(
        default,
        rename = "u2oInterconnectionIP",
        skip_serializing_if = "Option::is_none"
    )]
    pub u2o_interconnection_ip: Option<String>,
    /// MAC of the connection to the overlay.
    #[serde(
        default,
        rename = "u2oInterconnectionMAC",
        skip_serializing_if = "Option::is_none"
    )]
    pub u2o_interconnection_mac: Option<String>,
    /// Vpc of the connection to the overlay.
    #[serde(
        default,
        rename = "u2oInterconnectionVPC",
        skip_serializing_if = "Option::is_none"
    )]
    pub u2o_interconnection_vpc: Option<String>,
    /// Address of the multicast querier.
    #[serde(
        default,
        rename = "mcastQuerierIP",
        skip_serializing_if = "Option::is_none"
    )]
    pub mcast_querier_ip: Option<String>,
    /// MAC of the multicast querier.
    #[serde(
        default,
        rename = "mcastQuerierMAC",
        skip_serializing_if = "Option::is_none"
    )]
    pub mcast_querier_mac: Option<String>,
    /// Rules of masquerading in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_outgoing_policy_rules: Option<Vec<NatRule>>,
}

/// A rule of masquerading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatRule {
    /// Its generated id.
    #[serde(default, rename = "ruleID", skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
    /// `nat` or `forward`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["nat", "forward"]))]
    pub action: Option<String>,
    /// What it applies to.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<NatMatch>,
}

/// What a rule of masquerading applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NatMatch {
    /// Source CIDRs, separated by commas.
    #[serde(default, rename = "srcIPs", skip_serializing_if = "Option::is_none")]
    pub src_ips: Option<String>,
    /// Destination CIDRs, separated by commas.
    #[serde(default, rename = "dstIPs", skip_serializing_if = "Option::is_none")]
    pub dst_ips: Option<String>,
}
