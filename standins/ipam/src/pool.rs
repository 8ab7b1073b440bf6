//! Which addresses a pool has to give, and which of them are given out.
//!
//! Asked by the passes over pools and claims and by the webhook. Must stay true: it is the real
//! provider's arithmetic, oddities included: what is reserved goes by the prefix around the lowest
//! address listed, so a /32 has nothing to give unless reserved addresses are given out too.

use causeway_api::ipam::{IPAddress, InClusterIPPool, InClusterIPPoolSpec};
use ipnet::IpNet;
use kube::{Resource, ResourceExt};

use crate::{
    address::{AddressError, address},
    ranges::{Range, Ranges},
};

/// A spec that cannot be used. The webhook refuses such, if it is asked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PoolError {
    #[error("`{0}` is no address, range a-b or CIDR")]
    Addresses(String),
    #[error("the gateway is no address")]
    Gateway(#[from] AddressError),
    #[error("the pool has no addresses")]
    Empty,
}

/// What the spec lists, each address once.
pub(crate) fn listed(addresses: &[String]) -> Result<Ranges, PoolError> {
    addresses
        .iter()
        .map(|text| Range::read(text).ok_or_else(|| PoolError::Addresses(text.clone())))
        .collect()
}

/// The addresses to give: those listed without the excluded ones, the gateway, and network and
/// broadcast address of the prefix (of IPv6 the subnet's anycast address).
pub(crate) fn to_give(spec: &InClusterIPPoolSpec) -> Result<Ranges, PoolError> {
    let all = listed(&spec.addresses)?;
    let lowest = all.lowest().ok_or(PoolError::Empty)?;
    let mut kept = all.without(&listed(
        spec.excluded_addresses.as_deref().unwrap_or_default(),
    )?);
    let reserved = spec.allocate_reserved_ip_addresses != Some(true);
    // A prefix that does not fit reserves nothing.
    if let (true, Ok(net)) = (reserved, IpNet::new(lowest, spec.prefix)) {
        let net = Range::net(net);
        let broadcast = lowest.is_ipv4().then(|| Range::one(net.last()));
        let taken = [Range::one(net.first())].into_iter().chain(broadcast);
        kept = kept.without(&taken.collect());
    }
    if let Some(gateway) = gateway(spec) {
        kept = kept.without(&[Range::one(address(gateway)?)].into_iter().collect());
    }
    Ok(kept)
}

/// An empty gateway is none.
pub(crate) fn gateway(spec: &InClusterIPPoolSpec) -> Option<&str> {
    spec.gateway
        .as_deref()
        .filter(|gateway| !gateway.is_empty())
}

/// Whether an address is of this pool, wherever its kind's group may be: the real one looks at kind
/// and name alone.
pub(crate) fn gave(pool: &InClusterIPPool, address: &IPAddress) -> bool {
    let of = &address.spec.pool_ref;
    address.namespace() == pool.namespace()
        && of.kind == InClusterIPPool::kind(&())
        && of.name == pool.name_any()
}

/// The addresses of objects; what an object has that is no address is of no pool.
pub(crate) fn in_use<'a>(objects: impl IntoIterator<Item = &'a IPAddress>) -> Ranges {
    let read = |object: &IPAddress| address(&object.spec.address).ok().map(Range::one);
    objects.into_iter().filter_map(read).collect()
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
    fn an_empty_gateway_takes_nothing_away() {
        let count = |gateway| to_give(&spec(&["10.0.0.0/30"], 30, gateway)).map(|it| it.count());
        assert_eq!((count(""), count("10.0.0.1")), (Ok(2), Ok(1)));
    }

    #[test]
    fn what_is_excluded_can_be_all_and_reserves_nothing_else() {
        let mut pool = spec(&["10.0.0.0-10.0.0.9"], 24, "");
        pool.excluded_addresses = Some(vec!["10.0.0.0-10.0.0.4".into()]);
        assert_eq!(
            to_give(&pool).map(|it| it.to_string()),
            Ok("[10.0.0.5-10.0.0.9]".into())
        );
        pool.excluded_addresses = Some(vec!["10.0.0.0/8".into()]);
        assert_eq!(to_give(&pool), Ok(Ranges::default()));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        assert_eq!(
            to_give(&spec(&["a"], 24, "")),
            Err(PoolError::Addresses("a".into()))
        );
        assert_eq!(to_give(&spec(&[], 24, "")), Err(PoolError::Empty));
        assert!(matches!(
            to_give(&spec(&["10.0.0.9"], 24, "a")),
            Err(PoolError::Gateway(_))
        ));
    }
}
