//! Cluster API's in-cluster IPAM (`ipam.cluster.x-k8s.io`): the pool that gives the addresses of a VM
//! range to machines, what asks for one, and what is given.

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

/// Asks for one address of a pool.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "IPAddressClaim",
    plural = "ipaddressclaims",
    namespaced,
    category = "cluster-api",
    status = "IPAddressClaimStatus",
    derive = "PartialEq",
    printcolumn(name = "Pool Name", type_ = "string", json_path = ".spec.poolRef.name"),
    printcolumn(name = "Pool Kind", type_ = "string", json_path = ".spec.poolRef.kind"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_spec)]
pub struct IPAddressClaimSpec {
    /// The cluster that it is for: nothing happens while that is absent or paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: Option<String>,
    /// Of which pool.
    pub pool_ref: PoolRef,
}

/// What the provider gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
// Not as a status of ours: the real definition has a default here.
#[schemars(transform = crate::schema::foreign_spec)]
pub struct IPAddressClaimStatus {
    /// The address; absent until there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_ref: Option<ObjectName>,
}

/// An address of a pool that is given out.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "ipam.cluster.x-k8s.io",
    version = "v1beta1",
    kind = "IPAddress",
    plural = "ipaddresses",
    namespaced,
    category = "cluster-api",
    derive = "PartialEq",
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address"),
    printcolumn(name = "Pool Name", type_ = "string", json_path = ".spec.poolRef.name"),
    printcolumn(name = "Pool Kind", type_ = "string", json_path = ".spec.poolRef.kind"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_spec)]
pub struct IPAddressSpec {
    /// The address.
    #[schemars(length(min = 1, max = 39))]
    pub address: String,
    /// Who asked for it.
    pub claim_ref: ObjectName,
    /// Gateway of the pool when it was given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 39))]
    pub gateway: Option<String>,
    /// The pool that it is of.
    pub pool_ref: PoolRef,
    /// Prefix length of the pool when it was given out.
    pub prefix: i64,
}

/// An object of the same namespace, of a kind that the field says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ObjectName {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// A pool of some provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PoolRef {
    /// Group of its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
}
