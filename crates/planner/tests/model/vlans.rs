//! VLAN numbers and sets of them.

use causeway_planner::model::{Vid, VidRanges, vlans::VidError};

#[test]
fn an_entry_is_a_number_or_a_range() {
    let range = VidRanges::parse_entry("200-202").expect("a range");
    assert_eq!(
        range.iter().map(u16::from).collect::<Vec<_>>(),
        [200, 201, 202]
    );
    assert_eq!(VidRanges::parse_entry("310").expect("a number").len(), 1);
}

#[test]
fn sets_are_joined_compared_and_taken_from_each_other() {
    let set = |entries: &[&str]| {
        let mut all = VidRanges::default();
        for entry in entries {
            all.add(&VidRanges::parse_entry(entry).expect("test entries are ranges"));
        }
        all
    };
    let all = set(&["4094", "2", "63-65", "64-127"]);
    let listed: Vec<u16> = all.iter().map(u16::from).collect();
    assert_eq!(
        listed,
        [&[2], &(63..=127).collect::<Vec<_>>()[..], &[4094]].concat()
    );
    assert_eq!(all.len(), 67);
    assert_eq!(set(&["2-4094"]).len(), 4093);
    assert_eq!(all.without(&set(&["3-4094"])), set(&["2"]));
    assert!(all.without(&all).is_empty() && !all.is_empty());
    assert_eq!(
        all.first_shared(&set(&["66-70", "4094"])).map(u16::from),
        Some(66)
    );
    assert_eq!(all.first_shared(&set(&["3-62", "128-4093"])), None);
    let vid = |number| Vid::try_from(number).expect("a VLAN number");
    assert!(all.contains(vid(127)) && !all.contains(vid(128)));
}

#[test]
fn the_native_vlan_and_numbers_above_4094_are_no_entry() {
    for text in ["1", "1-5", "4094-4095", "0"] {
        assert!(
            matches!(VidRanges::parse_entry(text), Err(VidError::Outside { .. })),
            "{text}"
        );
    }
    assert!(VidRanges::parse_entry("2-4094").is_ok());
}

#[test]
fn a_reversed_range_and_plain_words_are_named_in_the_error() {
    assert_eq!(
        VidRanges::parse_entry("299-200")
            .expect_err("reversed")
            .to_string(),
        "VLAN range \"299-200\" ends before it starts"
    );
    assert_eq!(
        VidRanges::parse_entry("2OO")
            .expect_err("letters")
            .to_string(),
        "\"2OO\" is neither a VLAN number nor a range such as \"200-299\""
    );
}
