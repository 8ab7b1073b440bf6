//! How a VM range changes under pods and machines (design 3.3): `excludeIps` keeps pods off it, the
//! pool gives it to machines.
//!
//! Must stay true: no address is in the pool before Kube-OVN keeps pods off it and no pod has it,
//! and pods are kept off every address that the pool may give. So a range that grows goes to
//! `excludeIps` first, and one that shrinks leaves the pool first.

use super::{Pass, some_names};
use crate::{
    conditions::{Finding, Reason},
    model::{AddrRange, NetworkRecord, Pool, SubnetId, objects::network_excludes},
    usage::Usage,
};

impl Pass<'_> {
    /// excludeIps of the network's Subnet now.
    pub(super) fn excludes(&self, id: &SubnetId, record: &NetworkRecord) -> Vec<String> {
        let off_pods = |ranges: &[AddrRange]| network_excludes(record.gateway, ranges);
        let Some(before) = self.range_before(id, record) else {
            return off_pods(&[record.vm_range]);
        };
        match self.range_is_not_free(id, record) {
            // The pool comes first; what it gives until then stays off pods.
            None => self.excluded(id).unwrap_or_default(),
            // The range goes back until its pods are gone: it is not the machines' yet.
            Some(finding) if finding.reason == Reason::VMRangeBusy => off_pods(&[before]),
            Some(_) => off_pods(&[before, record.vm_range]),
        }
    }

    /// What keeps the record's range out of the pool, if anything does.
    pub(super) fn range_is_not_free(
        &self,
        id: &SubnetId,
        record: &NetworkRecord,
    ) -> Option<Finding> {
        let range = record.vm_range;
        let given = self.pool_range(id);
        if given == Some(range) {
            return None;
        }
        let pods = self.pods_inside(id, record);
        if !pods.is_empty() {
            let message = format!(
                "{range} cannot go to machines while pods have addresses of it: {}; remove them, \
                 or leave their addresses out",
                some_names(pods.iter())
            );
            return Some(Finding::bad(Reason::VMRangeBusy, message));
        }
        let excluded = self.excluded(id)?;
        let excluded = excluded
            .iter()
            .filter_map(|text| AddrRange::of_exclude(text));
        let asked = excluded.into_iter().any(|one| one.contains_all(&range));
        let status = self.snapshot.subnets.get(id.as_str())?.status.as_ref();
        let kept = match status.and_then(|status| status.available.as_ref()) {
            Some(available) => !available.iter().any(|one| one.overlaps(&range)),
            // A switch that was made with the range gives none of it.
            None => given.is_none(),
        };
        let waits = || Finding::pending(format!("Kube-OVN to keep pods off {range}"));
        (!asked || !kept).then(waits)
    }

    /// excludeIps as they are.
    fn excluded(&self, id: &SubnetId) -> Option<Vec<String>> {
        let subnet = self.snapshot.subnets.get(id.as_str())?;
        Some(subnet.spec.as_ref()?.exclude_ips.clone())
    }

    /// The pool's range, where it is another one than the record's. One outside the network was
    /// written by hand and gives no address of it.
    fn range_before(&self, id: &SubnetId, record: &NetworkRecord) -> Option<AddrRange> {
        let range = self.pool_range(id)?;
        let net = record.cidr.v4()?;
        let inside = net.contains(&range.first()) && net.contains(&range.last());
        (inside && range != record.vm_range).then_some(range)
    }

    fn pool_range(&self, id: &SubnetId) -> Option<AddrRange> {
        let pool: &Pool = self
            .snapshot
            .pools
            .get(&self.subnet_key(id))?
            .spec
            .as_ref()?;
        match pool.addresses.as_slice() {
            [one] => one.parse().ok(),
            _ => None,
        }
    }

    /// Pods with an address of the record's range.
    fn pods_inside(&self, id: &SubnetId, record: &NetworkRecord) -> Vec<String> {
        let usage = Usage::of(&self.subnet_key(id), self.snapshot);
        let inside = usage.pods.into_iter().filter_map(|(pod, address)| {
            let address = address.filter(|address| record.vm_range.contains(*address))?;
            Some(format!("pod {pod} ({address})"))
        });
        inside.collect()
    }
}
