//! Keys of labels, annotations and finalizers, ours and those of others that we read or write.
//!
//! Used by whoever builds or reads a Kubernetes object; the values' rules are the planner's names.
//! Must stay true: tenants and other tools select by these, so none is ever renamed.

/// Label: `virtualprivatecloud-<name of the VPC>`. On everything made for a VPC.
pub const VPC_NAME: &str = "cozystack.io/vpcName";
/// Label: name of the subnet in its VPC. On everything made for a subnet.
pub const SUBNET_NAME: &str = "cozystack.io/subnetName";
/// Label: id of the VPC, `vpc-4cf9df`.
pub const VPC_ID: &str = "cozystack.io/vpcId";
/// Label: the tenant's namespace.
pub const TENANT_NAME: &str = "cozystack.io/tenantName";
/// Label: who made the object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] on what causeway makes.
pub const CAUSEWAY: &str = "causeway";
/// Field manager of server-side apply.
pub const FIELD_MANAGER: &str = "causeway";

/// Annotation of a VLAN claim: uid of the `ProxmoxNetwork` that holds the number.
pub const OWNER_UID: &str = "proxmox.cozystack.io/owner-uid";
/// Annotation of a VLAN claim: when it was released, RFC 3339; it rests from then.
pub const RELEASED_AT: &str = "proxmox.cozystack.io/released-at";
/// Annotation of the Kube-OVN Vpc: the last planned spec, as JSON.
pub const PLANNED_SPEC: &str = "proxmox.cozystack.io/spec";
/// Annotation of a zone: its bridge is another segment than that of the same name elsewhere.
pub const SEPARATE_FABRIC: &str = "proxmox.cozystack.io/separate-fabric";
/// Finalizer: something still uses what this object carries.
pub const HOLD: &str = "proxmox.cozystack.io/hold";
/// Label that zones usually select trunk nodes by.
pub const TRUNK: &str = "proxmox.cozystack.io/trunk";

/// Kube-OVN, annotation of a Node: name of its chassis in OVN Southbound.
pub const CHASSIS: &str = "ovn.kubernetes.io/chassis";
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
