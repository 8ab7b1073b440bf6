//! Vpcs: a router each, with the routes and policies that the Vpc states.
//!
//! Must stay true: a policy without the keys `subnet` or `vpc-egress-gateway` that the Vpc does not
//! state goes, whosever it is; of routes only Kube-OVN's own go.

mod links;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use causeway_api::{
    keys::KUBE_OVN_FINALIZER,
    kubeovn::{BfdPortStatus, PolicyRoute, StaticRoute, Vpc, VpcStatus},
};
use causeway_ovn::{
    Condition, NamedUuid, Operation, Replica, Row,
    nb::{LogicalRouter, LogicalRouterPolicy, LogicalRouterStaticRoute},
    table::Column,
};
use ipnet::IpNet;
use kube::ResourceExt;

use links::Link;
pub(super) use links::port as link_port;

use super::{Controller, subnet::is_ovn};
use crate::{
    DEFAULT_VPC, JOIN_SUBNET,
    cni::Cni,
    northbound::{Reference, add_to, ids, named, ours, referred, take_out},
    pass::PassError,
};

impl<C: Cni> Controller<C> {
    pub(super) async fn vpc(&mut self, name: &str) -> Result<(), PassError> {
        let Some(vpc) = self.objects.vpcs.get(name) else {
            return self.vpc_gone(name).await;
        };
        self.seen_vpcs.insert(name.to_owned());
        let mut vpc = Vpc::clone(&vpc);
        if vpc.metadata.deletion_timestamp.is_some() {
            vpc = self.vpc_status(&vpc, true).await?;
            let left = vpc
                .status
                .as_ref()
                .and_then(|status| status.subnets.as_ref());
            if left.is_none_or(Vec::is_empty) {
                let mut free = vpc.clone();
                free.finalizers_mut()
                    .retain(|held| held != KUBE_OVN_FINALIZER);
                self.objects.vpcs.change(&vpc, &free).await?;
                return Ok(());
            }
        }
        let vpc = self.format_vpc(&vpc).await?;
        let links = self.links(&vpc)?;
        let wanted = self.wanted(&vpc, links)?;
        let replica = self.replica();
        let mut operations = wanted.operations(&replica)?;
        operations.extend(links::removal(&replica, &vpc)?);
        self.transact(operations).await?;
        self.vpc_status(&vpc, false).await?;
        Ok(())
    }

    /// The router goes with what it has, but only after a Vpc that was seen to go: at a start that
    /// is the business of the leftovers.
    async fn vpc_gone(&mut self, name: &str) -> Result<(), PassError> {
        if self.seen_vpcs.contains(name)
            && let Some((uuid, _)) = named::<LogicalRouter>(&self.replica(), name)?
        {
            self.transact(vec![Operation::delete::<LogicalRouter>(Condition::is(
                uuid,
            ))])
            .await?;
        }
        self.seen_vpcs.remove(name);
        Ok(())
    }

    async fn format_vpc(&self, vpc: &Vpc) -> Result<Vpc, PassError> {
        let mut changed = vpc.clone();
        for route in changed.spec.static_routes.iter_mut().flatten() {
            let policy = route.policy.take().filter(|policy| !policy.is_empty());
            route.policy = policy.or_else(|| Some("policyDst".into()));
        }
        let held = changed
            .finalizers()
            .iter()
            .any(|held| held == KUBE_OVN_FINALIZER);
        if changed.metadata.deletion_timestamp.is_none() && !held {
            changed.finalizers_mut().push(KUBE_OVN_FINALIZER.into());
        }
        self.objects.vpcs.change(vpc, &changed).await
    }

    /// Subnets that are being deleted are not in `status.subnets`: a Vpc does not wait for them.
    async fn vpc_status(&self, vpc: &Vpc, only_subnets: bool) -> Result<Vpc, PassError> {
        let name = vpc.name_any();
        let mut subnets = Vec::new();
        let mut default_switch = String::new();
        let default = name == DEFAULT_VPC;
        for subnet in self.objects.subnets.all() {
            let theirs = subnet.spec.vpc.as_ref() == Some(&name) && is_ovn(&subnet);
            if !theirs || subnet.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let is_default = default && subnet.spec.default == Some(true);
            if is_default || vpc.spec.default_subnet == subnet.metadata.name {
                default_switch = subnet.name_any();
            }
            subnets.push(subnet.name_any());
        }
        let old = vpc.status.clone().unwrap_or_default();
        let status = if only_subnets {
            VpcStatus {
                subnets: Some(subnets),
                ..old
            }
        } else {
            let linked = links::remotes(vpc);
            VpcStatus {
                vpc_peerings: (!linked.is_empty()).then_some(linked),
                ..whole_status(&name, default_switch, subnets)
            }
        };
        let mut changed = vpc.clone();
        changed.status = Some(status);
        self.objects.vpcs.change_status(vpc, &changed).await
    }

    fn wanted(&self, vpc: &Vpc, links: Vec<Link>) -> Result<Router, PassError> {
        let name = vpc.name_any();
        let mut routes = BTreeMap::new();
        if name == DEFAULT_VPC
            && let Some(join) = self.objects.subnets.get(JOIN_SUBNET)
            && let Some(gateway) = &join.spec.gateway
        {
            routes.insert(RouteKey::to_anywhere(), gateway.clone());
        }
        for route in vpc.spec.static_routes.iter().flatten() {
            // Two of one prefix do not share the traffic: the later one replaces the other.
            let (key, next_hop) = RouteKey::read(route)?;
            routes.insert(key, next_hop);
        }
        let policies = vpc.spec.policy_routes.iter().flatten().map(policy);
        let policies = policies.collect::<Result<_, _>>()?;
        Ok(Router {
            name,
            routes,
            policies,
            links,
        })
    }
}

fn whole_status(name: &str, default_switch: String, subnets: Vec<String>) -> VpcStatus {
    let default = name == DEFAULT_VPC;
    let balancer = |protocol: &str, session: bool| {
        Some(match (default, session) {
            (true, false) => format!("cluster-{protocol}-loadbalancer"),
            (true, true) => format!("cluster-{protocol}-session-loadbalancer"),
            (false, false) => format!("vpc-{name}-{protocol}-load"),
            (false, true) => format!("vpc-{name}-{protocol}-sess-load"),
        })
    };
    VpcStatus {
        default: Some(default),
        default_logical_switch: Some(default_switch),
        router: Some(name.to_owned()),
        standby: Some(true),
        enable_external: Some(false),
        enable_bfd: Some(false),
        subnets: Some(subnets),
        tcp_load_balancer: balancer("tcp", false),
        tcp_session_load_balancer: balancer("tcp", true),
        udp_load_balancer: balancer("udp", false),
        udp_session_load_balancer: balancer("udp", true),
        sctp_load_balancer: balancer("sctp", false),
        sctp_session_load_balancer: balancer("sctp", true),
        bfd_port: Some(BfdPortStatus::default()),
        ..VpcStatus::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RouteKey {
    table: String,
    policy: &'static str,
    prefix: String,
}

impl RouteKey {
    fn to_anywhere() -> Self {
        Self {
            table: String::new(),
            policy: "dst-ip",
            prefix: "0.0.0.0/0".into(),
        }
    }

    fn read(route: &StaticRoute) -> Result<(Self, String), PassError> {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let policy = match route.policy.as_deref() {
            Some("policySrc") => "src-ip",
            None | Some("" | "policyDst") => "dst-ip",
            Some(other) => return Err(PassError::refused(format!("unknown policy type: {other}"))),
        };
        let (prefix, next_hop) = (text(&route.cidr), text(&route.next_hop_ip));
        if prefix.parse::<IpNet>().is_err() && prefix.parse::<IpAddr>().is_err() {
            return Err(PassError::refused(format!("invalid cidr {prefix}")));
        }
        if next_hop.parse::<IpAddr>().is_err() {
            return Err(PassError::refused(format!(
                "invalid next hop IP {next_hop}"
            )));
        }
        Ok((
            Self {
                table: text(&route.route_table),
                policy,
                prefix,
            },
            next_hop,
        ))
    }
}

type Policy = (i64, String, String, BTreeSet<String>);

fn policy(route: &PolicyRoute) -> Result<Policy, PassError> {
    let action = route.action.clone().unwrap_or_default();
    let hops = route.next_hop_ip.as_deref().unwrap_or_default();
    let hops = hops.split(',').map(str::trim).filter(|hop| !hop.is_empty());
    let hops = match action.as_str() {
        "allow" | "drop" => BTreeSet::new(),
        "reroute" => hops.map(str::to_owned).collect(),
        other => {
            return Err(PassError::refused(format!(
                "unknown policy action: {other}"
            )));
        }
    };
    if let Some(hop) = hops.iter().find(|hop| hop.parse::<IpAddr>().is_err()) {
        return Err(PassError::refused(format!("invalid next hop IP {hop}")));
    }
    let matches = route.match_.clone().unwrap_or_default();
    Ok((route.priority.unwrap_or(0).into(), matches, action, hops))
}

/// A router as a Vpc wants it.
struct Router {
    name: String,
    routes: BTreeMap<RouteKey, String>,
    policies: BTreeSet<Policy>,
    links: Vec<Link>,
}

impl Router {
    fn operations(&self, replica: &Replica) -> Result<Vec<Operation>, PassError> {
        let mut operations = Vec::new();
        let (router, held) = if let Some((uuid, row)) = named::<LogicalRouter>(replica, &self.name)?
        {
            if row.options != options() {
                let columns = Row::from([("options".into(), options().write())]);
                operations.push(Operation::update::<LogicalRouter>(
                    Condition::is(uuid),
                    columns,
                ));
            }
            (Reference::from(uuid), row)
        } else {
            let row = LogicalRouter {
                name: self.name.clone(),
                options: options(),
                external_ids: ids([]),
                ..LogicalRouter::default()
            };
            let label = NamedUuid::of(&self.name);
            operations.push(Operation::insert_as(label.clone(), &row));
            (label.into(), row)
        };
        operations.extend(self.route_operations(replica, &router, &held)?);
        operations.extend(self.policy_operations(replica, &router, &held)?);
        for link in &self.links {
            operations.extend(link.operations(replica, &router)?);
        }
        Ok(operations)
    }

    fn route_operations(
        &self,
        replica: &Replica,
        router: &Reference,
        held: &LogicalRouter,
    ) -> Result<Vec<Operation>, PassError> {
        let rows = referred::<LogicalRouterStaticRoute>(replica, &held.static_routes)?;
        let is = |row: &LogicalRouterStaticRoute, key: &RouteKey, hop: &String| {
            row.route_table == key.table
                && row.policy.as_deref() == Some(key.policy)
                && row.ip_prefix == key.prefix
                && row.nexthop == *hop
        };
        let unwanted = rows.iter().filter(|(_, row)| {
            ours(&row.external_ids) && !self.routes.iter().any(|(key, hop)| is(row, key, hop))
        });
        let unwanted = unwanted.map(|(uuid, _)| *uuid);
        let mut operations = take_out::<LogicalRouter>("static_routes", unwanted);
        for (key, hop) in &self.routes {
            if rows.iter().any(|(_, row)| is(row, key, hop)) {
                continue;
            }
            let row = LogicalRouterStaticRoute {
                route_table: key.table.clone(),
                ip_prefix: key.prefix.clone(),
                policy: Some(key.policy.into()),
                nexthop: hop.clone(),
                external_ids: ids([]),
                ..LogicalRouterStaticRoute::default()
            };
            let label = format!("{} {} {}", key.table, key.policy, key.prefix);
            operations.extend(add_to::<LogicalRouter, _>(
                router,
                "static_routes",
                &label,
                &row,
            ));
        }
        Ok(operations)
    }

    fn policy_operations(
        &self,
        replica: &Replica,
        router: &Reference,
        held: &LogicalRouter,
    ) -> Result<Vec<Operation>, PassError> {
        let rows = referred::<LogicalRouterPolicy>(replica, &held.policies)?;
        let content = |row: &LogicalRouterPolicy| -> Policy {
            (
                row.priority,
                row.matches.clone(),
                row.action.clone(),
                row.nexthops.clone(),
            )
        };
        let kept = |row: &LogicalRouterPolicy| {
            let named = |key: &str| row.external_ids.get(key).is_some_and(|it| !it.is_empty());
            named("subnet") || named("vpc-egress-gateway") || self.policies.contains(&content(row))
        };
        let unwanted = rows
            .iter()
            .filter(|(_, row)| self.name != DEFAULT_VPC && !kept(row));
        let unwanted = unwanted.map(|(uuid, _)| *uuid);
        let mut operations = take_out::<LogicalRouter>("policies", unwanted);
        for (index, policy) in self.policies.iter().enumerate() {
            if rows.iter().any(|(_, row)| content(row) == *policy) {
                continue;
            }
            let (priority, matches, action, nexthops) = policy.clone();
            let row = LogicalRouterPolicy {
                priority,
                matches,
                action,
                nexthops,
                external_ids: ids([]),
            };
            let label = index.to_string();
            operations.extend(add_to::<LogicalRouter, _>(router, "policies", &label, &row));
        }
        Ok(operations)
    }
}

fn options() -> BTreeMap<String, String> {
    let options = [
        ("always_learn_from_arp_request", "false"),
        ("dynamic_neigh_routers", "true"),
        ("mac_binding_age_threshold", "300"),
    ];
    options
        .map(|(key, value)| (key.into(), value.into()))
        .into()
}
