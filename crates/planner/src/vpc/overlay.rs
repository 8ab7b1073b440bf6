//! An overlay subnet (design 3.3.3): its attachment and a private Subnet. Waits for the router only.

use super::Pass;
use crate::{
    conditions::{Finding, Reason},
    model::{Cidr, KubeOvnSubnet, SubnetId, SubnetSpec},
};

impl Pass<'_> {
    /// Makes and keeps one overlay subnet.
    pub(super) fn build_overlay(&mut self, id: &SubnetId, subnet: &SubnetSpec, allow: &[Cidr]) {
        if let Some(why) = self.subnet_collision(id, subnet) {
            let finding = Finding::bad(Reason::NameCollision, why);
            self.networks.insert(id.clone(), finding);
            return;
        }
        let spec = KubeOvnSubnet::overlay(
            self.id.clone(),
            subnet.cidr,
            subnet.gateway,
            id.provider(&self.key.namespace),
            allow.to_vec(),
            self.snapshot.settings.overlay_mtu,
        );
        self.ensure_subnet(id, &subnet.name, &spec, false);
        let finding = self.overlay(id);
        self.networks.insert(id.clone(), finding);
    }

    fn overlay(&self, id: &SubnetId) -> Finding {
        if let Some(finding) = self.without_switch(id) {
            return finding;
        }
        if let Some(why) = self.previous(id) {
            return Finding::bad(Reason::PreviousSubnetTerminating, why);
        }
        let Some(seen) = self.snapshot.subnets.get(id.as_str()) else {
            return Finding::pending(format!("Subnet \"{id}\""));
        };
        let status = seen.status.clone().unwrap_or_default();
        match status.ready {
            Some(true) => Finding::good(Reason::Ready, ""),
            Some(false) => Finding::bad(
                Reason::KubeOVNRejected,
                format!("Kube-OVN refuses Subnet \"{id}\": {}", status.message),
            ),
            None => Finding::bad(
                Reason::WaitingForKubeOVN,
                format!("Kube-OVN has not made the switch of Subnet \"{id}\" yet"),
            ),
        }
    }
}
