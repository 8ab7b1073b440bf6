//! `IP`: one address that Kube-OVN gave to a pod's interface or a node.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One address that Kube-OVN gave out. The definition has no status subresource.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "IP",
    plural = "ips",
    singular = "ip",
    shortname = "ip",
    derive = "PartialEq",
    printcolumn(name = "V4IP", type_ = "string", json_path = ".spec.v4IpAddress"),
    printcolumn(name = "V6IP", type_ = "string", json_path = ".spec.v6IpAddress"),
    printcolumn(name = "Mac", type_ = "string", json_path = ".spec.macAddress"),
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(name = "Subnet", type_ = "string", json_path = ".spec.subnet")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_spec)]
pub struct IPSpec {
    /// Pod that has the address; for a node's own address the node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    /// Namespace of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Subnet that the address is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Further subnets; empty in practice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach_subnets: Option<Vec<String>>,
    /// Node that the pod runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The address, or both joined by a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// The IPv4 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v4_ip_address: Option<String>,
    /// The IPv6 address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v6_ip_address: Option<String>,
    /// Further addresses; empty in practice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach_ips: Option<Vec<String>>,
    /// MAC of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// Further MACs; empty in practice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attach_macs: Option<Vec<String>>,
    /// Container that has the interface.
    #[serde(
        default,
        rename = "containerID",
        skip_serializing_if = "Option::is_none"
    )]
    pub container_id: Option<String>,
    /// Workload kind of the pod, empty for a plain one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_type: Option<String>,
}
