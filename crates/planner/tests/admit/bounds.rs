//! Rules of admission that are better counted than written out: list bounds, zones in every order
//! of creation, every prefix.

use std::collections::{BTreeMap, BTreeSet};

use causeway_planner::{
    admit::{
        PeerInput, ProxmoxInput, RouteInput, SubnetInput, TransitInput, VlansInput, VpcInput,
        ZoneInput, admit_vpc, admit_zone, choose_zone, zone_conflict,
    },
    conditions::Reason,
    model::{SubnetBacking, Trunk, Vid, VpcKey, ZoneName},
    snapshot::{Meta, Moment, NodeState, Seen, Settings, Snapshot, Version},
};

fn vpc_messages(input: &VpcInput) -> Vec<String> {
    let key = VpcKey::new("tenant-a", "main");
    let refused = admit_vpc(&key, input, &Settings::default()).err();
    let refused = refused.unwrap_or_default();
    refused.iter().map(ToString::to_string).collect()
}

fn subnet(index: usize) -> SubnetInput {
    SubnetInput {
        name: format!("s{index}"),
        cidr: format!("10.{index}.0.0/24"),
        ..SubnetInput::default()
    }
}

#[test]
fn each_list_is_accepted_at_its_bound_and_refused_one_above() {
    type WithLength = fn(usize) -> VpcInput;
    let lists: [(&str, usize, WithLength); 4] = [
        ("spec.subnets: 65 subnets; at most 64", 64, |length| {
            VpcInput {
                subnets: (0..length).map(subnet).collect(),
                ..VpcInput::default()
            }
        }),
        (
            "spec.subnets[0].allowSubnets: 65 CIDRs; at most 64",
            64,
            |length| VpcInput {
                subnets: vec![SubnetInput {
                    allow_subnets: Some((0..length).map(|i| format!("10.1.{i}.0/24")).collect()),
                    ..subnet(0)
                }],
                ..VpcInput::default()
            },
        ),
        ("spec.peers: 33 peers; at most 32", 32, |length| VpcInput {
            peers: (0..length)
                .map(|index| PeerInput {
                    tenant_namespace: "tenant-b".to_owned(),
                    vpc_name: format!("v{index}"),
                })
                .collect(),
            ..VpcInput::default()
        }),
        ("spec.routes: 129 routes; at most 128", 128, |length| {
            VpcInput {
                subnets: vec![subnet(0)],
                routes: (0..length)
                    .map(|index| RouteInput {
                        cidr: format!("192.168.{index}.0/24"),
                        next_hop_ip: "10.0.0.9".to_owned(),
                    })
                    .collect(),
                ..VpcInput::default()
            }
        }),
    ];
    for (message, most, make) in lists {
        assert_eq!(vpc_messages(&make(most)), Vec::<String>::new(), "{message}");
        let refused = vpc_messages(&make(most + 1));
        assert!(
            matches!(&refused[..], [one] if one.starts_with(message)),
            "{refused:?}"
        );
    }
}

#[test]
fn every_prefix_of_a_network_has_a_default_range_that_would_be_accepted_as_written() {
    for prefix in 8..=28u8 {
        let of = |vm_range| VpcInput {
            subnets: vec![SubnetInput {
                name: "workers".to_owned(),
                cidr: format!("10.0.0.0/{prefix}"),
                proxmox: Some(ProxmoxInput {
                    zone: None,
                    vm_range,
                }),
                allow_subnets: None,
            }],
            ..VpcInput::default()
        };
        let key = VpcKey::new("tenant-a", "main");
        let spec = admit_vpc(&key, &of(None), &Settings::default()).expect("a legal VPC");
        let SubnetBacking::Proxmox { vm_range, .. } = &spec.subnets[0].backing else {
            panic!("Proxmox-backed");
        };
        let again = admit_vpc(&key, &of(Some(vm_range.to_string())), &Settings::default());
        assert_eq!(again, Ok(spec.clone()), "/{prefix}");
        assert_eq!(spec.subnets[0].gateway.to_string(), "10.0.0.1");
    }
}

/// Zones that get into each other's way in every manner there is.
fn zones() -> BTreeMap<ZoneName, ZoneInput> {
    let zone = |bridge: &str, wire: &str, range: &str, nic: &str, transit: Option<u32>| ZoneInput {
        bridge: bridge.to_owned(),
        wire: Some(wire.to_owned()),
        vlans: VlansInput {
            ranges: vec![range.to_owned()],
            reserved: Vec::new(),
        },
        trunk: Trunk {
            interface: nic.to_owned(),
            ..Trunk::default()
        },
        transit: transit.map(|vlan| TransitInput {
            vlan,
            cidr: "10.200.0.0/24".to_owned(),
            gateway: "10.200.0.1".to_owned(),
            addresses: "10.200.0.10-10.200.0.99".to_owned(),
        }),
        ..ZoneInput::default()
    };
    let zones = [
        ("low", zone("vmbr1", "default", "200-249", "eth1", None)),
        ("high", zone("vmbr2", "default", "250-299", "eth1", None)),
        ("across", zone("vmbr1", "default", "240-260", "eth1", None)),
        (
            "transit-in-low",
            zone("vmbr3", "default", "300", "eth1", Some(200)),
        ),
        ("other-trunk", zone("vmbr4", "default", "400", "eth2", None)),
        ("other-wire", zone("vmbr5", "two", "200-299", "eth2", None)),
        ("same-nic", zone("vmbr6", "three", "500", "eth1", None)),
        (
            "same-bridge",
            zone("vmbr1", "four", "200-299", "eth4", None),
        ),
        ("refused", zone("vmbr1", "default", "1-4094", "eth1", None)),
    ];
    zones
        .into_iter()
        .map(|(name, zone)| (name.into(), zone))
        .collect()
}

fn snapshot(order: &[&ZoneName]) -> Snapshot {
    let all = zones();
    let mut snapshot = Snapshot::default();
    for (age, name) in order.iter().enumerate() {
        let meta = Meta {
            version: Version {
                // Against the order of creation, so that only the time can decide.
                uid: format!("uid-{}", 9 - age).into(),
                resource_version: String::new(),
            },
            generation: 1,
            created: Moment(i64::try_from(age).expect("few zones")),
            deleting: false,
            held: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        };
        let spec = all[*name].clone();
        snapshot.zones.insert(
            (*name).clone(),
            Seen {
                meta,
                spec,
                status: None,
            },
        );
    }
    for node in ["node-a", "node-b"] {
        let state = NodeState {
            addresses: Vec::new(),
            labels: BTreeMap::new(),
            chassis: None,
            ready: true,
        };
        snapshot.nodes.insert(node.into(), state);
    }
    snapshot
}

fn working(snapshot: &Snapshot) -> Vec<&ZoneName> {
    let zones = snapshot.zones.iter();
    zones
        .filter(|(name, zone)| {
            admit_zone(name, &zone.spec).is_ok() && zone_conflict(name, snapshot).is_none()
        })
        .map(|(name, _)| name)
        .collect()
}

/// Every (place, number) that a zone hands out or uses: on its wire, its NIC and its bridge.
fn numbers(input: &ZoneInput) -> BTreeSet<(String, Vid)> {
    let spec = admit_zone(&"any".into(), input).expect("a zone that works");
    let places = [
        format!("wire {}", spec.wire),
        format!("nic {}", spec.trunk.interface),
        format!("bridge {}", spec.bridge),
    ];
    let vids: Vec<Vid> = spec.offered().iter().chain(spec.transit_vlan).collect();
    let all = places.iter();
    all.flat_map(|place| vids.iter().map(|vid| (place.clone(), *vid)))
        .collect()
}

#[test]
fn of_three_zones_in_any_order_no_two_that_work_share_a_number_on_one_wire() {
    let all = zones();
    let names: Vec<&ZoneName> = all.keys().collect();
    let mut tried = 0;
    for a in &names {
        for b in names.iter().filter(|b| b != &a) {
            for c in names.iter().filter(|c| c != &a && c != &b) {
                let snapshot = snapshot(&[a, b, c]);
                let working = working(&snapshot);
                if admit_zone(a, &all[*a]).is_ok() {
                    assert!(working.contains(a), "{a} is the oldest of {a}, {b}, {c}");
                }
                for (index, one) in working.iter().enumerate() {
                    for other in &working[index + 1..] {
                        let (mine, theirs) = (numbers(&all[*one]), numbers(&all[*other]));
                        let shared = mine.intersection(&theirs).next();
                        assert_eq!(shared, None, "{one} and {other} of {a}, {b}, {c}");
                    }
                }
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 9 * 8 * 7);
}

#[test]
fn a_zone_that_cannot_work_is_in_nobodys_way_unless_networks_hold_its_numbers() {
    let order: [ZoneName; 3] = ["low".into(), "across".into(), "high".into()];
    let mut snapshot = snapshot(&[&order[0], &order[1], &order[2]]);
    assert_eq!(
        working(&snapshot),
        [&order[2], &order[0]],
        "across is refused, high is not"
    );

    let network = causeway_planner::model::NetworkRecord {
        zone: Some("across".into()),
        vpc: "main".into(),
        vpc_id: "vpc-4cf9df".into(),
        subnet: "workers".into(),
        cidr: "172.20.10.0/24".parse().expect("a CIDR"),
        gateway: "172.20.10.1".parse().expect("an address"),
        vm_range: "172.20.10.64-172.20.10.191".parse().expect("a range"),
        index: 0,
    };
    let key = causeway_planner::model::SubnetKey {
        namespace: "tenant-a".into(),
        id: "subnet-7bb6e3ad".into(),
    };
    let meta = snapshot.zones[&order[0]].meta.clone();
    let seen = Seen {
        meta,
        spec: Some(network),
        status: None,
    };
    snapshot.networks.insert(key, seen);
    let conflict = zone_conflict(&order[2], &snapshot).expect("networks of across hold numbers");
    assert_eq!(conflict.reason, Reason::WireConflict);
}

#[test]
fn zones_created_in_the_same_second_are_ordered_by_uid() {
    let (low, across): (ZoneName, ZoneName) = ("low".into(), "across".into());
    let mut snapshot = snapshot(&[&low, &across]);
    for zone in snapshot.zones.values_mut() {
        zone.meta.created = Moment(7);
    }
    assert_eq!(working(&snapshot), [&across], "across has the lower uid");
}

#[test]
fn one_nic_is_two_wires_only_on_a_node_that_both_zones_select() {
    let (low, same_nic): (ZoneName, ZoneName) = ("low".into(), "same-nic".into());
    let mut snapshot = snapshot(&[&low, &same_nic]);
    let conflict = zone_conflict(&same_nic, &snapshot).expect("eth1 on every node");
    assert_eq!(conflict.reason, Reason::NICShared);
    assert!(
        conflict.violation.message.contains("node \"node-a\""),
        "{conflict:?}"
    );

    for (zone, node, rack) in [(&low, "node-a", "1"), (&same_nic, "node-b", "2")] {
        let labels = BTreeMap::from([("rack".to_owned(), rack.to_owned())]);
        let zone = snapshot.zones.get_mut(zone).expect("a zone");
        zone.spec.trunk.node_selector.labels = labels.clone();
        snapshot.nodes.get_mut(&node.into()).expect("a node").labels = labels;
    }
    assert_eq!(zone_conflict(&same_nic, &snapshot), None);
}

#[test]
fn a_zone_that_is_being_deleted_takes_no_new_network() {
    let (low, high): (ZoneName, ZoneName) = ("low".into(), "high".into());
    let mut snapshot = snapshot(&[&low, &high]);
    let tenant = "tenant-a".into();
    let ambiguous = choose_zone(&tenant, None, &snapshot).expect_err("two zones");
    assert_eq!(ambiguous.reason, Reason::ZoneAmbiguous);

    snapshot.zones.get_mut(&low).expect("a zone").meta.deleting = true;
    assert_eq!(choose_zone(&tenant, None, &snapshot), Ok(high));
    let refusal = choose_zone(&tenant, Some(&low), &snapshot).expect_err("going");
    assert_eq!(refusal.reason, Reason::NamespaceNotAdmitted);
    assert!(refusal.message.contains("being deleted"), "{refusal:?}");
}
