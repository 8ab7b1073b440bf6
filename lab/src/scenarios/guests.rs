//! VMs on the networks of a VPC, plugged as Proxmox would: by the bridge and tag that the network's
//! status names.

use std::net::Ipv4Addr;

use causeway_api::ProxmoxNetwork;
use ipnet::Ipv4Net;

use super::ScenarioError;
use crate::{Guest, Vm, embedded::Embedded};

/// Makes VMs with addresses and MACs of their own.
pub struct Guests<'a> {
    embedded: &'a Embedded,
    made: u8,
}

impl<'a> Guests<'a> {
    /// None yet.
    pub fn new(embedded: &'a Embedded) -> Self {
        Self { embedded, made: 0 }
    }

    /// A VM on a network, with this address of its VM range.
    ///
    /// # Errors
    /// [`ScenarioError`] if the network's record cannot be read or the VM not be made.
    pub async fn vm(
        &mut self,
        hypervisor: &str,
        name: &str,
        network: &ProxmoxNetwork,
        address: Ipv4Addr,
    ) -> Result<Guest, ScenarioError> {
        self.made += 1;
        let missing = |what: &str| {
            let network = network.metadata.name.as_deref().unwrap_or_default();
            ScenarioError::Missing(format!("ProxmoxNetwork {network} has no {what}"))
        };
        let vlan = network.status.as_ref().and_then(|status| status.vlan);
        let cidr: Ipv4Net = network.spec.cidr.parse().map_err(|_| missing("CIDR"))?;
        let gateway = network
            .spec
            .gateway
            .parse()
            .map_err(|_| missing("gateway"))?;
        let address = Ipv4Net::new(address, cidr.prefix_len()).map_err(|_| missing("prefix"))?;
        let vm = Vm {
            hypervisor: hypervisor.to_owned(),
            name: name.to_owned(),
            tag: vlan.ok_or_else(|| missing("VLAN"))?,
            mac: format!("bc:24:11:00:00:{:02x}", self.made),
            address,
            gateway: Some(gateway),
        };
        Ok(self.embedded.site.vm(vm).await?)
    }
}
