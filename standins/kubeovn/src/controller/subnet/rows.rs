//! The rows of a Subnet: switch, ports to router and VLAN, the policy that keeps traffic into it
//! in the Vpc, ACLs.
//!
//! Must stay true: of a router port that is there only `networks` is ever written, so that what
//! others set on it stays; one that is made again has another MAC and nothing of theirs. The tag of
//! a localnet port that is there is the Vlan's business.

use std::collections::BTreeMap;

use causeway_api::kubeovn::{Subnet, Vpc};
use causeway_ovn::{
    Condition, NamedUuid, Operation, Replica, Row, Uuid,
    nb::{
        Acl, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort, LogicalSwitch,
        LogicalSwitchPort,
    },
    table::Column,
};
use kube::ResourceExt;

use super::{has_router_port, pool};
use crate::{
    STANDIN,
    addresses::Pool,
    cni::Cni,
    controller::Controller,
    northbound::{Reference, add_to, has, ids, named, ours, referred, take_out},
    pass::PassError,
};

/// Of the policy by which traffic into a Subnet is not rerouted.
const POLICY_PRIORITY: i64 = 31000;
/// Stage of Kube-OVN's ACLs.
const ACL_TIER: i64 = 2;
/// Value of [`STANDIN`] on the ACL that drops requests for the gateway.
const ARP_DROP: &str = "arp-drop";

/// Name of the port to the VLAN.
pub(in crate::controller) fn localnet_port(subnet: &str) -> String {
    format!("localnet.{subnet}")
}

/// The rows of one Subnet, as they are and as they are to be.
struct Rows<'a> {
    replica: &'a Replica,
    name: String,
    router_name: &'a str,
    pool: Pool,
    switch: Reference,
    /// Its row as it is; without anything if it is to be made.
    held: LogicalSwitch,
    operations: Vec<Operation>,
}

impl<C: Cni> Controller<C> {
    pub(super) fn subnet_operations(
        &mut self,
        subnet: &Subnet,
        vpc: &Vpc,
    ) -> Result<Vec<Operation>, PassError> {
        let replica = self.replica();
        let router_name = vpc.metadata.name.as_deref().unwrap_or_default();
        let Some((router, router_row)) = named::<LogicalRouter>(&replica, router_name)? else {
            return Err(PassError::waiting(format!("router {router_name}")));
        };
        let mut rows = Rows::begin(&replica, subnet, router_name)?;
        if has_router_port(subnet) {
            let port = format!("{router_name}-{}", rows.name);
            rows.router_port(router, || self.macs.draw(&port))?;
            rows.policy(router, &router_row)?;
        } else {
            rows.no_router_port()?;
        }
        if let Some(vlan) = subnet.spec.vlan.as_deref().filter(|vlan| !vlan.is_empty()) {
            let Some(vlan) = self.objects.vlans.get(vlan) else {
                return Err(PassError::waiting(format!("vlan {vlan}")));
            };
            rows.localnet(&vlan.spec.provider, vlan.spec.id.unwrap_or(0))?;
        }
        rows.acls(subnet, &self.options.join_cidr.to_string())?;
        rows.arp_drop(subnet)?;
        Ok(rows.operations)
    }
}

impl<'a> Rows<'a> {
    fn begin(
        replica: &'a Replica,
        subnet: &Subnet,
        router_name: &'a str,
    ) -> Result<Self, PassError> {
        let name = subnet.name_any();
        let mut operations = Vec::new();
        let (switch, held) = if let Some((uuid, row)) = named::<LogicalSwitch>(replica, &name)? {
            (uuid.into(), row)
        } else {
            let row = LogicalSwitch {
                name: name.clone(),
                external_ids: ids([]),
                ..LogicalSwitch::default()
            };
            let label = NamedUuid::of(&name);
            operations.push(Operation::insert_as(label.clone(), &row));
            (label.into(), row)
        };
        let pool = pool(subnet)?;
        Ok(Self {
            replica,
            name,
            router_name,
            pool,
            switch,
            held,
            operations,
        })
    }

    fn switch_port(&mut self, row: &LogicalSwitchPort) {
        let added = add_to::<LogicalSwitch, _>(&self.switch, "ports", &row.name, row);
        self.operations.extend(added);
    }

    fn router_port_names(&self) -> (String, String) {
        let (subnet, router) = (&self.name, self.router_name);
        (format!("{subnet}-{router}"), format!("{router}-{subnet}"))
    }

    fn router_port(&mut self, router: Uuid, mac: impl FnOnce() -> String) -> Result<(), PassError> {
        let (switch_port, router_port) = self.router_port_names();
        let network = format!("{}/{}", self.pool.gateway(), self.pool.cidr().prefix_len());
        let networks = [network].into();
        if let Some((uuid, row)) = named::<LogicalRouterPort>(self.replica, &router_port)? {
            if row.networks != networks {
                let columns = Row::from([("networks".into(), networks.write())]);
                let at = Condition::is(uuid);
                self.operations
                    .push(Operation::update::<LogicalRouterPort>(at, columns));
            }
        } else {
            let row = LogicalRouterPort {
                name: router_port.clone(),
                mac: mac(),
                networks,
                external_ids: ids([("lr", self.router_name)]),
                ..LogicalRouterPort::default()
            };
            let router = router.into();
            let added = add_to::<LogicalRouter, _>(&router, "ports", &router_port, &row);
            self.operations.extend(added);
        }
        if named::<LogicalSwitchPort>(self.replica, &switch_port)?.is_none() {
            let row = LogicalSwitchPort {
                name: switch_port,
                kind: "router".into(),
                addresses: ["router".to_owned()].into(),
                options: [("router-port".to_owned(), router_port)].into(),
                external_ids: ids([("ls", &self.name)]),
                ..LogicalSwitchPort::default()
            };
            self.switch_port(&row);
        }
        Ok(())
    }

    fn no_router_port(&mut self) -> Result<(), PassError> {
        let (switch_port, router_port) = self.router_port_names();
        let of_switch = named::<LogicalSwitchPort>(self.replica, &switch_port)?;
        let of_router = named::<LogicalRouterPort>(self.replica, &router_port)?;
        let of_switch = of_switch.map(|(uuid, _)| uuid);
        let of_router = of_router.map(|(uuid, _)| uuid);
        self.operations
            .extend(take_out::<LogicalSwitch>("ports", of_switch));
        self.operations
            .extend(take_out::<LogicalRouter>("ports", of_router));
        Ok(())
    }

    fn policy(&mut self, router: Uuid, row: &LogicalRouter) -> Result<(), PassError> {
        let wanted = LogicalRouterPolicy {
            priority: POLICY_PRIORITY,
            matches: format!("ip4.dst == {}", self.pool.cidr()),
            action: "allow".into(),
            external_ids: ids([("subnet", &self.name)]),
            ..LogicalRouterPolicy::default()
        };
        let held = referred::<LogicalRouterPolicy>(self.replica, &row.policies)?;
        let mine = held.iter().filter(|(_, row)| {
            row.priority == POLICY_PRIORITY && is_of(&row.external_ids, &self.name)
        });
        let (right, wrong): (Vec<_>, Vec<_>) =
            mine.partition(|(_, row)| row.matches == wanted.matches);
        let wrong = wrong.into_iter().map(|(uuid, _)| *uuid);
        self.operations
            .extend(take_out::<LogicalRouter>("policies", wrong));
        if right.is_empty() {
            let router = router.into();
            let added = add_to::<LogicalRouter, _>(&router, "policies", &self.name, &wanted);
            self.operations.extend(added);
        }
        Ok(())
    }

    fn localnet(&mut self, network: &str, id: u16) -> Result<(), PassError> {
        let name = localnet_port(&self.name);
        let cidr = self.pool.cidr().to_string();
        let row = LogicalSwitchPort {
            kind: "localnet".into(),
            addresses: ["unknown".to_owned()].into(),
            options: [("network_name".to_owned(), network.to_owned())].into(),
            tag: (id > 0).then_some(id.into()),
            external_ids: ids([("ls", &self.name), ("ipv4_network", &cidr)]),
            name,
            ..LogicalSwitchPort::default()
        };
        match named::<LogicalSwitchPort>(self.replica, &row.name)? {
            None => self.switch_port(&row),
            Some((uuid, held)) => {
                if held.external_ids != row.external_ids || held.options != row.options {
                    let columns = Row::from([
                        ("external_ids".into(), row.external_ids.write()),
                        ("options".into(), row.options.write()),
                    ]);
                    let at = Condition::is(uuid);
                    self.operations
                        .push(Operation::update::<LogicalSwitchPort>(at, columns));
                }
            }
        }
        Ok(())
    }

    /// Only ACLs with `parent=<switch>` are Kube-OVN's to remove; what others put on a switch stays.
    fn acls(&mut self, subnet: &Subnet, join: &str) -> Result<(), PassError> {
        let mut wanted = Vec::new();
        if subnet.spec.private == Some(true) {
            let allowed = subnet.spec.allow_subnets.as_deref().unwrap_or_default();
            wanted.extend(private(
                &self.name,
                &self.pool.cidr().to_string(),
                join,
                allowed,
            ));
        }
        for acl in subnet.spec.acls.iter().flatten() {
            wanted.push(Acl {
                direction: acl.direction.clone().unwrap_or_default(),
                priority: acl.priority.unwrap_or(0).into(),
                matches: acl.match_.clone().unwrap_or_default(),
                action: acl.action.clone().unwrap_or_default(),
                tier: ACL_TIER,
                external_ids: ids([("parent", &self.name), ("subnet", &self.name)]),
                ..Acl::default()
            });
        }
        let name = self.name.clone();
        self.write_acls(&wanted, |ids| has(ids, "parent", &name))
    }

    /// Nobody behind the VLAN hears of the gateway from a chassis that does not have it. The match
    /// needs no reaction to gateway chassis: it is asked on each chassis, for each packet.
    fn arp_drop(&mut self, subnet: &Subnet) -> Result<(), PassError> {
        let on_vlan = subnet
            .spec
            .vlan
            .as_deref()
            .is_some_and(|vlan| !vlan.is_empty());
        // A Subnet that was taken off its Vlan keeps its port there.
        let port = localnet_port(&self.name);
        let on_wire = on_vlan || named::<LogicalSwitchPort>(self.replica, &port)?.is_some();
        let (_, router_port) = self.router_port_names();
        let wanted = (on_wire && has_router_port(subnet)).then(|| Acl {
            direction: "from-lport".into(),
            // Before anything else that could decide.
            priority: 32767,
            matches: format!(
                "inport == \"{}\" && arp.tpa == {} && arp.op == 1 && \
                 !is_chassis_resident(\"cr-{router_port}\")",
                port,
                self.pool.gateway(),
            ),
            action: "drop".into(),
            external_ids: [(STANDIN.to_owned(), ARP_DROP.to_owned())].into(),
            ..Acl::default()
        });
        self.write_acls(wanted.as_slice(), |ids| has(ids, STANDIN, ARP_DROP))
    }

    fn write_acls(
        &mut self,
        wanted: &[Acl],
        mine: impl Fn(&BTreeMap<String, String>) -> bool,
    ) -> Result<(), PassError> {
        let held = referred::<Acl>(self.replica, &self.held.acls)?;
        let unwanted = held
            .iter()
            .filter(|(_, row)| mine(&row.external_ids) && !wanted.contains(row));
        let unwanted = unwanted.map(|(uuid, _)| *uuid);
        self.operations
            .extend(take_out::<LogicalSwitch>("acls", unwanted));
        for row in wanted {
            if !held.iter().any(|(_, held)| held == row) {
                let label = format!("{} {} {}", row.direction, row.priority, row.matches);
                let added = add_to::<LogicalSwitch, _>(&self.switch, "acls", &label, row);
                self.operations.extend(added);
            }
        }
        Ok(())
    }
}

fn is_of(ids: &BTreeMap<String, String>, subnet: &str) -> bool {
    ours(ids) && has(ids, "subnet", subnet)
}

/// The ACLs of a private Subnet.
fn private(name: &str, cidr: &str, join: &str, allowed: &[String]) -> Vec<Acl> {
    let acl = |priority: i64, matches: String| Acl {
        direction: "to-lport".into(),
        priority,
        matches,
        action: "allow-related".into(),
        tier: ACL_TIER,
        external_ids: ids([("parent", name)]),
        ..Acl::default()
    };
    let mut acls = vec![
        Acl {
            name: Some(name.to_owned()),
            action: "drop".into(),
            log: true,
            severity: Some("warning".into()),
            ..acl(1000, "ip".into())
        },
        acl(1001, format!("ip4.src == {cidr} && ip4.dst == {cidr}")),
        acl(3000, format!("ip4.src == {join}")),
    ];
    acls.extend(
        allowed
            .iter()
            .filter(|allowed| !allowed.contains(':'))
            .map(|allowed| {
                acl(
                    1001,
                    format!(
                        "(ip4.src == {cidr} && ip4.dst == {allowed}) || \
                 (ip4.src == {allowed} && ip4.dst == {cidr})"
                    ),
                )
            }),
    );
    acls
}

/// Takes away what is left of a Subnet whose object is gone.
pub(super) fn removal(
    replica: &Replica,
    name: &str,
    router_name: &str,
) -> Result<Vec<Operation>, PassError> {
    let mut operations = Vec::new();
    if let Some((_, router)) = named::<LogicalRouter>(replica, router_name)? {
        let policies = referred::<LogicalRouterPolicy>(replica, &router.policies)?;
        let mine = policies
            .iter()
            .filter(|(_, row)| is_of(&row.external_ids, name));
        operations.extend(take_out::<LogicalRouter>(
            "policies",
            mine.map(|(uuid, _)| *uuid),
        ));
    }
    if let Some((uuid, _)) = named::<LogicalSwitch>(replica, name)? {
        operations.push(Operation::delete::<LogicalSwitch>(Condition::is(uuid)));
    }
    let router_port = format!("{router_name}-{name}");
    let router_port = named::<LogicalRouterPort>(replica, &router_port)?.map(|(uuid, _)| uuid);
    operations.extend(take_out::<LogicalRouter>("ports", router_port));
    Ok(operations)
}
