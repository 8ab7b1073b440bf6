//! The objects that causeway writes, as it means them. The controller renders them to Kubernetes
//! objects and reads them back into the same types, so that "as wanted" is plain equality.

use std::{collections::BTreeMap, net::Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::{
    addresses::{AddrRange, Cidr, canonical_excludes},
    names::{Namespace, SubnetName, Uid, VpcId, VpcName, ZoneName},
    specs::{Route, Trunk},
    vlans::Vid,
};
use crate::{admit::VpcInput, snapshot::Moment};

/// A Kube-OVN ProviderNetwork: the trunk of a wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderNetwork {
    /// NICs and nodes.
    pub trunk: Trunk,
}

/// A Kube-OVN Vlan. One of ours is a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeOvnVlan {
    /// spec.id; None where it is no number that a zone could hand out (0 and 1 exist).
    pub vid: Option<Vid>,
    /// Name of the ProviderNetwork.
    pub provider: String,
    /// Annotation [`keys::OWNER_UID`]: there on claims of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Uid>,
    /// Annotation [`keys::RELEASED_AT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Moment>,
}

/// A Kube-OVN Vpc: the VPC's router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeOvnVpc {
    /// spec.staticRoutes with policy policyDst.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Annotation [`keys::OWNER_UID`]: the `VirtualPrivateCloud` that the record is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Uid>,
    /// Annotation [`keys::SPEC`]: the last spec of the VPC that kept every rule. It is the desired
    /// state while networks are held (design 3.7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<VpcInput>,
}

/// A NetworkAttachmentDefinition of type kube-ovn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// `<subnetId>.<namespace>.ovn`, the same as the Subnet's.
    pub provider: String,
}

/// A Kube-OVN Subnet of a VPC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeOvnSubnet {
    /// The router it hangs on.
    pub vpc: VpcId,
    /// Name of the Vlan; None: overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<String>,
    /// spec.cidrBlock.
    pub cidr: Cidr,
    /// The router port's address.
    pub gateway: Ipv4Addr,
    /// Kube-OVN's canonical form.
    pub exclude_ips: Vec<String>,
    /// The attachment's provider.
    pub provider: String,
    /// Overlay subnets are private, VLAN subnets never.
    pub private: bool,
    /// Who may reach a private subnet.
    #[serde(default)]
    pub allow: Vec<Cidr>,
    /// Bytes.
    pub mtu: u32,
}

impl KubeOvnSubnet {
    /// The Subnet of a network on a VLAN, with what its pods keep off ([`network_excludes`]).
    pub fn of_network(
        record: &NetworkRecord,
        exclude_ips: Vec<String>,
        provider: String,
        vlan: String,
        mtu: u32,
    ) -> Self {
        Self {
            vpc: record.vpc_id.clone(),
            vlan: Some(vlan),
            cidr: record.cidr,
            gateway: record.gateway,
            exclude_ips,
            provider,
            private: false,
            allow: Vec::new(),
            mtu,
        }
    }

    /// An overlay Subnet.
    pub fn overlay(
        vpc: VpcId,
        cidr: Cidr,
        gateway: Ipv4Addr,
        provider: String,
        allow: Vec<Cidr>,
        mtu: u32,
    ) -> Self {
        Self {
            vpc,
            vlan: None,
            cidr,
            gateway,
            exclude_ips: network_excludes(gateway, &[]),
            provider,
            private: true,
            allow,
            mtu,
        }
    }
}

/// excludeIps of a Subnet: the gateway, and the ranges that pods keep off.
pub fn network_excludes(gateway: Ipv4Addr, off_pods: &[AddrRange]) -> Vec<String> {
    let ranges: Vec<AddrRange> = AddrRange::new(gateway, gateway)
        .into_iter()
        .chain(off_pods.iter().copied())
        .collect();
    canonical_excludes(&ranges)
}

/// The durable record of a network: ProxmoxNetwork.spec. Written once, except vmRange; the zone is
/// absent until resolved, then fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// The zone, once resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneName>,
    /// spec.vpc.name.
    pub vpc: VpcName,
    /// spec.vpc.id.
    pub vpc_id: VpcId,
    /// The subnet's name in the VPC.
    pub subnet: SubnetName,
    /// Its CIDR.
    pub cidr: Cidr,
    /// The router port's address.
    pub gateway: Ipv4Addr,
    /// The VMs' addresses.
    pub vm_range: AddrRange,
    /// Number of the network in its VPC by age, from 0: for route metrics.
    pub index: u32,
}

/// An InClusterIPPool: the VM range of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// spec.addresses, as written: one range.
    pub addresses: Vec<String>,
    /// Prefix length of the subnet.
    pub prefix: u8,
    /// The subnet's gateway.
    pub gateway: Ipv4Addr,
}

impl Pool {
    /// The pool of a network.
    pub fn of(record: &NetworkRecord) -> Self {
        Self {
            addresses: vec![record.vm_range.to_string()],
            prefix: record.cidr.prefix(),
            gateway: record.gateway,
        }
    }
}

/// Keys of the labels and annotations that causeway reads and writes.
pub mod keys {
    /// Label: release name of the VPC, `virtualprivatecloud-<name>`.
    pub const VPC_NAME: &str = "cozystack.io/vpcName";
    /// Label: name of the subnet in the VPC.
    pub const SUBNET_NAME: &str = "cozystack.io/subnetName";
    /// Label: `vpc-<6 hex>`.
    pub const VPC_ID: &str = "cozystack.io/vpcId";
    /// Label: namespace of the tenant.
    pub const TENANT_NAME: &str = "cozystack.io/tenantName";
    /// Label: who manages the object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// Its value on everything that causeway makes.
    pub const MANAGER: &str = "causeway";
    /// Annotation of a Vlan: uid of the ProxmoxNetwork that claims it; of a Kube-OVN Vpc: uid of the
    /// VirtualPrivateCloud that its record is of.
    pub const OWNER_UID: &str = "proxmox.cozystack.io/owner-uid";
    /// Annotation of a Vlan: when it was released, RFC 3339.
    pub const RELEASED_AT: &str = "proxmox.cozystack.io/released-at";
    /// Annotation of a Kube-OVN Vpc: the last planned spec of the VPC, JSON.
    pub const SPEC: &str = "proxmox.cozystack.io/spec";
    /// Our finalizer.
    pub const HOLD: &str = "proxmox.cozystack.io/hold";
    /// Annotation of a Node: name of its OVN chassis.
    pub const CHASSIS: &str = "ovn.kubernetes.io/chassis";
    /// Annotation of a zone: its bridge is another fabric than an equally named one.
    pub const SEPARATE_FABRIC: &str = "proxmox.cozystack.io/separate-fabric";
    /// Annotation: what guards the object lets go of it; its value is the object's uid.
    pub const ALLOW_DISRUPTION: &str = "proxmox.cozystack.io/allow-disruption";
    /// Annotations of a pool: the route metric of its gateway in a guest.
    pub const GATEWAY_METRIC: &str = "ipam.capmox.cluster.x-k8s.io/gateway-metric";
    /// The same, as Cluster API's in-cluster provider users write it.
    pub const METRIC: &str = "metric";
}

/// Labels, annotations and finalizers of an object.
pub type Labels = BTreeMap<String, String>;

/// Labels on everything made for a VPC, and for a subnet of it.
pub fn labels(namespace: &Namespace, vpc: &VpcName, subnet: Option<&SubnetName>) -> Labels {
    let key = super::VpcKey {
        namespace: namespace.clone(),
        name: vpc.clone(),
    };
    let mut labels = Labels::from([
        (keys::VPC_NAME.to_owned(), key.label()),
        (keys::VPC_ID.to_owned(), key.id().to_string()),
        (keys::TENANT_NAME.to_owned(), namespace.to_string()),
        (keys::MANAGED_BY.to_owned(), keys::MANAGER.to_owned()),
    ]);
    if let Some(subnet) = subnet {
        labels.insert(keys::SUBNET_NAME.to_owned(), subnet.to_string());
    }
    labels
}

/// The network whose labels these are: its VPC and its subnet's name.
pub fn owner(labels: &Labels) -> Option<(super::VpcKey, SubnetName)> {
    let key = vpc_owner(labels)?;
    let subnet = labels.get(keys::SUBNET_NAME)?;
    Some((key, subnet.as_str().into()))
}

/// The VPC whose labels these are.
pub fn vpc_owner(labels: &Labels) -> Option<super::VpcKey> {
    let tenant = labels.get(keys::TENANT_NAME)?;
    super::VpcKey::from_label(tenant, labels.get(keys::VPC_NAME)?)
}

/// Name of the claim of `vid` on a wire: `pve-<wire>-<vid>` (design 3.2).
pub fn claim_name(wire: &super::Wire, vid: Vid) -> String {
    format!("pve-{wire}-{vid}")
}
