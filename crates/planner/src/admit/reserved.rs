//! Addresses that are the site's own (design 2.2, `reservedCIDRs`): a tenant's subnet over one of
//! them would cut everybody off from it.

use ipnet::Ipv4Net;

use super::rules::ipv4_cidr;
use crate::{model::Cidr, snapshot::Snapshot};

/// The CIDRs, and what each of them is.
pub(super) fn reserved(snapshot: &Snapshot) -> Vec<(Cidr, String)> {
    let settings = snapshot.settings.reserved_cidrs.iter();
    let settings = settings.map(|cidr| (*cidr, "which the administrator has reserved".to_owned()));
    let subnets = snapshot.site_subnets.iter();
    let subnets = subnets.map(|(name, cidr)| (*cidr, format!("Kube-OVN's own Subnet \"{name}\"")));
    let services = snapshot.service_cidrs.iter();
    let services = services.flat_map(|(name, cidrs)| {
        let what = format!("the cluster's ServiceCIDR \"{name}\"");
        cidrs.iter().map(move |cidr| (*cidr, what.clone()))
    });
    let nodes = snapshot.nodes.iter().flat_map(|(name, node)| {
        let what = format!("the address of node \"{name}\"");
        let hosts = node.addresses.iter().map(|address| Ipv4Net::from(*address));
        hosts.map(move |host| (Cidr::from(host), what.clone()))
    });
    let transits = snapshot.zones.iter().filter_map(|(name, zone)| {
        let (cidr, _) = ipv4_cidr(&zone.spec.transit.as_ref()?.cidr).ok()?;
        Some((cidr, format!("the transit network of zone \"{name}\"")))
    });
    settings
        .chain(subnets)
        .chain(services)
        .chain(nodes)
        .chain(transits)
        .collect()
}
