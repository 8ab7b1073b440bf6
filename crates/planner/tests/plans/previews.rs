//! What `causeway plan` says beforehand is what the world becomes.

use std::collections::BTreeSet;

use causeway_planner::{
    explain::Verb,
    model::{AddrRange, VpcKey, ZoneName},
    preview::{Number, SubnetPreview, VpcPreview, preview_vpcs, preview_zones},
    snapshot::{Seen, Snapshot},
};

use crate::{
    build,
    stories::{key, with_vpc, with_zone},
    world::World,
};

/// The world with a VPC's spec put in place, as if it had been applied.
fn laid(world: &World, key: &VpcKey, spec: causeway_planner::admit::VpcInput) -> Snapshot {
    let mut after = world.clone();
    after.write_vpc(key, spec);
    after.seen
}

fn preview(snapshot: &Snapshot, key: &VpcKey) -> VpcPreview {
    let mut previews = preview_vpcs(std::slice::from_ref(key), snapshot);
    previews.pop().expect("the VPC")
}

fn number(subnet: &SubnetPreview) -> Number {
    subnet.network.as_ref().expect("a network").vlan.clone()
}

fn verbs(subnet: &SubnetPreview) -> Vec<String> {
    let verb = |verb| match verb {
        Verb::Make => "make",
        Verb::Change => "change",
        Verb::Remove => "remove",
    };
    let deeds = subnet.deeds.iter();
    deeds
        .map(|deed| {
            format!(
                "{} {} {}",
                verb(deed.verb),
                deed.target.kind,
                deed.target.name
            )
        })
        .collect()
}

#[test]
fn a_previewed_vpc_becomes_what_the_preview_said() {
    let vpc = build::main_key();
    let mut world = with_zone();
    let preview = preview(&laid(&world, &vpc, build::main_vpc()), &vpc);
    assert_eq!(preview.router, Some(Verb::Make));
    assert!(preview.refused.is_none());

    world.write_vpc(&vpc, build::main_vpc());
    world.settle();
    assert_eq!(preview.subnets.len(), 5);
    for subnet in &preview.subnets {
        let made = &world.seen.subnets[subnet.id.as_str()];
        let made = made.spec.as_ref().expect("readable");
        let addresses = subnet.addresses.as_ref().expect("addresses");
        assert_eq!(
            (addresses.cidr, addresses.gateway),
            (made.cidr, made.gateway)
        );
        let Some(network) = &subnet.network else {
            assert_eq!(made.vlan, None, "{}", subnet.name);
            continue;
        };
        assert_eq!(
            (&network.excluded, network.mtu),
            (&made.exclude_ips, Some(made.mtu))
        );
        let status = world.seen.networks[&key(subnet.name.as_str())]
            .status
            .as_ref();
        let status = status.expect("a status");
        let vlan = status.vlan.expect("a VLAN");
        assert_eq!(network.vlan, Number::Proposed(vlan), "{}", subnet.name);
        assert_eq!(network.bridge, status.bridge);
        let range = addresses.machines.expect("a range");
        assert_eq!(range.len(), status.addresses.total, "{}", subnet.name);
        // Each made object is one that the preview named.
        let named: BTreeSet<String> = verbs(subnet).into_iter().collect();
        let id = &subnet.id;
        for object in [
            format!("make ProxmoxNetwork {id}"),
            format!("make Vlan pve-default-{vlan}"),
            format!("make NetworkAttachmentDefinition {id}"),
            format!("make Subnet {id}"),
            format!("make InClusterIPPool {id}"),
        ] {
            assert!(named.contains(&object), "{object} is not in {named:?}");
        }
    }
}

#[test]
fn addresses_of_a_subnet_are_each_somebodys_and_nobody_elses() {
    let vpc = build::main_key();
    let preview = preview(&laid(&with_zone(), &vpc, build::main_vpc()), &vpc);
    for subnet in &preview.subnets {
        let addresses = subnet.addresses.as_ref().expect("addresses");
        let pods: u64 = addresses.pods.iter().map(AddrRange::len).sum();
        let machines = addresses.machines.as_ref().map_or(0, AddrRange::len);
        let hosts = 2_u64.pow(32 - u32::from(addresses.cidr.prefix())) - 2;
        assert_eq!(pods + machines + 1, hosts, "{}", subnet.name);
    }
}

#[test]
fn a_preview_of_what_is_there_already_says_that_nothing_happens() {
    let vpc = build::main_key();
    let world = with_vpc();
    let preview = preview(&laid(&world, &vpc, build::main_vpc()), &vpc);
    assert_eq!(preview.router, None);
    for subnet in &preview.subnets {
        assert!(subnet.deeds.is_empty(), "{:?}", subnet.deeds);
        if subnet.network.is_some() {
            assert!(matches!(number(subnet), Number::Held(_)), "{}", subnet.name);
        }
    }
}

#[test]
fn a_preview_says_what_goes_and_who_keeps_it_from_going() {
    let vpc = build::main_key();
    let mut world = with_vpc();
    world.start_pod(&vpc.subnet_id(&"data".into()), "db");
    let mut spec = build::main_vpc();
    spec.subnets
        .retain(|subnet| !["data", "tiny"].contains(&subnet.name.as_str()));
    let preview = preview(&laid(&world, &vpc, spec), &vpc);
    let going: Vec<(&str, Option<&str>)> = preview
        .subnets
        .iter()
        .filter(|subnet| subnet.goes)
        .map(|subnet| (subnet.name.as_str(), subnet.held_by.as_deref()))
        .collect();
    let mut sorted = going.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [("data", Some("pod tenant-example/db")), ("tiny", None)]
    );
    let tiny = preview
        .subnets
        .iter()
        .find(|one| one.name.as_str() == "tiny");
    let id = vpc.subnet_id(&"tiny".into());
    assert_eq!(
        verbs(tiny.expect("tiny")),
        [
            "InClusterIPPool",
            "Subnet",
            "NetworkAttachmentDefinition",
            "ProxmoxNetwork"
        ]
        .map(|kind| format!("remove {kind} {id}"))
    );
}

#[test]
fn what_the_controller_would_refuse_is_not_previewed_as_done() {
    let vpc = build::main_key();
    let mut spec = build::main_vpc();
    spec.subnets[0].cidr = "172.20.40.0/24".to_owned();
    let preview = preview(&laid(&with_vpc(), &vpc, spec), &vpc);
    let refused = preview.refused.expect("a refusal");
    assert!(
        refused.message.contains("172.20.10.0/24"),
        "{}",
        refused.message
    );
    assert!(preview.subnets.is_empty());
}

#[test]
fn numbers_are_proposed_in_order_until_the_zone_is_exhausted() {
    let mut world = World::of_three_nodes();
    world.create_zone("default", build::zone(&["200-201"]));
    world.settle();
    let keys = [
        VpcKey::new("tenant-a", "one"),
        VpcKey::new("tenant-b", "two"),
    ];
    for key in &keys {
        let subnets = vec![
            build::network("a", "172.20.1.0/24"),
            build::network("b", "172.20.2.0/24"),
        ];
        world.write_vpc(key, build::vpc(subnets));
    }
    let previews = preview_vpcs(&keys, &world.seen);
    let numbers: Vec<String> = previews
        .iter()
        .flat_map(|vpc| &vpc.subnets)
        .map(|subnet| match number(subnet) {
            Number::Proposed(vid) => vid.to_string(),
            Number::Held(vid) => format!("held {vid}"),
            Number::Waits(why) => format!("{}: {}", why.reason, why.message),
        })
        .collect();
    let full = "ZoneExhausted: zone \"default\" has no free VLAN (2 of 2 in use); the administrator \
                can extend spec.vlans.ranges";
    assert_eq!(numbers, ["200", "201", full, full]);
    let waiting = &previews[1].subnets[0];
    assert_eq!(
        verbs(waiting),
        [format!("make ProxmoxNetwork {}", waiting.id)]
    );
}

#[test]
fn a_zone_is_previewed_with_its_trunk_and_its_figures() {
    let mut world = World::of_three_nodes();
    world.create_zone("default", build::zone(&["200-299"]));
    let names = [ZoneName::from("default")];
    let [zone] = &preview_zones(&names, &world.seen)[..] else {
        panic!("one zone");
    };
    assert_eq!(
        (zone.status.vlans_total, zone.status.trunk_nodes_total),
        (100, 2)
    );
    assert_eq!(zone.deeds[0].verb, Verb::Make);
    world.settle();
    let [zone] = &preview_zones(&names, &world.seen)[..] else {
        panic!("one zone");
    };
    assert!(zone.deeds.is_empty(), "{:?}", zone.deeds);
}

#[test]
fn a_preview_changes_nothing_of_what_it_looks_at() {
    let world = with_vpc();
    let before = world.seen.clone();
    let unknown = VpcKey::new("tenant-example", "none");
    assert!(preview_vpcs(&[unknown], &world.seen).is_empty());
    let Seen { spec, .. } = &world.seen.vpcs[&build::main_key()];
    preview(
        &laid(&world, &build::main_key(), spec.clone()),
        &build::main_key(),
    );
    assert_eq!(world.seen, before);
}
