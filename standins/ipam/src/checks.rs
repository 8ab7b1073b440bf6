//! What the provider's webhook refuses in a pool's spec, in its words.
//!
//! Called by the webhook for each pool written. Must stay true: all that is wrong is told at once, but
//! for the prefix, which is looked at once the rest is right.

use std::net::IpAddr;

use causeway_api::ipam::InClusterIPPoolSpec;
use ipnet::IpNet;

use crate::{
    address::address,
    pool::{gateway, listed},
    ranges::{Range, Ranges},
};

/// One thing wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) field: &'static str,
    /// The value and why not.
    pub(crate) message: String,
}

const ADDRESSES: &str = "spec.addresses";
const EXCLUDED: &str = "spec.excludedAddresses";

/// A value as the real one quotes it: by Go's syntax.
enum Value<'a> {
    Text(&'a str),
    List(&'a [String]),
    Number(u8),
}

impl Wrong {
    fn new(field: &'static str, value: &Value, why: &str) -> Self {
        let value = match value {
            Value::Text(text) => format!("{text:?}"),
            Value::List(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
                format!("[]string{{{}}}", texts.join(", "))
            }
            Value::Number(number) => number.to_string(),
        };
        Self {
            field,
            message: format!("Invalid value: {value}: {why}"),
        }
    }
}

/// Which families there are in a list.
#[derive(Clone, Copy, Default)]
struct Families {
    v4: bool,
    v6: bool,
}

impl Families {
    fn add(&mut self, address: IpAddr) {
        self.v4 |= address.is_ipv4();
        self.v6 |= address.is_ipv6();
    }

    fn are_mixed(self) -> bool {
        self.v4 && self.v6
    }

    /// Some address of the one is not of the family of one of the other.
    fn differ(self, other: Self) -> bool {
        self.v4 && other.v6 || self.v6 && other.v4
    }
}

/// All that is wrong.
pub(crate) fn check(spec: &InClusterIPPoolSpec) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let addresses = &spec.addresses;
    if addresses.is_empty() {
        wrong.push(Wrong::new(
            ADDRESSES,
            &Value::List(addresses),
            "addresses is required",
        ));
    }
    let listed = families(ADDRESSES, addresses, &mut wrong);
    if let Some(text) = gateway(spec) {
        let mut family = Families::default();
        match address(text) {
            Ok(address) => family.add(address),
            Err(error) => wrong.push(Wrong::new(
                "spec.gateway",
                &Value::Text(text),
                &error.to_string(),
            )),
        }
        if listed.differ(family) {
            let why = "provided gateway and addresses are of mixed IP families";
            wrong.push(Wrong::new("spec.gateway", &Value::Text(text), why));
        }
    }
    let excluded = spec.excluded_addresses.as_deref().unwrap_or_default();
    let kept_back = families(EXCLUDED, excluded, &mut wrong);
    if listed.differ(kept_back) {
        let why = "addresses and excluded addresses are of mixed IP families";
        wrong.push(Wrong::new(EXCLUDED, &Value::List(excluded), why));
    }
    if wrong.is_empty() {
        wrong = outside_the_prefix(spec);
    }
    wrong
}

fn families(field: &'static str, texts: &[String], wrong: &mut Vec<Wrong>) -> Families {
    let mut families = Families::default();
    for text in texts {
        match Range::read(text) {
            Some(range) => families.add(range.first()),
            None => wrong.push(Wrong::new(
                field,
                &Value::Text(text),
                "provided address is not a valid IP, range, nor CIDR",
            )),
        }
    }
    if families.are_mixed() {
        let why = "provided addresses are of mixed IP families";
        wrong.push(Wrong::new(field, &Value::List(texts), why));
    }
    families
}

/// The prefix is the one around the lowest address.
fn outside_the_prefix(spec: &InClusterIPPoolSpec) -> Vec<Wrong> {
    let lowest = listed(&spec.addresses).ok().and_then(|all| all.lowest());
    let Some(net) = lowest.and_then(|lowest| IpNet::new(lowest, spec.prefix).ok()) else {
        let why = "provided prefix is not valid";
        return vec![Wrong::new("spec.prefix", &Value::Number(spec.prefix), why)];
    };
    let net: Ranges = [Range::net(net)].into_iter().collect();
    let outside = spec
        .addresses
        .iter()
        .filter(|text| Range::read(text).is_some_and(|range| !net.contains(range)));
    outside
        .map(|text| {
            let why = "provided address belongs to a different subnet than others";
            Wrong::new(ADDRESSES, &Value::Text(text), why)
        })
        .collect()
}
