//! What `causeway explain` says of a network is what is there.

use causeway_planner::{
    conditions::{ConditionType, Reason, Truth},
    explain::{Explanation, Sight, explain},
};

use crate::{
    build,
    stories::{key, with_vpc, with_zone},
    world::World,
};

fn sight(world: &World) -> Sight {
    Sight {
        snapshot: world.seen.clone(),
        ..Sight::default()
    }
}

fn facts(explanation: &Explanation, kind: ConditionType) -> Vec<String> {
    let one = explanation.conditions.iter().find(|one| one.kind == kind);
    let facts = one.expect("the condition").behind.iter();
    facts
        .map(|fact| format!("{}: {}", fact.object, fact.says))
        .collect()
}

#[test]
fn a_ready_network_is_explained_with_every_object_and_row() {
    let world = with_vpc();
    let explanation = explain(&key("workers"), &sight(&world)).expect("the network");
    assert!(explanation.to_do.is_empty(), "{:?}", explanation.to_do);
    for one in &explanation.conditions {
        assert_eq!(
            one.state().map(|(status, _)| status),
            Some(Truth::True),
            "{one:?}"
        );
        assert!(one.now.is_none(), "{one:?}");
    }
    let id = key("workers").id;
    assert_eq!(
        facts(&explanation, ConditionType::ZoneReady),
        ["ProxmoxNetworkZone default: bridge vmbr1; wire default; VLANs 200-299; Ready True Ready"]
    );
    assert_eq!(
        facts(&explanation, ConditionType::VLANAllocated),
        [
            "Vlan pve-default-200: number 200; of ProviderNetwork pve-default; claimed by this \
             network; not released",
            "ProxmoxNetworkZone default: 100 numbers offered: 3 held, 0 resting, 97 free",
        ]
    );
    assert_eq!(
        facts(&explanation, ConditionType::TrunkReady),
        [
            "ProviderNetwork pve-default: NIC eth1; ready on node-a, node-b; not ready on none; \
             carries Vlan pve-default-200",
            "Node node-a: Ready; healthy",
            "Node node-b: Ready; healthy",
        ]
    );
    let switch = facts(&explanation, ConditionType::SwitchReady);
    assert!(
        switch.contains(&"Vpc vpc-4cf9df: its router is there".to_owned()),
        "{switch:?}"
    );
    assert!(
        switch.contains(&format!(
            "logical switch {id}: is in the northbound database"
        )),
        "{switch:?}"
    );
    let gateway = facts(&explanation, ConditionType::GatewayReady).join("\n");
    for row in [
        format!("router port vpc-4cf9df-{id}: decided: "),
        "\nGateway_Chassis node-".to_owned(),
        "; priority 100\n".to_owned(),
        format!("\nPort_Binding cr-vpc-4cf9df-{id}: held by chassis node-"),
    ] {
        assert!(gateway.contains(&row), "{row:?} is not in {gateway}");
    }
    assert_eq!(
        facts(&explanation, ConditionType::PoolReady),
        [format!(
            "InClusterIPPool tenant-example/{id}: 172.20.10.64-172.20.10.191 /24, gateway \
             172.20.10.1; 0 of 128 used, 128 free"
        )]
    );
    assert_eq!(
        facts(&explanation, ConditionType::Ready),
        ["addresses in use: none seen"]
    );
}

#[test]
fn a_status_from_an_earlier_pass_is_told_beside_what_is_found_now() {
    let mut world = with_vpc();
    for node in ["node-a", "node-b"] {
        world.node(node).ready = false;
    }
    let explanation = explain(&key("workers"), &sight(&world)).expect("the network");
    let trunk = explanation
        .conditions
        .iter()
        .find(|one| one.kind == ConditionType::TrunkReady);
    let trunk = trunk.expect("the condition");
    assert_eq!(
        trunk.written.as_ref().map(|one| one.status),
        Some(Truth::True)
    );
    assert_eq!(trunk.state(), Some((Truth::False, Reason::NoTrunkNodes)));
    assert!(
        trunk
            .behind
            .iter()
            .any(|fact| fact.says == "not Ready; not healthy"),
        "{trunk:?}"
    );
}

#[test]
fn nothing_is_concluded_from_what_cannot_be_seen() {
    let world = with_vpc();
    let mut sight = sight(&world);
    (sight.snapshot.northbound, sight.snapshot.southbound) = (None, None);
    let explanation = explain(&key("workers"), &sight).expect("the network");
    assert!(
        explanation.conditions.iter().all(|one| one.now.is_none()),
        "{explanation:?}"
    );
    let gateway = facts(&explanation, ConditionType::GatewayReady);
    assert!(gateway[0].ends_with(": not looked at"), "{gateway:?}");

    sight.snapshot.vlans.clear();
    sight.snapshot.pools.clear();
    sight
        .hidden
        .extend(["Vlan", "InClusterIPPool"].map(str::to_owned));
    let explanation = explain(&key("workers"), &sight).expect("the network");
    assert!(
        explanation.conditions.iter().all(|one| one.now.is_none()),
        "{explanation:?}"
    );
    assert!(explanation.to_do.is_empty());
    let pool = facts(&explanation, ConditionType::PoolReady);
    assert!(
        pool[0].ends_with(": not readable with these rights"),
        "{pool:?}"
    );
}

#[test]
fn a_network_of_which_nothing_is_written_yet_is_explained_by_what_is_found() {
    let mut world = with_zone();
    let vpc = build::main_key();
    world.write_vpc(&vpc, build::main_vpc());
    world.run(&crate::world::Key::Vpc(vpc));
    let explanation = explain(&key("workers"), &sight(&world)).expect("the record");
    assert!(
        explanation
            .conditions
            .iter()
            .all(|one| one.written.is_none())
    );
    let vlan = &explanation.conditions[1];
    assert_eq!(vlan.state(), Some((Truth::Unknown, Reason::Pending)));
    assert_eq!(explanation.to_do.len(), 1, "{:?}", explanation.to_do);
    assert_eq!(explanation.to_do[0].target.name, "pve-default-200");
    assert!(explain(&key("nowhere"), &sight(&world)).is_none());
}

#[test]
fn a_network_that_is_held_is_explained_with_who_holds_it() {
    let mut world = with_vpc();
    world.start_pod(&key("workers").id, "db");
    world.delete_vpc(&build::main_key());
    world.settle();
    let explanation = explain(&key("workers"), &sight(&world)).expect("it is held");
    let ready = explanation.conditions.last().expect("Ready");
    assert_eq!(ready.state(), Some((Truth::False, Reason::InUse)));
    assert_eq!(
        facts(&explanation, ConditionType::Ready),
        ["addresses in use: 1: pod tenant-example/db"]
    );
    // What carries traffic is kept: nothing else has changed.
    for one in &explanation.conditions[..6] {
        assert_eq!(
            one.state().map(|(status, _)| status),
            Some(Truth::True),
            "{one:?}"
        );
    }
    assert!(explanation.to_do.is_empty(), "{:?}", explanation.to_do);
    assert!(
        explain(&key("data"), &sight(&world)).is_none(),
        "nothing holds it"
    );
}
