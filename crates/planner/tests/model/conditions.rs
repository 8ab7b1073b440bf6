//! Transition times and words of conditions.

use causeway_planner::{
    conditions::{ConditionType, Finding, Reason},
    snapshot::Moment,
};

#[test]
fn a_transition_time_moves_only_with_the_status() {
    let first = Finding::bad(Reason::NoZone, "no zone").into_condition(
        ConditionType::Ready,
        &[],
        1,
        Moment(10),
    );
    let same = Finding::bad(Reason::ZoneExhausted, "full").into_condition(
        ConditionType::Ready,
        std::slice::from_ref(&first),
        2,
        Moment(20),
    );
    assert_eq!(
        (same.since, same.reason),
        (Moment(10), Reason::ZoneExhausted)
    );
    let good = Finding::good(Reason::Ready, "").into_condition(
        ConditionType::Ready,
        &[same],
        2,
        Moment(30),
    );
    assert_eq!(good.since, Moment(30));
}

#[test]
fn every_word_reads_back() {
    for reason in Reason::ALL {
        assert_eq!(reason.as_str().parse(), Ok(*reason));
    }
    assert!("Nope".parse::<Reason>().is_err());
}
