//! `ProviderNetwork`: a bridge with the trunk NIC on each selected node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::KubeOvnCondition;
use crate::schema;

/// A bridge with a physical NIC on each selected node. At most 12 characters of name: it becomes
/// the bridge `br-<name>`.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "ProviderNetwork",
    plural = "provider-networks",
    singular = "provider-network",
    status = "ProviderNetworkStatus",
    derive = "PartialEq",
    printcolumn(
        name = "DefaultInterface",
        type_ = "string",
        json_path = ".spec.defaultInterface"
    ),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::foreign_spec)]
pub struct ProviderNetworkSpec {
    /// NIC on every selected node that no custom interface names.
    #[schemars(length(max = 15), regex(pattern = schema::INTERFACE))]
    pub default_interface: String,
    /// NICs of nodes where it has another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_interfaces: Option<Vec<CustomInterface>>,
    /// Nodes that get the bridge; omitted, all but the excluded ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::keyed_label_selector")]
    pub node_selector: Option<LabelSelector>,
    /// Nodes that do not; ignored with a selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_nodes: Option<Vec<String>>,
    /// Whether bridge and NIC swap names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_link_name: Option<bool>,
}

/// A NIC and the nodes where it carries the provider network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomInterface {
    /// The NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 15), regex(pattern = schema::INTERFACE))]
    pub interface: Option<String>,
    /// The nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<String>>,
}

/// What Kube-OVN reports of a provider network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::foreign_status)]
pub struct ProviderNetworkStatus {
    /// No selected node is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Nodes whose bridge is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_nodes: Option<Vec<String>>,
    /// Selected nodes whose bridge is not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready_nodes: Option<Vec<String>>,
    /// Names of the Vlan objects that the nodes' trunks carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlans: Option<Vec<String>>,
    /// `Ready` of each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<NodeCondition>>,
}

/// A condition of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The rest of it.
    #[serde(flatten)]
    pub condition: KubeOvnCondition,
}
