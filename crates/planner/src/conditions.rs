//! Conditions and their reasons: one enum, so that statuses, messages, docs and `explain` agree
//! (design 2.4). Each condition states what was observed; True is good everywhere.

mod texts;

use std::fmt;

use serde::Deserialize;

pub use texts::{ReasonText, Remedy, Whose};

use crate::snapshot::Moment;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            /// Every one, in the order of the design's table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word as it stands in a status.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|word| word.as_str() == text)
                    .ok_or_else(|| UnknownWord(text.to_owned()))
            }
        }
    };
}

/// A condition type or reason that causeway does not write.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no condition type or reason of causeway")]
pub struct UnknownWord(String);

words! {
    /// Condition types.
    ConditionType {
        /// The zone is resolved, admits the namespace and works.
        ZoneReady,
        /// A claim on a VLAN number is held.
        VLANAllocated,
        /// Nodes carry the VLAN.
        TrunkReady,
        /// Kube-OVN has made the switch.
        SwitchReady,
        /// A healthy trunk node answers for the gateway.
        GatewayReady,
        /// Cluster API can take addresses.
        PoolReady,
        /// All of the above.
        Ready,
    }
}

words! {
    /// Reasons.
    Reason {
        /// All is well.
        Ready,
        /// The VLAN number is held.
        Allocated,
        /// Not looked at yet: something before it is missing.
        Pending,
        /// There is no zone.
        NoZone,
        /// The named zone does not exist.
        ZoneNotFound,
        /// Several zones admit the namespace and none was named.
        ZoneAmbiguous,
        /// The zone does not admit the namespace.
        NamespaceNotAdmitted,
        /// The zone itself is not Ready.
        ZoneNotReady,
        /// No VLAN number is free.
        ZoneExhausted,
        /// An earlier object of the same name, or its switch, is still going.
        PreviousSubnetTerminating,
        /// Another namespace, VPC or subnet owns the generated id.
        NameCollision,
        /// No node has the trunk.
        NoTrunkNodes,
        /// The trunk does not carry the VLAN.
        VLANNotCarried,
        /// Kube-OVN has not made the ProviderNetwork.
        WaitingForProviderNetwork,
        /// The VPC's router is not there.
        WaitingForVPC,
        /// Kube-OVN has not answered.
        WaitingForKubeOVN,
        /// Kube-OVN refuses the Subnet.
        KubeOVNRejected,
        /// kubeovn.io/v1 is not served.
        KubeOVNNotInstalled,
        /// k8s.cni.cncf.io/v1 is not served.
        MultusNotInstalled,
        /// The router has no port on the subnet.
        RouterPortMissing,
        /// The port has no gateway chassis.
        NoGatewayChassis,
        /// No healthy trunk node holds the gateway.
        NotClaimed,
        /// No connection to the OVN databases.
        OVNUnreachable,
        /// ipam.cluster.x-k8s.io is not served.
        IPAMNotInstalled,
        /// The pool is not as it should be.
        PoolRejected,
        /// Pods have addresses of the VM range.
        VMRangeBusy,
        /// Being removed, held by what still uses it.
        InUse,
        /// Being removed.
        Terminating,
        /// The spec breaks a rule.
        SpecRefused,
        /// A network is not Ready.
        NetworkNotReady,
        /// The zone's VLAN ranges, trunk or transit cannot be used.
        RangeInvalid,
        /// The zone contradicts an earlier zone of its wire.
        WireConflict,
        /// The zone's trunk NIC or bridge belongs to another wire.
        NICShared,
        /// The ProviderNetwork is not there.
        ProviderNetworkMissing,
    }
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Truth {
    /// Observed.
    True,
    /// Observed not to be.
    False,
    /// Cannot be looked at yet.
    Unknown,
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        })
    }
}

/// A condition of a status. `since` is kept while the status stays the same.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// Status.
    pub status: Truth,
    /// Reason.
    pub reason: Reason,
    /// What is wrong, the figures, and who can do what.
    #[serde(default)]
    pub message: String,
    /// Generation that it speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// When `status` last changed.
    #[serde(default)]
    pub since: Moment,
}

impl Condition {
    /// What it says.
    pub fn finding(&self) -> Finding {
        Finding {
            status: self.status,
            reason: self.reason,
            message: self.message.clone(),
        }
    }
}

/// What one condition should say, before it has a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Status.
    pub status: Truth,
    /// Reason.
    pub reason: Reason,
    /// Message.
    pub message: String,
}

impl Finding {
    /// Observed to be so.
    pub fn good(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: Truth::True,
            reason,
            message: message.into(),
        }
    }

    /// Observed not to be so.
    pub fn bad(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            status: Truth::False,
            reason,
            message: message.into(),
        }
    }

    /// Not to be looked at yet: waits for `what`.
    pub fn pending(what: impl fmt::Display) -> Self {
        Self {
            status: Truth::Unknown,
            reason: Reason::Pending,
            message: format!("waits for {what}"),
        }
    }

    /// Whether it is good.
    pub fn is_true(&self) -> bool {
        self.status == Truth::True
    }

    /// As a condition: `since` moves only when the status changes.
    pub fn into_condition(
        self,
        kind: ConditionType,
        earlier: &[Condition],
        generation: i64,
        now: Moment,
    ) -> Condition {
        let since = earlier
            .iter()
            .find(|old| old.kind == kind && old.status == self.status)
            .map_or(now, |old| old.since);
        Condition {
            kind,
            status: self.status,
            reason: self.reason,
            message: self.message,
            observed_generation: generation,
            since,
        }
    }
}
