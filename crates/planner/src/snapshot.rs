//! What was observed, in the planner's own words. `observe` fills it; nothing here decides.
//!
//! Must stay true: a snapshot holds every object of a kind or the kind is marked as not served or
//! not connected; a plan never takes "not in the snapshot" for "does not exist" otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    admit::{VpcInput, ZoneInput},
    conditions::Condition,
    model::{
        AddrRange, Attachment, ChassisName, Cidr, KubeOvnSubnet, KubeOvnVlan, KubeOvnVpc,
        Namespace, NetworkRecord, NodeName, Pool, ProviderNetwork, SubnetKey, Uid, VpcId, VpcKey,
        ZoneName,
        objects::{Labels, keys, vpc_owner},
    },
};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(pub i64);

impl Moment {
    /// This much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// Time gone by since `earlier`; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// How long a released VLAN number rests, unless a setting says otherwise: neighbours' ARP entries
/// live 30 to 60 s, and a new tenant must not hear traffic meant for the old one.
pub const COOL_DOWN: Duration = Duration::from_mins(1);

/// Settings of the installation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Namespaces that start with this are tenants' (design 9).
    pub tenant_prefix: String,
    /// Blocks that VPC subnets must lie in.
    pub vpc_cidrs: Vec<Cidr>,
    /// Addresses that VPC subnets must keep off besides those that are found: LoadBalancer pools,
    /// DNS and NTP servers.
    pub reserved_cidrs: Vec<Cidr>,
    /// MTU of overlay subnets in bytes.
    pub overlay_mtu: u32,
    /// How long a released VLAN number rests; [`COOL_DOWN`] by default.
    pub cool_down: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let block = |a, b, prefix| {
            ipnet::Ipv4Net::new(Ipv4Addr::new(a, b, 0, 0), prefix)
                .ok()
                .map(Cidr::from)
        };
        Self {
            tenant_prefix: "tenant-".to_owned(),
            vpc_cidrs: [
                block(10, 0, 8),
                block(172, 16, 12),
                block(192, 168, 16),
                block(100, 64, 10),
            ]
            .into_iter()
            .flatten()
            .collect(),
            reserved_cidrs: Vec::new(),
            overlay_mtu: 1400,
            cool_down: COOL_DOWN,
        }
    }
}

/// The uid and resourceVersion at which an object was seen: a write that names them fails if the
/// object has changed or is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    /// metadata.uid.
    pub uid: Uid,
    /// metadata.resourceVersion.
    pub resource_version: String,
}

/// The part of an object's metadata that decisions look at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Meta {
    /// uid and resourceVersion.
    #[serde(flatten)]
    pub version: Version,
    /// metadata.generation.
    #[serde(default)]
    pub generation: i64,
    /// metadata.creationTimestamp.
    #[serde(default)]
    pub created: Moment,
    /// Whether deletionTimestamp is set.
    #[serde(default)]
    pub deleting: bool,
    /// Whether our finalizer is on it.
    #[serde(default)]
    pub held: bool,
    /// metadata.labels.
    #[serde(default)]
    pub labels: Labels,
    /// Annotations whose keys decisions look at ([`keys`]); others may be left out.
    #[serde(default)]
    pub annotations: Labels,
}

impl Meta {
    /// Whether an object of a name of ours is another's than this VPC's. Labels name the owner;
    /// nobody else puts our finalizer on, so that labels lost by hand come back.
    pub fn is_of_another(&self, vpc: &VpcKey) -> bool {
        let other = vpc_owner(&self.labels).is_some_and(|owner| owner != *vpc);
        other || !(self.is_ours() || self.held)
    }

    /// Whether causeway made the object.
    pub fn is_ours(&self) -> bool {
        self.labels.get(keys::MANAGED_BY).map(String::as_str) == Some(keys::MANAGER)
    }
}

/// An observed object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Seen<T, S = ()> {
    /// Its metadata.
    pub meta: Meta,
    /// What it says, in the planner's words.
    pub spec: T,
    /// What was reported on it.
    #[serde(default = "none")]
    pub status: Option<S>,
}

fn none<S>() -> Option<S> {
    None
}

/// An object of a kind that causeway writes too, or an object of its own kind that cannot be read
/// in the planner's words (a foreign Subnet without CIDR): present, but never as wanted.
pub type Mirror<T, S = ()> = Seen<Option<T>, S>;

/// Status of a ProviderNetwork.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProviderNetworkState {
    /// status.readyNodes.
    pub ready_nodes: BTreeSet<NodeName>,
    /// status.notReadyNodes.
    pub not_ready_nodes: BTreeSet<NodeName>,
    /// status.vlans: names of the Vlans that it carries.
    pub vlans: BTreeSet<String>,
}

/// Status of a Vlan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VlanState {
    /// status.subnets: Subnets whose switch is on it. A name leaves only after the switch is gone.
    pub subnets: BTreeSet<String>,
    /// status.conflict: another Vlan of the provider has the number.
    pub conflict: bool,
}

/// Status of a Kube-OVN Vpc.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VpcState {
    /// status.standby: the router is there.
    pub standby: bool,
}

/// Status of a Kube-OVN Subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SubnetState {
    /// Status of condition Ready: None before it was written.
    pub ready: Option<bool>,
    /// Its message, else its reason.
    pub message: String,
    /// status.v4availableIPrange: what Kube-OVN may still give to pods. None before it was written.
    pub available: Option<Vec<AddrRange>>,
}

/// Status of an InClusterIPPool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PoolState {
    /// status.ipAddresses.total.
    pub total: u64,
    /// status.ipAddresses.used.
    pub used: u64,
    /// status.ipAddresses.free.
    pub free: u64,
}

/// Status of a ProxmoxNetwork, as written by an earlier pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NetworkStatus {
    /// Generation that the conditions speak of.
    pub observed_generation: i64,
    /// The network's VLAN.
    pub vlan: Option<crate::model::Vid>,
    /// Bridge on the Proxmox nodes.
    pub bridge: Option<String>,
    /// Bytes.
    pub mtu: Option<u32>,
    /// Name of the pool, once it exists.
    pub pool: Option<String>,
    /// Figures of the pool.
    pub addresses: PoolState,
    /// Nodes that may answer for the gateway, active first.
    pub gateway_chassis: Vec<GatewayNode>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A node that may answer for a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GatewayNode {
    /// The node.
    pub node: NodeName,
    /// Whether Southbound shows it holding the port.
    pub active: bool,
}

/// Status of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ZoneStatus {
    /// Generation that the conditions speak of.
    pub observed_generation: i64,
    /// Numbers that the zone offers.
    pub vlans_total: usize,
    /// Numbers held or resting.
    pub vlans_used: usize,
    /// Numbers left.
    pub vlans_free: usize,
    /// Numbers now reserved but still in use.
    pub held_back: Vec<crate::model::Vid>,
    /// Nodes that should have the trunk.
    pub trunk_nodes_total: usize,
    /// Nodes that have it.
    pub trunk_nodes_ready: usize,
    /// Names of the others, at most 50.
    pub trunk_nodes_not_ready: Vec<NodeName>,
    /// ProxmoxNetworks of the zone.
    pub networks: usize,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// Status of a VirtualPrivateCloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VpcStatus {
    /// Generation that the conditions speak of.
    pub observed_generation: i64,
    /// Name of the router: the vpcId.
    pub router: Option<String>,
    /// One entry a subnet.
    pub subnets: Vec<SubnetReport>,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A subnet in a VPC's status.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SubnetReport {
    /// Name in the VPC.
    pub name: String,
    /// subnetId.
    pub id: String,
    /// CIDR.
    pub cidr: String,
    /// Proxmox-backed or overlay.
    pub proxmox: bool,
    /// Whether it can be used.
    pub ready: bool,
    /// Reason of its Ready condition.
    pub reason: String,
}

/// A Kube-OVN IP object: an address that a pod or KubeVirt VM holds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct IpObject {
    /// spec.subnet.
    pub subnet: String,
    /// spec.namespace.
    pub namespace: String,
    /// spec.podName.
    pub pod: String,
    /// spec.v4IpAddress.
    pub address: Option<Ipv4Addr>,
}

/// An `IPAddressClaim`: a machine has, or waits for, an address of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AddressClaim {
    /// The pool.
    pub pool: SubnetKey,
    /// Kind and name of the object that asks: `ProxmoxMachine worker-1`.
    #[serde(default)]
    pub owner: Option<String>,
}

/// An `IPAddress`: an address of a pool that is given out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GivenAddress {
    /// The pool.
    pub pool: SubnetKey,
    /// Namespace and name of the claim: `tenant-a/worker-1`.
    pub claim: String,
    /// spec.address; None where it is no IPv4 address.
    #[serde(default)]
    pub address: Option<Ipv4Addr>,
}

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct NodeState {
    /// metadata.labels.
    #[serde(default)]
    pub labels: Labels,
    /// Annotation [`keys::CHASSIS`].
    #[serde(default)]
    pub chassis: Option<ChassisName>,
    /// Condition Ready.
    pub ready: bool,
    /// status.addresses, IPv4.
    #[serde(default)]
    pub addresses: Vec<Ipv4Addr>,
}

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NamespaceState {
    /// metadata.labels.
    #[serde(default)]
    pub labels: Labels,
}

/// Which foreign APIs the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServedKinds {
    /// kubeovn.io/v1.
    pub kube_ovn: bool,
    /// k8s.cni.cncf.io/v1.
    pub multus: bool,
    /// ipam.cluster.x-k8s.io/v1alpha2.
    pub ipam: bool,
}

impl Default for ServedKinds {
    fn default() -> Self {
        Self {
            kube_ovn: true,
            multus: true,
            ipam: true,
        }
    }
}

/// A row's uuid in a database; opaque.
pub type RowId = String;

/// What of the northbound database decisions look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Northbound {
    /// `NB_Global.nb_cfg`.
    pub nb_cfg: i64,
    /// `NB_Global`'s row.
    pub global: RowId,
    /// Names of the logical switches.
    pub switches: BTreeSet<String>,
    /// Logical router ports by name.
    pub ports: BTreeMap<String, RouterPort>,
    /// Router policies of a Subnet.
    pub policies: BTreeMap<RowId, RouterPolicy>,
}

impl Northbound {
    /// Whether a router policy of this Subnet is there.
    pub fn has_policy_of(&self, subnet: &str) -> bool {
        self.policies.values().any(|policy| policy.subnet == subnet)
    }
}

/// A router policy of a Subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RouterPolicy {
    /// `external_ids:subnet`.
    pub subnet: String,
    /// `external_ids:causeway-left-since`.
    pub left: Option<String>,
}

/// A logical router port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RouterPort {
    /// Its row.
    pub row: RowId,
    /// Its `Gateway_Chassis` rows, whoever wrote them.
    pub chassis: Vec<GatewayRow>,
    /// Its `external_ids`.
    pub external_ids: Labels,
}

/// A `Gateway_Chassis` row.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GatewayRow {
    /// Its row.
    pub row: RowId,
    /// `chassis_name`.
    pub chassis: ChassisName,
    /// `priority`.
    pub priority: i64,
    /// Whether `external_ids:causeway` is set.
    pub ours: bool,
}

/// What of the southbound database decisions look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Southbound {
    /// Chassis, with `Chassis_Private.nb_cfg`.
    pub chassis: BTreeMap<ChassisName, i64>,
    /// Chassis that holds `cr-<router port>`, by router port.
    pub claims: BTreeMap<String, ChassisName>,
}

/// Everything that decisions are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Settings of the installation.
    pub settings: Settings,
    /// Now.
    pub now: Moment,
    /// Foreign APIs.
    pub served: ServedKinds,
    /// ProxmoxNetworkZones.
    pub zones: BTreeMap<ZoneName, Seen<ZoneInput, ZoneStatus>>,
    /// VirtualPrivateClouds.
    pub vpcs: BTreeMap<VpcKey, Seen<VpcInput, VpcStatus>>,
    /// ProxmoxNetworks.
    pub networks: BTreeMap<SubnetKey, Mirror<NetworkRecord, NetworkStatus>>,
    /// ProviderNetworks.
    pub provider_networks: BTreeMap<String, Mirror<ProviderNetwork, ProviderNetworkState>>,
    /// Vlans, everybody's.
    pub vlans: BTreeMap<String, Seen<KubeOvnVlan, VlanState>>,
    /// Kube-OVN Vpcs.
    pub routers: BTreeMap<VpcId, Mirror<KubeOvnVpc, VpcState>>,
    /// Kube-OVN Subnets.
    pub subnets: BTreeMap<String, Mirror<KubeOvnSubnet, SubnetState>>,
    /// IPv4 CIDRs of the Subnets of Kube-OVN's default VPC: the site's own.
    pub site_subnets: BTreeMap<String, Cidr>,
    /// IPv4 CIDRs of the cluster's `ServiceCIDRs`.
    pub service_cidrs: BTreeMap<String, Vec<Cidr>>,
    /// NetworkAttachmentDefinitions.
    pub attachments: BTreeMap<SubnetKey, Mirror<Attachment>>,
    /// InClusterIPPools.
    pub pools: BTreeMap<SubnetKey, Mirror<Pool, PoolState>>,
    /// Kube-OVN IPs.
    pub ips: BTreeMap<String, IpObject>,
    /// `IPAddressClaims` of `InClusterIPPools`, by namespace and name.
    pub claims: BTreeMap<String, AddressClaim>,
    /// `IPAddresses` of `InClusterIPPools`, by namespace and name.
    pub addresses: BTreeMap<String, GivenAddress>,
    /// Nodes.
    pub nodes: BTreeMap<NodeName, NodeState>,
    /// Namespaces.
    pub namespaces: BTreeMap<Namespace, NamespaceState>,
    /// None while there is no connection.
    pub northbound: Option<Northbound>,
    /// None while there is no connection.
    pub southbound: Option<Southbound>,
}
