//! What several rules share: the list of what is broken, and the forms of names, CIDRs and lists.
//!
//! Must stay true: every message names the offending value and what would be accepted.

use std::{collections::BTreeMap, fmt, net::Ipv4Addr};

use ipnet::Ipv4Net;

use super::{FieldPath, Violation};
use crate::model::{
    AddrRange, Cidr, Requirement, Selector, SelectorOperator, addresses::CidrError,
};

/// Rules that were found broken, in the order of the fields.
#[derive(Debug, Default)]
pub(super) struct Broken(pub Vec<Violation>);

impl Broken {
    pub fn refuse(&mut self, path: &FieldPath, message: impl Into<String>) {
        self.0.push(Violation {
            path: path.clone(),
            message: message.into(),
        });
    }

    /// The value, or None with the reason noted.
    pub fn keep<T>(&mut self, path: &FieldPath, result: Result<T, impl Into<String>>) -> Option<T> {
        result.map_err(|message| self.refuse(path, message)).ok()
    }

    /// `value`, if nothing was broken.
    pub fn or<T>(self, value: T) -> Result<T, Vec<Violation>> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self.0)
        }
    }

    /// A list may hold at most `most` elements (design 2, "Bounds").
    pub fn bound(&mut self, path: &FieldPath, what: &str, length: usize, most: usize) {
        if length > most {
            self.refuse(
                path,
                format!("{length} {what}; at most {most} are possible"),
            );
        }
    }

    /// Refuses each element that equals an earlier one.
    pub fn distinct<K: Ord + fmt::Display>(
        &mut self,
        list: &FieldPath,
        keys: impl Iterator<Item = (usize, FieldPath, K)>,
    ) {
        let mut first: BTreeMap<K, usize> = BTreeMap::new();
        for (index, path, key) in keys {
            match first.get(&key) {
                Some(earlier) => self.refuse(
                    &path,
                    format!("{key} is already in {}; list it once", list.index(*earlier)),
                ),
                None => {
                    first.insert(key, index);
                }
            }
        }
    }
}

/// A DNS label of at most `longest` characters.
pub(super) fn dns_label(text: &str, longest: usize) -> Result<(), String> {
    if !is_label(text) {
        return Err(format!(
            "{text:?} is no DNS label: lower-case letters, digits and '-', beginning and ending with a letter or digit"
        ));
    }
    length(text, longest)
}

/// A Kubernetes object name of at most `longest` characters: DNS labels joined by dots.
pub(super) fn object_name(text: &str, longest: usize) -> Result<(), String> {
    if !text.split('.').all(is_label) {
        return Err(format!(
            "{text:?} is no object name: lower-case letters, digits, '-' and '.', each part beginning and ending with a letter or digit"
        ));
    }
    length(text, longest)
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(inner)
        && bytes.last().copied().is_some_and(inner)
        && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
}

fn length(text: &str, longest: usize) -> Result<(), String> {
    if text.len() > longest {
        return Err(format!(
            "{text:?} has {} characters; at most {longest} are possible",
            text.len()
        ));
    }
    Ok(())
}

/// An IPv4 CIDR on its network address.
pub(super) fn ipv4_cidr(text: &str) -> Result<(Cidr, Ipv4Net), String> {
    let cidr = match text.parse::<Cidr>() {
        Ok(cidr) => cidr,
        Err(CidrError::NotCanonical { canonical, .. }) if canonical.v4().is_none() => canonical,
        Err(refusal) => return Err(refusal.to_string()),
    };
    cidr.v4().map(|net| (cidr, net)).ok_or_else(|| {
        format!("{text:?} is IPv6, which is not served; write an IPv4 CIDR such as 172.20.10.0/24")
    })
}

/// An IPv4 address.
pub(super) fn ipv4(text: &str) -> Result<Ipv4Addr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not an IPv4 address such as 172.20.20.9"))
}

/// A range of host addresses of `net` that leaves `gateway` out.
pub(super) fn host_range(
    text: &str,
    net: Ipv4Net,
    gateway: Ipv4Addr,
    allowed: &str,
) -> Result<AddrRange, String> {
    let range = range(text).map_err(|message| format!("{message}; {allowed}"))?;
    if !net.contains(&range.first()) || !net.contains(&range.last()) {
        return Err(format!("{text} reaches outside {net}; {allowed}"));
    }
    let special = [
        ("the network address", net.network()),
        ("the gateway", gateway),
        ("the broadcast address", net.broadcast()),
    ];
    let hit: Vec<String> = special
        .iter()
        .filter(|(_, address)| range.contains(*address))
        .map(|(what, address)| format!("{what} {address}"))
        .collect();
    if hit.is_empty() {
        Ok(range)
    } else {
        Err(format!("{text} contains {}; {allowed}", hit.join(" and ")))
    }
}

/// A range of IPv4 addresses, whatever it lies in.
pub(super) fn range(text: &str) -> Result<AddrRange, String> {
    text.parse::<AddrRange>()
        .map_err(|refusal| refusal.to_string())
}

/// `a, b, c and 4 more`.
pub(super) fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    const SHOWN: usize = 8;
    let all: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match all.get(..SHOWN) {
        Some(shown) if all.len() > SHOWN => {
            format!("{} and {} more", shown.join(", "), all.len() - SHOWN)
        }
        _ => all.join(", "),
    }
}

/// A selector in the notation of `kubectl get --selector`.
pub(super) fn selector_text(selector: &Selector) -> String {
    let labels = selector
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"));
    let requirement = |one: &Requirement| {
        let (key, values) = (&one.key, one.values.join(","));
        match one.operator {
            SelectorOperator::In => format!("{key} in ({values})"),
            SelectorOperator::NotIn => format!("{key} notin ({values})"),
            SelectorOperator::Exists => key.clone(),
            SelectorOperator::DoesNotExist => format!("!{key}"),
        }
    };
    listed(labels.chain(selector.expressions.iter().map(requirement)))
}
