//! Rules of a VirtualPrivateCloud (design 2.2 "Refused", those of one object alone).

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{
    FieldPath, PeerInput, ProxmoxInput, RouteInput, SubnetInput, Violation, VpcInput,
    rules::{Broken, dns_label, host_range, ipv4, ipv4_cidr, listed, object_name, range},
};
use crate::{
    model::{
        AddrRange, AddressPlan, Cidr, EgressSpec, Peer, Route, SubnetBacking, SubnetSpec, VpcKey,
        VpcSpec, ZoneName,
        addresses::{NETWORK_PREFIXES, OVERLAY_PREFIXES},
    },
    snapshot::Settings,
};

/// With this length `virtualprivatecloud-<name>` is still a label value (63).
const VPC_NAME_MAX: usize = 43;
/// Bound of `spec.subnets[].name`.
const SUBNET_NAME_MAX: usize = 40;
/// Longest name of a namespace or zone.
const NAME_MAX: usize = 63;
const SUBNETS_MAX: usize = 64;
const ALLOW_SUBNETS_MAX: usize = 64;
const PEERS_MAX: usize = 32;
const ROUTES_MAX: usize = 128;
/// Gateway pods: one at least, and more than ten serve nobody (Kube-OVN's own limit).
const REPLICAS: std::ops::RangeInclusive<u32> = 1..=10;
/// Kube-OVN's link addresses of peered routers.
const PEER_LINKS: &str = "169.254.0.0/16";
/// Networks inside worker clusters as Cozystack sets them up: their pods and services.
const WORKER_CIDRS: [(&str, &str); 2] = [
    ("10.243.0.0/16", "the pod network"),
    ("10.95.0.0/16", "the service network"),
];

/// The spec, if it keeps every rule of one object alone.
///
/// # Errors
/// Every broken rule, in the order of the fields.
pub fn admit_vpc(
    key: &VpcKey,
    input: &VpcInput,
    settings: &Settings,
) -> Result<VpcSpec, Vec<Violation>> {
    let mut broken = Broken::default();
    let metadata = FieldPath::default().field("metadata");
    broken.keep(
        &metadata.field("namespace"),
        dns_label(key.namespace.as_str(), NAME_MAX),
    );
    broken.keep(
        &metadata.field("name"),
        object_name(key.name.as_str(), VPC_NAME_MAX),
    );
    let nets: Vec<Net> = input
        .subnets
        .iter()
        .map(|subnet| ipv4_cidr(&subnet.cidr))
        .collect();
    let spec = VpcSpec {
        subnets: subnets(&input.subnets, &nets, settings, &mut broken),
        peers: peers(key, &input.peers, &mut broken),
        routes: routes(input, &nets, &mut broken),
        egress: egress(input, &mut broken),
    };
    broken.or(spec)
}

/// A subnet's CIDR as read, or why it cannot be read.
type Net = Result<(Cidr, Ipv4Net), String>;

fn subnets(
    inputs: &[SubnetInput],
    nets: &[Net],
    settings: &Settings,
    broken: &mut Broken,
) -> Vec<SubnetSpec> {
    let list = FieldPath::spec().field("subnets");
    broken.bound(&list, "subnets", inputs.len(), SUBNETS_MAX);
    let mut specs = Vec::new();
    for (index, (input, net)) in inputs.iter().zip(nets).enumerate() {
        let path = list.index(index);
        let name = path.field("name");
        broken.keep(&name, dns_label(&input.name, SUBNET_NAME_MAX));
        if let Some(earlier) = inputs[..index]
            .iter()
            .position(|one| one.name == input.name)
        {
            broken.refuse(
                &name,
                format!(
                    "{:?} is already the name of {}; every subnet of a VPC needs its own",
                    input.name,
                    list.index(earlier)
                ),
            );
        }
        let net = broken.keep(&path.field("cidr"), net.as_ref());
        if let Some((cidr, _)) = net {
            let path = path.field("cidr");
            let place = place(*cidr, input.proxmox.is_some(), settings);
            broken.keep(&path, place);
            let earlier = inputs.iter().zip(nets).take(index);
            disjoint(&path, *cidr, earlier, broken);
        }
        let net = net.copied();
        let allow = allow_subnets(&path, input, broken);
        let backing = match &input.proxmox {
            Some(proxmox) => network(&path.field("proxmox"), proxmox, net, broken),
            None => Some(SubnetBacking::Overlay { allow }),
        };
        let gateway = net.and_then(|(cidr, _)| cidr.gateway());
        if let (Some((cidr, _)), Some(gateway), Some(backing)) = (net, gateway, backing) {
            specs.push(SubnetSpec {
                name: input.name.as_str().into(),
                cidr,
                gateway,
                backing,
            });
        }
    }
    specs
}

/// Refuses a CIDR that shares addresses with a subnet written before it.
fn disjoint<'a>(
    path: &FieldPath,
    cidr: Cidr,
    earlier: impl Iterator<Item = (&'a SubnetInput, &'a Net)>,
    broken: &mut Broken,
) {
    for (other, net) in earlier {
        if let Ok((taken, _)) = net
            && cidr.overlaps(taken)
        {
            broken.refuse(
                path,
                format!(
                    "{cidr} overlaps {taken} of subnet {:?}; subnets of a VPC must not share addresses",
                    other.name
                ),
            );
        }
    }
}

/// Whether a subnet may have this size and lie there.
fn place(cidr: Cidr, proxmox: bool, settings: &Settings) -> Result<(), String> {
    let (prefixes, kind) = if proxmox {
        (NETWORK_PREFIXES, "a Proxmox-backed")
    } else {
        (OVERLAY_PREFIXES, "an overlay")
    };
    if !prefixes.contains(&cidr.prefix()) {
        return Err(format!(
            "{cidr} has prefix /{}; {kind} subnet needs one from /{} to /{}",
            cidr.prefix(),
            prefixes.start(),
            prefixes.end()
        ));
    }
    if !settings.vpc_cidrs.iter().any(|block| block.contains(&cidr)) {
        return Err(format!(
            "{cidr} lies outside the blocks that VPC subnets may use: {}",
            listed(&settings.vpc_cidrs)
        ));
    }
    Ok(())
}

/// Why a Proxmox-backed subnet has no allowSubnets. The definition of the kind says the same words.
pub const ALLOW_SUBNETS_ON_NETWORK: &str = "allowSubnets does nothing on a Proxmox-backed subnet: it is not private and accepts whatever its VPC routes to it; put allowSubnets on the overlay subnets that it should reach";

fn allow_subnets(path: &FieldPath, input: &SubnetInput, broken: &mut Broken) -> Vec<Cidr> {
    let list = path.field("allowSubnets");
    let texts = input.allow_subnets.as_deref().unwrap_or_default();
    if input.proxmox.is_some() && !texts.is_empty() {
        broken.refuse(&list, ALLOW_SUBNETS_ON_NETWORK);
    }
    broken.bound(&list, "CIDRs", texts.len(), ALLOW_SUBNETS_MAX);
    let cidrs: Vec<Option<Cidr>> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| broken.keep(&list.index(index), ipv4_cidr(text)))
        .map(|read| read.map(|(cidr, _)| cidr))
        .collect();
    broken.distinct(
        &list,
        cidrs
            .iter()
            .enumerate()
            .filter_map(|(index, cidr)| cidr.map(|cidr| (index, list.index(index), cidr))),
    );
    cidrs.into_iter().flatten().collect()
}

fn network(
    path: &FieldPath,
    input: &ProxmoxInput,
    net: Option<(Cidr, Ipv4Net)>,
    broken: &mut Broken,
) -> Option<SubnetBacking> {
    let zone = input.zone.as_deref().map(|zone| {
        broken.keep(&path.field("zone"), object_name(zone, NAME_MAX));
        ZoneName::from(zone)
    });
    let plan = net.and_then(|(_, net)| AddressPlan::of(net).map(|plan| (net, plan)));
    let vm_range = match &input.vm_range {
        Some(text) => broken.keep(&path.field("vmRange"), vm_range(text, plan))?,
        None => plan?.1.default_vm_range,
    };
    Some(SubnetBacking::Proxmox { zone, vm_range })
}

/// A VM range inside its subnet; where the subnet's CIDR is no good, by its form alone.
fn vm_range(text: &str, plan: Option<(Ipv4Net, AddressPlan)>) -> Result<AddrRange, String> {
    let Some((net, plan)) = plan else {
        return range(text);
    };
    let allowed = format!(
        "{} to {} are possible",
        plan.first_allowed, plan.last_allowed
    );
    host_range(text, net, plan.gateway, &allowed)
}

fn peers(key: &VpcKey, inputs: &[PeerInput], broken: &mut Broken) -> Vec<Peer> {
    let list = FieldPath::spec().field("peers");
    broken.bound(&list, "peers", inputs.len(), PEERS_MAX);
    let peers: Vec<Peer> = inputs
        .iter()
        .map(|peer| Peer {
            vpc: VpcKey::new(&peer.tenant_namespace, &peer.vpc_name),
        })
        .collect();
    for (index, peer) in peers.iter().enumerate() {
        let path = list.index(index);
        broken.keep(
            &path.field("tenantNamespace"),
            dns_label(peer.vpc.namespace.as_str(), NAME_MAX),
        );
        broken.keep(
            &path.field("vpcName"),
            object_name(peer.vpc.name.as_str(), VPC_NAME_MAX),
        );
        if peer.vpc == *key {
            broken.refuse(
                &path,
                format!("{key} is this VPC itself; a peer is another VPC"),
            );
        }
    }
    broken.distinct(
        &list,
        peers
            .iter()
            .enumerate()
            .map(|(index, peer)| (index, list.index(index), &peer.vpc)),
    );
    peers
}

fn routes(input: &VpcInput, nets: &[Net], broken: &mut Broken) -> Vec<Route> {
    let list = FieldPath::spec().field("routes");
    broken.bound(&list, "routes", input.routes.len(), ROUTES_MAX);
    let routes: Vec<Option<Route>> = input
        .routes
        .iter()
        .enumerate()
        .map(|(index, route)| {
            let path = list.index(index);
            let cidr = broken.keep(&path.field("cidr"), ipv4_cidr(&route.cidr));
            let next_hop = next_hop(route, nets, !input.peers.is_empty());
            let next_hop = broken.keep(&path.field("nextHopIP"), next_hop);
            Some(Route {
                cidr: cidr?.0,
                next_hop: next_hop?,
            })
        })
        .collect();
    broken.distinct(
        &list,
        routes.iter().enumerate().filter_map(|(index, route)| {
            let route = route.as_ref()?;
            Some((index, list.index(index).field("cidr"), route.cidr))
        }),
    );
    routes.into_iter().flatten().collect()
}

/// The next hop, if the VPC's router can reach it. A subnet whose CIDR is no good might have held
/// it; that subnet's own error is enough.
fn next_hop(route: &RouteInput, nets: &[Net], peered: bool) -> Result<Ipv4Addr, String> {
    let address = ipv4(&route.next_hop_ip)?;
    let in_subnet = nets.iter().any(|net| match net {
        Ok((_, net)) => net.contains(&address),
        Err(_) => true,
    });
    if in_subnet || (peered && address.is_link_local()) {
        return Ok(address);
    }
    let links = if peered {
        format!(" and {PEER_LINKS}, the peering links")
    } else {
        String::new()
    };
    let subnets: Vec<&Cidr> = nets.iter().flatten().map(|(cidr, _)| cidr).collect();
    Err(if subnets.is_empty() {
        format!("{address} cannot be reached: the VPC has no subnet{links}")
    } else {
        format!(
            "{address} lies in no subnet of the VPC; its router reaches {}{links}",
            listed(subnets)
        )
    })
}

fn egress(input: &VpcInput, broken: &mut Broken) -> EgressSpec {
    let path = FieldPath::spec().field("egress");
    let Some(egress) = &input.egress else {
        return EgressSpec::default();
    };
    if egress.enabled && !input.subnets.iter().any(|subnet| subnet.proxmox.is_some()) {
        broken.refuse(
            &path.field("enabled"),
            "egress needs a Proxmox-backed subnet: the egress gateway serves those alone; give a \
             subnet `proxmox: {}` or leave egress out",
        );
    }
    if let Some(replicas) = egress.replicas
        && !REPLICAS.contains(&replicas)
    {
        broken.refuse(
            &path.field("replicas"),
            format!(
                "{replicas} replicas; {} to {} are possible",
                REPLICAS.start(),
                REPLICAS.end()
            ),
        );
    }
    let internal = egress.internal_cidr.as_deref().and_then(|text| {
        broken.keep(
            &path.field("internalCidr"),
            internal_cidr(text, &input.subnets),
        )
    });
    EgressSpec {
        enabled: egress.enabled,
        replicas: egress.replicas,
        internal_cidr: internal,
    }
}

fn internal_cidr(text: &str, subnets: &[SubnetInput]) -> Result<Cidr, String> {
    let (cidr, _) = ipv4_cidr(text)?;
    let overlay = |subnet: &&SubnetInput| subnet.proxmox.is_none();
    let found = subnets.iter().find(|subnet| subnet.cidr == text);
    if found.as_ref().is_some_and(overlay) {
        return Ok(cidr);
    }
    let what = match found {
        Some(subnet) => format!("the Proxmox-backed subnet {:?}", subnet.name),
        None => "no subnet of the VPC".to_owned(),
    };
    let choices = listed(subnets.iter().filter(overlay).map(|subnet| &subnet.cidr));
    Err(if choices.is_empty() {
        format!("{cidr} is {what}; an overlay subnet is needed, and the VPC has none")
    } else {
        format!("{cidr} is {what}; an overlay subnet is needed: {choices}")
    })
}

/// What is accepted, but does other things than its writer may think.
pub fn vpc_warnings(input: &VpcInput) -> Vec<Violation> {
    let mut warned = Broken::default();
    let spec = FieldPath::spec();
    for (index, subnet) in input.subnets.iter().enumerate() {
        let Ok((cidr, _)) = ipv4_cidr(&subnet.cidr) else {
            continue;
        };
        for (worker, what) in WORKER_CIDRS {
            if worker.parse().is_ok_and(|worker| cidr.overlaps(&worker)) {
                warned.refuse(
                    &spec.field("subnets").index(index).field("cidr"),
                    format!(
                        "{cidr} overlaps {worker}, {what} of worker clusters: a Kubernetes cluster that uses this network will be refused"
                    ),
                );
            }
        }
    }
    let Some(egress) = &input.egress else {
        return warned.0;
    };
    for (index, route) in input.routes.iter().enumerate() {
        if egress.enabled && route.cidr == "0.0.0.0/0" {
            warned.refuse(
                &spec.field("routes").index(index).field("cidr"),
                "0.0.0.0/0 beside egress: Proxmox-backed subnets leave by the egress gateway, \
                 overlay subnets by this route",
            );
        }
    }
    if egress.internal_cidr.is_some() {
        warned.refuse(
            &spec.field("egress").field("internalCidr"),
            "internalCidr: where Cilium sits in front of the overlay, VM traffic to a LoadBalancer \
             can be rewritten and lost; leave it out unless there is a reason",
        );
    }
    warned.0
}
