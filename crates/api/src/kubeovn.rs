//! Kube-OVN's kinds (`kubeovn.io/v1`), as far as causeway and its stand-in read and write them.
//!
//! Field types, bounds and columns are those of Kube-OVN 1.15.10's own definitions.
//! Must stay true: whatever Kube-OVN writes can be read (it writes `null` for empty lists and
//! fractions for counters), and everything is optional that its definition does not require.

mod ip;
mod provider_network;
mod subnet;
mod vlan;
mod vpc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

pub use ip::{IP, IPSpec};
pub use provider_network::{
    CustomInterface, NodeCondition, ProviderNetwork, ProviderNetworkSpec, ProviderNetworkStatus,
};
pub use subnet::{Acl, NatMatch, NatRule, Subnet, SubnetSpec, SubnetStatus};
pub use vlan::{Vlan, VlanSpec, VlanStatus};
pub use vpc::{BfdPortStatus, PolicyRoute, StaticRoute, Vpc, VpcPeering, VpcSpec, VpcStatus};

/// A condition as Kube-OVN writes it: not `metav1.Condition`, nothing in it is required, and
/// `observedGeneration` is never set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeOvnCondition {
    /// `Ready`, `Validated` or `Error`. Kube-OVN never clears `Error`: only `Ready` tells.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// One word, for example `ResetLogicalSwitchAclSuccess`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Kube-OVN's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was last written, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<String>,
    /// When its status last changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
}

/// The condition of this type.
pub fn condition<'a>(
    conditions: Option<&'a [KubeOvnCondition]>,
    type_: &str,
) -> Option<&'a KubeOvnCondition> {
    conditions?
        .iter()
        .find(|condition| condition.type_.as_deref() == Some(type_))
}

/// Reads a counter that Kube-OVN writes as a floating-point number (1.15) or as an integer of any
/// size (later): what does not fit is the largest number, fractions are cut off.
fn counter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Option::<serde_json::Number>::deserialize(deserializer)?;
    Ok(number.and_then(|number| number.as_u64().or_else(|| number.as_f64().map(saturate))))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating is what is wanted: an IPv6 subnet has more addresses than fit"
)]
fn saturate(number: f64) -> u64 {
    number as u64
}
