//! The keys that passes are made for, in the order in which due ones are taken.

use std::fmt;

use causeway_planner::model::{VpcKey, ZoneName};

/// What a pass is about. Northbound comes last, so that the rows of many networks go in one
/// transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A zone.
    Zone(ZoneName),
    /// A VPC.
    Vpc(VpcKey),
    /// The northbound rows of the site.
    Northbound,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zone(zone) => write!(f, "zone {zone}"),
            Self::Vpc(vpc) => write!(f, "vpc {vpc}"),
            Self::Northbound => f.write_str("northbound"),
        }
    }
}
