//! Which VLAN number is proposed, and what is said when none is.

use std::collections::BTreeMap;

use causeway_planner::{
    alloc::{Hold, propose},
    model::{Vid, VidRanges},
};

fn vids(entries: &[&str]) -> VidRanges {
    let mut all = VidRanges::default();
    for entry in entries {
        all.add(&VidRanges::parse_entry(entry).expect("test entries are ranges"));
    }
    all
}

fn vid(number: u16) -> Vid {
    Vid::try_from(number).expect("test numbers are in range")
}

#[test]
fn the_lowest_free_number_is_proposed_whatever_the_order_offered() {
    let holds = BTreeMap::from([(vid(212), Hold::Taken)]);
    assert_eq!(propose(&vids(&["214", "212-213"]), &holds), Ok(vid(213)));
}

#[test]
fn a_released_number_is_not_proposed_until_its_vlan_is_gone() {
    let holds = BTreeMap::from([(vid(214), Hold::Resting)]);
    assert_eq!(propose(&vids(&["214-215"]), &holds), Ok(vid(215)));
}

#[test]
fn exhaustion_names_what_is_held_and_what_rests() {
    let holds = BTreeMap::from([(vid(214), Hold::Taken), (vid(215), Hold::Resting)]);
    let refusal = propose(&vids(&["214-215"]), &holds).expect_err("nothing is free");
    assert_eq!(refusal.to_string(), "2 of 2 in use, 1 of them resting");
    let holds = BTreeMap::from([(vid(214), Hold::Taken)]);
    let refusal = propose(&vids(&["214"]), &holds).expect_err("nothing is free");
    assert_eq!(refusal.to_string(), "1 of 1 in use");
}
