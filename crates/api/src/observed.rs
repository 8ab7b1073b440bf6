//! Kubernetes objects in the planner's words.
//!
//! Called by `observe` for every object that a watch or an answer brings. Must stay true: what
//! cannot be read becomes "present, but never as wanted" (a mirror without content), and is never
//! taken for absent.

mod conditions;
mod foreign;
mod own;

use std::collections::BTreeMap;

use causeway_planner::snapshot::{Meta, Moment, Version};
use kube::ResourceExt;

use crate::keys;

pub use conditions::condition_to_api;
pub use foreign::{
    address_claim, attachment, given_address, ip, namespace, node, pool, provider_network, router,
    service_cidr, site_subnet, subnet, vlan,
};
pub use own::{network, selector, vpc, vpc_input, zone, zone_input};

/// Annotations that decisions look at.
const ANNOTATIONS: &[&str] = &[keys::METRIC, keys::GATEWAY_METRIC, keys::ALLOW_DISRUPTION];

/// The metadata that decisions look at.
pub fn meta<K: kube::Resource>(object: &K) -> Meta {
    Meta {
        version: Version {
            uid: object.uid().unwrap_or_default().into(),
            resource_version: object.resource_version().unwrap_or_default(),
        },
        generation: object.meta().generation.unwrap_or(0),
        created: object
            .meta()
            .creation_timestamp
            .as_ref()
            .map_or(Moment(0), |time| Moment(time.0.as_millisecond())),
        deleting: object.meta().deletion_timestamp.is_some(),
        held: object.finalizers().iter().any(|name| name == keys::HOLD),
        labels: object.labels().clone(),
        annotations: annotations(object.annotations()),
    }
}

fn annotations(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    all.iter()
        .filter(|(key, _)| ANNOTATIONS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
