//! VPCs that peer with each other have no address in common (design 2.2).
//!
//! Must stay true: only a mutual peering counts; a VPC cannot keep another from having a CIDR by
//! naming it.

use super::{FieldPath, PeerInput, Violation, VpcInput, rules::Broken, rules::ipv4_cidr};
use crate::{
    model::{Cidr, VpcKey},
    snapshot::Snapshot,
};

/// Subnets that a mutual peer has, too.
pub(super) fn peer_overlaps(key: &VpcKey, input: &VpcInput, snapshot: &Snapshot) -> Vec<Violation> {
    let mut broken = Broken::default();
    for (index, peer) in input.peers.iter().enumerate() {
        let other = VpcKey::new(&peer.tenant_namespace, &peer.vpc_name);
        let Some(theirs) = snapshot.vpcs.get(&other).map(|seen| &seen.spec) else {
            continue;
        };
        let names_us =
            |peer: &PeerInput| VpcKey::new(&peer.tenant_namespace, &peer.vpc_name) == *key;
        if other == *key || !theirs.peers.iter().any(names_us) {
            continue;
        }
        for (mine, my_cidr) in cidrs(input) {
            let shared = cidrs(theirs).find(|(_, their_cidr)| their_cidr.overlaps(&my_cidr));
            if let Some((their, their_cidr)) = shared {
                let message = format!(
                    "VPC {other} is a mutual peer, and its subnet \"{their}\" {their_cidr} overlaps \
                     subnet \"{mine}\" {my_cidr}; peers need disjoint subnets"
                );
                broken.refuse(&FieldPath::spec().field("peers").index(index), message);
            }
        }
    }
    broken.0
}

fn cidrs(input: &VpcInput) -> impl Iterator<Item = (&str, Cidr)> {
    let subnets = input.subnets.iter();
    subnets.filter_map(|one| Some((one.name.as_str(), ipv4_cidr(&one.cidr).ok()?.0)))
}
