//! `ProxmoxNetworkZone`: what the administrator offers, one bridge and a range of VLANs.
//!
//! Written by administrators, status by the controller; tenants name it in their VPC.
//! Must stay true: nothing in here names a tenant's object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A zone: the Proxmox bridge, the VLANs on it that networks may get, and the trunk that carries
/// them to the cluster's nodes.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "proxmox.cozystack.io",
    version = "v1alpha1",
    kind = "ProxmoxNetworkZone",
    shortname = "pvezone",
    status = "ProxmoxNetworkZoneStatus",
    derive = "PartialEq",
    doc = "A zone: the Proxmox bridge, the VLANs on it that networks may get, and the trunk that carries them to the cluster's nodes.",
    printcolumn(
        name = "Bridge",
        type_ = "string",
        json_path = ".spec.bridge",
        description = "Bridge on every Proxmox node"
    ),
    printcolumn(
        name = "VLANs",
        type_ = "string",
        json_path = ".status.vlans.summary",
        description = "VLANs used / VLANs offered"
    ),
    printcolumn(
        name = "Networks",
        type_ = "integer",
        json_path = ".status.networks",
        description = "Networks that hold a VLAN of the zone"
    ),
    printcolumn(
        name = "Trunk",
        type_ = "string",
        json_path = ".status.trunkNodes.summary",
        description = "Nodes whose trunk is ready / nodes selected"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        priority = 1,
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        priority = 1,
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::own_spec)]
pub struct ProxmoxNetworkZoneSpec {
    /// Bridge that exists under this name on every Proxmox node and carries the zone's VLANs.
    /// Refused to change while networks exist. Example: `vmbr1`.
    #[schemars(length(max = 10), regex(pattern = schema::BRIDGE))]
    pub bridge: String,

    /// Name of the layer-2 segment behind the trunk, a DNS label. Zones of one wire share one VLAN
    /// number space and one trunk: their ranges must be disjoint and their trunk blocks equal.
    /// Default `default`: one number space for the site. Refused to change while networks exist.
    #[serde(default = "default_wire")]
    #[schemars(length(max = 40), regex(pattern = schema::DNS_LABEL))]
    pub wire: String,

    /// The VLAN numbers that the zone hands out.
    pub vlans: ZoneVlans,

    /// MTU in bytes that VMs and pods of the zone get, 1280 to 9216. Default 1500. Refused to
    /// change while networks exist.
    #[serde(default = "default_mtu")]
    #[schemars(range(min = 1280, max = 9216))]
    pub mtu: u32,

    /// The cluster nodes' end of the wire. Equal in all zones of one wire.
    pub trunk: ZoneTrunk,

    /// The chassis that answer for the gateways of the zone's networks.
    #[serde(default)]
    pub gateway: ZoneGateway,

    /// What OVN drops of frames from the VLAN that claim a foreign address. `Gateway` (default):
    /// those that claim the gateway's with another MAC. `Addresses`: also those that claim an
    /// address outside the VM range, unless the pod that owns it sent them. `Off`: nothing; in
    /// YAML it needs quotes, unquoted it is a boolean.
    #[serde(default)]
    pub anti_spoofing: AntiSpoofing,

    /// Namespaces whose VPCs may use the zone. Omitted or empty: every tenant namespace; otherwise
    /// the selector alone decides. Networks of namespaces no longer admitted run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,

    /// How many networks of the zone one namespace may have. Default 0: no limit.
    #[serde(default)]
    pub max_networks_per_namespace: u32,

    /// The Proxmox API, read only: used to see that a VLAN is really free before it is given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxApi>,

    /// The network by which egress gateways leave. Needed for egress only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transit: Option<Transit>,
}

fn default_wire() -> String {
    "default".into()
}

const fn default_mtu() -> u32 {
    1500
}

/// The longest zone name that `spec.zone` of a network can hold.
pub const LONGEST_NAME: usize = 63;

/// The VLAN numbers that a zone hands out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneVlans {
    /// Ranges and single numbers within 2..4094, disjoint between zones of one wire. Growing is
    /// free; shrinking below a number in use is refused. Example: `["200-299", "310"]`.
    #[schemars(
        length(min = 1, max = 64),
        inner(length(max = 9), regex(pattern = schema::VLAN_RANGE)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub ranges: Vec<String>,

    /// Ranges and numbers that are never handed out. A number already in use stays with its
    /// network until that goes; status.vlans.heldBack lists it. Example: `["250-254"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(max = 9), regex(pattern = schema::VLAN_RANGE)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub reserved: Vec<String>,
}

/// The cluster nodes' end of a wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneTrunk {
    /// NIC that carries the VLANs on every trunk node, for this alone. Example: `eth1`.
    #[schemars(length(max = 15), regex(pattern = schema::INTERFACE))]
    pub interface: String,

    /// Nodes on which the NIC has another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["interface"]
        )
    )]
    pub interfaces: Vec<TrunkInterface>,

    /// Nodes that have the trunk. Omitted: every node. Example:
    /// `{matchLabels: {proxmox.cozystack.io/trunk: "true"}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub node_selector: Option<LabelSelector>,
}

/// Nodes on which the trunk NIC has another name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrunkInterface {
    /// The NIC's name on these nodes. Example: `ens19`.
    #[schemars(length(max = 15), regex(pattern = schema::INTERFACE))]
    pub interface: String,

    /// Names of the Kubernetes nodes. Example: `[node-c]`.
    #[schemars(
        length(max = 1024),
        inner(length(max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub nodes: Vec<String>,
}

/// The chassis that answer for gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneGateway {
    /// How many trunk nodes may answer for one gateway, 1 to 5: one does, the rest stand by.
    /// Default 3.
    #[serde(default = "default_max_chassis")]
    #[schemars(range(min = 1, max = 5))]
    pub max_chassis: u32,
}

impl Default for ZoneGateway {
    fn default() -> Self {
        Self {
            max_chassis: default_max_chassis(),
        }
    }
}

const fn default_max_chassis() -> u32 {
    3
}

/// What OVN drops of frames from the VLAN that claim an address of somebody else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AntiSpoofing {
    /// Nothing.
    Off,
    /// Frames that claim the gateway's address with another MAC.
    #[default]
    Gateway,
    /// Frames that claim any address outside the VM range, unless the pod that owns it sent them.
    Addresses,
}

/// Where a zone's Proxmox API is and how to read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxmoxApi {
    /// Base URL of any node's API. Example: `https://pve:8006`.
    #[schemars(length(max = 253), regex(pattern = "^https://"))]
    pub url: String,

    /// API token with read rights, as `user@realm!name=secret`.
    pub token_secret_ref: SecretKeyRef,

    /// CA certificate in PEM. Omitted: the system's trust store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_ref: Option<SecretKeyRef>,
}

/// A key of a Secret in causeway's own namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret. Example: `proxmox-token`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Key in its data. Example: `token`.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// The network by which egress gateways leave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Transit {
    /// VLAN number on the same wire, 2 to 4094, outside vlans.ranges. Example: 199.
    #[schemars(range(min = 2, max = 4094))]
    pub vlan: u32,

    /// CIDR of the transit network on its network address. Example: `10.200.0.0/24`.
    #[schemars(length(max = 18), regex(pattern = schema::IPV4_CIDR))]
    pub cidr: String,

    /// Address of the administrator's transit router. Example: `10.200.0.1`.
    #[schemars(length(max = 15), regex(pattern = schema::IPV4))]
    pub gateway: String,

    /// Addresses that egress gateways may take. Example: `10.200.0.10-10.200.0.99`.
    #[schemars(length(max = 31), regex(pattern = schema::IPV4_RANGE))]
    pub addresses: String,
}

/// What the controller observed of a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::own_status)]
pub struct ProxmoxNetworkZoneStatus {
    /// metadata.generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The zone's VLAN numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlans: Option<VlanUsage>,

    /// The nodes that the trunk selects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trunk_nodes: Option<TrunkNodes>,

    /// Number of networks that hold a VLAN of the zone.
    #[serde(default)]
    pub networks: u32,

    /// `Ready`, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// How many VLAN numbers a zone has and where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VlanUsage {
    /// Numbers in ranges minus the reserved ones.
    #[serde(default)]
    pub total: u32,

    /// Numbers that are held, the resting ones (released less than the cool-down ago) included.
    #[serde(default)]
    pub used: u32,

    /// Numbers that the next network may get.
    #[serde(default)]
    pub free: u32,

    /// used/total, for the printed table. Example: `3/96`.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub summary: String,

    /// Numbers that are reserved by now but still in use; at most the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        inner(range(min = 2, max = 4094)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub held_back: Vec<u16>,
}

/// The nodes that a trunk selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrunkNodes {
    /// Nodes selected.
    #[serde(default)]
    pub total: u32,

    /// Nodes of these whose bridge is up.
    #[serde(default)]
    pub ready: u32,

    /// ready/total, for the printed table. Example: `2/2`.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub summary: String,

    /// Names of the nodes that are not ready; at most the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        inner(length(max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub not_ready: Vec<String>,
}
