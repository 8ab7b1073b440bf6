//! A Subnet's canonical spec, which is written back, and what is refused.

use causeway_api::kubeovn::Subnet;
use kube::ResourceExt;

use super::{is_ovn, pool};
use crate::{
    DEFAULT_VPC, JOIN_SUBNET,
    addresses::{canonical, network, ranges},
    cni::Cni,
    controller::Controller,
    pass::PassError,
};

impl<C: Cni> Controller<C> {
    /// Writes the spec back where it is not canonical.
    pub(super) async fn format_subnet(&self, subnet: &Subnet) -> Result<Subnet, PassError> {
        let mut changed = subnet.clone();
        let spec = &mut changed.spec;
        let cidr = spec.cidr_block.as_deref().unwrap_or_default();
        let cidr = network(cidr)?;
        let gateway = match spec.gateway.as_deref() {
            None | Some("") => cidr.hosts().next(),
            Some(gateway) => gateway.parse().ok(),
        };
        // What cannot be read stays, for validation to refuse it.
        if let Some(gateway) = gateway
            && let Ok(excluded) = ranges(spec.exclude_ips.as_deref().unwrap_or_default())
        {
            spec.gateway = Some(gateway.to_string());
            spec.exclude_ips = Some(canonical(&excluded, gateway));
        }
        spec.cidr_block = Some(cidr.to_string());
        spec.protocol = Some("IPv4".into());
        fill(&mut spec.provider, "ovn");
        if is_ovn(&changed) {
            fill(&mut changed.spec.vpc, DEFAULT_VPC);
        }
        let spec = &mut changed.spec;
        if spec.enable_lb.is_none() && subnet.metadata.name.as_deref() != Some(JOIN_SUBNET) {
            spec.enable_lb = Some(true);
        }
        self.objects.subnets.change(subnet, &changed).await
    }

    /// The reason that the condition gets, and why.
    pub(super) fn validate(&self, subnet: &Subnet) -> Result<(), (&'static str, PassError)> {
        self.validate_vlan(subnet)
            .map_err(|error| ("ValidateSubnetVlanFailed", error))?;
        validate_spec(subnet).map_err(|error| ("ValidateLogicalSwitchFailed", error))
    }

    /// Comes before the finalizer: a Subnet whose Vlan went first stays Terminating.
    fn validate_vlan(&self, subnet: &Subnet) -> Result<(), PassError> {
        let (name, vlan) = (
            subnet.name_any(),
            subnet.spec.vlan.as_deref().unwrap_or_default(),
        );
        if vlan.is_empty() {
            return Ok(());
        }
        let Some(found) = self.objects.vlans.get(vlan) else {
            return Err(PassError::refused(format!(
                "failed to validate vlan for subnet {name}, failed to get vlan {vlan}: \
                 vlan.kubeovn.io \"{vlan}\" not found"
            )));
        };
        if found.status.as_ref().and_then(|status| status.conflict) == Some(true) {
            return Err(PassError::refused(format!(
                "failed to validate vlan for subnet {name}, subnet {name} has invalid conflict vlan {vlan}"
            )));
        }
        Ok(())
    }

    /// Only Subnets of the same Vpc and the same Vlan are compared.
    pub(super) fn check_overlap(&self, subnet: &Subnet) -> Result<(), PassError> {
        let cidr = pool(subnet)?.cidr();
        let place = |subnet: &Subnet| {
            (
                subnet.spec.vpc.clone(),
                subnet.spec.vlan.clone().unwrap_or_default(),
            )
        };
        for other in self.objects.subnets.all() {
            if other.name_any() == subnet.name_any() || place(&other) != place(subnet) {
                continue;
            }
            let theirs = network(other.spec.cidr_block.as_deref().unwrap_or_default());
            let overlaps = |theirs: ipnet::Ipv4Net| {
                theirs.contains(&cidr.network()) || cidr.contains(&theirs.network())
            };
            if theirs.is_ok_and(overlaps) {
                return Err(PassError::refused(format!(
                    "subnet {} cidr {cidr} is conflict with subnet {} cidr {}",
                    subnet.name_any(),
                    other.name_any(),
                    other.spec.cidr_block.as_deref().unwrap_or_default(),
                )));
            }
        }
        Ok(())
    }
}

fn fill(field: &mut Option<String>, default: &str) {
    if field.as_deref().is_none_or(str::is_empty) {
        *field = Some(default.to_owned());
    }
}

fn validate_spec(subnet: &Subnet) -> Result<(), PassError> {
    let pool = pool(subnet)?;
    let (cidr, gateway) = (pool.cidr(), pool.gateway());
    let refuse = |words: String| Err(PassError::refused(words));
    if cidr.prefix_len() > 31 {
        return refuse(format!("subnet {cidr} is configured with /32 netmask"));
    }
    let edge = gateway == cidr.network() || gateway == cidr.broadcast();
    if !cidr.contains(&gateway) || edge {
        return refuse(format!("gateway {gateway} is not in cidr {cidr}"));
    }
    let reserved = cidr.network().is_loopback()
        || cidr.network().is_link_local()
        || cidr.network().is_multicast()
        || cidr.network().is_unspecified();
    if reserved {
        return refuse(format!("{cidr} conflict with reserved networks"));
    }
    for allowed in subnet.spec.allow_subnets.iter().flatten() {
        if allowed.parse::<ipnet::IpNet>().is_err() {
            return refuse(format!("{allowed} in allowSubnets is not a valid address"));
        }
    }
    if subnet.spec.vpc == subnet.metadata.name {
        return refuse(format!(
            "subnet {} and vpc cannot have the same name",
            subnet.name_any()
        ));
    }
    if subnet.spec.logical_gateway == Some(true) && subnet.spec.u2o_interconnection == Some(true) {
        return refuse(
            "logicalGateway and u2oInterconnection can't be opened at the same time".into(),
        );
    }
    Ok(())
}
