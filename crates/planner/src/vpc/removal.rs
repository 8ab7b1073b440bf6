//! How networks, overlay subnets and the VPC go (design 3.7): pool, Subnet gone with its
//! switch, port and policy, claim released, attachment, record, and the router last. Another order
//! sticks Kube-OVN for ever. What an outage of Kube-OVN leaves of them is removed by the plan of the
//! northbound rows.
//!
//! Must stay true: nothing is taken away while an address is in use.

use std::collections::BTreeSet;

use super::{Pass, records_of};
use crate::{
    conditions::{ConditionType, Finding, Reason},
    model::{SubnetId, objects},
    plan::{self, Kind, Target},
    usage::Usage,
};

impl Pass<'_> {
    /// Takes away every subnet of the VPC that is not wanted.
    pub(super) fn remove_subnets_except(&mut self, wanted: &BTreeSet<SubnetId>) {
        let (key, id, snapshot) = (self.key.clone(), self.id.clone(), self.snapshot);
        let networks: BTreeSet<SubnetId> = records_of(&key, &id, snapshot)
            .map(|(name, _, _)| name.id.clone())
            .collect();
        for id in networks.difference(wanted) {
            self.remove_network(id);
        }
        let overlays = self.subnets_bearing_our_labels();
        for id in overlays.difference(wanted) {
            if !networks.contains(id) {
                self.remove_overlay(id);
            }
        }
    }

    /// Takes away the whole VPC.
    pub(super) fn remove_vpc(&mut self) {
        self.remove_subnets_except(&BTreeSet::new());
        if !self.is_bare() {
            return;
        }
        let Some(router) = self.router else { return };
        let target = Target::cluster(Kind::Vpc, &self.id);
        self.plan.steps.extend(plan::remove(target, &router.meta));
    }

    /// Whether the router is all that is left.
    fn is_bare(&self) -> bool {
        let names_router = self.snapshot.subnets.values().any(|seen| {
            let vpc = seen.spec.as_ref().map(|spec| &spec.vpc);
            vpc == Some(&self.id)
        });
        let records = records_of(self.key, &self.id, self.snapshot).next();
        records.is_none() && !names_router && self.subnets_bearing_our_labels().is_empty()
    }

    /// Ids of Subnets, attachments and pools that bear the VPC's labels.
    fn subnets_bearing_our_labels(&self) -> BTreeSet<SubnetId> {
        let subnets = self
            .snapshot
            .subnets
            .iter()
            .map(|(name, seen)| (SubnetId::from(name.as_str()), &seen.meta));
        let attachments = self
            .snapshot
            .attachments
            .iter()
            .map(|(key, seen)| (key.id.clone(), &seen.meta));
        let pools = self
            .snapshot
            .pools
            .iter()
            .map(|(key, seen)| (key.id.clone(), &seen.meta));
        subnets
            .chain(attachments)
            .chain(pools)
            .filter(|(_, meta)| {
                meta.is_ours() && objects::vpc_owner(&meta.labels).as_ref() == Some(self.key)
            })
            .map(|(id, _)| id)
            .collect()
    }

    /// Takes one network away, as far as is safe now.
    pub(super) fn remove_network(&mut self, id: &SubnetId) {
        let (Some(seen), Some(record)) = (self.network(id), self.record(id)) else {
            return;
        };
        let Some(users) = self.users(id) else {
            let waits = self.take_apart(id);
            let status = Finding::bad(Reason::Terminating, waits);
            let found = self.observe_network(id, "the end of its removal");
            self.report_network(id, seen, record, found, Some(status));
            return;
        };
        let zone = record
            .zone
            .as_ref()
            .map_or_else(|| Err(Finding::pending("a zone")), |zone| self.zone(zone));
        // What carries traffic is kept as it should be until the last user is gone.
        let found = self.keep_network(id, seen, record, zone).in_order();
        self.report_network(id, seen, record, found, Some(users));
    }

    /// The next steps of a network that nobody uses, and what they wait for.
    fn take_apart(&mut self, id: &SubnetId) -> String {
        let key = self.subnet_key(id);
        if let Some(pool) = self.snapshot.pools.get(&key) {
            let step = plan::remove(self.target(Kind::Pool, id), &pool.meta);
            self.plan.steps.extend(step);
            return format!("waits for InClusterIPPool \"{id}\" to go");
        }
        if let Some(waits) = self.claim_again(id) {
            return waits;
        }
        if let Some(waits) = self.remove_switch(id) {
            return waits;
        }
        let before = self.plan.steps.len();
        self.release_claims(id, None);
        if self.plan.steps.len() > before {
            return "waits for the VLAN to be released".to_owned();
        }
        if let Some(attachment) = self.snapshot.attachments.get(&key) {
            let step = plan::remove(self.target(Kind::Attachment, id), &attachment.meta);
            self.plan.steps.extend(step);
            return format!("waits for NetworkAttachmentDefinition \"{id}\" to go");
        }
        if let Some(network) = self.network(id) {
            let step = plan::remove(self.target(Kind::Network, id), &network.meta);
            self.plan.steps.extend(step);
        }
        "waits for ProxmoxNetwork to go".to_owned()
    }

    /// Kube-OVN never lets a Subnet go whose Vlan was deleted under it (seen): the Vlan comes back
    /// first.
    fn claim_again(&mut self, id: &SubnetId) -> Option<String> {
        let (network, record) = (self.network(id)?, self.record(id)?);
        let zone = self.zone(record.zone.as_ref()?).ok()?;
        let lost = self.lost_claim(id, &zone)?;
        let name = objects::claim_name(&zone.wire, lost);
        if self.snapshot.vlans.contains_key(&name) || self.is_a_strangers_switch(id) {
            return None;
        }
        self.propose(lost, network.meta.version.uid.clone(), record, &zone);
        Some(format!(
            "waits for Vlan \"{name}\", which was deleted too early"
        ))
    }

    /// Takes the Subnet away; None once its switch, its router port and its policy are gone too.
    fn remove_switch(&mut self, id: &SubnetId) -> Option<String> {
        if self.is_a_strangers_switch(id) {
            return None;
        }
        if let Some(subnet) = self.snapshot.subnets.get(id.as_str()) {
            let target = Target::cluster(Kind::Subnet, id);
            self.plan.steps.extend(plan::remove(target, &subnet.meta));
            return Some(format!("waits for Kube-OVN to remove Subnet \"{id}\""));
        }
        if !self.snapshot.served.kube_ovn {
            return None;
        }
        let Some(northbound) = &self.snapshot.northbound else {
            return Some(format!(
                "waits for the OVN northbound database, to see that the switch of \"{id}\" is gone"
            ));
        };
        let port = self.id.router_port(id);
        let left = if northbound.switches.contains(id.as_str()) {
            format!("switch \"{id}\"")
        } else if northbound.ports.contains_key(&port) {
            format!("router port \"{port}\"")
        } else if northbound.has_policy_of(id.as_str()) {
            format!("the router policy of \"{id}\"")
        } else {
            return None;
        };
        Some(format!("waits for Kube-OVN to remove {left}"))
    }

    /// Takes an overlay subnet, or what is left of a network without record, away.
    fn remove_overlay(&mut self, id: &SubnetId) {
        if let Some(users) = self.users(id) {
            self.networks.insert(id.clone(), users);
            return;
        }
        let key = self.subnet_key(id);
        let finding = Finding::bad(Reason::Terminating, format!("Subnet \"{id}\" is going"));
        self.networks.insert(id.clone(), finding);
        if let Some(pool) = self.snapshot.pools.get(&key) {
            let step = plan::remove(self.target(Kind::Pool, id), &pool.meta);
            self.plan.steps.extend(step);
            return;
        }
        if self.remove_switch(id).is_some() {
            return;
        }
        if let Some(attachment) = self.snapshot.attachments.get(&key) {
            let step = plan::remove(self.target(Kind::Attachment, id), &attachment.meta);
            self.plan.steps.extend(step);
        }
    }

    /// Who holds an address of the subnet, if anybody does.
    pub(super) fn users(&self, id: &SubnetId) -> Option<Finding> {
        let key = self.subnet_key(id);
        let usage = if self.is_a_strangers_switch(id) {
            Usage::of_pool(&key, self.snapshot)
        } else {
            Usage::of(&key, self.snapshot)
        };
        (!usage.is_none()).then(|| {
            let (count, who) = (usage.count(), usage.named(&key));
            Finding::bad(
                Reason::InUse,
                format!("held by {}: {who}", addresses_in_use(count)),
            )
        })
    }

    /// Whether anybody holds an address of any subnet of the VPC.
    pub(super) fn is_used(&self) -> bool {
        let records = records_of(self.key, &self.id, self.snapshot);
        let networks = records.map(|(name, _, _)| name.id.clone());
        let mut subnets = networks.chain(self.subnets_bearing_our_labels());
        subnets.any(|id| self.users(&id).is_some())
    }

    /// Whether the Subnet of this name is another VPC's (ids of 32 bits do collide).
    fn is_a_strangers_switch(&self, id: &SubnetId) -> bool {
        let subnet = self.snapshot.subnets.get(id.as_str());
        subnet.is_some_and(|subnet| subnet.meta.is_of_another(self.key))
    }

    /// The conditions of a network of which nothing is kept true: what it waits for.
    pub(super) fn observe_network(
        &self,
        id: &SubnetId,
        what: &str,
    ) -> [(ConditionType, Finding); 6] {
        let going = || Finding::pending(what);
        let vlan = self.held_vlan(id).map_or_else(going, |held| {
            Finding::good(Reason::Allocated, format!("VLAN {}", held.vid))
        });
        [
            (ConditionType::ZoneReady, going()),
            (ConditionType::VLANAllocated, vlan),
            (ConditionType::TrunkReady, going()),
            (ConditionType::SwitchReady, going()),
            (ConditionType::GatewayReady, going()),
            (ConditionType::PoolReady, going()),
        ]
    }
}

fn addresses_in_use(count: u64) -> String {
    match count {
        1 => "1 address in use".to_owned(),
        _ => format!("{count} addresses in use"),
    }
}
