//! Cluster API's cluster, as far as the provider looks at it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cluster: claims that name it wait until it is there, and while it is paused.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Cluster",
    plural = "clusters",
    namespaced
)]
pub struct ClusterSpec {
    /// Whether controllers leave it, and what is of it, alone.
    #[serde(default)]
    pub paused: bool,
}
