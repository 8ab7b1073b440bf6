//! Objects as the tests write them. Used by stories and gateways.

use std::collections::BTreeMap;

use causeway_planner::{
    admit::{ProxmoxInput, RouteInput, SubnetInput, VlansInput, VpcInput, ZoneInput},
    model::{NodeName, Selector, Trunk, VpcKey},
    snapshot::NodeState,
};

/// The trunk nodes' label.
pub const TRUNK_LABEL: &str = "proxmox.cozystack.io/trunk";

/// A zone of wire `default` on bridge vmbr1, with these VLAN ranges.
pub fn zone(ranges: &[&str]) -> ZoneInput {
    ZoneInput {
        bridge: "vmbr1".to_owned(),
        vlans: VlansInput {
            ranges: ranges.iter().map(ToString::to_string).collect(),
            reserved: Vec::new(),
        },
        trunk: Trunk {
            interface: "eth1".to_owned(),
            exceptions: Vec::new(),
            node_selector: Selector {
                labels: BTreeMap::from([(TRUNK_LABEL.to_owned(), "true".to_owned())]),
                expressions: Vec::new(),
            },
        },
        ..ZoneInput::default()
    }
}

/// A node with its chassis `<name>-chassis`.
pub fn node(name: &str, has_trunk: bool) -> (NodeName, NodeState) {
    let labels = has_trunk.then(|| (TRUNK_LABEL.to_owned(), "true".to_owned()));
    let state = NodeState {
        addresses: Vec::new(),
        labels: labels.into_iter().collect(),
        chassis: Some(format!("{name}-chassis").into()),
        ready: true,
    };
    (name.into(), state)
}

/// A Proxmox-backed subnet.
pub fn network(name: &str, cidr: &str) -> SubnetInput {
    SubnetInput {
        name: name.to_owned(),
        cidr: cidr.to_owned(),
        proxmox: Some(ProxmoxInput::default()),
        allow_subnets: None,
    }
}

/// An overlay subnet that admits `allow`.
pub fn overlay(name: &str, cidr: &str, allow: &[&str]) -> SubnetInput {
    SubnetInput {
        name: name.to_owned(),
        cidr: cidr.to_owned(),
        proxmox: None,
        allow_subnets: Some(allow.iter().map(ToString::to_string).collect()),
    }
}

/// A VPC of these subnets.
pub fn vpc(subnets: Vec<SubnetInput>) -> VpcInput {
    VpcInput {
        subnets,
        ..VpcInput::default()
    }
}

/// Three networks and two overlay subnets, with a route.
pub fn main_vpc() -> VpcInput {
    VpcInput {
        subnets: vec![
            network("workers", "172.20.10.0/24"),
            network("data", "172.20.0.0/21"),
            network("tiny", "172.20.11.0/28"),
            overlay("pods", "172.20.20.0/24", &["172.20.10.0/24"]),
            overlay("closed", "172.20.21.0/24", &[]),
        ],
        routes: vec![RouteInput {
            cidr: "10.90.0.0/16".to_owned(),
            next_hop_ip: "172.20.20.9".to_owned(),
        }],
        ..VpcInput::default()
    }
}

/// The VPC of the source document.
pub fn main_key() -> VpcKey {
    VpcKey::new("tenant-example", "main")
}
