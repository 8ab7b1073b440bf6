//! A world without what differs between two runs of one story: uids, versions, times, rows.

use std::collections::BTreeMap;

use causeway_planner::{
    conditions::Condition,
    model::Uid,
    northbound::PENDING,
    snapshot::{Meta, Moment, Snapshot, Version},
};

/// What two runs of a story must agree on.
fn essence(snapshot: &Snapshot) -> Snapshot {
    let mut all = snapshot.clone();
    let owners: BTreeMap<Uid, String> = all
        .networks
        .iter()
        .map(|(key, seen)| (seen.meta.version.uid.clone(), key.to_string()))
        .collect();
    all.now = Moment(0);
    for seen in all.vlans.values_mut() {
        let owner = seen.spec.owner.as_ref().and_then(|uid| owners.get(uid));
        seen.spec.owner = owner.map(|name| name.as_str().into());
    }
    for seen in all.routers.values_mut() {
        if let Some(spec) = &mut seen.spec {
            spec.owner = spec.owner.as_ref().map(|_| "uid".into());
        }
    }
    every_meta(&mut all, |meta| {
        meta.version = Version {
            uid: "uid".into(),
            resource_version: "version".to_owned(),
        };
        meta.created = Moment(0);
        meta.generation = 0;
    });
    every_condition(&mut all, |condition| {
        condition.since = Moment(0);
        condition.observed_generation = 0;
    });
    for seen in all.networks.values_mut() {
        if let Some(status) = &mut seen.status {
            status.observed_generation = 0;
        }
    }
    for seen in all.vpcs.values_mut() {
        if let Some(status) = &mut seen.status {
            status.observed_generation = 0;
        }
    }
    if let Some(northbound) = &mut all.northbound {
        northbound.nb_cfg = 0;
        let policies = std::mem::take(&mut northbound.policies).into_values();
        let policies = policies.map(|policy| (policy.subnet.clone(), policy));
        northbound.policies = policies.collect();
        for port in northbound.ports.values_mut() {
            port.row.clear();
            port.external_ids.remove(PENDING);
            for row in &mut port.chassis {
                row.row.clear();
            }
            port.chassis.sort_by_key(|row| row.priority);
        }
    }
    if let Some(southbound) = &mut all.southbound {
        for confirmed in southbound.chassis.values_mut() {
            *confirmed = 0;
        }
    }
    all
}

fn every_meta(all: &mut Snapshot, change: impl Fn(&mut Meta)) {
    let zones = all.zones.values_mut().map(|seen| &mut seen.meta);
    let vpcs = all.vpcs.values_mut().map(|seen| &mut seen.meta);
    let networks = all.networks.values_mut().map(|seen| &mut seen.meta);
    let providers = all.provider_networks.values_mut();
    let providers = providers.map(|seen| &mut seen.meta);
    let vlans = all.vlans.values_mut().map(|seen| &mut seen.meta);
    let routers = all.routers.values_mut().map(|seen| &mut seen.meta);
    let subnets = all.subnets.values_mut().map(|seen| &mut seen.meta);
    let attachments = all.attachments.values_mut().map(|seen| &mut seen.meta);
    let pools = all.pools.values_mut().map(|seen| &mut seen.meta);
    zones
        .chain(vpcs)
        .chain(networks)
        .chain(providers)
        .chain(vlans)
        .chain(routers)
        .chain(subnets)
        .chain(attachments)
        .chain(pools)
        .for_each(change);
}

fn every_condition(all: &mut Snapshot, change: impl Fn(&mut Condition)) {
    let zones = all
        .zones
        .values_mut()
        .filter_map(|seen| seen.status.as_mut());
    let zones = zones.flat_map(|status| &mut status.conditions);
    let vpcs = all
        .vpcs
        .values_mut()
        .filter_map(|seen| seen.status.as_mut());
    let vpcs = vpcs.flat_map(|status| &mut status.conditions);
    let networks = all.networks.values_mut();
    let networks = networks.filter_map(|seen| seen.status.as_mut());
    let networks = networks.flat_map(|status| &mut status.conditions);
    zones.chain(vpcs).chain(networks).for_each(change);
}

/// Fails with the lines that differ.
pub fn assert_alike(left: &Snapshot, right: &Snapshot, what: &str) {
    let (left, right) = (essence(left), essence(right));
    if left == right {
        return;
    }
    let (left, right) = (format!("{left:#?}"), format!("{right:#?}"));
    let only = |a: &str, b: &str| -> Vec<String> {
        let there: std::collections::BTreeSet<&str> = b.lines().collect();
        let lines = a.lines().enumerate();
        let other = lines.filter(|(_, line)| !there.contains(line));
        other.map(|(at, line)| format!("{at}: {line}")).collect()
    };
    panic!(
        "{what}: only on the left: {:#?}\nonly on the right: {:#?}",
        only(&left, &right),
        only(&right, &left)
    );
}
