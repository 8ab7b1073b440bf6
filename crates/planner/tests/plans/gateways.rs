//! The gateway rows of one VPC, move by move. The world refuses every transaction that would
//! black-hole the VLAN on the real system.

use std::collections::BTreeMap;

use causeway_planner::{
    conditions::{ConditionType, Reason},
    northbound::{CONFIRMATION_WAIT, DECISION, NorthboundPlan, OWNER, PENDING, plan_northbound},
    snapshot::{GatewayRow, RouterPort, Snapshot},
};

use crate::{
    build,
    world::{Key, Reaction, World},
};

const WORKERS: &str = "vpc-4cf9df-subnet-7bb6e3ad";
const DATA: &str = "vpc-4cf9df-subnet-23f8bcb1";

/// A VPC with the networks `workers` and `data`, up and quiet.
fn site(nodes: impl IntoIterator<Item = (&'static str, bool)>) -> World {
    let mut world = World::new(nodes);
    world.create_zone("default", build::zone(&["200-299"]));
    world.write_vpc(
        &build::main_key(),
        build::vpc(vec![
            build::network("workers", "172.20.10.0/24"),
            build::network("data", "172.20.11.0/24"),
        ]),
    );
    world.settle();
    world
}

fn three_nodes() -> World {
    site([("a", true), ("b", true), ("w", false)])
}

/// The rows of a port: `a=100 b=99`, highest first.
fn rows(world: &mut World, port: &str) -> String {
    let mut rows = world.northbound().ports[port].chassis.clone();
    rows.sort_by_key(|row| -row.priority);
    let shown = rows.iter().map(|row| {
        let name = row.chassis.as_str();
        let name = name.strip_suffix("-chassis").unwrap_or(name);
        format!("{name}={}", row.priority)
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A plan by port: `-2 +a=100 +b=99`; raising nb_cfg is `sync`.
fn shown(plan: &NorthboundPlan) -> BTreeMap<String, String> {
    let ports = plan.ports.iter().map(|change| {
        let mut words = Vec::new();
        if !change.remove.is_empty() {
            words.push(format!("-{}", change.remove.len()));
        }
        let mut inserts: Vec<_> = change.insert.iter().collect();
        inserts.sort_by_key(|(_, rank)| -**rank);
        words.extend(inserts.iter().map(|(chassis, rank)| {
            let name = chassis.as_str().trim_end_matches("-chassis");
            format!("+{name}={rank}")
        }));
        (change.port.clone(), words.join(" "))
    });
    let sync = plan
        .raise_nb_cfg
        .then(|| ("sync".to_owned(), String::new()));
    ports.chain(sync).collect()
}

fn planned(snapshot: &Snapshot) -> BTreeMap<String, String> {
    shown(&plan_northbound(snapshot))
}

fn expected<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    let owned = entries.map(|(port, change)| (port.to_owned(), change.to_owned()));
    owned.into()
}

/// Takes rows off a port by hand.
fn take_off(world: &mut World, port: &str, nodes: &[&str]) {
    let port = world.northbound().ports.get_mut(port).expect("the port");
    port.chassis.retain(|row| {
        let name = row.chassis.as_str().trim_end_matches("-chassis");
        !nodes.contains(&name)
    });
}

/// One pass over the gateway rows.
fn pass(world: &mut World) {
    assert!(world.run(&Key::Northbound), "something to write");
}

#[test]
fn all_networks_of_a_vpc_in_a_zone_have_one_list_whose_top_holds_the_port() {
    let mut world = three_nodes();
    let list = rows(&mut world, WORKERS);
    assert!(
        ["a=100 b=99 w=50", "b=100 a=99 w=50"].contains(&list.as_str()),
        "{list}"
    );
    assert_eq!(rows(&mut world, DATA), list);
    let claims = &world.southbound().claims;
    assert_eq!(claims[WORKERS], claims[DATA]);
    let marks = &world.northbound().ports[WORKERS].external_ids;
    assert_eq!(marks[OWNER], "subnet-7bb6e3ad");
    assert!(!marks.contains_key(PENDING));
}

#[test]
fn a_network_added_later_gets_the_list_that_the_others_have() {
    // With only `b` on the trunk first, the list is another than hashing alone would give.
    let mut world = site([("a", false), ("b", true), ("w", false)]);
    assert_eq!(rows(&mut world, WORKERS).split(' ').next(), Some("b=100"));
    let label = (build::TRUNK_LABEL.to_owned(), "true".to_owned());
    world.node("a").labels.extend([label]);
    let provider = world
        .seen
        .provider_networks
        .get_mut("pve-default")
        .expect("the trunk");
    provider
        .status
        .get_or_insert_default()
        .ready_nodes
        .insert("a".into());
    let ready = "pve-default.provider-network.kubernetes.io/ready".to_owned();
    world.node("a").labels.insert(ready, "true".to_owned());
    world.settle();
    let list = rows(&mut world, WORKERS);
    assert!(list.starts_with("b=100 a=99"), "{list}");

    let mut spec = world.seen.vpcs[&build::main_key()].spec.clone();
    spec.subnets.push(build::network("more", "172.20.12.0/24"));
    world.write_vpc(&build::main_key(), spec);
    world.settle();
    let more = build::main_key()
        .id()
        .router_port(&build::main_key().subnet_id(&"more".into()));
    assert_eq!(rows(&mut world, &more), list);
}

#[test]
fn a_new_trunk_node_is_a_plain_insert_below_the_others() {
    let mut world = three_nodes();
    let before = rows(&mut world, WORKERS);
    let (name, mut state) = build::node("c", true);
    let ready = "pve-default.provider-network.kubernetes.io/ready".to_owned();
    state.labels.insert(ready, "true".to_owned());
    world.seen.nodes.insert(name.clone(), state);
    world.southbound().chassis.insert("c-chassis".into(), 1);
    let provider = world
        .seen
        .provider_networks
        .get_mut("pve-default")
        .expect("the trunk");
    provider
        .status
        .get_or_insert_default()
        .ready_nodes
        .insert(name);
    assert_eq!(
        planned(&world.seen),
        expected([(WORKERS, "+c=98"), (DATA, "+c=98")])
    );
    pass(&mut world);
    assert_eq!(
        rows(&mut world, WORKERS),
        before.replace("w=50", "c=98 w=50")
    );
    assert_eq!(planned(&world.seen), expected([]));
}

#[test]
fn a_row_removed_by_hand_takes_all_off_and_they_come_back_when_confirmed() {
    for gone in ["a", "b", "w"] {
        let mut world = three_nodes();
        let list = rows(&mut world, WORKERS);
        take_off(&mut world, WORKERS, &[gone]);
        assert_eq!(
            planned(&world.seen),
            expected([(WORKERS, "-2"), ("sync", "")]),
            "{gone}"
        );
        let before = world.northbound().nb_cfg;
        pass(&mut world);
        assert_eq!(world.northbound().nb_cfg, before + 1);
        assert_eq!(rows(&mut world, WORKERS), "");
        assert_eq!(
            rows(&mut world, DATA),
            list,
            "the other port keeps its rows"
        );

        let waiting = plan_northbound(&world.seen);
        assert!(waiting.is_empty());
        assert_eq!(
            waiting.wake_at,
            Some(world.seen.now.after(CONFIRMATION_WAIT))
        );
        for chassis in ["a", "b"] {
            world.react(&Reaction::Confirm(
                format!("{chassis}-chassis").as_str().into(),
            ));
            assert!(planned(&world.seen).is_empty(), "not all have confirmed");
        }
        world.react(&Reaction::Confirm("w-chassis".into()));
        pass(&mut world);
        assert_eq!(rows(&mut world, WORKERS), list);
        let marks = &world.northbound().ports[WORKERS].external_ids;
        assert!(!marks.contains_key(PENDING));
        world.settle();
    }
}

#[test]
fn a_chassis_that_never_confirms_is_waited_for_two_seconds() {
    let mut world = three_nodes();
    let list = rows(&mut world, WORKERS);
    take_off(&mut world, WORKERS, &["a"]);
    world.dead.insert("b-chassis".into());
    pass(&mut world);
    world.react(&Reaction::Confirm("a-chassis".into()));
    world.react(&Reaction::Confirm("w-chassis".into()));
    let off = world.seen.now;
    world.seen.now = off.after(std::time::Duration::from_millis(1999));
    assert!(planned(&world.seen).is_empty());
    world.seen.now = off.after(CONFIRMATION_WAIT);
    pass(&mut world);
    assert_eq!(rows(&mut world, WORKERS), list);
}

#[test]
fn a_clock_that_was_set_back_keeps_no_gateway_silent() {
    let mut world = three_nodes();
    take_off(&mut world, WORKERS, &["a"]);
    pass(&mut world);
    world.seen.now.0 -= 3_600_000;
    pass(&mut world);
    assert_ne!(rows(&mut world, WORKERS), "");
}

#[test]
fn a_controller_that_died_between_the_halves_is_followed_by_one_that_writes_the_second() {
    let mut world = three_nodes();
    let list = rows(&mut world, WORKERS);
    take_off(&mut world, WORKERS, &["b"]);
    pass(&mut world);
    // The next one knows only what stands in the database, an hour later.
    world.dead.insert("w-chassis".into());
    world.wait(3600);
    pass(&mut world);
    assert_eq!(rows(&mut world, WORKERS), list);
}

#[test]
fn rows_that_are_all_gone_are_written_at_once() {
    let mut world = three_nodes();
    let list = rows(&mut world, WORKERS);
    take_off(&mut world, WORKERS, &["a", "b", "w"]);
    let plan = plan_northbound(&world.seen);
    assert!(!plan.raise_nb_cfg);
    assert_eq!(plan.ports.len(), 1);
    pass(&mut world);
    assert_eq!(rows(&mut world, WORKERS), list);
}

#[test]
fn a_port_made_anew_gets_its_siblings_list_at_once() {
    let mut world = three_nodes();
    let list = rows(&mut world, WORKERS);
    let fresh = RouterPort {
        row: "another".to_owned(),
        ..RouterPort::default()
    };
    world.northbound().ports.insert(WORKERS.to_owned(), fresh);
    pass(&mut world);
    assert_eq!(rows(&mut world, WORKERS), list);
    assert_eq!(rows(&mut world, DATA), list);
}

#[test]
fn a_chassis_that_southbound_forgot_loses_its_row_and_nobody_moves() {
    let mut world = three_nodes();
    let top = world.southbound().claims[WORKERS].clone();
    let node = top.as_str().trim_end_matches("-chassis").to_owned();
    world.seen.nodes.remove(&node.as_str().into());
    world.southbound().chassis.remove(&top);
    // OVN has elected the next one; the forgotten row above it moves nobody when it goes.
    for reaction in world.reactions() {
        world.react(&reaction);
    }
    assert_eq!(
        planned(&world.seen),
        expected([(WORKERS, "-1"), (DATA, "-1")])
    );
    let holder = world.southbound().claims[WORKERS].clone();
    assert_ne!(holder, top);
    world.settle();
    assert_eq!(world.southbound().claims[WORKERS], holder);
    assert!(!rows(&mut world, WORKERS).contains(&format!("{node}=")));
}

#[test]
fn somebody_elses_rows_are_theirs() {
    let mut world = three_nodes();
    let theirs = GatewayRow {
        row: "theirs".to_owned(),
        chassis: "x-chassis".into(),
        priority: 7,
        ours: false,
    };
    let port = world.northbound().ports.get_mut(WORKERS).expect("the port");
    port.chassis = vec![theirs];
    assert_eq!(planned(&world.seen), expected([]));
}

#[test]
fn nb_cfg_zero_is_raised_once_even_without_any_network() {
    let mut world = World::of_three_nodes();
    assert_eq!(planned(&world.seen), expected([("sync", "")]));
    pass(&mut world);
    assert_eq!(world.northbound().nb_cfg, 1);
    assert_eq!(planned(&world.seen), expected([]));
}

#[test]
fn witnesses_fill_a_short_list_up_to_three_and_no_further() {
    let mut world = site([("a", true), ("w", false), ("x", false), ("y", false)]);
    let list = rows(&mut world, WORKERS);
    let ranks: Vec<&str> = list
        .split(' ')
        .filter_map(|row| row.split_once('='))
        .map(|row| row.1)
        .collect();
    assert_eq!(ranks, ["100", "50", "49"]);
    let finding = gateway_message(&world);
    assert_eq!(
        finding,
        (Reason::Ready, "no failover: one trunk node".to_owned())
    );

    let mut world = site([("a", true), ("b", true)]);
    assert_eq!(rows(&mut world, WORKERS).split(' ').count(), 2);
    let finding = gateway_message(&world);
    assert_eq!(
        finding,
        (Reason::Ready, "no failover: two chassis".to_owned())
    );
}

fn gateway_message(world: &World) -> (Reason, String) {
    let network = world.seen.networks.values().next().expect("a network");
    let status = network.status.as_ref().expect("a status");
    let mut conditions = status.conditions.iter();
    let gateway = conditions.find(|one| one.kind == ConditionType::GatewayReady);
    let gateway = gateway.expect("GatewayReady");
    (gateway.reason, gateway.message.clone())
}

#[test]
fn no_more_trunk_nodes_are_listed_than_the_zone_allows() {
    let nodes = [
        ("a", true),
        ("b", true),
        ("c", true),
        ("d", true),
        ("e", true),
    ];
    let mut world = site(nodes);
    assert_eq!(rows(&mut world, WORKERS).split(' ').count(), 3);
    let zone = world
        .seen
        .zones
        .get_mut(&"default".into())
        .expect("the zone");
    zone.spec.max_chassis = Some(5);
    world.settle();
    let list = rows(&mut world, WORKERS);
    assert_eq!(list.split(' ').count(), 5);
    let zone = world
        .seen
        .zones
        .get_mut(&"default".into())
        .expect("the zone");
    zone.spec.max_chassis = Some(4);
    assert_eq!(
        planned(&world.seen),
        expected([(WORKERS, "-1"), (DATA, "-1")])
    );
    world.settle();
    assert!(
        list.starts_with(&rows(&mut world, WORKERS)),
        "the lowest goes"
    );
}

#[test]
fn of_two_recorded_lists_the_oldest_networks_wins() {
    let mut world = three_nodes();
    let list = rows(&mut world, WORKERS);
    let other = if list.starts_with('a') {
        "b-chassis=100,a-chassis=99,w-chassis=50"
    } else {
        "a-chassis=100,b-chassis=99,w-chassis=50"
    };
    let data = world.northbound().ports.get_mut(DATA).expect("the port");
    for row in &mut data.chassis {
        row.priority = match row.priority {
            100 => 99,
            99 => 100,
            rank => rank,
        };
    }
    data.external_ids
        .insert(DECISION.to_owned(), other.to_owned());
    for reaction in world.reactions() {
        world.react(&reaction);
    }
    assert_eq!(planned(&world.seen), expected([(DATA, "-3"), ("sync", "")]));
    world.settle();
    assert_eq!(rows(&mut world, WORKERS), list);
    assert_eq!(rows(&mut world, DATA), list);
}

#[test]
fn a_lost_record_is_written_again_without_touching_a_row() {
    let mut world = three_nodes();
    for port in [WORKERS, DATA] {
        let port = world.northbound().ports.get_mut(port).expect("the port");
        port.external_ids.clear();
        // As after a history that hashing alone does not give.
        for row in &mut port.chassis {
            row.priority -= i64::from(row.priority > 50);
        }
    }
    assert_eq!(planned(&world.seen), expected([(WORKERS, ""), (DATA, "")]));
    world.settle();
    let list = world.northbound().ports[WORKERS].external_ids[DECISION].clone();
    assert!(list.contains("=99,") && list.contains("=98,"), "{list}");
}

#[test]
fn a_transaction_that_finds_other_rows_than_it_was_planned_for_writes_nothing() {
    let mut world = three_nodes();
    take_off(&mut world, WORKERS, &["a"]);
    let plan = plan_northbound(&world.seen);
    take_off(&mut world, WORKERS, &["b"]);
    let before = world.northbound().clone();
    world.write_rows(&plan);
    assert_eq!(*world.northbound(), before);
}
