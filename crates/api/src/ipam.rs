//! Cluster API's in-cluster IPAM (`ipam.cluster.x-k8s.io/v1alpha2`): the pool that gives the
//! addresses of a VM range to machines.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pool of addresses for the machines of its namespace.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1alpha2",
    kind = "InClusterIPPool",
    plural = "inclusterippools",
    namespaced,
    category = "cluster-api",
    status = "InClusterIPPoolStatus",
    derive = "PartialEq",
    printcolumn(name = "Addresses", type_ = "string", json_path = ".spec.addresses"),
    printcolumn(
        name = "Total",
        type_ = "integer",
        json_path = ".status.ipAddresses.total"
    ),
    printcolumn(
        name = "Free",
        type_ = "integer",
        json_path = ".status.ipAddresses.free"
    ),
    printcolumn(
        name = "Used",
        type_ = "integer",
        json_path = ".status.ipAddresses.used"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_spec)]
pub struct InClusterIPPoolSpec {
    /// Addresses, ranges `a-b` and CIDRs.
    pub addresses: Vec<String>,
    /// Prefix length that machines configure.
    #[schemars(range(min = 0, max = 128))]
    pub prefix: u8,
    /// Gateway that machines configure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Addresses of these that are given to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excluded_addresses: Option<Vec<String>>,
    /// Whether network and broadcast address are given out too.
    #[serde(
        default,
        rename = "allocateReservedIPAddresses",
        skip_serializing_if = "Option::is_none"
    )]
    pub allocate_reserved_ip_addresses: Option<bool>,
}

/// What the pool's controller counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_status)]
pub struct InClusterIPPoolStatus {
    /// The counts; absent until the pool was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_addresses: Option<PoolCounts>,
}

/// How many addresses of a pool there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolCounts {
    /// Addresses left.
    pub free: i64,
    /// Addresses given out that the pool's ranges no longer contain.
    pub out_of_range: i64,
    /// Addresses in the pool.
    pub total: i64,
    /// Addresses given out.
    pub used: i64,
}
