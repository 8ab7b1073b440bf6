//! How many addresses a pool has to give.
//!
//! Asked for each pool. Must stay true: counted are the addresses listed, each once, without the
//! excluded ones, the gateway, and network and broadcast address of the prefix (of IPv6 the subnet
//! anycast address) unless the pool gives those out too.

use std::net::IpAddr;

use causeway_api::ipam::InClusterIPPoolSpec;
use ipnet::IpNet;

/// A spec that the real provider's webhook refuses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CountError {
    #[error("`{0}` is no address, range a-b or CIDR")]
    Addresses(String),
    #[error("prefix length {0} does not fit the addresses")]
    Prefix(u8),
    #[error("the pool has no addresses")]
    Empty,
}

/// First and last.
type Range = (u128, u128);

pub(crate) fn total(spec: &InClusterIPPoolSpec) -> Result<i64, CountError> {
    let listed: Vec<_> = spec
        .addresses
        .iter()
        .map(|text| range(text))
        .collect::<Result<_, _>>()?;
    let lowest = listed
        .iter()
        .map(|(first, _)| *first)
        .min()
        .ok_or(CountError::Empty)?;
    let mut taken = Vec::new();
    for text in spec
        .excluded_addresses
        .iter()
        .flatten()
        .chain(spec.gateway.as_ref())
    {
        let (first, last) = range(text)?;
        taken.push((number(first), number(last)));
    }
    if spec.allocate_reserved_ip_addresses != Some(true) {
        let prefix = IpNet::new(lowest, spec.prefix);
        let prefix = prefix.map_err(|_| CountError::Prefix(spec.prefix))?.trunc();
        let mut reserve = |address| taken.push((number(address), number(address)));
        reserve(prefix.network());
        if lowest.is_ipv4() {
            reserve(prefix.broadcast());
        }
    }
    let listed = listed
        .into_iter()
        .map(|(first, last)| (number(first), number(last)));
    let left = merged(listed.collect())
        .into_iter()
        .map(|listed| size_without(listed, &taken));
    let left = left.fold(0_u128, u128::saturating_add);
    Ok(i64::try_from(left).unwrap_or(i64::MAX))
}

/// Size of the range without the addresses taken.
fn size_without((first, last): Range, taken: &[Range]) -> u128 {
    let size = |(first, last): Range| (last - first).saturating_add(1);
    let inside = taken
        .iter()
        .filter(|taken| taken.0 <= last && first <= taken.1);
    let inside = inside.map(|taken| (taken.0.max(first), taken.1.min(last)));
    let gone: u128 = merged(inside.collect()).into_iter().map(size).sum();
    size((first, last)) - gone
}

/// The same addresses in ranges that do not overlap.
fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::new();
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => merged.push((first, last)),
        }
    }
    merged
}

fn range(text: &str) -> Result<(IpAddr, IpAddr), CountError> {
    let wrong = || CountError::Addresses(text.to_owned());
    if let Ok(net) = text.parse::<IpNet>() {
        return Ok((net.network(), net.broadcast()));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let address = |part: &str| part.trim().parse::<IpAddr>().map_err(|_| wrong());
    let (first, last) = (address(first)?, address(last)?);
    let fits = first.is_ipv4() == last.is_ipv4() && first <= last;
    fits.then_some((first, last)).ok_or_else(wrong)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(addresses: &[&str], prefix: u8, gateway: &str) -> InClusterIPPoolSpec {
        InClusterIPPoolSpec {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            prefix,
            gateway: Some(gateway.to_owned()),
            ..InClusterIPPoolSpec::default()
        }
    }

    #[test]
    fn the_recorded_pools_count_as_recorded() {
        let total_of = |addresses, gateway| total(&spec(&[addresses], 24, gateway));
        assert_eq!(
            total_of("172.20.10.64-172.20.10.191", "172.20.10.1"),
            Ok(128)
        );
        assert_eq!(total_of("192.0.2.64-192.0.2.65", "192.0.2.1"), Ok(2));
    }

    #[test]
    fn gateway_network_and_broadcast_address_are_not_given_out() {
        let mut pool = spec(&["10.0.0.0/24"], 24, "10.0.0.1");
        assert_eq!(total(&pool), Ok(253));
        pool.allocate_reserved_ip_addresses = Some(true);
        assert_eq!(total(&pool), Ok(255));
        pool.gateway = None;
        assert_eq!(total(&pool), Ok(256));
    }

    #[test]
    fn an_address_listed_or_excluded_twice_counts_once() {
        let mut pool = spec(
            &["10.0.0.10-10.0.0.19", "10.0.0.15-10.0.0.24", "10.0.0.12"],
            24,
            "10.0.0.1",
        );
        assert_eq!(total(&pool), Ok(15));
        let excluded = ["10.0.0.10-10.0.0.11", "10.0.0.11", "10.0.0.200"];
        pool.excluded_addresses = Some(excluded.map(str::to_owned).into());
        assert_eq!(total(&pool), Ok(13));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let total_of = |addresses| total(&spec(&[addresses], 24, "10.0.0.1"));
        for wrong in ["10.0.0.9-10.0.0.1", "10.0.0", "fd00::1-10.0.0.1", ""] {
            assert_eq!(total_of(wrong), Err(CountError::Addresses(wrong.into())));
        }
        assert_eq!(total(&spec(&[], 24, "10.0.0.1")), Err(CountError::Empty));
        assert_eq!(
            total(&spec(&["10.0.0.9"], 64, "10.0.0.1")),
            Err(CountError::Prefix(64))
        );
    }
}
