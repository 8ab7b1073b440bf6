//! Multus' `NetworkAttachmentDefinition` (`k8s.cni.cncf.io/v1`): the name by which pods ask for a
//! secondary network.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A secondary network that pods of its namespace may ask for. It has no status.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def",
    namespaced,
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_spec)]
pub struct NetworkAttachmentDefinitionSpec {
    /// CNI configuration as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}
