//! `VirtualPrivateCloud`: what a tenant writes.
//!
//! On a Cozystack platform the platform's own API serves this kind, without our schema and status;
//! so the controller reads the spec here and never depends on the status being kept.
//! Must stay true: reading and writing a spec fills in no default (but `egress.enabled: false`),
//! because the last planned spec is kept as an annotation and compared with this one.

use causeway_planner::admit::ALLOW_SUBNETS_ON_NETWORK;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A tenant's private network: subnets behind one router, some of them reaching Proxmox VMs.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "apps.cozystack.io",
    version = "v1alpha1",
    kind = "VirtualPrivateCloud",
    namespaced,
    status = "VirtualPrivateCloudStatus",
    derive = "PartialEq",
    doc = "A tenant's private network: subnets behind one router, some of them reaching Proxmox VMs.",
    printcolumn(
        name = "Router",
        type_ = "string",
        json_path = ".status.router",
        description = "Name of the Kube-OVN Vpc and its router"
    ),
    printcolumn(
        name = "Egress",
        type_ = "boolean",
        json_path = ".spec.egress.enabled",
        description = "Whether egress is asked for"
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
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::own_spec)]
pub struct VirtualPrivateCloudSpec {
    /// The VPC's subnets, at most 64; no two overlap.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub subnets: Vec<VpcSubnet>,

    /// VPCs to route to and from, at most 32. A peering exists when both sides declare it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend(
            "x-kubernetes-list-type" = "map",
            "x-kubernetes-list-map-keys" = ["tenantNamespace", "vpcName"]
        )
    )]
    pub peers: Vec<Peer>,

    /// Static routes of the VPC's router, at most 128.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 128),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cidr"])
    )]
    pub routes: Vec<Route>,

    /// The way out for Proxmox-backed subnets. Omitted: traffic stays inside the VPC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Egress>,
}

/// The longest name with which `virtualprivatecloud-<name>` is still a label value (63).
pub const LONGEST_NAME: usize = 43;

/// A subnet of a VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.proxmox) || !has(self.allowSubnets) || self.allowSubnets.size() == 0",
    "message": ALLOW_SUBNETS_ON_NETWORK,
    "fieldPath": ".allowSubnets",
}]))]
pub struct VpcSubnet {
    /// Name in the VPC, a DNS label of at most 40 characters. Example: `workers`.
    #[schemars(length(max = 40), regex(pattern = schema::DNS_LABEL))]
    pub name: String,

    /// IPv4 CIDR on its network address; the first host is the gateway. Proxmox-backed /8 to /28,
    /// overlay /8 to /29. Fixed once created. Example: `172.20.10.0/24`.
    #[schemars(length(max = 18), regex(pattern = schema::IPV4_CIDR))]
    pub cidr: String,

    /// Extends the subnet to Proxmox VMs on a VLAN that the platform allocates. `{}` is enough.
    /// Cannot be added to or taken from an existing subnet: use a new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxBacking>,

    /// CIDRs that reach this overlay subnet, which is private otherwise; at most 64. Refused on a
    /// Proxmox-backed subnet, which is not private. Example: `[172.20.10.0/24]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(max = 18), regex(pattern = schema::IPV4_CIDR)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub allow_subnets: Vec<String>,
}

/// How a subnet is extended to Proxmox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxmoxBacking {
    /// Zone that the VLAN comes from. Omitted: the only zone that admits the namespace, or of
    /// several the one named `default`. Example: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,

    /// Addresses for Proxmox VMs, both ends included; pods get the rest. Omitted: the middle half
    /// of the CIDR, for a /24 .64 to .191. Example: `172.20.11.100-172.20.11.199`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 31), regex(pattern = schema::IPV4_RANGE))]
    pub vm_range: Option<String>,
}

/// Another VPC to route to and from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Peer {
    /// Namespace of the other VPC. Example: `tenant-b`.
    #[schemars(length(min = 1, max = 63))]
    pub tenant_namespace: String,

    /// Name of the other VPC. Example: `other`.
    #[schemars(length(min = 1, max = 43))]
    pub vpc_name: String,
}

/// A static route of the VPC's router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Destination, an IPv4 CIDR on its network address. Example: `10.90.0.0/16`.
    #[schemars(length(max = 18), regex(pattern = schema::IPV4_CIDR))]
    pub cidr: String,

    /// Address inside a subnet or on a peering of the VPC. Example: `172.20.20.9`.
    #[serde(rename = "nextHopIP")]
    #[schemars(length(max = 15), regex(pattern = schema::IPV4))]
    pub next_hop_ip: String,
}

/// The way out of the VPC for its Proxmox-backed subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Egress {
    /// Whether there is an egress gateway. Default false. Needs a Proxmox-backed subnet and a zone
    /// with transit.
    #[serde(default)]
    pub enabled: bool,

    /// Gateway pods wanted, 1 to 10; never more than there are ready trunk nodes. Default 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<u32>,

    /// CIDR of an overlay subnet of the VPC for the gateway pods' inner leg. Leave it out unless
    /// there is a reason: with Cilium in front of the overlay, VM traffic to a `LoadBalancer` can
    /// be lost. Default: the oldest Proxmox-backed subnet of the zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18), regex(pattern = schema::IPV4_CIDR))]
    pub internal_cidr: Option<String>,
}

/// What the controller observed of a VPC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::own_status)]
pub struct VirtualPrivateCloudStatus {
    /// metadata.generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Name of the Kube-OVN Vpc and its router. Example: `vpc-4cf9df`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub router: Option<String>,

    /// Addresses on the links to peers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["peer"])
    )]
    pub peer_links: Vec<PeerLink>,

    /// Addresses by which the VPC's VMs appear outside; at most the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        inner(length(max = 15)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub egress_addresses: Vec<String>,

    /// `Ready`, and `EgressReady` and `PeeringReady` where asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,

    /// The subnets and where each stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub subnets: Vec<SubnetStatus>,
}

/// The addresses of one peering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerLink {
    /// The other VPC as namespace/name. Example: `tenant-b/other`.
    #[schemars(length(max = 107))]
    pub peer: String,

    /// This router's address on the link, with mask. Example: `169.254.7.1/30`.
    #[schemars(length(max = 18))]
    pub local: String,

    /// The other router's address on the link, with mask. Example: `169.254.7.2/30`.
    #[schemars(length(max = 18))]
    pub remote: String,
}

/// Where one subnet stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetStatus {
    /// Name in the VPC. Example: `workers`.
    #[schemars(length(max = 40))]
    pub name: String,

    /// Name of the objects made for it: `ProxmoxNetwork`, Kube-OVN Subnet, network attachment
    /// definition, pool. Example: `subnet-7bb6e3ad`.
    #[schemars(length(max = 63))]
    pub id: String,

    /// Its CIDR. Example: `172.20.10.0/24`.
    #[schemars(length(max = 18))]
    pub cidr: String,

    /// `Proxmox`: on a VLAN, VMs and pods. `Overlay`: pods only.
    pub backing: Backing,

    /// Whether it carries traffic.
    #[serde(default)]
    pub ready: bool,

    /// Why it is not ready, `Ready` if it is. Example: `ZoneExhausted`.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub reason: String,
}

/// What a subnet is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Backing {
    /// A VLAN of a zone: Proxmox VMs and pods.
    Proxmox,
    /// The cluster's overlay: pods only.
    Overlay,
}
