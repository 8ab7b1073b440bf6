//! IPv4 addresses of a Subnet: its canonical excludeIps, its counters, and the next free address.
//!
//! Used by the Subnet and Pod passes. Must stay true: what is written back is canonical, so that
//! writing it back again changes nothing.

use std::{collections::BTreeSet, fmt, net::Ipv4Addr, str::FromStr};

use ipnet::Ipv4Net;

/// Text that is no IPv4 address, range or network, or no address left.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("`{0}` is no IPv4 address or range a..b")]
    Range(String),
    #[error("`{0}` is no IPv4 network")]
    Network(String),
    #[error("no available address in {0}")]
    Exhausted(Ipv4Net),
    #[error("address {0} is in use or outside its subnet")]
    Taken(Ipv4Addr),
}

/// Addresses from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    first: u32,
    last: u32,
}

impl Range {
    fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub(crate) fn contains(self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address.into())
    }

    fn text(self, separator: &str) -> String {
        let (first, last) = (Ipv4Addr::from(self.first), Ipv4Addr::from(self.last));
        if first == last {
            first.to_string()
        } else {
            format!("{first}{separator}{last}")
        }
    }
}

impl From<Ipv4Addr> for Range {
    fn from(address: Ipv4Addr) -> Self {
        let number = address.into();
        Self {
            first: number,
            last: number,
        }
    }
}

impl FromStr for Range {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let number = |part: &str| part.parse::<Ipv4Addr>().map(u32::from);
        match (number(first), number(last)) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(AddressError::Range(text.into())),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(".."))
    }
}

/// A network in its canonical form.
pub(crate) fn network(text: &str) -> Result<Ipv4Net, AddressError> {
    let net: Ipv4Net = text
        .parse()
        .map_err(|_| AddressError::Network(text.into()))?;
    Ok(net.trunc())
}

/// Reads excludeIps.
pub(crate) fn ranges<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Range>, AddressError> {
    texts.iter().map(|text| text.as_ref().parse()).collect()
}

/// excludeIps as Kube-OVN writes them: overlapping ones made one (neighbours stay apart), the
/// gateway among them, sorted as texts.
pub(crate) fn canonical(excluded: &[Range], gateway: Ipv4Addr) -> Vec<String> {
    let mut merged = merge(excluded.to_vec(), Range::overlaps);
    if !merged.iter().any(|range| range.contains(gateway)) {
        merged.push(gateway.into());
    }
    let mut texts: Vec<_> = merged.iter().map(Range::to_string).collect();
    texts.sort();
    texts
}

fn merge(mut ranges: Vec<Range>, joined: impl Fn(Range, Range) -> bool) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(before) if joined(*before, range) => before.last = before.last.max(range.last),
            _ => merged.push(range),
        }
    }
    merged
}

/// The addresses of a Subnet and which of them are whose.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    cidr: Ipv4Net,
    gateway: Ipv4Addr,
    excluded: Vec<Range>,
}

/// What a Subnet's status says of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) available: u64,
    pub(crate) available_range: String,
    pub(crate) using: u64,
    pub(crate) using_range: String,
}

impl Pool {
    pub(crate) fn new(cidr: Ipv4Net, gateway: Ipv4Addr, excluded: Vec<Range>) -> Self {
        Self {
            cidr,
            gateway,
            excluded,
        }
    }

    pub(crate) fn cidr(&self) -> Ipv4Net {
        self.cidr
    }

    pub(crate) fn gateway(&self) -> Ipv4Addr {
        self.gateway
    }

    /// Excluded by a range that is more than the gateway alone: such an address counts for nobody.
    fn is_out_of_count(&self, address: Ipv4Addr) -> bool {
        let gateway = Range::from(self.gateway);
        let others = self.excluded.iter().filter(|range| **range != gateway);
        others.into_iter().any(|range| range.contains(address))
    }

    /// Host addresses that nothing excludes, without `used`.
    fn free(&self, used: &[Ipv4Addr]) -> Vec<Range> {
        let hosts = Range {
            first: u32::from(self.cidr.network()) + 1,
            last: u32::from(self.cidr.broadcast()).saturating_sub(1),
        };
        let used = used.iter().map(|address| Range::from(*address));
        let holes = merge(
            self.excluded.iter().copied().chain(used).collect(),
            Range::overlaps,
        );
        let mut free = Vec::new();
        let mut next = Some(hosts.first);
        for hole in holes {
            let Some(first) = next else { break };
            if hole.last < first {
                continue;
            }
            if hole.first > first {
                free.push(Range {
                    first,
                    last: (hole.first - 1).min(hosts.last),
                });
            }
            next = hole.last.checked_add(1).filter(|next| *next <= hosts.last);
        }
        free.extend(
            next.filter(|first| *first <= hosts.last)
                .map(|first| Range {
                    first,
                    last: hosts.last,
                }),
        );
        free.retain(|range| range.first <= range.last);
        free
    }

    pub(crate) fn counters(&self, used: &[Ipv4Addr]) -> Counters {
        let counted: Vec<_> = used
            .iter()
            .copied()
            .filter(|address| !self.is_out_of_count(*address))
            .collect();
        let size = |range: &Range| u64::from(range.last - range.first) + 1;
        let free = self.free(used);
        let using = merge(
            counted
                .iter()
                .map(|address| Range::from(*address))
                .collect(),
            |before, range| range.first <= before.last.saturating_add(1),
        );
        let texts = |ranges: &[Range]| {
            let texts: Vec<_> = ranges.iter().map(|range| range.text("-")).collect();
            texts.join(",")
        };
        Counters {
            available: free.iter().map(size).sum(),
            available_range: texts(&free),
            using: counted.len() as u64,
            using_range: texts(&using),
        }
    }

    /// The address that a pod gets: the one it asks for, even an excluded one, or the lowest free
    /// that nobody gave back. Once there is none such, those given back are as good as any.
    pub(crate) fn allocate(
        &self,
        asked: Option<Ipv4Addr>,
        used: &[Ipv4Addr],
        given_back: &mut BTreeSet<Ipv4Addr>,
    ) -> Result<Ipv4Addr, AddressError> {
        if let Some(asked) = asked {
            let fine =
                self.cidr.contains(&asked) && asked != self.gateway && !used.contains(&asked);
            if !fine {
                return Err(AddressError::Taken(asked));
            }
            given_back.remove(&asked);
            return Ok(asked);
        }
        let lowest = |taken: &[Ipv4Addr]| {
            let free = self.free(taken);
            free.first().map(|range| Ipv4Addr::from(range.first))
        };
        let rested: Vec<_> = used.iter().chain(&*given_back).copied().collect();
        let address = lowest(&rested).or_else(|| {
            given_back.clear();
            lowest(used)
        });
        address.ok_or(AddressError::Exhausted(self.cidr))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(cidr: &str, gateway: &str, excluded: &[&str]) -> Pool {
        let excluded = ranges(excluded).expect("test ranges are ranges");
        Pool::new(
            network(cidr).expect("a network"),
            address(gateway),
            excluded,
        )
    }

    fn address(text: &str) -> Ipv4Addr {
        text.parse().expect("an address")
    }

    fn canonical_of(excluded: &[&str], gateway: &str) -> Vec<String> {
        canonical(&ranges(excluded).expect("ranges"), address(gateway))
    }

    #[test]
    fn exclude_ips_get_the_gateway_are_merged_and_sorted_as_texts() {
        assert_eq!(canonical_of(&[], "10.0.0.1"), ["10.0.0.1"]);
        assert_eq!(
            canonical_of(
                &["10.0.0.9..10.0.0.20", "10.0.0.15..10.0.0.30", "10.0.0.10"],
                "10.0.0.1"
            ),
            ["10.0.0.1", "10.0.0.9..10.0.0.30"]
        );
        assert_eq!(
            canonical_of(&["10.0.0.2..10.0.0.3", "10.0.0.100"], "10.0.0.1"),
            ["10.0.0.1", "10.0.0.100", "10.0.0.2..10.0.0.3"],
            "100 sorts before 2"
        );
        assert_eq!(
            canonical_of(&["10.0.0.1..10.0.0.5"], "10.0.0.1"),
            ["10.0.0.1..10.0.0.5"]
        );
    }

    #[test]
    fn neighbouring_ranges_stay_apart() {
        let apart = ["10.0.0.1", "10.0.0.2..10.0.0.3", "10.0.0.4"];
        assert_eq!(canonical_of(&apart, "10.0.0.1"), apart);
    }

    #[test]
    fn the_counters_are_those_recorded() {
        let pool = pool(
            "172.20.10.0/24",
            "172.20.10.1",
            &["172.20.10.1", "172.20.10.64..172.20.10.191"],
        );
        let counters = pool.counters(&[address("172.20.10.2")]);
        assert_eq!(
            counters,
            Counters {
                available: 124,
                available_range: "172.20.10.3-172.20.10.63,172.20.10.192-172.20.10.254".into(),
                using: 1,
                using_range: "172.20.10.2".into(),
            }
        );
    }

    #[test]
    fn an_address_inside_excluded_ranges_counts_for_nobody() {
        let pool = pool(
            "10.0.0.0/29",
            "10.0.0.1",
            &["10.0.0.1", "10.0.0.4..10.0.0.5"],
        );
        let counters = pool.counters(&[address("10.0.0.5"), address("10.0.0.2")]);
        assert_eq!((counters.available, counters.using), (2, 1));
        assert_eq!(counters.using_range, "10.0.0.2");
    }

    #[test]
    fn the_lowest_free_address_is_given_until_none_is_left() {
        let pool = pool("10.0.0.0/29", "10.0.0.1", &["10.0.0.1", "10.0.0.3"]);
        let mut used = Vec::new();
        while let Ok(address) = pool.allocate(None, &used, &mut BTreeSet::new()) {
            used.push(address);
        }
        assert_eq!(
            used,
            ["10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"].map(address)
        );
        assert_eq!(
            pool.allocate(None, &used, &mut BTreeSet::new()),
            Err(AddressError::Exhausted(pool.cidr()))
        );
    }

    #[test]
    fn an_address_given_back_is_given_again_only_when_no_other_is_free() {
        let pool = pool("10.0.0.0/29", "10.0.0.1", &["10.0.0.1"]);
        let mut used = vec![address("10.0.0.3")];
        let mut given_back = BTreeSet::from(["10.0.0.2", "10.0.0.4"].map(address));
        for wanted in ["10.0.0.5", "10.0.0.6", "10.0.0.2", "10.0.0.4"].map(address) {
            assert_eq!(pool.allocate(None, &used, &mut given_back), Ok(wanted));
            used.push(wanted);
        }
    }

    #[test]
    fn an_address_given_back_is_given_to_whoever_asks_for_it() {
        let pool = pool("10.0.0.0/29", "10.0.0.1", &["10.0.0.1"]);
        let asked = address("10.0.0.2");
        let mut given_back = BTreeSet::from([asked]);
        assert_eq!(pool.allocate(Some(asked), &[], &mut given_back), Ok(asked));
        assert!(given_back.is_empty());
    }

    #[test]
    fn an_excluded_address_is_given_to_whoever_asks_for_it() {
        let pool = pool("10.0.0.0/29", "10.0.0.1", &["10.0.0.1", "10.0.0.3"]);
        let asked = address("10.0.0.3");
        let mut given_back = BTreeSet::new();
        assert_eq!(pool.allocate(Some(asked), &[], &mut given_back), Ok(asked));
        assert_eq!(
            pool.allocate(Some(asked), &[asked], &mut given_back),
            Err(AddressError::Taken(asked))
        );
    }
}
