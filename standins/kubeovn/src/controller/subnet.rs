//! Subnets: a logical switch each, with its ports to router and VLAN.
//!
//! Must stay true, for watchers rely on it: the object goes first (its finalizer falls when no
//! address is in use), then its rows, then its name in `Vlan.status.subnets`.

mod format;
mod rows;
mod status;

use std::net::Ipv4Addr;

use causeway_api::{
    keys::KUBE_OVN_FINALIZER,
    kubeovn::{Subnet, SubnetStatus, Vpc},
};
use kube::ResourceExt;

use super::Controller;
use crate::{DEFAULT_VPC, addresses::Pool, cni::Cni, pass::PassError};

pub(super) use rows::localnet_port;

impl<C: Cni> Controller<C> {
    pub(super) async fn subnet(&mut self, name: &str) -> Result<(), PassError> {
        let Some(subnet) = self.objects.subnets.get(name) else {
            return self.subnet_gone(name).await;
        };
        let subnet = self.format_subnet(&subnet).await?;
        let vpc = subnet.spec.vpc.clone().unwrap_or_default();
        self.seen_subnets.insert(name.to_owned(), vpc);
        let mut status = subnet.status.clone().unwrap_or_default();
        let outcome = self.reconcile_subnet(&subnet, &mut status).await;
        // Setting the finalizer has made a newer one of it; letting it go may have ended it.
        let Some(current) = self.objects.subnets.get(name) else {
            return outcome;
        };
        let mut changed = Subnet::clone(&current);
        changed.status = Some(status);
        let written = self.objects.subnets.change_status(&current, &changed).await;
        outcome.and(written.map(drop))
    }

    async fn reconcile_subnet(
        &mut self,
        subnet: &Subnet,
        status: &mut SubnetStatus,
    ) -> Result<(), PassError> {
        let name = subnet.name_any();
        let valid = self.validate(subnet);
        if (valid.is_ok() || self.known_subnets.contains(&name))
            && let Ok(pool) = pool(subnet)
        {
            status::count(status, pool.counters(&self.used(&name)));
        }
        if let Err((reason, error)) = valid {
            status::failed(status, reason, &error.to_string());
            return Err(error);
        }
        self.known_subnets.insert(name.clone());
        status::passed(status, "ValidateLogicalSwitchSuccess");
        if self.hold_or_free(subnet, status).await? {
            return Ok(());
        }
        if !is_ovn(subnet) {
            status::passed(status, "SetNonOvnSubnetSuccess");
            return Ok(());
        }
        let vpc = self.standby_vpc(subnet)?;
        if let Err(error) = self.check_overlap(subnet) {
            status::failed(status, "ValidateLogicalSwitchFailed", &error.to_string());
            return Err(error);
        }
        status::all_three(status);
        let operations = self.subnet_operations(subnet, &vpc)?;
        self.transact(operations).await?;
        if let Some(vlan) = &subnet.spec.vlan
            && !vlan.is_empty()
        {
            self.list_on_vlan(vlan, &name).await?;
        }
        let private = subnet.spec.private == Some(true);
        status::passed(
            status,
            if private {
                "SetPrivateLogicalSwitchSuccess"
            } else {
                "ResetLogicalSwitchAclSuccess"
            },
        );
        Ok(())
    }

    /// Sets the finalizer, or takes it away from a Subnet that is to go and has no address in use.
    /// Whether the Subnet is let go.
    async fn hold_or_free(
        &self,
        subnet: &Subnet,
        status: &SubnetStatus,
    ) -> Result<bool, PassError> {
        let going = subnet.metadata.deletion_timestamp.is_some();
        if going && status.v4_using_ips.unwrap_or(0) > 0 {
            return Ok(false);
        }
        let mut changed = subnet.clone();
        let finalizers = changed.finalizers_mut();
        if going {
            finalizers.retain(|held| held != KUBE_OVN_FINALIZER);
        } else if !finalizers.iter().any(|held| held == KUBE_OVN_FINALIZER) {
            finalizers.push(KUBE_OVN_FINALIZER.into());
        }
        self.objects.subnets.change(subnet, &changed).await?;
        Ok(going)
    }

    fn standby_vpc(&self, subnet: &Subnet) -> Result<Vpc, PassError> {
        let name = subnet.spec.vpc.as_deref().unwrap_or_default();
        let vpc = self.objects.vpcs.get(name);
        let vpc = vpc.ok_or_else(|| PassError::waiting(format!("vpc {name}")))?;
        if vpc.status.as_ref().and_then(|status| status.standby) != Some(true) {
            return Err(PassError::waiting(format!("vpc {name} to be standby")));
        }
        let admitted = vpc.spec.namespaces.as_deref().unwrap_or_default();
        let foreign = subnet
            .spec
            .namespaces
            .iter()
            .flatten()
            .find(|it| !admitted.contains(it));
        match foreign {
            Some(namespace) if name != DEFAULT_VPC => Err(PassError::refused(format!(
                "namespace '{namespace}' is out of range to custom vpc '{name}'"
            ))),
            _ => Ok(Vpc::clone(&vpc)),
        }
    }

    /// The addresses that IP objects of this Subnet hold.
    pub(super) fn used(&self, subnet: &str) -> Vec<Ipv4Addr> {
        let ips = self.objects.ips.all();
        let ips = ips.filter(|ip| ip.spec.subnet.as_deref() == Some(subnet));
        ips.filter_map(|ip| ip.spec.v4_ip_address.as_ref()?.parse().ok())
            .collect()
    }

    /// Only after a Subnet that was seen to go.
    async fn subnet_gone(&mut self, name: &str) -> Result<(), PassError> {
        let Some(vpc) = self.seen_subnets.get(name) else {
            return Ok(());
        };
        // A router that is gone took its ports along; the real one then looks at the default one.
        let there = self.objects.vpcs.get(vpc).is_some();
        let router = if there { vpc.as_str() } else { DEFAULT_VPC };
        let operations = rows::removal(&self.replica(), name, router)?;
        self.transact(operations).await?;
        self.take_off_vlans(name).await?;
        self.seen_subnets.remove(name);
        self.known_subnets.remove(name);
        self.given_back.remove(name);
        Ok(())
    }
}

/// Whether it is a logical switch at all.
pub(super) fn is_ovn(subnet: &Subnet) -> bool {
    let provider = subnet.spec.provider.as_deref().unwrap_or("ovn");
    provider.rsplit('.').next() == Some("ovn")
}

/// The addresses of a formatted Subnet.
pub(super) fn pool(subnet: &Subnet) -> Result<Pool, PassError> {
    let spec = &subnet.spec;
    let cidr = crate::addresses::network(spec.cidr_block.as_deref().unwrap_or_default())?;
    let gateway = spec.gateway.as_deref().unwrap_or_default();
    let gateway = gateway.parse().map_err(|_| {
        PassError::refused(format!("gateway {gateway} is not a valid IPv4 address"))
    })?;
    let excluded = crate::addresses::ranges(spec.exclude_ips.as_deref().unwrap_or_default())?;
    Ok(Pool::new(cidr, gateway, excluded))
}

/// Whether its switch has a port on the router.
pub(super) fn has_router_port(subnet: &Subnet) -> bool {
    let on_vlan = subnet
        .spec
        .vlan
        .as_deref()
        .is_some_and(|vlan| !vlan.is_empty());
    !on_vlan || subnet.spec.logical_gateway == Some(true)
}
