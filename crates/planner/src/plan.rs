//! A plan: the next safe writes, and what to report. Data, with no choice left to the executor.
//!
//! Steps are carried out in order; the first that fails ends the pass. After a pass that wrote
//! something the same key is planned again on the folded snapshot; statuses are written by a pass
//! that has no steps left, so that an object's status is written once a change and not once a step.

use std::fmt;

use serde::Serialize;

use crate::{
    model::{
        Attachment, KubeOvnSubnet, KubeOvnVpc, Namespace, NetworkRecord, Pool, ProviderNetwork,
        SubnetId, SubnetKey, Uid, Vid, VpcId, VpcKey, ZoneName, objects::Labels,
    },
    snapshot::{Meta, Mirror, Moment, NetworkStatus, Version, VpcStatus, ZoneStatus},
};

/// What one key needs now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Writes, in order.
    pub steps: Vec<Step>,
    /// Statuses that differ from what is written.
    pub statuses: Vec<StatusWrite>,
    /// What nothing announces: plan again then.
    pub wake_at: Option<Moment>,
}

impl Plan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.statuses.is_empty()
    }

    /// Plan again no later than this.
    pub fn wake_no_later(&mut self, moment: Moment) {
        self.wake_at = Some(self.wake_at.map_or(moment, |set| set.min(moment)));
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Step {
    /// Server-side apply of an object of ours; with `seen` where the snapshot has one, so that a
    /// deleted object is not made again by a stale plan.
    Apply {
        /// The object.
        wanted: Wanted,
        /// The version that the plan was made from.
        #[serde(skip_serializing_if = "Option::is_none")]
        seen: Option<Version>,
    },
    /// Create the claim of a VLAN number: never apply. `AlreadyExists` decides against us.
    Claim(Claim),
    /// Annotate a claim as released now; it rests until the zone deletes it.
    ReleaseClaim {
        /// Name of the Vlan.
        name: String,
        /// Version.
        seen: Version,
        /// The network whose Subnet must not name it.
        subnet: SubnetId,
    },
    /// Take the release of a claim back: a Subnet is on it. Two controllers at once can get there.
    KeepClaim {
        /// Name of the Vlan.
        name: String,
        /// Version.
        seen: Version,
    },
    /// Delete, if it is still the same object.
    Delete {
        /// What.
        target: Target,
        /// Version.
        seen: Version,
    },
    /// Put our finalizer on.
    Hold {
        /// What.
        target: Target,
        /// Version.
        seen: Version,
    },
    /// Take our finalizer off.
    LetGo {
        /// What.
        target: Target,
        /// Version.
        seen: Version,
    },
}

/// An object as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wanted {
    /// Kind, name and content.
    pub object: Object,
    /// Labels that it must have.
    pub labels: Labels,
    /// Annotations that it must have.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub annotations: Labels,
    /// Whether it carries our finalizer.
    pub held: bool,
}

/// Kinds that are applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Object {
    /// Kube-OVN `ProviderNetwork`.
    ProviderNetwork {
        /// Name.
        name: String,
        /// Content.
        spec: ProviderNetwork,
    },
    /// Kube-OVN `Vpc`.
    Vpc {
        /// Name.
        id: VpcId,
        /// Content.
        spec: KubeOvnVpc,
    },
    /// `ProxmoxNetwork`.
    Network {
        /// Namespace and name.
        key: SubnetKey,
        /// Content.
        spec: NetworkRecord,
    },
    /// `NetworkAttachmentDefinition`.
    Attachment {
        /// Namespace and name.
        key: SubnetKey,
        /// Content.
        spec: Attachment,
    },
    /// Kube-OVN `Subnet`.
    Subnet {
        /// Name.
        id: SubnetId,
        /// Content.
        spec: KubeOvnSubnet,
    },
    /// `InClusterIPPool`.
    Pool {
        /// Namespace and name.
        key: SubnetKey,
        /// Content.
        spec: Pool,
    },
}

/// The claim of a VLAN number for a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Name of the Vlan.
    pub name: String,
    /// The number.
    pub vid: Vid,
    /// Name of the `ProviderNetwork`.
    pub provider: String,
    /// uid of the `ProxmoxNetwork`.
    pub owner: Uid,
    /// Labels.
    pub labels: Labels,
}

/// Kinds that are deleted, held and let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// `ProxmoxNetworkZone`.
    Zone,
    /// `ProxmoxNetwork`.
    Network,
    /// Kube-OVN `ProviderNetwork`.
    ProviderNetwork,
    /// Kube-OVN `Vlan`.
    Vlan,
    /// Kube-OVN `Vpc`.
    Vpc,
    /// Kube-OVN `Subnet`.
    Subnet,
    /// `NetworkAttachmentDefinition`.
    Attachment,
    /// `InClusterIPPool`.
    Pool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zone => "ProxmoxNetworkZone",
            Self::Network => "ProxmoxNetwork",
            Self::ProviderNetwork => "ProviderNetwork",
            Self::Vlan => "Vlan",
            Self::Vpc => "Vpc",
            Self::Subnet => "Subnet",
            Self::Attachment => "NetworkAttachmentDefinition",
            Self::Pool => "InClusterIPPool",
        })
    }
}

/// An object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Target {
    /// Kind.
    pub kind: Kind,
    /// Namespace of a namespaced object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// Name.
    pub name: String,
}

impl Target {
    /// A cluster-scoped object.
    pub fn cluster(kind: Kind, name: &(impl ToString + ?Sized)) -> Self {
        Self {
            kind,
            namespace: None,
            name: name.to_string(),
        }
    }

    /// A namespaced object.
    pub fn namespaced(kind: Kind, key: &SubnetKey) -> Self {
        Self {
            kind,
            namespace: Some(key.namespace.clone()),
            name: key.id.to_string(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// A status to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusWrite {
    /// Of a zone.
    Zone(ZoneName, ZoneStatus),
    /// Of a VPC.
    Vpc(VpcKey, VpcStatus),
    /// Of a network.
    Network(SubnetKey, NetworkStatus),
}

/// The step that makes an object as wanted, if it is not.
pub fn ensure<T: PartialEq, S>(
    seen: Option<&Mirror<T, S>>,
    spec: &T,
    wanted: impl FnOnce() -> Wanted,
) -> Option<Step> {
    let wanted = wanted();
    let Some(seen) = seen else {
        return Some(Step::Apply { wanted, seen: None });
    };
    let as_wanted = seen.spec.as_ref() == Some(spec)
        && holds_all(&seen.meta.labels, &wanted.labels)
        && holds_all(&seen.meta.annotations, &wanted.annotations)
        && (seen.meta.held || !wanted.held);
    (!as_wanted && !seen.meta.deleting).then(|| Step::Apply {
        wanted,
        seen: Some(seen.meta.version.clone()),
    })
}

/// The next step of taking an object of ours away: delete it, then let it go.
pub fn remove(target: Target, meta: &Meta) -> Option<Step> {
    let seen = meta.version.clone();
    match (meta.deleting, meta.held) {
        (false, _) => Some(Step::Delete { target, seen }),
        (true, true) => Some(Step::LetGo { target, seen }),
        (true, false) => None,
    }
}

fn holds_all(has: &Labels, wanted: &Labels) -> bool {
    wanted
        .iter()
        .all(|(key, value)| has.get(key) == Some(value))
}
