//! A zone's list of gateway chassis, from one state of the nodes to the next.

use std::collections::BTreeSet;

use causeway_planner::{model::ChassisName, northbound::Decision};

fn names(text: &str) -> Vec<ChassisName> {
    text.split_whitespace().map(ChassisName::from).collect()
}

fn evolve(from: &str, trunk: &str, witnesses: &str, known: &str) -> String {
    let from = Decision::parse(from).unwrap_or_default();
    let known = names(known).into_iter().collect();
    from.evolve(&names(trunk), &names(witnesses), &known, 3)
        .to_string()
}

#[test]
fn a_first_list_ranks_trunk_nodes_and_fills_up_with_witnesses() {
    assert_eq!(evolve("", "a b", "w x", "a b w x"), "a=100,b=99,w=50");
    assert_eq!(evolve("", "a b c d", "w", "a b c d w"), "a=100,b=99,c=98");
    assert_eq!(evolve("", "a", "w x y", "a w x y"), "a=100,w=50,x=49");
}

#[test]
fn witnesses_alone_are_no_list() {
    assert_eq!(evolve("", "", "w x y", "w x y"), "");
}

#[test]
fn a_dead_node_that_southbound_knows_keeps_its_place() {
    assert_eq!(
        evolve("a=100,b=99,w=50", "b", "w", "a b w"),
        "a=100,b=99,w=50"
    );
}

#[test]
fn a_new_trunk_node_comes_below_the_others_and_moves_nobody() {
    assert_eq!(evolve("b=100,w=50", "a b", "w", "a b w"), "b=100,a=99,w=50");
}

#[test]
fn a_chassis_that_southbound_forgot_leaves_and_a_witness_takes_its_seat() {
    assert_eq!(
        evolve("a=100,b=99,c=98", "b c", "w", "b c w"),
        "b=99,c=98,w=50"
    );
}

#[test]
fn a_witness_that_got_the_trunk_ranks_as_trunk_node() {
    assert_eq!(evolve("a=100,w=50", "a w", "", "a w"), "a=100,w=99");
}

#[test]
fn only_changes_below_the_active_chassis_are_plain() {
    let rows = Decision::parse("a=100,b=99").expect("a list");
    let more = Decision::parse("a=100,b=99,w=50").expect("a list");
    let less = Decision::parse("b=99").expect("a list");
    let (a, b): (ChassisName, ChassisName) = ("a".into(), "b".into());
    let known = BTreeSet::from([a.clone(), b.clone()]);
    let plain = |to: &Decision, active| to.changes_only_below(&rows, active, &known);
    assert!(plain(&more, Some(&a)));
    assert!(plain(&more, Some(&b)));
    assert!(!plain(&less, Some(&a)), "the active row");
    assert!(!plain(&less, Some(&b)), "a row above it");
    assert!(plain(&less, None));
    let known = BTreeSet::from([b.clone()]);
    assert!(
        less.changes_only_below(&rows, Some(&b), &known),
        "a row that names nobody"
    );
}

#[test]
fn a_smaller_max_chassis_takes_the_lowest_trunk_chassis_off() {
    let from = Decision::parse("a=100,b=99,c=98,w=50").expect("a list");
    let known = names("a b c w").into_iter().collect();
    let next = from.evolve(&names("a b c"), &names("w"), &known, 2);
    assert_eq!(next.to_string(), "a=100,b=99,w=50");
}

#[test]
fn a_list_reads_back_as_written() {
    let text = "a=100,b=99,w=50";
    assert_eq!(Decision::parse(text).expect("a list").to_string(), text);
    assert_eq!(Decision::parse("nonsense"), None);
}
