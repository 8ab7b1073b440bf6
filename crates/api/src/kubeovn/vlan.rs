//! `Vlan`: one VLAN number on a provider network. causeway's claim on a number is this object.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One VLAN number on a provider network. It has no finalizer: a deletion is immediate.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "kubeovn.io",
    version = "v1",
    kind = "Vlan",
    plural = "vlans",
    shortname = "vlan",
    status = "VlanStatus",
    derive = "PartialEq",
    printcolumn(name = "ID", type_ = "string", json_path = ".spec.id"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "conflict", type_ = "boolean", json_path = ".status.conflict")
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_spec)]
pub struct VlanSpec {
    /// The VLAN number; 0 is untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4095))]
    pub id: Option<u16>,
    /// Name of the `ProviderNetwork`.
    pub provider: String,
}

/// What Kube-OVN reports of a VLAN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = crate::schema::foreign_status)]
pub struct VlanStatus {
    /// Subnets on it. A name leaves as the last step of a Subnet's removal, when its switch is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<String>>,
    /// Another Vlan of the same provider has the same number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<bool>,
}
