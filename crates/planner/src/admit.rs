//! The rules of design 2.1 and 2.2: what a tenant and an administrator may write.
//!
//! Called by the planner's own last look, by `causeway check` and (later) by the webhook, so that
//! all three say the same words. Inputs are as written; what passes comes out parsed
//! ([`crate::model::VpcSpec`], [`crate::model::ZoneSpec`]), so that nothing behind this door parses
//! again.

mod change;
mod choice;
mod conflict;
mod guard;
mod input;
mod peering;
mod reserved;
mod review;
mod rules;
mod vpc;
mod without_effect;
mod write;
mod zone;
mod zone_change;

use std::fmt;

pub use change::{must_drain, vpc_change, vpc_removals};
pub use choice::{ZoneRefusal, choose_zone, quota_refusal};
pub use conflict::{ZoneConflict, zone_conflict};
pub use guard::{SeenNetwork, guard_network};
pub use input::{
    EgressInput, PeerInput, ProxmoxInput, RouteInput, SubnetInput, TransitInput, TrunkInput,
    VlansInput, VpcInput, ZoneInput,
};
pub use review::{Remark, Subject, Weight, review};
pub use vpc::{ALLOW_SUBNETS_ON_NETWORK, admit_vpc, vpc_warnings};
pub use without_effect::{WITHOUT_EFFECT, WithoutEffect};
pub use write::{Reference, Verdict, Write, decide};
pub use zone::admit_zone;

/// A step of a field path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    /// Element of a list.
    Index(usize),
    /// Field of an object.
    Field(String),
}

/// Path of a field from the object's root: `spec.subnets[1].cidr`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<PathStep>);

impl FieldPath {
    /// `spec`.
    pub fn spec() -> Self {
        Self::default().field("spec")
    }

    /// The path of a field of what this path names.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(PathStep::Field(name.to_owned()));
        Self(steps)
    }

    /// The path of an element of the list that this path names.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(PathStep::Index(index));
        Self(steps)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Field(name) if position == 0 => f.write_str(name)?,
                PathStep::Field(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The field that breaks it.
    pub path: FieldPath,
    /// The offending value, the reason, and what would be accepted.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}
