//! IP objects: the address goes back when one is deleted, whoever deletes it.

use causeway_api::{keys::KUBE_OVN_FINALIZER, kubeovn::IP};
use causeway_ovn::nb::{LogicalSwitch, LogicalSwitchPort};
use kube::ResourceExt;

use super::Controller;
use crate::{
    cni::Cni,
    northbound::{named, take_out},
    pass::PassError,
};

impl<C: Cni> Controller<C> {
    pub(super) async fn ip(&mut self, name: &str) -> Result<(), PassError> {
        let Some(ip) = self.objects.ips.get(name) else {
            return Ok(());
        };
        if ip.metadata.deletion_timestamp.is_none() {
            return Ok(());
        }
        let port = named::<LogicalSwitchPort>(&self.replica(), name)?.map(|(uuid, _)| uuid);
        self.transact(take_out::<LogicalSwitch>("ports", port))
            .await?;
        let mut free = IP::clone(&ip);
        free.finalizers_mut()
            .retain(|held| held != KUBE_OVN_FINALIZER);
        self.objects.ips.change(&ip, &free).await?;
        let address = ip.spec.v4_ip_address.as_deref();
        if let Some(subnet) = &ip.spec.subnet
            && let Some(address) = address.and_then(|address| address.parse().ok())
        {
            let given_back = self.given_back.entry(subnet.clone()).or_default();
            given_back.insert(address);
        }
        Ok(())
    }
}
