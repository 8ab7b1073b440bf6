//! The values that decisions are made of. Parsed once, at the edge; what exists is legal.

pub mod addresses;
pub mod names;
pub mod objects;
pub mod specs;
pub mod vlans;

pub use addresses::{AddrRange, AddressPlan, Cidr};
pub use names::{
    ChassisName, Namespace, NodeName, SubnetId, SubnetKey, SubnetName, Uid, VpcId, VpcKey, VpcName,
    Wire, ZoneName,
};
pub use objects::{
    Attachment, KubeOvnSubnet, KubeOvnVlan, KubeOvnVpc, NetworkRecord, Pool, ProviderNetwork,
};
pub use specs::{
    AntiSpoofing, EgressSpec, Peer, Requirement, Route, Selector, SelectorOperator, SubnetBacking,
    SubnetSpec, Trunk, TrunkException, VpcSpec, ZoneSpec,
};
pub use vlans::{Vid, VidRanges};
