//! `ProxmoxNetwork`: the durable record of one Proxmox-backed subnet, in the tenant's namespace.
//!
//! Written by the controller alone; tenants read it to see where their subnet stands.
//! Must stay true: the spec is written once (zone when it is resolved, vmRange when it changes),
//! because VLAN claim, Kube-OVN objects and pool are found from it when everything else is gone.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// One Proxmox-backed subnet of a VPC: read only, written by the controller.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "proxmox.cozystack.io",
    version = "v1alpha1",
    kind = "ProxmoxNetwork",
    namespaced,
    shortname = "pvenet",
    status = "ProxmoxNetworkStatus",
    derive = "PartialEq",
    doc = "One Proxmox-backed subnet of a VPC, written by the controller alone: select it by the labels cozystack.io/vpcName and cozystack.io/subnetName.",
    printcolumn(name = "Zone", type_ = "string", json_path = ".spec.zone"),
    printcolumn(name = "VLAN", type_ = "integer", json_path = ".status.vlan"),
    printcolumn(name = "Bridge", type_ = "string", json_path = ".status.bridge"),
    printcolumn(name = "CIDR", type_ = "string", json_path = ".spec.cidr"),
    printcolumn(
        name = "Used",
        type_ = "integer",
        json_path = ".status.addresses.used",
        description = "Addresses of the VM range that machines hold"
    ),
    printcolumn(
        name = "Free",
        type_ = "integer",
        json_path = ".status.addresses.free",
        description = "Addresses of the VM range that are left"
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
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::own_spec, extend("x-kubernetes-validations" = [{
    "rule": "!has(oldSelf.zone) || (has(self.zone) && self.zone == oldSelf.zone)",
    "message": "the zone cannot be changed",
    "messageExpression": "'the zone \"' + oldSelf.zone + '\" cannot be changed'",
    "fieldPath": ".zone",
}]))]
pub struct ProxmoxNetworkSpec {
    /// Zone that the network's VLAN comes from. Absent until resolved, then fixed. Example:
    /// `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub zone: Option<String>,

    /// The VPC that the network belongs to, in the same namespace.
    #[schemars(extend("x-kubernetes-validations" = [schema::fixed("vpc")]))]
    pub vpc: NetworkVpc,

    /// Name of the subnet in the VPC. Example: `workers`.
    #[schemars(length(max = 40), regex(pattern = schema::DNS_LABEL), extend("x-kubernetes-validations" = [schema::fixed("subnet")]))]
    pub subnet: String,

    /// CIDR of the subnet. Example: `172.20.10.0/24`.
    #[schemars(length(max = 18), regex(pattern = schema::IPV4_CIDR), extend("x-kubernetes-validations" = [schema::fixed("cidr")]))]
    pub cidr: String,

    /// The VPC router's address on the subnet: its first host. Example: `172.20.10.1`.
    #[schemars(length(max = 15), regex(pattern = schema::IPV4), extend("x-kubernetes-validations" = [schema::fixed("gateway")]))]
    pub gateway: String,

    /// Addresses for Proxmox VMs, both ends included; pods get the rest. Example:
    /// `172.20.10.64-172.20.10.191`.
    #[schemars(length(max = 31), regex(pattern = schema::IPV4_RANGE))]
    pub vm_range: String,

    /// Number of the network in its VPC by age, from 0; route metrics on machines with several
    /// NICs follow it.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = [schema::fixed("index")]))]
    pub index: u32,
}

/// The VPC that a network belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkVpc {
    /// Name of the `VirtualPrivateCloud`. Example: `main`.
    #[schemars(length(min = 1, max = 43))]
    pub name: String,

    /// Name of its Kube-OVN Vpc and router. Example: `vpc-4cf9df`.
    #[schemars(length(min = 1, max = 63))]
    pub id: String,
}

/// What the controller observed of a network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::own_status)]
pub struct ProxmoxNetworkStatus {
    /// metadata.generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// VLAN tag that VMs of the network need on their NIC. Example: 214.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 4094))]
    pub vlan: Option<u16>,

    /// Proxmox bridge that VMs of the network need. Example: `vmbr1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10))]
    pub bridge: Option<String>,

    /// MTU in bytes of VMs and pods on the network. Example: 1500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 65535))]
    pub mtu: Option<u32>,

    /// The Cluster API pool that gives out the VM range, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolRef>,

    /// How many addresses of the VM range there are, as the pool counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressUsage>,

    /// Nodes that may answer for the gateway, in the order in which they would take over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["node"])
    )]
    pub gateway_chassis: Vec<GatewayChassis>,

    /// `Ready` sums up `ZoneReady`, `VLANAllocated`, `TrunkReady`, `SwitchReady`, `GatewayReady`
    /// and `PoolReady`: it takes the first that is not True.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Reference to the pool of a network, as Cluster API templates write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRef {
    /// Always `ipam.cluster.x-k8s.io`.
    #[schemars(length(max = 253))]
    pub api_group: String,

    /// Always `InClusterIPPool`.
    #[schemars(length(max = 63))]
    pub kind: String,

    /// Name of the pool: that of the network. Example: `subnet-7bb6e3ad`.
    #[schemars(length(max = 253))]
    pub name: String,
}

/// How many addresses of a VM range there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddressUsage {
    /// Addresses in the VM range.
    #[serde(default)]
    pub total: u32,

    /// Addresses that machines hold.
    #[serde(default)]
    pub used: u32,

    /// Addresses that are left.
    #[serde(default)]
    pub free: u32,
}

/// A node that may answer for the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayChassis {
    /// Name of the Kubernetes node.
    #[schemars(length(max = 253))]
    pub node: String,

    /// Whether OVN Southbound shows this node as the one that answers.
    #[serde(default)]
    pub active: bool,
}
