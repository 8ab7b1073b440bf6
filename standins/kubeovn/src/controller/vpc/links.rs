//! Links between routers: a port on each side, which names the other.
//!
//! Must stay true: of a port that is there only `networks` is ever written; no route comes with a link.

use std::collections::BTreeSet;

use causeway_api::kubeovn::Vpc;
use causeway_ovn::{
    Condition, Operation, Replica, Row,
    nb::{LogicalRouter, LogicalRouterPort},
    table::Column,
};
use ipnet::IpNet;
use kube::ResourceExt;

use crate::{
    cni::Cni,
    controller::Controller,
    northbound::{Reference, add_to, ids, named, take_out},
    pass::PassError,
};

/// A port of this router as it is to be.
pub(super) struct Link {
    router: String,
    port: String,
    peer: String,
    networks: BTreeSet<String>,
    /// For a port that is to be made.
    mac: String,
}

/// The name of a router's port to another one.
pub(in crate::controller) fn port(router: &str, remote: &str) -> String {
    format!("{router}-{remote}")
}

impl<C: Cni> Controller<C> {
    /// The links that a Vpc states.
    pub(super) fn links(&mut self, vpc: &Vpc) -> Result<Vec<Link>, PassError> {
        let router = vpc.name_any();
        let mut links = Vec::new();
        for peering in vpc.spec.vpc_peerings.iter().flatten() {
            let remote = peering.remote_vpc.as_deref().unwrap_or_default();
            let addresses = peering.local_connect_ip.as_deref().unwrap_or_default();
            let networks: BTreeSet<String> = addresses.split(',').map(str::to_owned).collect();
            if networks
                .iter()
                .any(|network| network.parse::<IpNet>().is_err())
            {
                return Err(PassError::refused(format!("CIDRInvalid: {addresses}")));
            }
            let port = port(&router, remote);
            links.push(Link {
                mac: self.macs.draw(&port),
                peer: self::port(remote, &router),
                router: router.clone(),
                port,
                networks,
            });
        }
        Ok(links)
    }
}

/// The Vpcs that a Vpc is linked to, as its status says it.
pub(super) fn remotes(vpc: &Vpc) -> Vec<String> {
    let peerings = vpc.spec.vpc_peerings.iter().flatten();
    peerings.filter_map(|it| it.remote_vpc.clone()).collect()
}

/// Links that the status still names and the spec no longer.
pub(super) fn removal(replica: &Replica, vpc: &Vpc) -> Result<Vec<Operation>, PassError> {
    let wanted = remotes(vpc);
    let status = vpc.status.as_ref();
    let known = status.and_then(|status| status.vpc_peerings.as_ref());
    let mut operations = Vec::new();
    for remote in known
        .into_iter()
        .flatten()
        .filter(|it| !wanted.contains(it))
    {
        let row = named::<LogicalRouterPort>(replica, &port(&vpc.name_any(), remote))?;
        let uuid = row.map(|(uuid, _)| uuid);
        operations.extend(take_out::<LogicalRouter>("ports", uuid));
    }
    Ok(operations)
}

impl Link {
    pub(super) fn operations(
        &self,
        replica: &Replica,
        router: &Reference,
    ) -> Result<Vec<Operation>, PassError> {
        if let Some((uuid, row)) = named::<LogicalRouterPort>(replica, &self.port)? {
            if row.networks == self.networks {
                return Ok(Vec::new());
            }
            let columns = Row::from([("networks".into(), self.networks.clone().write())]);
            let update = Operation::update::<LogicalRouterPort>(Condition::is(uuid), columns);
            return Ok(vec![update]);
        }
        let row = LogicalRouterPort {
            name: self.port.clone(),
            mac: self.mac.clone(),
            networks: self.networks.clone(),
            peer: Some(self.peer.clone()),
            external_ids: ids([("lr", &self.router)]),
            ..LogicalRouterPort::default()
        };
        let added = add_to::<LogicalRouter, _>(router, "ports", &self.port, &row);
        Ok(added.into())
    }
}
