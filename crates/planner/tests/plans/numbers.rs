//! VLAN numbers: none is handed out twice, none is lost, and a full zone says so.

use std::time::Duration;

use causeway_planner::{
    conditions::{ConditionType, Reason},
    model::VpcKey,
    plan::{Kind, Target},
    vpc::known_vpcs,
};

use crate::{
    build,
    essence::assert_alike,
    random::Random,
    stories::{assert_quiet, reasons, vlans, with_vpc, with_zone},
    world::{Key, World},
};

/// Ten VPCs with twenty networks each.
fn two_hundred_networks(world: &mut World) -> Vec<VpcKey> {
    let keys: Vec<VpcKey> = (0..10)
        .map(|number| VpcKey::new("tenant-example", &format!("vpc{number}")))
        .collect();
    for key in &keys {
        let subnet = |n| build::network(&format!("n{n}"), &format!("10.0.{n}.0/24"));
        world.write_vpc(key, build::vpc((0..20).map(subnet).collect()));
    }
    keys
}

#[test]
fn a_zone_of_a_hundred_numbers_serves_a_hundred_of_two_hundred_networks() {
    let mut world = with_zone();
    world.seen.settings.cool_down = Duration::ZERO;
    let keys = two_hundred_networks(&mut world);
    world.settle();
    assert_quiet(&world);
    assert_eq!(
        reasons(&world.seen),
        [(Reason::Ready, 100), (Reason::ZoneExhausted, 100)].into()
    );
    assert_eq!(world.seen.vlans.len(), 100);
    let message = "zone \"default\" has no free VLAN (100 of 100 in use); the administrator can \
                   extend spec.vlans.ranges";
    let exhausted = world.seen.networks.values().filter(|seen| {
        let status = seen.status.as_ref().expect("a status");
        status
            .conditions
            .iter()
            .any(|c| c.message == message && c.kind == ConditionType::Ready)
    });
    assert_eq!(exhausted.count(), 100);

    let mut spec = world.seen.vpcs[&keys[0]].spec.clone();
    spec.subnets.remove(0);
    world.write_vpc(&keys[0], spec);
    world.settle();
    assert_eq!(
        reasons(&world.seen),
        [(Reason::Ready, 100), (Reason::ZoneExhausted, 99)].into(),
        "exactly one more"
    );
}

#[test]
fn controllers_that_plan_on_old_snapshots_never_hand_a_number_out_twice() {
    for seed in 0..5 {
        println!("seed {seed}");
        let mut random = Random::of(seed);
        let mut world = World::of_three_nodes();
        world.tolerates_released = true;
        world.seen.settings.cool_down = Duration::ZERO;
        world.create_zone("default", build::zone(&["200-205"]));
        world.settle();
        for number in 0..3 {
            let key = VpcKey::new("tenant-example", &format!("vpc{number}"));
            let subnet = |n| build::network(&format!("n{n}"), &format!("10.0.{n}.0/24"));
            world.write_vpc(&key, build::vpc((0..3).map(subnet).collect()));
        }
        let mut views = [world.seen.clone(), world.seen.clone()];
        for _ in 0..600 {
            let view = &mut views[random.below(2)];
            if random.once_in(8) {
                *view = world.seen.clone();
            }
            let keys = known_vpcs(view).into_iter().map(Key::Vpc);
            let keys: Vec<Key> = keys.chain([Key::Zone("default".into())]).collect();
            let key = &keys[random.below(keys.len())];
            world.run_stale(key, view);
            let reactions = world.reactions();
            if !reactions.is_empty() {
                world.react(&reactions[random.below(reactions.len())]);
            }
        }
        world.tolerates_released = false;
        world.settle();
        assert_quiet(&world);
        assert_eq!(
            reasons(&world.seen),
            [(Reason::Ready, 6), (Reason::ZoneExhausted, 3)].into(),
            "seed {seed}"
        );
        assert_eq!(world.seen.vlans.len(), 6);
    }
}

#[test]
fn in_every_order_of_creation_zones_that_overlap_never_offer_one_number_twice() {
    let ranges = [["200-209"], ["205-214"], ["212-220"]];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let mut world = World::of_three_nodes();
        for position in order {
            let name = format!("z{position}");
            world.create_zone(&name, build::zone(&ranges[position]));
            world.wait(1);
            world.settle();
            let subnets = (0..12).map(|n| {
                let mut subnet = build::network(&format!("n{n}"), &format!("10.0.{n}.0/24"));
                subnet.proxmox.get_or_insert_default().zone = Some(name.clone());
                subnet
            });
            let key = VpcKey::new("tenant-example", &name);
            world.write_vpc(&key, build::vpc(subnets.collect()));
            world.settle();
        }
        assert_quiet(&world);
        let mut numbers: Vec<_> = world.seen.vlans.values().map(|v| v.spec.vid).collect();
        let claims = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), claims, "{order:?}");
        let first = format!("z{}", order[0]).as_str().into();
        let status = world.seen.zones[&first].status.as_ref().expect("a status");
        assert_eq!(
            status.vlans_free, 0,
            "{order:?}: the first zone works: {status:?}"
        );
    }
}

#[test]
fn the_same_number_is_free_on_another_wire() {
    let mut world = World::new([("node-a", true), ("node-b", true)]);
    world.create_zone("default", build::zone(&["200"]));
    let mut other = build::zone(&["200"]);
    other.wire = Some("rack".to_owned());
    other.bridge = "vmbr2".to_owned();
    other.trunk.interface = "eth2".to_owned();
    world.create_zone("rack", other);
    let mut spec = build::vpc(vec![
        build::network("here", "10.0.0.0/24"),
        build::network("there", "10.0.1.0/24"),
    ]);
    spec.subnets[1].proxmox.get_or_insert_default().zone = Some("rack".to_owned());
    world.write_vpc(&build::main_key(), spec);
    world.settle();
    assert_eq!(reasons(&world.seen), [(Reason::Ready, 2)].into());
    assert_eq!(vlans(&world), ["pve-default-200", "pve-rack-200"]);
}

#[test]
fn a_number_of_a_vlan_that_somebody_else_made_is_not_handed_out() {
    let mut world = with_zone();
    let theirs = causeway_planner::snapshot::Seen {
        meta: world.seen.zones[&"default".into()].meta.clone(),
        spec: causeway_planner::model::KubeOvnVlan {
            vid: Some(200.try_into().expect("a number")),
            provider: "their-own".to_owned(),
            owner: None,
            released: None,
        },
        status: None,
    };
    world.seen.vlans.insert("theirs".to_owned(), theirs);
    world.write_vpc(&build::main_key(), build::main_vpc());
    world.settle();
    assert!(!vlans(&world).contains(&"pve-default-200"));
    assert_eq!(reasons(&world.seen), [(Reason::Ready, 3)].into());
}

#[test]
fn a_claim_deleted_by_hand_under_its_subnet_comes_back_with_its_number() {
    let mut world = with_vpc();
    let whole = world.clone();
    for name in ["pve-default-200", "pve-default-201"] {
        world.tolerates_lost_claims = true;
        world.delete_by_hand(&Target::cluster(Kind::Vlan, name));
        world.settle();
        world.tolerates_lost_claims = false;
        world.settle();
        assert_alike(&world.seen, &whole.seen, name);
    }
    // Kube-OVN lets no Subnet go whose Vlan is gone.
    world.tolerates_lost_claims = true;
    world.delete_by_hand(&Target::cluster(Kind::Vlan, "pve-default-200"));
    world.delete_vpc(&build::main_key());
    world.settle();
    world.wait(60);
    world.settle();
    assert_alike(&world.seen, &with_zone().seen, "after the end");
}

#[test]
fn a_record_taken_away_by_force_leaves_no_number_behind() {
    let mut world = with_zone();
    let mut spec = build::vpc(vec![build::network("workers", "172.20.10.0/24")]);
    world.write_vpc(&build::main_key(), spec.clone());
    let vpc = Key::Vpc(build::main_key());
    while world.seen.vlans.is_empty() {
        assert!(world.run(&vpc), "a claim is made");
    }
    world.seen.networks.clear();
    spec.subnets[0].name = "other".to_owned();
    world.write_vpc(&build::main_key(), spec);
    world.settle();
    world.wait(60);
    world.settle();
    let released = |world: &World, name: &str| world.seen.vlans[name].spec.released.is_some();
    assert!(released(&world, "pve-default-200"));
    assert!(!released(&world, "pve-default-201"));
    world.wait(60);
    world.settle();
    assert_eq!(vlans(&world), ["pve-default-201"]);
}
