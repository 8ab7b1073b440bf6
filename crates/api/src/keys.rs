//! Keys of labels, annotations and finalizers, ours and those of others that we read or write.
//!
//! Used by whoever builds or reads a Kubernetes object; the values' rules are the planner's names.
//! Must stay true: tenants and other tools select by these, so none is ever renamed.

pub use causeway_planner::model::objects::keys::*;

/// Field manager of server-side apply.
pub const FIELD_MANAGER: &str = "causeway";

/// Label that zones usually select trunk nodes by.
pub const TRUNK: &str = "proxmox.cozystack.io/trunk";

/// Kube-OVN, label of an IP object: name of its Subnet.
pub const IP_SUBNET: &str = "ovn.kubernetes.io/subnet";
/// Kube-OVN, label of an IP object: name of the node its pod runs on.
pub const IP_NODE: &str = "ovn.kubernetes.io/node-name";
/// Kube-OVN, finalizer of its own objects.
pub const KUBE_OVN_FINALIZER: &str = "kubeovn.io/kube-ovn-controller";
/// Multus, annotation of a Pod: secondary networks asked for.
pub const POD_NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Multus, annotation of a Pod: networks that it got.
pub const POD_NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Kube-OVN, label of a Node: the bridge of this provider network is up there (value `true`).
///
/// Without `ovn.` in it: the label that kube-ovn-cni writes, not the one its documentation prints.
pub fn provider_network_ready(provider_network: &str) -> String {
    format!("{provider_network}.provider-network.kubernetes.io/ready")
}

/// Kube-OVN, label of a Node: NIC that carries this provider network there.
pub fn provider_network_interface(provider_network: &str) -> String {
    format!("{provider_network}.provider-network.kubernetes.io/interface")
}

/// Kube-OVN, label of a Node: MTU of that NIC.
pub fn provider_network_mtu(provider_network: &str) -> String {
    format!("{provider_network}.provider-network.kubernetes.io/mtu")
}

/// Kube-OVN, label of a Node: the node takes no part in this provider network (value `true`).
pub fn provider_network_exclude(provider_network: &str) -> String {
    format!("{provider_network}.provider-network.kubernetes.io/exclude")
}

/// Kube-OVN, annotation of a Pod: what it asks of, or got on, the network of this provider, for
/// example `ip_address`, `logical_switch` or `routes`.
pub fn pod_annotation(provider: &str, what: &str) -> String {
    format!("{provider}.kubernetes.io/{what}")
}
