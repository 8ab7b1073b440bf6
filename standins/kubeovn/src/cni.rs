//! What kube-ovn-cni does on a node, as a trait: the stand-in decides, the lab carries out.
//!
//! Called by the stand-in's node and pod handlers. Every method is idempotent: called again with
//! the same arguments it changes nothing and reports the same.

use std::{
    collections::BTreeSet,
    future::Future,
    net::{IpAddr, Ipv4Addr},
};

/// The machine part of kube-ovn-cni for all nodes of a site.
pub trait Cni: Send + Sync + 'static {
    /// Makes `br-<provider network>` on `node` with the trunk NIC as a port that carries exactly
    /// VLAN 0 and `trunk.vlans`, and the bridge and MAC mappings that ovn-controller needs.
    fn carry_trunk(
        &self,
        node: &str,
        trunk: &Trunk,
    ) -> impl Future<Output = Result<TrunkReport, CniError>> + Send;

    /// Removes that bridge and the mappings; fine if there is none.
    fn drop_trunk(
        &self,
        node: &str,
        provider_network: &str,
    ) -> impl Future<Output = Result<(), CniError>> + Send;

    /// Makes the pod's namespace on `node` if absent and plugs its interfaces into br-int with
    /// their iface-id, addresses, MTU and routes, as CNI ADD does.
    fn plug(&self, pod: &PodSandbox) -> impl Future<Output = Result<(), CniError>> + Send;

    /// Whether the node has the pod's namespace with its interfaces: since it was plugged, until it is
    /// unplugged or the node begins anew.
    fn is_plugged(&self, pod: &PodRef) -> impl Future<Output = Result<bool, CniError>> + Send;

    /// Takes the pod's interfaces and namespace away; fine if there is none.
    fn unplug(&self, pod: &PodRef) -> impl Future<Output = Result<(), CniError>> + Send;
}

/// A provider network as one node has to carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// Name of the ProviderNetwork, at most 12 characters: the bridge is `br-<name>`.
    pub provider_network: String,
    /// The node's NIC, from defaultInterface or customInterfaces.
    pub interface: String,
    /// Numbers of the Vlans in ProviderNetwork.status.vlans.
    pub vlans: BTreeSet<u16>,
}

/// What the node found when it carried a trunk: kube-ovn-cni writes it to the node's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkReport {
    /// MTU of the trunk NIC in bytes.
    pub mtu: u32,
}

/// A pod by namespace and name, and the node that runs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Node name.
    pub node: String,
    /// Pod namespace.
    pub namespace: String,
    /// Pod name.
    pub name: String,
}

/// A pod and all its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSandbox {
    /// Which pod.
    pub pod: PodRef,
    /// `eth0` first, then `net1`, `net2`, … in the order of the networks annotation.
    pub interfaces: Vec<PodInterface>,
}

/// One interface of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodInterface {
    /// Name inside the pod: `eth0`, `net1`, …
    pub name: String,
    /// The logical switch port's name, set as `external_ids:iface-id` on the OVS interface.
    pub port: String,
    /// MAC address, `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    /// Address.
    pub address: Ipv4Addr,
    /// Prefix length of the subnet.
    pub prefix: u8,
    /// Default gateway, on the interface that carries the default route (the primary one) only.
    pub default_gateway: Option<Ipv4Addr>,
    /// Routes from `<provider>.kubernetes.io/routes`.
    pub routes: Vec<Route>,
    /// MTU in bytes.
    pub mtu: u32,
}

/// A route of a pod interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination CIDR, `a.b.c.d/n`.
    pub dst: String,
    /// Next hop.
    pub via: IpAddr,
}

/// The machine refused.
#[derive(Debug, thiserror::Error)]
#[error("{action} on {node} failed")]
pub struct CniError {
    /// What was tried, in words.
    pub action: String,
    /// On which node.
    pub node: String,
    /// Why.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
