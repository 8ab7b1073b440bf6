//! What wants a pass, in the order in which it gets one.
//!
//! Added by the caches' watches and by our own writes, taken by the controller and the nodes.

use causeway_drive::Name;

/// A key of the controller. Changes come first: they only add other keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// An object came, changed or went: wakes whatever depends on it.
    Changed(Change),
    /// Once: what is there from the start, and rows without an object.
    Start,
    Vlan(String),
    Network(String),
    Vpc(String),
    Subnet(String),
    Ip(String),
    Pod(Name),
}

/// Which object, and of what is gone already as much as its dependents are found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Change {
    Network(String),
    Vlan {
        name: String,
        network: String,
    },
    Vpc(String),
    Subnet {
        name: String,
        vpc: Option<String>,
    },
    Ip {
        name: String,
        subnet: Option<String>,
    },
    Attachment,
    Node(String),
    Pod {
        name: Name,
        node: Option<String>,
    },
}

/// A key of one node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum NodeKey {
    /// The bridge of a provider network.
    Trunk(String),
    /// A pod on the node.
    Pod(Name),
}
