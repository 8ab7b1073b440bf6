//! Vlans: on which provider network they are carried, and which of them conflict.

use std::sync::Arc;

use causeway_api::kubeovn::{ProviderNetwork, Vlan};
use causeway_ovn::{Condition, Operation, Row, nb::LogicalSwitchPort, table::Column};
use kube::ResourceExt;

use super::Controller;
use crate::{cni::Cni, northbound::named, pass::PassError};

impl<C: Cni> Controller<C> {
    pub(super) async fn vlan(&mut self, name: &str) -> Result<(), PassError> {
        let Some(vlan) = self.objects.vlans.get(name) else {
            return self.vlan_gone(name).await;
        };
        let vlan = self.list_subnets_once(&vlan).await?;
        let Some(network) = self.objects.networks.get(&vlan.spec.provider) else {
            let network = &vlan.spec.provider;
            return Err(PassError::waiting(format!("provider network {network}")));
        };
        self.check_conflict(&vlan).await?;
        self.carry(&network, name).await?;
        self.tag_localnet_ports(&vlan).await
    }

    /// Deletion is immediate: nothing holds a Vlan, and its Subnets are left with their ports.
    async fn vlan_gone(&mut self, name: &str) -> Result<(), PassError> {
        for network in self.objects.networks.all() {
            let mut changed = ProviderNetwork::clone(&network);
            if let Some(status) = &mut changed.status {
                take_name(&mut status.vlans, name);
            }
            self.objects
                .networks
                .change_status(&network, &changed)
                .await?;
        }
        Ok(())
    }

    /// The first pass over a Vlan lists every Subnet that names it, before it has a switch; later
    /// the Subnets' own passes add themselves.
    async fn list_subnets_once(&mut self, vlan: &Arc<Vlan>) -> Result<Vlan, PassError> {
        let uid = vlan.uid().unwrap_or_default();
        let mut changed = Vlan::clone(vlan);
        if self.begun_vlans.contains(&uid) {
            return Ok(changed);
        }
        let name = vlan.name_any();
        for subnet in self.objects.subnets.all() {
            if subnet.spec.vlan.as_ref() == Some(&name) {
                list(&mut changed, &subnet.name_any());
            }
        }
        let changed = self.objects.vlans.change_status(vlan, &changed).await?;
        self.begun_vlans.insert(uid);
        Ok(changed)
    }

    /// It is the Vlan looked at that gets the mark, not necessarily the newer one.
    async fn check_conflict(&self, vlan: &Vlan) -> Result<(), PassError> {
        let (name, network, id) = (
            vlan.name_any(),
            &vlan.spec.provider,
            vlan.spec.id.unwrap_or(0),
        );
        let rival = self.objects.vlans.all().find(|other| {
            other.name_any() != name
                && other.spec.provider == *network
                && other.spec.id.unwrap_or(0) == id
                && id != 0
        });
        let marked = vlan.status.as_ref().and_then(|status| status.conflict) == Some(true);
        if marked != rival.is_some() {
            let mut changed = vlan.clone();
            changed.status.get_or_insert_default().conflict = rival.is_some().then_some(true);
            self.objects.vlans.change_status(vlan, &changed).await?;
        }
        match rival {
            None => Ok(()),
            Some(rival) => Err(PassError::refused(format!(
                "provider {network} new vlan {name} conflict with old vlan {}",
                rival.name_any()
            ))),
        }
    }

    async fn carry(&self, network: &ProviderNetwork, name: &str) -> Result<(), PassError> {
        let mut changed = network.clone();
        let vlans = changed
            .status
            .get_or_insert_default()
            .vlans
            .get_or_insert_default();
        if !vlans.iter().any(|carried| carried == name) {
            vlans.push(name.to_owned());
        }
        self.objects
            .networks
            .change_status(network, &changed)
            .await?;
        Ok(())
    }

    /// The tag of ports that are there follows the Vlan; a Subnet's own pass never changes it.
    async fn tag_localnet_ports(&self, vlan: &Vlan) -> Result<(), PassError> {
        let replica = self.replica();
        let tag = vlan.spec.id.filter(|id| *id > 0).map(i64::from);
        let mut operations = Vec::new();
        for subnet in self.objects.subnets.all() {
            if subnet.spec.vlan != vlan.metadata.name {
                continue;
            }
            let port = super::subnet::localnet_port(&subnet.name_any());
            if let Some((uuid, row)) = named::<LogicalSwitchPort>(&replica, &port)?
                && row.tag != tag
            {
                let tag = Row::from([("tag".into(), tag.write())]);
                operations.push(Operation::update::<LogicalSwitchPort>(
                    Condition::is(uuid),
                    tag,
                ));
            }
        }
        self.transact(operations).await
    }

    /// A Subnet with its rows is on the Vlan.
    pub(super) async fn list_on_vlan(&self, name: &str, subnet: &str) -> Result<(), PassError> {
        let Some(vlan) = self.objects.vlans.get(name) else {
            return Err(PassError::waiting(format!("vlan {name}")));
        };
        let mut changed = Vlan::clone(&vlan);
        list(&mut changed, subnet);
        self.objects.vlans.change_status(&vlan, &changed).await?;
        Ok(())
    }

    /// The last step of a Subnet's removal.
    pub(super) async fn take_off_vlans(&self, subnet: &str) -> Result<(), PassError> {
        for vlan in self.objects.vlans.all() {
            let mut changed = Vlan::clone(&vlan);
            if let Some(status) = &mut changed.status {
                take_name(&mut status.subnets, subnet);
            }
            self.objects.vlans.change_status(&vlan, &changed).await?;
        }
        Ok(())
    }
}

fn list(vlan: &mut Vlan, subnet: &str) {
    let subnets = vlan
        .status
        .get_or_insert_default()
        .subnets
        .get_or_insert_default();
    if !subnets.iter().any(|listed| listed == subnet) {
        subnets.push(subnet.to_owned());
    }
}

/// Takes a name out of a list, and the list away with its last name.
fn take_name(names: &mut Option<Vec<String>>, name: &str) {
    if let Some(names) = names {
        names.retain(|held| held != name);
    }
    names.take_if(|names| names.is_empty());
}
