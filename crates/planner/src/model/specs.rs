//! What tenants and administrators ask for, after admission: every value parsed, every rule of a
//! single object kept. Only [`crate::admit`] makes these.

use std::{collections::BTreeMap, net::Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::{
    addresses::{AddrRange, Cidr},
    names::{NodeName, SubnetName, VpcKey, Wire, ZoneName},
    vlans::VidRanges,
};

/// A VirtualPrivateCloud that keeps every rule of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VpcSpec {
    /// In the order written; names are unique.
    pub subnets: Vec<SubnetSpec>,
    /// VPCs that this one declares a peering with.
    pub peers: Vec<Peer>,
    /// Static routes, in the order written.
    pub routes: Vec<Route>,
    /// The way out.
    pub egress: EgressSpec,
}

/// One subnet of a VPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubnetSpec {
    /// DNS label, unique in the VPC.
    pub name: SubnetName,
    /// IPv4, on its network address.
    pub cidr: Cidr,
    /// First host address of the CIDR.
    pub gateway: Ipv4Addr,
    /// Proxmox-backed or overlay.
    pub backing: SubnetBacking,
}

/// What carries a subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubnetBacking {
    /// A VLAN of a zone.
    Proxmox {
        /// The zone that the tenant named, if any.
        zone: Option<ZoneName>,
        /// The VMs' addresses: as written, or the default of the address plan.
        vm_range: AddrRange,
    },
    /// Geneve only; private.
    Overlay {
        /// Who may reach it, as written.
        allow: Vec<Cidr>,
    },
}

/// A VPC that this one wants to peer with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The other VPC.
    pub vpc: VpcKey,
}

/// A static route of a VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination.
    pub cidr: Cidr,
    /// Next hop.
    pub next_hop: Ipv4Addr,
}

/// Whether and how a VPC reaches the outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressSpec {
    /// Asked for.
    pub enabled: bool,
    /// Gateway pods per zone; None: the default (2).
    pub replicas: Option<u32>,
    /// An overlay subnet that carries the gateway's inner leg.
    pub internal_cidr: Option<Cidr>,
}

/// A ProxmoxNetworkZone that keeps every rule of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSpec {
    /// The bridge on every Proxmox node.
    pub bridge: String,
    /// The layer-2 segment behind the trunk.
    pub wire: Wire,
    /// spec.vlans.ranges.
    pub ranges: VidRanges,
    /// spec.vlans.reserved.
    pub reserved: VidRanges,
    /// Bytes; what VMs and pods of the zone get.
    pub mtu: u32,
    /// The node side.
    pub trunk: Trunk,
    /// Chassis that may answer for a gateway: 1 to 5.
    pub max_chassis: u8,
    /// Protection of the gateway's address.
    pub anti_spoofing: AntiSpoofing,
    /// Networks that a namespace may have; None: no limit.
    pub max_networks_per_namespace: Option<u32>,
    /// VLAN of the transit network, if there is one.
    pub transit_vlan: Option<super::Vid>,
}

impl ZoneSpec {
    /// The numbers that the zone may hand out: ranges minus reserved.
    pub fn offered(&self) -> VidRanges {
        self.ranges.without(&self.reserved)
    }
}

/// The NICs that carry a zone's VLANs to the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trunk {
    /// Node NIC.
    pub interface: String,
    /// Nodes where the NIC has another name.
    #[serde(default)]
    pub exceptions: Vec<TrunkException>,
    /// matchLabels of the nodes that have the trunk.
    #[serde(default)]
    pub node_selector: Selector,
}

/// Nodes whose trunk NIC has another name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrunkException {
    /// Node NIC.
    pub interface: String,
    /// The nodes.
    pub nodes: Vec<NodeName>,
}

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// Labels that must have these values.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(default)]
    pub expressions: Vec<Requirement>,
}

/// One requirement of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// Label key.
    pub key: String,
    /// How it is compared.
    pub operator: SelectorOperator,
    /// Values for In and `NotIn`.
    #[serde(default)]
    pub values: Vec<String>,
}

/// Operators of metav1.LabelSelectorRequirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelectorOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

impl Selector {
    /// Whether nothing is asked for: selects everything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let equal = self
            .labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value));
        equal && self.expressions.iter().all(|one| one.matches(labels))
    }
}

impl Requirement {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            SelectorOperator::In => listed,
            SelectorOperator::NotIn => !listed,
            SelectorOperator::Exists => value.is_some(),
            SelectorOperator::DoesNotExist => value.is_none(),
        }
    }
}

/// Protection against VMs that take the gateway's or a pod's address (design 3.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum AntiSpoofing {
    /// None.
    Off,
    /// The gateway's address.
    #[default]
    Gateway,
    /// Every address outside the VM range.
    Addresses,
}
