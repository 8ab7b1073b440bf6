//! The split of a network, ranges, and excludes.

use std::net::Ipv4Addr;

use causeway_planner::model::{
    AddrRange, AddressPlan, Cidr,
    addresses::{AddrRangeError, CidrError, NETWORK_PREFIXES, canonical_excludes},
};
use ipnet::Ipv4Net;

fn net(text: &str) -> Ipv4Net {
    text.parse().expect("a network")
}

fn range(text: &str) -> AddrRange {
    text.parse().expect("a range")
}

#[test]
fn the_source_documents_network_is_split_as_it_shows() {
    let plan = AddressPlan::of(net("172.20.10.0/24")).expect("a /24");
    assert_eq!(plan.gateway.to_string(), "172.20.10.1");
    assert_eq!(
        plan.default_vm_range.to_string(),
        "172.20.10.64-172.20.10.191"
    );
    assert_eq!(plan.default_vm_range.len(), 128);
    assert_eq!(plan.last_allowed.to_string(), "172.20.10.254");
}

#[test]
fn every_prefix_from_8_to_28_is_split_exact_to_the_address() {
    for prefix in NETWORK_PREFIXES {
        let net = Ipv4Net::new(Ipv4Addr::new(10, 0, 0, 0), prefix).expect("a prefix");
        let plan = AddressPlan::of(net).expect("within the bounds");
        let size = 1u64 << (32 - prefix);
        let base = u64::from(u32::from(net.network()));
        let offset = |a: Ipv4Addr| u64::from(u32::from(a)) - base;
        assert_eq!(offset(plan.gateway), 1, "/{prefix}");
        assert_eq!(offset(plan.default_vm_range.first()), size / 4, "/{prefix}");
        assert_eq!(
            offset(plan.default_vm_range.last()),
            size * 3 / 4 - 1,
            "/{prefix}"
        );
        assert_eq!(plan.default_vm_range.len(), size / 2, "/{prefix}");
        assert_eq!(offset(plan.first_allowed), 2, "/{prefix}");
        assert_eq!(offset(plan.last_allowed), size - 2, "/{prefix}");
        assert!(!plan.default_vm_range.contains(plan.gateway), "/{prefix}");
    }
}

#[test]
fn prefixes_outside_the_bounds_have_no_plan() {
    for text in ["10.0.0.0/7", "10.0.0.0/29", "10.0.0.0/32"] {
        assert_eq!(AddressPlan::of(net(text)), None, "{text}");
    }
}

#[test]
fn a_cidr_off_its_network_address_names_the_canonical_form() {
    assert_eq!(
        "172.20.10.5/24"
            .parse::<Cidr>()
            .expect_err("host bits")
            .to_string(),
        "\"172.20.10.5/24\" is not on its network address; write 172.20.10.0/24"
    );
    for text in [
        "172.20.10.0",
        "172.20.10.0/33",
        "workers",
        "",
        "172.020.10.0/24",
    ] {
        assert_eq!(
            text.parse::<Cidr>(),
            Err(CidrError::Unreadable { text: text.into() }),
            "{text}"
        );
    }
}

#[test]
fn a_range_reads_back_as_it_was_written() {
    for text in ["172.20.11.100-172.20.11.199", "10.0.0.1-10.0.0.1"] {
        assert_eq!(range(text).to_string(), text);
    }
    for text in [
        "172.20.11.100..172.20.11.199",
        "172.20.11.100",
        "172.20.11.0/24",
        "-",
    ] {
        assert!(
            matches!(
                text.parse::<AddrRange>(),
                Err(AddrRangeError::Unreadable { .. })
            ),
            "{text}"
        );
    }
}

#[test]
fn excludes_are_merged_and_sorted_as_kube_ovn_does() {
    let cases: [(&[&str], &[&str]); 5] = [
        (
            &["172.20.10.1-172.20.10.1", "172.20.10.64-172.20.10.191"],
            &["172.20.10.1", "172.20.10.64..172.20.10.191"],
        ),
        // sorted as strings, not as numbers
        (
            &["172.20.8.1-172.20.8.1", "172.20.10.0-172.20.13.255"],
            &["172.20.10.0..172.20.13.255", "172.20.8.1"],
        ),
        // overlapping and contained ranges become one
        (
            &[
                "10.0.0.5-10.0.0.9",
                "10.0.0.7-10.0.0.12",
                "10.0.0.8-10.0.0.8",
            ],
            &["10.0.0.5..10.0.0.12"],
        ),
        // adjacent ones stay two
        (
            &["10.0.0.1-10.0.0.1", "10.0.0.2-10.0.0.9"],
            &["10.0.0.1", "10.0.0.2..10.0.0.9"],
        ),
        (&[], &[]),
    ];
    for (ranges, expected) in cases {
        let ranges: Vec<_> = ranges.iter().map(|text| range(text)).collect();
        assert_eq!(canonical_excludes(&ranges), expected);
    }
}
