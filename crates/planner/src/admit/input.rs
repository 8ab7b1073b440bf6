//! Specs as people write them: the fields of design 2.1 and 2.2, unparsed. Serialised, a [`VpcInput`]
//! has exactly the shape of the object's `spec`.

use serde::{Deserialize, Serialize};

use crate::model::{AntiSpoofing, Selector};

/// spec of a VirtualPrivateCloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VpcInput {
    /// spec.subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<SubnetInput>,
    /// spec.peers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerInput>,
    /// spec.routes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteInput>,
    /// spec.egress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressInput>,
}

/// An element of spec.subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubnetInput {
    /// Name in the VPC.
    pub name: String,
    /// CIDR.
    pub cidr: String,
    /// There: Proxmox-backed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxmox: Option<ProxmoxInput>,
    /// Who may reach an overlay subnet; None and empty differ only in what was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_subnets: Option<Vec<String>>,
}

/// spec.subnets[].proxmox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxmoxInput {
    /// Name of a zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `a.b.c.d-a.b.c.e`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_range: Option<String>,
}

/// An element of spec.peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerInput {
    /// Namespace of the other VPC.
    pub tenant_namespace: String,
    /// Its name.
    pub vpc_name: String,
}

/// An element of spec.routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteInput {
    /// Destination.
    pub cidr: String,
    /// Next hop.
    #[serde(rename = "nextHopIP")]
    pub next_hop_ip: String,
}

/// spec.egress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EgressInput {
    /// Asked for.
    pub enabled: bool,
    /// Gateway pods per zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
    /// CIDR of an overlay subnet of the VPC.
    #[serde(rename = "internalCidr", skip_serializing_if = "Option::is_none")]
    pub internal_cidr: Option<String>,
}

/// spec of a ProxmoxNetworkZone, without the fields that this planner does not look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneInput {
    /// Bridge on every Proxmox node.
    pub bridge: String,
    /// The layer-2 segment; None: `default`.
    pub wire: Option<String>,
    /// VLAN numbers.
    pub vlans: VlansInput,
    /// Bytes; None: 1500.
    pub mtu: Option<u32>,
    /// The node side.
    pub trunk: TrunkInput,
    /// spec.gateway.maxChassis; None: 3.
    pub max_chassis: Option<u32>,
    /// spec.antiSpoofing.
    pub anti_spoofing: AntiSpoofing,
    /// Who may use it; None or empty: every tenant namespace.
    pub namespace_selector: Option<Selector>,
    /// 0 or None: no limit.
    pub max_networks_per_namespace: Option<u32>,
    /// The transit network.
    pub transit: Option<TransitInput>,
    /// Annotation `proxmox.cozystack.io/separate-fabric: "true"`.
    pub separate_fabric: bool,
}

/// spec.vlans of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VlansInput {
    /// `"200-299"`, `"310"`.
    pub ranges: Vec<String>,
    /// Never handed out.
    pub reserved: Vec<String>,
}

/// spec.trunk of a zone, in the planner's own words.
pub type TrunkInput = crate::model::Trunk;

/// spec.transit of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TransitInput {
    /// VLAN number, outside vlans.ranges.
    pub vlan: u32,
    /// CIDR.
    pub cidr: String,
    /// The administrator's transit router.
    pub gateway: String,
    /// `a.b.c.d-a.b.c.e`: egress gateway legs.
    pub addresses: String,
}
