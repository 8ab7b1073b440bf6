//! Transition times and words of conditions.

use std::{collections::BTreeSet, fs, path::Path};

use causeway_planner::{
    conditions::{ConditionType, Finding, Reason, Whose},
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

#[test]
fn every_reason_says_what_it_means_and_who_can_do_what() {
    let mut titles = BTreeSet::new();
    for reason in Reason::ALL {
        let text = reason.text();
        assert!(titles.insert(text.title), "{reason}: {:?}", text.title);
        assert!(!text.at.is_empty(), "{reason} stands nowhere");
        let remedies = text.remedies.iter().map(|remedy| remedy.what);
        for sentence in [text.means, text.meanwhile] {
            assert!(sentence.ends_with('.'), "{reason}: {sentence:?}");
        }
        for words in remedies.chain([text.title]) {
            assert!(
                !words.is_empty() && !words.ends_with('.'),
                "{reason}: {words:?}"
            );
        }
        for words in [text.title, text.means, text.meanwhile] {
            assert!(!words.contains("  "), "{reason}: {words:?}");
        }
    }
}

/// `whose`, condition and reason of a line of a case's plan.
fn written(line: &str, whose: Whose) -> Option<(Whose, ConditionType, Reason)> {
    let line = line.trim_start().strip_prefix("- ")?.trim_matches('"');
    let mut words = line.split([' ', ':']);
    let kind = words.next()?.parse().ok()?;
    let _status = words.next()?;
    Some((whose, kind, words.next()?.parse().ok()?))
}

#[test]
fn a_reason_stands_where_its_text_says() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut seen = BTreeSet::new();
    for case in fs::read_dir(cases).expect("cases") {
        let plan = case.expect("a case").path().join("plan.yaml");
        let text = fs::read_to_string(plan).expect("a plan");
        let mut whose = Whose::Zone;
        for line in text.lines() {
            whose = match line.trim_start().split(' ').next() {
                Some("network") => Whose::Network,
                Some("vpc") => Whose::Vpc,
                Some("zone") => Whose::Zone,
                _ => whose,
            };
            seen.extend(written(line, whose));
        }
    }
    assert!(
        seen.len() > 50,
        "conditions have been found: {}",
        seen.len()
    );
    for (whose, kind, reason) in &seen {
        let copied = *whose == Whose::Network && *kind == ConditionType::Ready;
        let at = reason.text().at;
        let from = at.iter().any(|(one, _)| copied && one == whose);
        assert!(
            from || at.contains(&(*whose, *kind)),
            "{whose:?} {kind} {reason}"
        );
    }
    // Zones that share a NIC are a case of admission.
    let unseen: Vec<Reason> = Reason::ALL
        .iter()
        .copied()
        .filter(|reason| *reason != Reason::NICShared)
        .filter(|reason| !seen.iter().any(|(_, _, one)| one == reason))
        .collect();
    assert!(unseen.is_empty(), "no case has {unseen:?}");
}
