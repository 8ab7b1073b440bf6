//! Names of things, and the ids that other tools rely on (design 2.2 "Names").
//!
//! Must stay true: an id is a pure function of the names it stands for, so that every process and
//! every restart arrives at the same one.

use std::fmt;

use hmac_sha256::Hash;
use serde::{Deserialize, Serialize};

macro_rules! string_newtypes {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

string_newtypes! {
    /// A Kubernetes namespace.
    Namespace;
    /// metadata.name of a VirtualPrivateCloud.
    VpcName;
    /// Name of a subnet within its VPC.
    SubnetName;
    /// Name of the Kube-OVN Vpc and of its logical router: `vpc-4cf9df`.
    VpcId;
    /// Name of the Kube-OVN Subnet, its switch, its attachment, pool and ProxmoxNetwork:
    /// `subnet-7bb6e3ad`.
    SubnetId;
    /// metadata.name of a ProxmoxNetworkZone.
    ZoneName;
    /// The layer-2 segment behind the trunk.
    Wire;
    /// metadata.name of a Node.
    NodeName;
    /// Name of an OVN chassis: its system-id.
    ChassisName;
    /// metadata.uid.
    Uid;
}

/// A VirtualPrivateCloud by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VpcKey {
    /// Namespace of the tenant.
    pub namespace: Namespace,
    /// metadata.name.
    pub name: VpcName,
}

impl VpcKey {
    /// A key from plain text.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Value of the label `cozystack.io/vpcName`: the platform's release name of the VPC.
    pub fn label(&self) -> String {
        format!("virtualprivatecloud-{}", self.name)
    }

    /// The VPC whose label `cozystack.io/vpcName` has this value.
    pub fn from_label(namespace: &str, label: &str) -> Option<Self> {
        let name = label.strip_prefix("virtualprivatecloud-")?;
        Some(Self::new(namespace, name))
    }

    /// `vpc-` and the first 6 hex digits of `sha256("<namespace>/virtualprivatecloud-<name>")`.
    pub fn id(&self) -> VpcId {
        VpcId(format!(
            "vpc-{}",
            hex_prefix(&format!("{}/{}", self.namespace, self.label()), 6)
        ))
    }

    /// `subnet-` and the first 8 hex digits of `sha256("<namespace>/<vpcId>/<subnet>")`.
    pub fn subnet_id(&self, subnet: &SubnetName) -> SubnetId {
        SubnetId(format!(
            "subnet-{}",
            hex_prefix(&format!("{}/{}/{subnet}", self.namespace, self.id()), 8)
        ))
    }
}

impl fmt::Display for VpcKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A namespaced object that is named by subnet id: ProxmoxNetwork, attachment, pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubnetKey {
    /// Namespace of the tenant.
    pub namespace: Namespace,
    /// Name of the object.
    pub id: SubnetId,
}

impl fmt::Display for SubnetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.id)
    }
}

impl From<SubnetKey> for String {
    fn from(key: SubnetKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for SubnetKey {
    type Error = NotAKey;

    fn try_from(text: String) -> Result<Self, NotAKey> {
        let (namespace, id) = text.split_once('/').ok_or_else(|| NotAKey(text.clone()))?;
        Ok(Self {
            namespace: namespace.into(),
            id: id.into(),
        })
    }
}

impl From<VpcKey> for String {
    fn from(key: VpcKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for VpcKey {
    type Error = NotAKey;

    fn try_from(text: String) -> Result<Self, NotAKey> {
        let (namespace, name) = text.split_once('/').ok_or_else(|| NotAKey(text.clone()))?;
        Ok(Self::new(namespace, name))
    }
}

/// A text that should have named a namespaced object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not namespace/name")]
pub struct NotAKey(String);

/// Longest ProviderNetwork name: its bridge `br-<name>` must fit an interface name (15).
const PROVIDER_NETWORK_NAME_MAX: usize = 12;

impl Wire {
    /// `pve-<wire>`, or `pve-` and 8 hex digits of sha256(wire) where that is longer than 12.
    pub fn provider_network(&self) -> String {
        let plain = format!("pve-{}", self.0);
        if plain.len() <= PROVIDER_NETWORK_NAME_MAX {
            plain
        } else {
            format!("pve-{}", hex_prefix(&self.0, 8))
        }
    }
}

impl VpcId {
    /// Name of the router's port on a subnet.
    pub fn router_port(&self, subnet: &SubnetId) -> String {
        format!("{}-{subnet}", self.0)
    }
}

impl SubnetId {
    /// Kube-OVN's provider of the attachment: `<subnetId>.<namespace>.ovn`.
    pub fn provider(&self, namespace: &Namespace) -> String {
        format!("{}.{namespace}.ovn", self.0)
    }
}

/// The first `digits` hex digits of sha256(text).
fn hex_prefix(text: &str, digits: usize) -> String {
    let hash = Hash::hash(text.as_bytes());
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
    let nibbles = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(digit).take(digits).collect()
}

/// A number for rendezvous hashing: the first eight bytes of `sha256("<a>/<b>")`.
pub fn rendezvous(a: &str, b: &str) -> u64 {
    let hash = Hash::hash(format!("{a}/{b}").as_bytes());
    hash.iter()
        .take(8)
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}
