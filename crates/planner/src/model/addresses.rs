//! CIDRs, address ranges, and how a Proxmox-backed subnet is split (design 2.2 "Address plan").
//!
//! Family-aware from the start: a [`Cidr`] may be IPv6, and it is the rules that refuse it today.

use std::{fmt, net::Ipv4Addr, str::FromStr};

use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};

/// A CIDR on its network address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr(IpNet);

/// Not a CIDR in canonical form.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// Not a CIDR at all.
    #[error("{text:?} is not a CIDR such as 172.20.10.0/24")]
    Unreadable {
        /// The text.
        text: String,
    },
    /// A CIDR with host bits, or in another notation than the canonical one.
    #[error("{text:?} is not on its network address; write {canonical}")]
    NotCanonical {
        /// The text.
        text: String,
        /// What would be accepted.
        canonical: Cidr,
    },
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let unreadable = || CidrError::Unreadable {
            text: text.to_owned(),
        };
        let net: IpNet = text.parse().map_err(|_| unreadable())?;
        // 172.020.0.0/16 is another network to those who read octal: no guess.
        if matches!(net, IpNet::V4(_)) && net.to_string() != text {
            return Err(unreadable());
        }
        let canonical = Self(net.trunc());
        if canonical.to_string() == text {
            Ok(canonical)
        } else {
            Err(CidrError::NotCanonical {
                text: text.to_owned(),
                canonical,
            })
        }
    }
}

impl TryFrom<String> for Cidr {
    type Error = CidrError;

    fn try_from(text: String) -> Result<Self, CidrError> {
        text.parse()
    }
}

impl From<Cidr> for String {
    fn from(cidr: Cidr) -> Self {
        cidr.to_string()
    }
}

impl From<Ipv4Net> for Cidr {
    fn from(net: Ipv4Net) -> Self {
        Self(IpNet::V4(net.trunc()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Cidr {
    /// The IPv4 network, if it is one.
    pub fn v4(&self) -> Option<Ipv4Net> {
        match self.0 {
            IpNet::V4(net) => Some(net),
            IpNet::V6(_) => None,
        }
    }

    /// Prefix length.
    pub fn prefix(&self) -> u8 {
        self.0.prefix_len()
    }

    /// Whether the two share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Whether every address of `other` is in `self`.
    pub fn contains(&self, other: &Self) -> bool {
        self.0.contains(&other.0)
    }

    /// Whether the address is in it.
    pub fn contains_addr(&self, address: std::net::IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// First host address: the gateway of a subnet. IPv4 with a prefix up to /30.
    pub fn gateway(&self) -> Option<Ipv4Addr> {
        let net = self.v4()?;
        (net.prefix_len() <= 30).then(|| Ipv4Addr::from(u32::from(net.network()).wrapping_add(1)))
    }
}

/// IPv4 addresses from `first` to `last`, both included, written `a.b.c.d-a.b.c.e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddrRange {
    first: Ipv4Addr,
    last: Ipv4Addr,
}

/// Not a range of IPv4 addresses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddrRangeError {
    /// Another notation.
    #[error("{text:?} is not a range such as 172.20.10.64-172.20.10.191")]
    Unreadable {
        /// The text.
        text: String,
    },
    /// The end lies before the start.
    #[error("{text:?} ends before it starts")]
    Reversed {
        /// The text.
        text: String,
    },
}

impl FromStr for AddrRange {
    type Err = AddrRangeError;

    fn from_str(text: &str) -> Result<Self, AddrRangeError> {
        let unreadable = || AddrRangeError::Unreadable {
            text: text.to_owned(),
        };
        let (first, last) = text.split_once('-').ok_or_else(unreadable)?;
        let first = first.parse().map_err(|_| unreadable())?;
        let last = last.parse().map_err(|_| unreadable())?;
        Self::new(first, last).ok_or_else(|| AddrRangeError::Reversed {
            text: text.to_owned(),
        })
    }
}

impl TryFrom<String> for AddrRange {
    type Error = AddrRangeError;

    fn try_from(text: String) -> Result<Self, AddrRangeError> {
        text.parse()
    }
}

impl From<AddrRange> for String {
    fn from(range: AddrRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl AddrRange {
    /// None if `last` lies before `first`.
    pub fn new(first: Ipv4Addr, last: Ipv4Addr) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// First address.
    pub fn first(&self) -> Ipv4Addr {
        self.first
    }

    /// Last address.
    pub fn last(&self) -> Ipv4Addr {
        self.last
    }

    /// How many addresses it holds.
    pub fn len(&self) -> u64 {
        u64::from(u32::from(self.last)) - u64::from(u32::from(self.first)) + 1
    }

    /// Never: a range holds at least one address.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// An entry of a Subnet's excludeIps: `a..b` or `a`.
    pub fn of_exclude(text: &str) -> Option<Self> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        Self::new(first.parse().ok()?, last.parse().ok()?)
    }

    /// Whether it holds every address of `other`.
    pub fn contains_all(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// Whether an address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address)
    }
}

/// Shortest and longest prefix of a Proxmox-backed subnet (source document: between /8 and /28).
pub const NETWORK_PREFIXES: std::ops::RangeInclusive<u8> = 8..=28;

/// Shortest and longest prefix of an overlay subnet.
pub const OVERLAY_PREFIXES: std::ops::RangeInclusive<u8> = 8..=29;

/// How the addresses of a Proxmox-backed subnet are split between their two owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPlan {
    /// The VPC router's port: the first host address.
    pub gateway: Ipv4Addr,
    /// The default VM range: the middle half of the CIDR.
    pub default_vm_range: AddrRange,
    /// First address that a VM range may hold.
    pub first_allowed: Ipv4Addr,
    /// Last address that a VM range may hold: the one before the broadcast address.
    pub last_allowed: Ipv4Addr,
}

impl AddressPlan {
    /// The split of `net`, or None where the prefix is not within [`NETWORK_PREFIXES`].
    pub fn of(net: Ipv4Net) -> Option<Self> {
        if !NETWORK_PREFIXES.contains(&net.prefix_len()) {
            return None;
        }
        let base = u32::from(net.network());
        let size = 1u32 << (32 - net.prefix_len());
        Some(Self {
            gateway: Ipv4Addr::from(base + 1),
            default_vm_range: AddrRange {
                first: Ipv4Addr::from(base + size / 4),
                last: Ipv4Addr::from(base + size / 4 * 3 - 1),
            },
            first_allowed: Ipv4Addr::from(base + 2),
            last_allowed: Ipv4Addr::from(base + size - 2),
        })
    }
}

/// `excludeIps` of a Kube-OVN Subnet in Kube-OVN's own canonical form, so that two writers do not
/// fight: ranges as `a..b`, a single address as `a`, contained or overlapping ranges merged,
/// adjacent ones not, sorted as strings (`172.20.10.0..` before `172.20.8.1`).
pub fn canonical_excludes(ranges: &[AddrRange]) -> Vec<String> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut merged: Vec<AddrRange> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(before) if range.first <= before.last => before.last = before.last.max(range.last),
            _ => merged.push(range),
        }
    }
    let mut texts: Vec<String> = merged
        .iter()
        .map(|range| {
            if range.first == range.last {
                range.first.to_string()
            } else {
                format!("{}..{}", range.first, range.last)
            }
        })
        .collect();
    texts.sort_unstable();
    texts
}
