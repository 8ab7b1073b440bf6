//! Rules of a ProxmoxNetworkZone by itself (design 2.1).

use std::collections::BTreeMap;

use super::{
    FieldPath, TransitInput, Violation, ZoneInput,
    rules::{Broken, dns_label, host_range, ipv4, ipv4_cidr, object_name},
};
use crate::model::{
    NodeName, Selector, SelectorOperator, Trunk, Vid, VidRanges, ZoneName, ZoneSpec,
};

/// Longest zone name that `spec.zone` of a network can hold.
const ZONE_NAME_MAX: usize = 63;
const WIRE_MAX: usize = 40;
/// Proxmox names its tap and bridge ports after the bridge; ten characters leave room for that.
const BRIDGE_MAX: usize = 10;
/// Longest name of a Linux network interface.
const INTERFACE_MAX: usize = 15;
const RANGES_MAX: usize = 64;
const EXCEPTIONS_MAX: usize = 256;
const EXCEPTION_NODES_MAX: usize = 1024;
/// IPv6's minimum below, the largest jumbo frame that switches agree on above.
const MTU: std::ops::RangeInclusive<u32> = 1280..=9216;
const MTU_DEFAULT: u32 = 1500;
const CHASSIS: std::ops::RangeInclusive<u32> = 1..=5;
const CHASSIS_DEFAULT: u8 = 3;
/// The wire of a zone that names none.
pub(super) const DEFAULT_WIRE: &str = "default";

/// The spec, if it keeps every rule of one object alone.
///
/// # Errors
/// Every broken rule, in the order of the fields.
pub fn admit_zone(name: &ZoneName, input: &ZoneInput) -> Result<ZoneSpec, Vec<Violation>> {
    let mut broken = Broken::default();
    let spec = FieldPath::spec();
    broken.keep(
        &FieldPath::default().field("metadata").field("name"),
        object_name(name.as_str(), ZONE_NAME_MAX),
    );
    broken.keep(&spec.field("bridge"), bridge(&input.bridge));
    let wire = input.wire.as_deref().unwrap_or(DEFAULT_WIRE);
    broken.keep(&spec.field("wire"), dns_label(wire, WIRE_MAX));
    let (ranges, reserved) = vlans(input, &mut broken);
    let mtu = input.mtu.unwrap_or(MTU_DEFAULT);
    if !MTU.contains(&mtu) {
        let (least, most) = (MTU.start(), MTU.end());
        broken.refuse(
            &spec.field("mtu"),
            format!("MTU {mtu} bytes; {least} to {most} are possible"),
        );
    }
    trunk(&input.trunk, &mut broken);
    let max_chassis = max_chassis(input.max_chassis, &mut broken);
    if let Some(selector) = &input.namespace_selector {
        selector_is_complete(&spec.field("namespaceSelector"), selector, &mut broken);
    }
    let transit_vlan = input
        .transit
        .as_ref()
        .and_then(|transit| self::transit(transit, &ranges, &mut broken));
    broken.or(ZoneSpec {
        bridge: input.bridge.clone(),
        wire: wire.into(),
        ranges,
        reserved,
        mtu,
        trunk: input.trunk.clone(),
        max_chassis,
        anti_spoofing: input.anti_spoofing,
        max_networks_per_namespace: input.max_networks_per_namespace.filter(|most| *most > 0),
        transit_vlan,
    })
}

fn bridge(text: &str) -> Result<(), String> {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if first && rest && text.len() <= BRIDGE_MAX {
        return Ok(());
    }
    Err(format!(
        "{text:?} is no bridge name: a letter, then letters, digits and '_', at most {BRIDGE_MAX} characters, such as vmbr1"
    ))
}

fn vlans(input: &ZoneInput, broken: &mut Broken) -> (VidRanges, VidRanges) {
    let path = FieldPath::spec().field("vlans");
    let list = path.field("ranges");
    if input.vlans.ranges.is_empty() {
        broken.refuse(
            &list,
            "no VLAN numbers; give ranges or single numbers within 2-4094 such as \"200-299\"",
        );
    }
    let found_before = broken.0.len();
    let ranges = vid_ranges(&list, &input.vlans.ranges, broken);
    let list = path.field("reserved");
    let reserved = vid_ranges(&list, &input.vlans.reserved, broken);
    let readable = broken.0.len() == found_before;
    if readable && !ranges.is_empty() && ranges.without(&reserved).is_empty() {
        broken.refuse(
            &list,
            format!(
                "all of the {} numbers of ranges are reserved; leave at least one to hand out",
                ranges.len()
            ),
        );
    }
    (ranges, reserved)
}

fn vid_ranges(list: &FieldPath, texts: &[String], broken: &mut Broken) -> VidRanges {
    broken.bound(list, "entries", texts.len(), RANGES_MAX);
    let mut all = VidRanges::default();
    for (index, text) in texts.iter().enumerate() {
        if let Some(entry) = broken.keep(&list.index(index), vid_entry(text)) {
            all.add(&entry);
        }
    }
    let keys = texts.iter().enumerate();
    broken.distinct(
        list,
        keys.map(|(index, text)| (index, list.index(index), text)),
    );
    all
}

/// One entry: digits and at most one `-`. (Rust would also read `+200` and `00200`.)
pub(super) fn vid_entry(text: &str) -> Result<VidRanges, String> {
    let plain = |part: &str| part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit());
    if text.split('-').count() > 2 || !text.split('-').all(plain) {
        return Err(format!(
            "{text:?} is neither a VLAN number nor a range such as \"200-299\""
        ));
    }
    VidRanges::parse_entry(text).map_err(|refusal| match refusal {
        crate::model::vlans::VidError::Outside { .. } => {
            format!("{refusal}, the numbers that a zone can hand out")
        }
        other => other.to_string(),
    })
}

fn trunk(trunk: &Trunk, broken: &mut Broken) {
    let path = FieldPath::spec().field("trunk");
    broken.keep(&path.field("interface"), interface(&trunk.interface));
    let list = path.field("interfaces");
    broken.bound(&list, "exceptions", trunk.exceptions.len(), EXCEPTIONS_MAX);
    let mut places: BTreeMap<&NodeName, FieldPath> = BTreeMap::new();
    for (index, exception) in trunk.exceptions.iter().enumerate() {
        let path = list.index(index);
        broken.keep(&path.field("interface"), interface(&exception.interface));
        let nodes = path.field("nodes");
        if exception.nodes.is_empty() {
            broken.refuse(
                &nodes,
                format!(
                    "no node has {:?}; name the nodes, or leave the exception out",
                    exception.interface
                ),
            );
        }
        broken.bound(&nodes, "nodes", exception.nodes.len(), EXCEPTION_NODES_MAX);
        for (index, node) in exception.nodes.iter().enumerate() {
            let here = nodes.index(index);
            match places.get(node) {
                Some(earlier) => broken.refuse(
                    &here,
                    format!("node \"{node}\" is already in {earlier}; a node has one trunk NIC"),
                ),
                None => {
                    places.insert(node, here);
                }
            }
        }
    }
    broken.distinct(
        &list,
        trunk.exceptions.iter().enumerate().map(|(index, one)| {
            let path = list.index(index).field("interface");
            (index, path, &one.interface)
        }),
    );
    selector_is_complete(&path.field("nodeSelector"), &trunk.node_selector, broken);
}

fn interface(text: &str) -> Result<(), String> {
    let fits = (1..=INTERFACE_MAX).contains(&text.len());
    let forbidden = |c: char| c == '/' || c == ':' || c.is_whitespace();
    if fits && !text.contains(forbidden) && text != "." && text != ".." {
        return Ok(());
    }
    Err(format!(
        "{text:?} is no interface name: 1 to {INTERFACE_MAX} characters without '/', ':' and blanks, such as eth1"
    ))
}

fn max_chassis(asked: Option<u32>, broken: &mut Broken) -> u8 {
    let Some(asked) = asked else {
        return CHASSIS_DEFAULT;
    };
    match u8::try_from(asked) {
        Ok(number) if CHASSIS.contains(&asked) => number,
        _ => {
            broken.refuse(
                &FieldPath::spec().field("gateway").field("maxChassis"),
                format!(
                    "{asked} chassis; {} to {} are possible",
                    CHASSIS.start(),
                    CHASSIS.end()
                ),
            );
            CHASSIS_DEFAULT
        }
    }
}

/// `In` and `NotIn` compare with values, `Exists` and `DoesNotExist` with none: the API server
/// refuses the others in its own kinds, but does not look into ours.
fn selector_is_complete(path: &FieldPath, selector: &Selector, broken: &mut Broken) {
    let list = path.field("matchExpressions");
    for (index, one) in selector.expressions.iter().enumerate() {
        let wants_values = matches!(one.operator, SelectorOperator::In | SelectorOperator::NotIn);
        if wants_values == one.values.is_empty() {
            broken.refuse(
                &list.index(index).field("operator"),
                format!(
                    "operator {:?} of {:?} needs {} values",
                    one.operator,
                    one.key,
                    if wants_values { "some" } else { "no" }
                ),
            );
        }
    }
}

fn transit(input: &TransitInput, ranges: &VidRanges, broken: &mut Broken) -> Option<Vid> {
    let path = FieldPath::spec().field("transit");
    let vlan = broken.keep(&path.field("vlan"), transit_vlan(input.vlan, ranges));
    let net = broken.keep(&path.field("cidr"), ipv4_cidr(&input.cidr));
    let gateway = broken.keep(&path.field("gateway"), ipv4(&input.gateway));
    let (Some((_, net)), Some(gateway)) = (net, gateway) else {
        return vlan;
    };
    let at_the_edge = gateway == net.network() || gateway == net.broadcast();
    if !net.contains(&gateway) || at_the_edge {
        broken.refuse(
            &path.field("gateway"),
            format!("{gateway} is no host address of {net}; the transit router must be on it"),
        );
    }
    let allowed = format!("host addresses of {net} other than {gateway} are possible");
    broken.keep(
        &path.field("addresses"),
        host_range(&input.addresses, net, gateway, &allowed),
    );
    vlan
}

fn transit_vlan(number: u32, ranges: &VidRanges) -> Result<Vid, String> {
    let vid = u16::try_from(number)
        .ok()
        .and_then(|number| Vid::try_from(number).ok())
        .ok_or_else(|| format!("VLAN {number} is outside 2-4094"))?;
    if ranges.contains(vid) {
        return Err(format!(
            "VLAN {vid} is one of vlans.ranges; the transit network needs a number that no network can get"
        ));
    }
    Ok(vid)
}
