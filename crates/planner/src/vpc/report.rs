//! What is reported on a VPC and its networks: statuses that differ from what is written.

use super::{Intent, Pass};
use crate::{
    conditions::{Condition, ConditionType, Finding, Reason},
    model::{NetworkRecord, SubnetBacking, SubnetId, VpcSpec},
    northbound,
    plan::StatusWrite,
    snapshot::{Mirror, NetworkStatus, SubnetReport, VpcStatus},
};

impl Pass<'_> {
    /// Reports one network. `removal` is its Ready while it is being removed.
    pub(super) fn report_network(
        &mut self,
        id: &SubnetId,
        seen: &Mirror<NetworkRecord, NetworkStatus>,
        record: &NetworkRecord,
        found: [(ConditionType, Finding); 6],
        removal: Option<Finding>,
    ) {
        let ready = removal.unwrap_or_else(|| {
            let first = found.iter().find(|(_, finding)| !finding.is_true());
            first.map_or_else(
                || Finding::good(Reason::Ready, ""),
                |(_, finding)| finding.clone(),
            )
        });
        let generation = seen.meta.generation;
        let earlier = seen.status.clone().unwrap_or_default();
        let zone = record
            .zone
            .as_ref()
            .and_then(|zone| self.snapshot.zones.get(zone));
        let spec = record.zone.as_ref().and_then(|zone| self.zone(zone).ok());
        let gateway_chassis = northbound::gateway_nodes(id, record, self.snapshot);
        let pool = self.snapshot.pools.get(&self.subnet_key(id));
        let conditions: Vec<Condition> = found
            .into_iter()
            .chain([(ConditionType::Ready, ready.clone())])
            .map(|(kind, finding)| {
                finding.into_condition(kind, &earlier.conditions, generation, self.snapshot.now)
            })
            .collect();
        let status = NetworkStatus {
            observed_generation: generation,
            vlan: self.held_vlan(id).map(|held| held.vid),
            bridge: zone.map(|zone| zone.spec.bridge.clone()),
            mtu: spec.map(|spec| spec.mtu).or(earlier.mtu),
            pool: pool.map(|_| id.to_string()),
            addresses: self.pool_state(id),
            gateway_chassis,
            conditions,
        };
        self.networks.insert(id.clone(), ready);
        if seen.status.as_ref() != Some(&status) {
            self.plan
                .statuses
                .push(StatusWrite::Network(self.subnet_key(id), status));
        }
    }

    /// Reports a network whose id is somebody else's, if it has a record.
    pub(super) fn report_collision(&mut self, id: &SubnetId, finding: Finding) {
        let mine = |record: &&NetworkRecord| record.vpc == self.key.name;
        let record = self.record(id).filter(mine);
        if let (Some(seen), Some(record)) = (self.network(id), record) {
            let found = self
                .observe_network(id, "another name")
                .map(|(kind, other)| match kind {
                    ConditionType::VLANAllocated => (kind, finding.clone()),
                    _ => (kind, other),
                });
            self.report_network(id, seen, record, found, Some(finding.clone()));
        }
        self.networks.insert(id.clone(), finding);
    }

    /// Reports the VPC itself, while its object exists.
    pub(super) fn report_vpc(&mut self, intent: &Intent) {
        let Some(object) = self.object else { return };
        let generation = object.meta.generation;
        let earlier = object.status.clone().unwrap_or_default();
        let shown = match intent {
            Intent::Wanted { spec, .. } | Intent::Draining { spec, .. } => Some(spec),
            Intent::Refused { last, .. } => last.as_ref(),
            Intent::Gone => None,
        };
        let ready = self.vpc_ready(intent).into_condition(
            ConditionType::Ready,
            &earlier.conditions,
            generation,
            self.snapshot.now,
        );
        let status = VpcStatus {
            observed_generation: generation,
            router: self.router_is_up().then(|| self.id.to_string()),
            subnets: shown
                .map(|spec| self.subnet_reports(spec))
                .unwrap_or_default(),
            conditions: vec![ready],
        };
        if object.status.as_ref() != Some(&status) {
            self.plan
                .statuses
                .push(StatusWrite::Vpc(self.key.clone(), status));
        }
    }

    fn vpc_ready(&self, intent: &Intent) -> Finding {
        if let Some(why) = self.collision() {
            return Finding::bad(Reason::NameCollision, why);
        }
        match intent {
            Intent::Refused { why, .. } => return Finding::bad(Reason::SpecRefused, why.clone()),
            Intent::Gone => return Finding::bad(Reason::Terminating, "the VPC is being removed"),
            Intent::Wanted { .. } | Intent::Draining { .. } => {}
        }
        if !self.router_is_up() {
            return Finding::bad(Reason::WaitingForVPC, self.no_router());
        }
        if self.router_is_going() {
            return Finding::bad(
                Reason::WaitingForVPC,
                format!(
                    "Vpc \"{}\" was deleted; it is made again once no address of its subnets is in use",
                    self.id
                ),
            );
        }
        let failing = self.networks.iter().find(|(_, finding)| !finding.is_true());
        match failing {
            Some((id, finding)) => Finding::bad(
                Reason::NetworkNotReady,
                format!("{id}: {}: {}", finding.reason, finding.message),
            ),
            None => Finding::good(Reason::Ready, ""),
        }
    }

    fn subnet_reports(&self, spec: &VpcSpec) -> Vec<SubnetReport> {
        spec.subnets
            .iter()
            .map(|subnet| {
                let id = self.key.subnet_id(&subnet.name);
                let found = self.networks.get(&id);
                SubnetReport {
                    name: subnet.name.to_string(),
                    cidr: subnet.cidr.to_string(),
                    proxmox: matches!(subnet.backing, SubnetBacking::Proxmox { .. }),
                    ready: found.is_some_and(Finding::is_true),
                    reason: found
                        .map_or(Reason::Pending, |finding| finding.reason)
                        .to_string(),
                    id: id.to_string(),
                }
            })
            .collect()
    }
}
