//! Whole stories. Each ends quiet: planning again changes nothing.

use std::{collections::BTreeMap, time::Duration};

use causeway_planner::{
    admit::VpcInput,
    conditions::{ConditionType, Reason, Truth},
    model::{SubnetId, SubnetKey, VpcKey},
    northbound::DECISION,
    plan::{Kind, Target},
    snapshot::Snapshot,
};

use crate::{
    build,
    essence::assert_alike,
    random::Random,
    world::{Key, World},
};

pub fn id(subnet: &str) -> SubnetId {
    build::main_key().subnet_id(&subnet.into())
}

pub fn key(subnet: &str) -> SubnetKey {
    SubnetKey {
        namespace: "tenant-example".into(),
        id: id(subnet),
    }
}

pub fn with_zone() -> World {
    let mut world = World::of_three_nodes();
    world.create_zone("default", build::zone(&["200-299"]));
    world.settle();
    world
}

pub fn with_vpc() -> World {
    with_vpc_of(build::main_vpc())
}

fn with_vpc_of(spec: VpcInput) -> World {
    let mut world = with_zone();
    world.write_vpc(&build::main_key(), spec);
    world.settle();
    world
}

/// Reason of Ready of every network, counted.
pub fn reasons(snapshot: &Snapshot) -> BTreeMap<Reason, usize> {
    let mut counts = BTreeMap::new();
    for seen in snapshot.networks.values() {
        let status = seen.status.as_ref().expect("a status");
        let ready = status.conditions.last().expect("condition Ready");
        assert_eq!(ready.kind, ConditionType::Ready);
        *counts.entry(ready.reason).or_insert(0) += 1;
    }
    counts
}

fn vpc_ready(world: &World, key: &VpcKey) -> (Truth, Reason, String) {
    let status = world.seen.vpcs[key].status.as_ref().expect("a status");
    let ready = &status.conditions[0];
    (ready.status, ready.reason, ready.message.clone())
}

fn network_ready(world: &World, subnet: &str) -> (Reason, String) {
    let seen = &world.seen.networks[&key(subnet)];
    let status = seen.status.as_ref().expect("a status");
    let ready = status.conditions.last().expect("condition Ready");
    (ready.reason, ready.message.clone())
}

pub fn vlans(world: &World) -> Vec<&str> {
    world.seen.vlans.keys().map(String::as_str).collect()
}

pub fn assert_quiet(world: &World) {
    assert_eq!(world.pending(), Vec::<String>::new());
}

#[test]
fn a_vpc_comes_up_whole_whether_its_zone_was_there_first_or_not() {
    let zone_first = with_vpc();
    assert_eq!(reasons(&zone_first.seen), [(Reason::Ready, 3)].into());
    assert_eq!(vpc_ready(&zone_first, &build::main_key()).0, Truth::True);

    let mut vpc_first = World::of_three_nodes();
    vpc_first.write_vpc(&build::main_key(), build::main_vpc());
    vpc_first.settle();
    assert_eq!(reasons(&vpc_first.seen), [(Reason::NoZone, 3)].into());
    vpc_first.create_zone("default", build::zone(&["200-299"]));
    vpc_first.settle();
    assert_quiet(&vpc_first);
    assert_alike(&vpc_first.seen, &zone_first.seen, "zone last");
}

#[test]
fn every_order_of_events_ends_alike() {
    let (orderly, empty) = (with_vpc(), with_zone());
    for seed in 0..50 {
        println!("seed {seed}");
        let mut random = Random::of(seed);
        let mut world = World::of_three_nodes();
        world.create_zone("default", build::zone(&["200-299"]));
        world.write_vpc(&build::main_key(), build::main_vpc());
        world.settle_randomly(&mut random);
        assert_quiet(&world);
        let what = format!("seed {seed}");
        assert_alike(&world.seen, &orderly.seen, &what);
        world.delete_vpc(&build::main_key());
        world.settle_randomly(&mut random);
        world.wait(60);
        world.settle_randomly(&mut random);
        assert_alike(&world.seen, &empty.seen, &what);
    }
}

#[test]
fn a_controller_that_dies_after_any_write_ends_where_the_undisturbed_one_does() {
    let undisturbed = with_vpc();
    let empty = with_zone();
    let last_write = {
        let mut world = undisturbed.clone();
        world.delete_vpc(&build::main_key());
        world.settle();
        world.writes
    };
    assert!(last_write > 40, "{last_write} writes are no story");
    for write in 1..=last_write {
        let mut world = World::of_three_nodes();
        world.crash_after = Some(write);
        world.create_zone("default", build::zone(&["200-299"]));
        world.settle();
        world.write_vpc(&build::main_key(), build::main_vpc());
        world.settle();
        let what = format!("dead after write {write}");
        assert_alike(&world.seen, &undisturbed.seen, &what);
        world.delete_vpc(&build::main_key());
        world.settle();
        world.wait(60);
        world.settle();
        assert_alike(&world.seen, &empty.seen, &what);
    }
}

#[test]
fn a_subnet_that_leaves_the_spec_goes_and_the_others_stay() {
    let mut world = with_vpc();
    let mut spec = build::main_vpc();
    spec.subnets
        .retain(|subnet| !["data", "closed"].contains(&subnet.name.as_str()));
    world.write_vpc(&build::main_key(), spec);
    world.settle();
    assert_quiet(&world);
    for gone in ["data", "closed"] {
        let id = id(gone);
        assert!(!world.seen.subnets.contains_key(id.as_str()), "{gone}");
        assert!(!world.seen.attachments.contains_key(&key(gone)), "{gone}");
        assert!(!world.seen.networks.contains_key(&key(gone)), "{gone}");
    }
    assert_eq!(reasons(&world.seen), [(Reason::Ready, 2)].into());
    assert_eq!(vpc_ready(&world, &build::main_key()).0, Truth::True);
    let released = world
        .seen
        .vlans
        .values()
        .filter(|v| v.spec.released.is_some());
    assert_eq!(released.count(), 1);
}

#[test]
fn a_removed_vpc_leaves_nothing_but_resting_numbers_and_then_nothing() {
    let start = with_zone();
    let mut world = with_vpc();
    world.delete_vpc(&build::main_key());
    world.settle();
    assert_quiet(&world);
    assert_eq!(
        vlans(&world),
        ["pve-default-200", "pve-default-201", "pve-default-202"]
    );
    assert!(
        world
            .seen
            .vlans
            .values()
            .all(|vlan| vlan.spec.released.is_some())
    );
    assert_eq!(world.marked_ports(), 0);

    world.wait(59);
    world.settle();
    assert_eq!(
        vlans(&world).len(),
        3,
        "a number rests for the whole cool-down"
    );
    world.wait(1);
    world.settle();
    assert_alike(&world.seen, &start.seen, "after the cool-down");
}

#[test]
fn a_vpc_in_use_carries_on_until_the_last_address_is_gone() {
    let mut world = with_vpc();
    world.start_pod(&id("workers"), "web-0");
    world.machines.insert(key("data"), 2);
    world.start_pod(&id("pods"), "db-0");
    world.settle();
    let rows = world.northbound().ports["vpc-4cf9df-subnet-7bb6e3ad"]
        .chassis
        .clone();
    assert_eq!(rows.len(), 3);

    world.delete_vpc(&build::main_key());
    world.settle();
    assert_quiet(&world);
    assert_eq!(
        network_ready(&world, "workers"),
        (
            Reason::InUse,
            "held by 1 address in use: pod tenant-example/web-0".to_owned()
        )
    );
    assert_eq!(
        network_ready(&world, "data"),
        (
            Reason::InUse,
            "held by 2 addresses in use: 2 of InClusterIPPool \"subnet-23f8bcb1\"".to_owned()
        )
    );
    assert_eq!(world.seen.networks.len(), 2, "tiny is not used and goes");
    assert!(!world.seen.subnets.contains_key(id("closed").as_str()));
    assert!(world.seen.subnets.contains_key(id("pods").as_str()));
    let router = &world.seen.routers[&build::main_key().id()];
    assert!(!router.meta.deleting);
    assert_eq!(
        world.northbound().ports["vpc-4cf9df-subnet-7bb6e3ad"].chassis,
        rows
    );

    world.seen.ips.clear();
    world.settle();
    assert_eq!(world.seen.networks.len(), 1);
    assert_eq!(
        world.seen.routers.len(),
        1,
        "the router outlives the last subnet"
    );
    world.machines.clear();
    world.settle();
    world.wait(60);
    world.settle();
    assert_alike(&world.seen, &with_zone().seen, "after the end");
}

#[test]
fn a_vpc_made_again_while_its_networks_are_held_takes_them_over() {
    let mut world = with_vpc();
    world.start_pod(&id("workers"), "web-0");
    world.settle();
    let before = world.seen.networks[&key("workers")].clone();
    world.delete_vpc(&build::main_key());
    world.settle();
    assert_eq!(network_ready(&world, "workers").0, Reason::InUse);

    world.write_vpc(&build::main_key(), build::main_vpc());
    world.settle();
    assert_quiet(&world);
    assert_eq!(reasons(&world.seen), [(Reason::Ready, 3)].into());
    let after = &world.seen.networks[&key("workers")];
    assert_eq!(after.meta.version.uid, before.meta.version.uid);
    let vlan = |seen: &causeway_planner::snapshot::Mirror<
        _,
        causeway_planner::snapshot::NetworkStatus,
    >| { seen.status.as_ref().and_then(|status| status.vlan) };
    assert_eq!(vlan(after), vlan(&before));
}

#[test]
fn a_zone_in_use_is_held_and_goes_with_its_trunk_after_the_last_number_has_rested() {
    let mut world = with_vpc();
    let zone = Target::cluster(Kind::Zone, "default");
    world.delete_by_hand(&zone);
    world.settle();
    assert_quiet(&world);
    let status = world.seen.zones[&"default".into()]
        .status
        .clone()
        .expect("a status");
    let ready = &status.conditions[0];
    assert_eq!(ready.reason, Reason::InUse);
    assert_eq!(
        ready.message,
        "held by 3 networks of the zone: tenant-example/subnet-23f8bcb1, \
         tenant-example/subnet-503dfbc9, tenant-example/subnet-7bb6e3ad"
    );
    assert_eq!(
        reasons(&world.seen),
        [(Reason::Ready, 3)].into(),
        "they run on"
    );

    world.delete_vpc(&build::main_key());
    world.settle();
    assert_eq!(world.seen.zones.len(), 1, "numbers rest");
    world.wait(60);
    world.settle();
    assert!(world.seen.zones.is_empty());
    assert!(world.seen.provider_networks.is_empty());
    assert!(world.seen.vlans.is_empty());
}

#[test]
fn two_zones_on_one_wire_share_its_trunk_and_the_last_one_takes_it_along() {
    let mut world = World::of_three_nodes();
    world.create_zone("a", build::zone(&["200-201"]));
    world.create_zone("b", build::zone(&["300-301"]));
    world.settle();
    assert_eq!(world.seen.provider_networks.len(), 1);
    world.delete_by_hand(&Target::cluster(Kind::Zone, "a"));
    world.settle();
    assert_eq!(world.seen.zones.len(), 1);
    assert_eq!(world.seen.provider_networks.len(), 1);
    world.delete_by_hand(&Target::cluster(Kind::Zone, "b"));
    world.settle();
    assert!(world.seen.zones.is_empty() && world.seen.provider_networks.is_empty());
}

#[test]
fn whatever_is_deleted_by_hand_is_made_again() {
    let whole = with_vpc();
    let targets = [
        Target::cluster(Kind::Vpc, &build::main_key().id()),
        Target::cluster(Kind::Subnet, &id("workers")),
        Target::cluster(Kind::Subnet, &id("pods")),
        Target::namespaced(Kind::Attachment, &key("workers")),
        Target::namespaced(Kind::Attachment, &key("pods")),
        Target::namespaced(Kind::Pool, &key("workers")),
        Target::namespaced(Kind::Network, &key("tiny")),
    ];
    for target in targets {
        let mut world = with_vpc();
        world.seen.settings.cool_down = Duration::ZERO;
        world.delete_by_hand(&target);
        world.settle();
        assert_quiet(&world);
        assert_eq!(
            reasons(&world.seen),
            [(Reason::Ready, 3)].into(),
            "{target:?}"
        );
        let mut after = world.seen.clone();
        after.settings = with_zone().seen.settings;
        if target.kind == Kind::Vpc {
            continue; // Its networks are made anew, with other indexes and numbers.
        }
        if target.kind == Kind::Network {
            let index = after.networks[&key("tiny")]
                .spec
                .as_ref()
                .map(|spec| spec.index);
            assert_eq!(index, Some(2), "it was the youngest");
        }
        assert_alike(&after, &whole.seen, &format!("{target:?}"));
    }
}

#[test]
fn what_is_deleted_by_hand_while_it_is_used_stays_until_it_is_not() {
    let mut world = with_vpc();
    world.start_pod(&id("workers"), "web-0");
    let vpc = Target::cluster(Kind::Vpc, &build::main_key().id());
    let attachment = Target::namespaced(Kind::Attachment, &key("workers"));
    world.delete_by_hand(&vpc);
    world.delete_by_hand(&attachment);
    world.settle();
    assert_quiet(&world);
    assert!(world.meta(&vpc).is_some_and(|meta| meta.deleting));
    assert!(world.meta(&attachment).is_some_and(|meta| meta.deleting));
    let (truth, reason, message) = vpc_ready(&world, &build::main_key());
    assert_eq!((truth, reason), (Truth::False, Reason::WaitingForVPC));
    assert_eq!(
        message,
        "Vpc \"vpc-4cf9df\" was deleted; it is made again once no address of its subnets is in use"
    );

    world.seen.ips.clear();
    world.settle();
    assert_eq!(vpc_ready(&world, &build::main_key()).0, Truth::True);
    assert!(world.meta(&vpc).is_some_and(|meta| !meta.deleting));
}

#[test]
fn gateway_rows_survive_a_dead_node_and_follow_a_new_one() {
    let mut world = with_vpc();
    let port = "vpc-4cf9df-subnet-7bb6e3ad";
    let list = |world: &mut World| world.northbound().ports[port].external_ids[DECISION].clone();
    let before = list(&mut world);
    let active = world.southbound().claims[port].clone();
    let node = if active.as_str() == "node-a-chassis" {
        "node-a"
    } else {
        "node-b"
    };
    world.node(node).ready = false;
    world.dead.insert(active.clone());
    world.settle();
    assert_quiet(&world);
    assert_eq!(list(&mut world), before, "a dead chassis's row stays");
    assert_ne!(world.southbound().claims[port], active);
    assert_eq!(reasons(&world.seen), [(Reason::Ready, 3)].into());
}

/// The VPC with this VM range on `workers`.
fn main_vpc_with(vm_range: &str) -> VpcInput {
    let mut vpc = build::main_vpc();
    let proxmox = vpc.subnets[0].proxmox.as_mut().expect("a network");
    proxmox.vm_range = Some(vm_range.to_owned());
    vpc
}

fn pool(world: &World) -> Vec<String> {
    let pool = &world.seen.pools[&key("workers")];
    pool.spec.as_ref().expect("a spec").addresses.clone()
}

#[test]
fn a_vm_range_that_moves_never_gives_one_address_to_pods_and_machines() {
    for seed in 0..10 {
        println!("seed {seed}");
        let mut random = Random::of(seed);
        let mut world = with_vpc();
        for range in [
            "172.20.10.32-172.20.10.223",
            "172.20.10.100-172.20.10.120",
            "172.20.10.110-172.20.10.200",
            "172.20.10.2-172.20.10.9",
            "172.20.10.64-172.20.10.191",
        ] {
            world.write_vpc(&build::main_key(), main_vpc_with(range));
            world.settle_randomly(&mut random);
            assert_quiet(&world);
            assert_eq!(pool(&world), [range]);
            assert_eq!(network_ready(&world, "workers").0, Reason::Ready, "{range}");
        }
        assert_alike(
            &world.seen,
            &with_vpc_of(main_vpc_with("172.20.10.64-172.20.10.191")).seen,
            "back",
        );
    }
}

#[test]
fn a_vm_range_waits_for_a_pod_that_got_an_address_of_it_first() {
    let mut world = with_vpc();
    world.write_vpc(
        &build::main_key(),
        main_vpc_with("172.20.10.32-172.20.10.191"),
    );
    let vpc = Key::Vpc(build::main_key());
    while world.run(&vpc) {}
    // Asked to keep pods off, but Kube-OVN gave the address just before.
    world.start_pod(&id("workers"), "late");
    let ip = world.seen.ips.values_mut().next().expect("the pod's");
    ip.address = Some("172.20.10.40".parse().expect("an address"));
    world.settle();
    assert_quiet(&world);
    assert_eq!(network_ready(&world, "workers").0, Reason::VMRangeBusy);
    assert_eq!(pool(&world), ["172.20.10.64-172.20.10.191"]);

    world.seen.ips.clear();
    world.settle();
    assert_quiet(&world);
    assert_eq!(network_ready(&world, "workers").0, Reason::Ready);
    assert_eq!(pool(&world), ["172.20.10.32-172.20.10.191"]);
}

#[test]
fn what_kube_ovn_forgets_in_an_outage_is_removed_after_a_minute_and_the_network_ends() {
    let start = with_zone();
    let mut world = with_vpc();
    world.delete_vpc(&build::main_key());
    for _ in 0..3 {
        world.run(&Key::Vpc(build::main_key()));
    }
    let names: Vec<String> = world.seen.subnets.keys().cloned().collect();
    for name in &names {
        world.lose_subnet(name);
    }
    world.settle();
    assert_quiet(&world);
    assert_eq!(
        world.northbound().ports.len(),
        names.len(),
        "given a minute"
    );
    world.wait(59);
    world.settle();
    assert_eq!(world.northbound().ports.len(), names.len(), "a minute");
    world.wait(1);
    world.settle();
    assert_quiet(&world);
    assert!(world.northbound().ports.is_empty() && world.northbound().policies.is_empty());
    assert!(world.seen.networks.is_empty() && world.seen.routers.is_empty());
    world.wait(60);
    world.settle();
    assert_alike(&world.seen, &start.seen, "after the cool-down");

    world.forgotten.clear();
    world.write_vpc(&build::main_key(), build::main_vpc());
    world.settle();
    assert_alike(&world.seen, &with_vpc().seen, "the same networks again");
}

#[test]
fn a_vpc_made_again_with_another_cidr_waits_until_the_earlier_network_has_drained() {
    let mut world = with_vpc();
    world.machines.insert(key("workers"), 1);
    world.settle();
    world.delete_vpc(&build::main_key());
    world.settle();
    let mut other = build::main_vpc();
    other.subnets[0].cidr = "172.20.12.0/24".to_owned();
    other.subnets[3] = build::network("pods", "172.20.20.0/24");
    world.write_vpc(&build::main_key(), other.clone());
    world.settle();
    assert_quiet(&world);
    assert_eq!(network_ready(&world, "workers").0, Reason::InUse);
    let record = |world: &World| world.seen.networks[&key("workers")].spec.clone();
    let cidr = |world: &World| record(world).expect("a record").cidr.to_string();
    assert_eq!(cidr(&world), "172.20.10.0/24");
    let (truth, reason, message) = vpc_ready(&world, &build::main_key());
    assert_eq!((truth, reason), (Truth::False, Reason::NetworkNotReady));
    assert_eq!(
        message,
        "subnet-7bb6e3ad: InUse: held by 1 address in use: 1 of InClusterIPPool \"subnet-7bb6e3ad\""
    );

    world.machines.clear();
    world.settle();
    world.wait(60);
    world.settle();
    assert_quiet(&world);
    assert_eq!(cidr(&world), "172.20.12.0/24");
    assert_eq!(reasons(&world.seen), [(Reason::Ready, 4)].into());
    assert_eq!(vpc_ready(&world, &build::main_key()).0, Truth::True);

    // It is this VPC's network now: a change of it is refused.
    world.write_vpc(&build::main_key(), build::main_vpc());
    world.settle();
    assert_eq!(vpc_ready(&world, &build::main_key()).1, Reason::SpecRefused);
    assert_eq!(cidr(&world), "172.20.12.0/24");
}
