use super::*;

const START: Moment = Moment(1_800_000_000_000);

fn names() -> Vec<String> {
    vec![
        "causeway-webhook.causeway.svc".to_owned(),
        "127.0.0.1".to_owned(),
    ]
}

fn made() -> Certificates {
    let made = Certificates::renewed(None, &names(), START).expect("certificates");
    made.expect("there were none")
}

fn later(held: &Certificates, days: u32) -> Option<Certificates> {
    let now = START.after(DAY * days);
    Certificates::renewed(Some(held), &names(), now).expect("certificates")
}

#[test]
fn what_was_kept_is_read_back_as_it_was_and_is_left_alone_for_two_thirds_of_the_leafs_life() {
    let made = made();
    let (bundle, authority_key, leaf, leaf_key) = made.parts();
    let read = Certificates::read(&bundle, authority_key, leaf, leaf_key).expect("readable");
    assert_eq!(read, made);
    assert_eq!(read.leaf.names, names());
    assert_eq!(later(&made, 59), None);
    let renewed = later(&made, 60).expect("a new leaf");
    assert_ne!(renewed.leaf, made.leaf);
    assert_eq!(renewed.bundle(), made.bundle(), "the same authority");
}

#[test]
fn a_new_authority_is_published_before_it_signs_and_the_old_one_stays_until_it_ends() {
    let mut held = made();
    for days in (60..730).step_by(60) {
        held = later(&held, days).expect("a new leaf");
        assert_eq!(held.authorities.len(), 1, "{days}");
    }
    // At 720 days the leaf was renewed; at 730 the authority is old.
    let both = later(&held, 730).expect("a new authority");
    assert_eq!(both.authorities.len(), 2);
    assert_eq!(both.leaf, held.leaf, "the old leaf is served on");
    let signed = later(&both, 780).expect("a new leaf");
    assert_ne!(signed.leaf, both.leaf);
    assert_eq!(signed.bundle(), both.bundle());
    let after = later(&signed, 1096).expect("the old one has ended");
    assert_eq!(after.authorities, both.authorities[..1]);
}

#[test]
fn an_old_leaf_waits_for_a_new_authority_to_become_known_but_an_ended_one_does_not() {
    let held = made();
    // Nobody has looked for two years, the leaf is over: what is signed now may not be trusted at
    // once, but what was served is trusted by nobody.
    let late = later(&held, 731).expect("both new");
    assert_eq!(late.authorities.len(), 2);
    assert_ne!(late.leaf, held.leaf);

    let mut held = made();
    for days in (60..=660).step_by(60) {
        held = later(&held, days).expect("a new leaf");
    }
    // Authority and leaf are old at the same time: 670 + 60 = 730.
    held.leaf.validity = Validity::of(LEAF, START.after(DAY * 670));
    let both = later(&held, 730).expect("a new authority");
    assert_eq!((both.authorities.len(), &both.leaf), (2, &held.leaf));
    let now = START.after(DAY * 730 + SETTLE);
    let soon = Certificates::renewed(Some(&both), &names(), now).expect("certificates");
    assert_ne!(soon.expect("a new leaf").leaf, held.leaf);
}

#[test]
fn a_leaf_for_other_names_is_made_anew_at_once() {
    let held = made();
    let other = vec!["elsewhere.causeway.svc".to_owned()];
    let renewed = Certificates::renewed(Some(&held), &other, START).expect("certificates");
    assert_eq!(renewed.expect("a new leaf").leaf.names, other);
}

#[test]
fn keys_and_certificates_that_do_not_belong_together_are_not_served() {
    let (one, other) = (made(), made());
    let (bundle, authority_key, leaf, leaf_key) = one.parts();
    let mixed = Certificates::read(&bundle, authority_key, leaf, &other.leaf_key);
    assert!(matches!(mixed, Err(CertificateError::Unreadable { .. })));
    for broken in [
        Certificates::read("", authority_key, leaf, leaf_key).map(|it| it.authorities.len()),
        Certificates::read("text", authority_key, leaf, leaf_key).map(|_| 1),
        Certificates::read(&bundle, "text", leaf, leaf_key).map(|_| 1),
        Certificates::read(&bundle, authority_key, "text", leaf_key).map(|_| 1),
    ] {
        assert!(matches!(broken, Err(_) | Ok(0)), "{broken:?}");
    }
}
