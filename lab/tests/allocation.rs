//! VLAN numbers under two controllers at once, on the API, Kube-OVN's stand-in and a real northbound
//! database. Needs root, as every site does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::{Duration, Instant},
};

use causeway_api::{Condition, ProxmoxNetwork, ProxmoxNetworkZone, keys, kubeovn};
use causeway_lab::{
    Progress,
    embedded::{Embedded, when_all},
    scenarios::usual_site,
};
use causeway_planner::snapshot::Settings;
use kube::{Api, ResourceExt};

const VPCS: usize = 10;
const NETWORKS_EACH: usize = 20;

fn zone(name: &str, ranges: &str) -> String {
    format!(
        "apiVersion: proxmox.cozystack.io/v1alpha1\n\
         kind: ProxmoxNetworkZone\n\
         metadata: {{name: {name}}}\n\
         spec:\n\
         \x20 bridge: vmbr1\n\
         \x20 vlans: {{ranges: [\"{ranges}\"]}}\n\
         \x20 trunk:\n\
         \x20   interface: eth1\n\
         \x20   nodeSelector: {{matchLabels: {{proxmox.cozystack.io/trunk: \"true\"}}}}\n"
    )
}

/// A VPC with networks of 16 addresses each, but the first `without`.
fn vpc(number: usize, without: usize, zone: Option<&str>) -> String {
    let mut yaml = format!(
        "apiVersion: apps.cozystack.io/v1alpha1\n\
         kind: VirtualPrivateCloud\n\
         metadata: {{name: main, namespace: tenant-{number:02}}}\n\
         spec:\n\
         \x20 subnets:\n"
    );
    let zone = zone.map_or_else(String::new, |zone| format!("zone: {zone}"));
    for network in without..NETWORKS_EACH {
        writeln!(
            yaml,
            "    - {{name: n{network:02}, cidr: 10.{number}.{network}.0/28, proxmox: {{{zone}}}}}"
        )
        .unwrap();
    }
    yaml
}

async fn two_controllers(site: &str) -> Embedded {
    let settings = Settings {
        cool_down: Duration::ZERO,
        ..Settings::default()
    };
    let mut embedded = Embedded::start(site, usual_site(), settings, Progress::silent())
        .await
        .unwrap();
    embedded.start_controller().await.unwrap();
    embedded.start_controller().await.unwrap();
    embedded
}

fn condition<'a>(network: &'a ProxmoxNetwork, kind: &str) -> Option<&'a Condition> {
    let conditions = &network.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn vlan_of(network: &ProxmoxNetwork) -> Option<u16> {
    network.status.as_ref()?.vlan
}

fn has_vlan(network: &ProxmoxNetwork) -> bool {
    vlan_of(network).is_some()
        && condition(network, "VLANAllocated").is_some_and(|condition| condition.status == "True")
}

fn says_exhausted(network: &ProxmoxNetwork, figures: &str) -> bool {
    condition(network, "VLANAllocated").is_some_and(|condition| {
        condition.reason == "ZoneExhausted" && condition.message.contains(figures)
    })
}

/// The numbers that claims hold, by owner; each held once.
async fn claims(embedded: &Embedded) -> BTreeMap<String, u16> {
    let vlans: Api<kubeovn::Vlan> = Api::all(embedded.client());
    let mut owners = BTreeMap::new();
    let mut numbers = BTreeSet::new();
    for vlan in vlans.list(&kube::api::ListParams::default()).await.unwrap() {
        if vlan.annotations().contains_key(keys::RELEASED_AT) {
            continue;
        }
        let owner = vlan.annotations()[keys::OWNER_UID].clone();
        let number = vlan.spec.id.unwrap();
        assert!(numbers.insert(number), "VLAN {number} is claimed twice");
        let before = owners.insert(owner.clone(), number);
        assert!(before.is_none(), "{owner} holds {before:?} and {number}");
    }
    owners
}

fn agree(networks: &BTreeMap<String, ProxmoxNetwork>, claims: &BTreeMap<String, u16>) {
    let shown: BTreeMap<String, u16> = networks
        .values()
        .filter_map(|network| Some((network.uid()?, vlan_of(network)?)))
        .collect();
    assert_eq!(&shown, claims, "status and claims agree");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_numbers_go_to_a_hundred_of_two_hundred_networks_and_each_freed_one_to_one_more()
{
    let embedded = two_controllers("t-alloc").await;
    let start = Instant::now();
    embedded.apply(&zone("default", "200-299")).await.unwrap();
    for number in 0..VPCS {
        embedded.apply(&vpc(number, 0, None)).await.unwrap();
    }
    let networks: Api<ProxmoxNetwork> = Api::all(embedded.client());
    let split = |figures: &'static str, total: usize| {
        move |all: &BTreeMap<String, ProxmoxNetwork>| {
            let held = all.values().filter(|network| has_vlan(network)).count();
            let told = all
                .values()
                .filter(|network| says_exhausted(network, figures))
                .count();
            held == 100 && told == total - 100 && all.len() == total
        }
    };
    let all = when_all(
        networks.clone(),
        "100 networks with a VLAN and 100 without",
        split("100 of 100 in use", VPCS * NETWORKS_EACH),
    )
    .await
    .unwrap();
    println!(
        "200 networks settled after {:.1} s",
        start.elapsed().as_secs_f64()
    );
    let before = claims(&embedded).await;
    assert_eq!(before.len(), 100);
    agree(&all, &before);

    // One network that holds a number goes: its VPC is applied again without it.
    let owner = all
        .values()
        .find(|network| has_vlan(network) && network.spec.subnet == "n00")
        .expect("some first network holds a number");
    let tenant = owner.namespace().unwrap();
    let number: usize = tenant.trim_start_matches("tenant-").parse().unwrap();
    let gone = owner.uid().unwrap();
    embedded.apply(&vpc(number, 1, None)).await.unwrap();
    let all = when_all(
        networks,
        "one more network with a VLAN",
        split("100 of 100 in use", VPCS * NETWORKS_EACH - 1),
    )
    .await
    .unwrap();
    let after = claims(&embedded).await;
    agree(&all, &after);
    let kept = before.keys().filter(|uid| **uid != gone);
    assert!(
        kept.clone().all(|uid| after.get(uid) == before.get(uid)),
        "nobody else's number moved"
    );
    assert_eq!(after.len(), kept.count() + 1, "exactly one more came in");
    embedded.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_zones_that_appear_at_once_on_one_wire_never_give_one_number_twice() {
    let embedded = two_controllers("t-zones").await;
    for number in 0..2 {
        let zone = if number == 0 { "left" } else { "right" };
        embedded.apply(&vpc(number, 0, Some(zone))).await.unwrap();
    }
    let (left_yaml, right_yaml) = (zone("left", "200-214"), zone("right", "205-219"));
    let (left, right) = tokio::join!(embedded.apply(&left_yaml), embedded.apply(&right_yaml));
    left.unwrap();
    right.unwrap();
    let zones: Api<ProxmoxNetworkZone> = Api::all(embedded.client());
    let reason = |zone: &ProxmoxNetworkZone| {
        let conditions = zone.status.as_ref().map(|status| status.conditions.clone());
        let ready = conditions?.into_iter().find(|one| one.type_ == "Ready")?;
        Some(ready.reason)
    };
    let settled = when_all(zones, "one zone Ready and one in conflict", |all| {
        let reasons: Vec<_> = all.values().filter_map(reason).collect();
        reasons.iter().filter(|reason| *reason == "Ready").count() == 1
            && reasons
                .iter()
                .filter(|reason| *reason == "WireConflict")
                .count()
                == 1
    })
    .await
    .unwrap();
    let winner = settled
        .values()
        .find(|zone| reason(zone).as_deref() == Some("Ready"))
        .unwrap()
        .name_any();
    let networks: Api<ProxmoxNetwork> = Api::all(embedded.client());
    let all = when_all(networks, "the Ready zone's numbers given out", |all| {
        let of_winner: Vec<_> = all
            .values()
            .filter(|network| network.spec.zone.as_deref() == Some(&winner))
            .collect();
        let told = |network: &&&ProxmoxNetwork| says_exhausted(network, "15 of 15 in use");
        !of_winner.is_empty()
            && of_winner
                .iter()
                .all(|network| has_vlan(network) || told(&network))
            && of_winner.iter().any(|network| told(&network))
    })
    .await
    .unwrap();
    // The loser may have given some out before it knew of the other: those stay, once each.
    agree(&all, &claims(&embedded).await);
    embedded.stop().await.unwrap();
}
