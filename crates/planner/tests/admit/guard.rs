//! What is guarded: every write of a network by somebody else, and as many that do no harm.

use std::collections::BTreeMap;

use causeway_planner::{
    admit::{ProxmoxInput, SeenNetwork, SubnetInput, Verdict, VpcInput, guard_network},
    model::{NetworkRecord, SubnetKey, VpcKey, objects, objects::keys},
    snapshot::{IpObject, Meta, Moment, PoolState, Seen, Snapshot, Version},
};

fn vpc() -> VpcKey {
    VpcKey::new("tenant-a", "main")
}

fn key() -> SubnetKey {
    SubnetKey {
        namespace: "tenant-a".into(),
        id: vpc().subnet_id(&"workers".into()),
    }
}

fn meta(uid: &str) -> Meta {
    Meta {
        version: Version {
            uid: uid.into(),
            resource_version: "1".to_owned(),
        },
        generation: 1,
        created: Moment(0),
        deleting: false,
        held: true,
        labels: objects::labels(&"tenant-a".into(), &"main".into(), Some(&"workers".into())),
        annotations: BTreeMap::new(),
    }
}

fn network() -> SeenNetwork {
    let record = NetworkRecord {
        zone: Some("default".into()),
        vpc: "main".into(),
        vpc_id: vpc().id(),
        subnet: "workers".into(),
        cidr: "172.20.10.0/24".parse().expect("a CIDR"),
        gateway: "172.20.10.1".parse().expect("an address"),
        vm_range: "172.20.10.64-172.20.10.191".parse().expect("a range"),
        index: 0,
    };
    Seen {
        meta: meta("uid-1"),
        spec: Some(record),
        status: None,
    }
}

/// A world in which the VPC has the network's subnet.
fn wanted() -> Snapshot {
    let subnet = SubnetInput {
        name: "workers".to_owned(),
        cidr: "172.20.10.0/24".to_owned(),
        proxmox: Some(ProxmoxInput::default()),
        ..SubnetInput::default()
    };
    let seen = Seen {
        meta: meta("uid-vpc"),
        spec: VpcInput {
            subnets: vec![subnet],
            ..VpcInput::default()
        },
        status: None,
    };
    let mut snapshot = Snapshot::default();
    snapshot.vpcs.insert(vpc(), seen);
    snapshot
}

fn said(verdict: Verdict) -> Vec<String> {
    match verdict {
        Verdict::Allow { warnings } => {
            assert_eq!(warnings, [], "nothing surprising");
            Vec::new()
        }
        Verdict::Deny(broken) => broken.iter().map(ToString::to_string).collect(),
        Verdict::Need(_) => panic!("all is known"),
    }
}

fn change(how: impl FnOnce(&mut SeenNetwork)) -> Vec<String> {
    let mut new = network();
    how(&mut new);
    said(guard_network(
        &key(),
        Some(&network()),
        Some(&new),
        &wanted(),
    ))
}

#[test]
fn a_network_is_made_by_the_controller_alone_and_the_refusal_says_what_to_write() {
    assert_eq!(
        said(guard_network(&key(), None, Some(&network()), &wanted())),
        [
            "metadata.name: a ProxmoxNetwork is written by causeway alone; write a subnet with \
             `proxmox: {}` in a VirtualPrivateCloud, and it makes one"
        ]
    );
}

#[test]
fn spec_finalizer_and_labels_stay_and_everything_else_may_be_written() {
    assert_eq!(
        change(|new| new.spec.as_mut().expect("a record").index = 7),
        [
            "spec: a ProxmoxNetwork is written by causeway alone; change subnet \"workers\" of \
             VirtualPrivateCloud \"main\" instead"
        ]
    );
    assert_eq!(
        change(|new| new.meta.held = false),
        [
            "metadata.finalizers: finalizer proxmox.cozystack.io/hold is causeway's, which takes it \
             away when the network is gone"
        ]
    );
    for label in [
        keys::MANAGED_BY,
        keys::TENANT_NAME,
        keys::VPC_NAME,
        keys::VPC_ID,
        keys::SUBNET_NAME,
    ] {
        let message = format!("metadata.labels: causeway finds the network by label {label}; keep");
        for harm in [None, Some("other".to_owned())] {
            let found = change(|new| {
                new.meta.labels.remove(label);
                new.meta
                    .labels
                    .extend(harm.map(|it| (label.to_owned(), it)));
            });
            assert!(
                matches!(&found[..], [one] if one.starts_with(&message)),
                "{found:?}"
            );
        }
    }
    let own = change(|new| {
        new.meta.labels.insert("team".to_owned(), "a".to_owned());
        new.meta
            .annotations
            .insert("note".to_owned(), "b".to_owned());
    });
    assert_eq!(own, Vec::<String>::new());
}

#[test]
fn a_network_stays_while_its_vpc_wants_it_or_somebody_holds_an_address() {
    let delete =
        |snapshot: &Snapshot| said(guard_network(&key(), Some(&network()), None, snapshot));
    let end = "(annotation proxmox.cozystack.io/allow-disruption: \"uid-1\" overrides)";
    assert_eq!(
        delete(&wanted()),
        [format!(
            "metadata.name: network tenant-a/subnet-521e3af8 is needed: it is subnet \"workers\" of VPC \
             tenant-a/main; remove the subnet there, and it goes {end}"
        )]
    );
    assert_eq!(delete(&Snapshot::default()), Vec::<String>::new());

    let mut used = Snapshot::default();
    let pool = Seen {
        meta: meta("uid-pool"),
        spec: None,
        status: Some(PoolState {
            total: 128,
            used: 2,
            free: 126,
        }),
    };
    used.pools.insert(key(), pool);
    assert_eq!(
        delete(&used),
        [format!(
            "metadata.name: network tenant-a/subnet-521e3af8 is needed: in use by 2 of \
             InClusterIPPool \"subnet-521e3af8\"; it goes when they are given back {end}"
        )]
    );
    let mut deleting = wanted();
    let seen = deleting.vpcs.get_mut(&vpc()).expect("the VPC");
    seen.meta.deleting = true;
    assert_eq!(delete(&deleting), Vec::<String>::new(), "the VPC goes too");
}

#[test]
fn pods_on_a_network_keep_it_by_name() {
    let mut used = Snapshot::default();
    let ip = IpObject {
        subnet: key().id.to_string(),
        namespace: "tenant-a".to_owned(),
        pod: "web-0".to_owned(),
        address: None,
    };
    used.ips.insert("web-0.tenant-a".to_owned(), ip);
    let found = said(guard_network(&key(), Some(&network()), None, &used));
    assert!(
        found[0].contains("in use by pod tenant-a/web-0; it goes"),
        "{found:?}"
    );
}

#[test]
fn the_annotation_lets_go_of_the_object_that_it_names_and_of_no_copy() {
    for (uid, allowed) in [("uid-1", true), ("uid-2", false), ("", false)] {
        let mut old = network();
        let annotation = (keys::ALLOW_DISRUPTION.to_owned(), uid.to_owned());
        old.meta.annotations.extend([annotation]);
        let mut new = old.clone();
        new.meta.held = false;
        for new in [None, Some(&new)] {
            let found = said(guard_network(&key(), Some(&old), new, &wanted()));
            assert_eq!(found.is_empty(), allowed, "{uid:?}: {found:?}");
        }
    }
}
