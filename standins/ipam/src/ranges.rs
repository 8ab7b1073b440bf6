//! Sets of addresses, as ranges.
//!
//! Used for what a pool has and for what is given out. Must stay true: the ranges of a set are in
//! order and never touch, so that equal sets are equal and the lowest address comes first.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

use crate::address::address;

/// First to last address, of one family. IPv4 comes before IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    v6: bool,
    first: u128,
    last: u128,
}

impl Range {
    pub(crate) fn one(address: IpAddr) -> Self {
        Self::between(address, address)
    }

    fn between(first: IpAddr, last: IpAddr) -> Self {
        Self {
            v6: first.is_ipv6(),
            first: number(first),
            last: number(last),
        }
    }

    pub(crate) fn net(net: IpNet) -> Self {
        Self::between(net.network(), net.broadcast())
    }

    /// An address, `a-b` or a CIDR; whatever else it is, is for the caller to tell.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (address(first).ok()?, address(last).ok()?);
            let fits = first.is_ipv4() == last.is_ipv4() && first <= last;
            return fits.then(|| Self::between(first, last));
        }
        let Some((start, length)) = text.rsplit_once('/') else {
            return Some(Self::one(address(text).ok()?));
        };
        let plain = length.bytes().all(|letter| letter.is_ascii_digit());
        if !plain || (length.len() > 1 && length.starts_with('0')) {
            return None;
        }
        let net = IpNet::new(address(start).ok()?, length.parse().ok()?).ok()?;
        Some(Self::net(net))
    }

    pub(crate) fn first(self) -> IpAddr {
        self.address(self.first)
    }

    pub(crate) fn last(self) -> IpAddr {
        self.address(self.last)
    }

    fn address(self, number: u128) -> IpAddr {
        match u32::try_from(number) {
            Ok(number) if !self.v6 => Ipv4Addr::from(number).into(),
            _ => Ipv6Addr::from(number).into(),
        }
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.v6 == other.v6 && self.first <= other.first && other.last <= self.last
    }

    fn meets(self, other: Self) -> bool {
        self.v6 == other.v6 && self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first(), self.last())
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// A set of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<Range>);

impl FromIterator<Range> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        let mut ranges: Vec<Range> = ranges.into_iter().collect();
        ranges.sort_unstable();
        let mut joined: Vec<Range> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(before)
                    if before.v6 == range.v6 && range.first <= before.last.saturating_add(1) =>
                {
                    before.last = before.last.max(range.last);
                }
                _ => joined.push(range),
            }
        }
        Self(joined)
    }
}

impl Ranges {
    pub(crate) fn lowest(&self) -> Option<IpAddr> {
        self.0.first().map(|range| range.first())
    }

    pub(crate) fn contains(&self, range: Range) -> bool {
        self.0.iter().any(|own| own.contains(range))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These without those.
    pub(crate) fn without(&self, taken: &Self) -> Self {
        let mut left = Vec::new();
        for own in &self.0 {
            let mut rest = Some(*own);
            for taken in taken.0.iter().filter(|taken| taken.meets(*own)) {
                let Some(now) = rest else { break };
                if now.first < taken.first {
                    left.push(Range {
                        last: taken.first - 1,
                        ..now
                    });
                }
                rest = (taken.last < now.last).then(|| Range {
                    first: taken.last + 1,
                    ..now
                });
            }
            left.extend(rest);
        }
        Self(left)
    }

    /// How many; the largest number there is if there are more.
    pub(crate) fn count(&self) -> i64 {
        let sizes = self
            .0
            .iter()
            .map(|range| (range.last - range.first).saturating_add(1));
        let all = sizes.fold(0_u128, u128::saturating_add);
        i64::try_from(all).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", texts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> Ranges {
        texts
            .iter()
            .map(|text| Range::read(text).expect("a range"))
            .collect()
    }

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        let all = set(&["10.0.0.4", "10.0.0.0/30", "10.0.0.8-10.0.0.9", "fd00::1"]);
        assert_eq!(
            all.to_string(),
            "[10.0.0.0-10.0.0.4 10.0.0.8-10.0.0.9 fd00::1-fd00::1]"
        );
        assert_eq!(all.count(), 8);
    }

    #[test]
    fn what_is_taken_away_may_be_anywhere() {
        let left = set(&["10.0.0.0/28"]).without(&set(&[
            "10.0.0.0",
            "10.0.0.4-10.0.0.5",
            "10.0.0.15-10.0.0.200",
            "::a00:1",
        ]));
        assert_eq!(left.to_string(), "[10.0.0.1-10.0.0.3 10.0.0.6-10.0.0.14]");
        assert!(left.without(&set(&["0.0.0.0/0"])).is_empty());
    }

    #[test]
    fn more_addresses_than_can_be_said_are_as_many_as_can_be_said() {
        assert_eq!(set(&["::/0"]).count(), i64::MAX);
        assert_eq!(set(&["::/66"]).count(), 1 << 62);
        assert_eq!(set(&["::/65"]).count(), i64::MAX);
    }

    #[test]
    fn what_the_real_one_cannot_read_is_not_read() {
        for text in [
            "10.0.0.9-10.0.0.1",
            "10.0.0.1 - 10.0.0.9",
            "10.0.0.1-10.0.0.2-10.0.0.3",
            "10.0.0.0/24-10.0.1.0/24",
            "fd00::1-10.0.0.1",
            "10.0.0.0/33",
            "10.0.0.0/024",
            "10.0.0.0/+24",
            "10.0.0.0/",
            "10.0.0",
            "",
        ] {
            assert_eq!(Range::read(text), None, "{text}");
        }
    }
}
