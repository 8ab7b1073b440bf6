//! Which zone a network goes to (design 2.2, "zone omitted", "named zone absent").
//!
//! Must stay true: a zone that is being deleted takes no new network, and one that does not admit
//! the namespace is never chosen, named or not.

use super::{
    ZoneInput,
    rules::{listed, selector_text},
};
use crate::{
    conditions::Reason,
    model::{Namespace, ZoneName, objects::Labels},
    snapshot::{Seen, Settings, Snapshot, ZoneStatus},
};

/// Of several zones that admit a namespace, the one of this name is meant.
const DEFAULT_ZONE: &str = "default";
/// The label that every namespace has on a Kubernetes cluster.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// No zone can be given, and why: a reason of condition `ZoneReady` with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneRefusal {
    /// `NoZone`, `ZoneNotFound`, `ZoneAmbiguous` or `NamespaceNotAdmitted`.
    pub reason: Reason,
    /// Names the zone, the namespace, and what would be accepted.
    pub message: String,
}

impl ZoneRefusal {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// The zone for a network of `namespace` that names `asked` or none.
///
/// # Errors
/// [`ZoneRefusal`] where there is none, or not exactly one.
pub fn choose_zone(
    namespace: &Namespace,
    asked: Option<&ZoneName>,
    snapshot: &Snapshot,
) -> Result<ZoneName, ZoneRefusal> {
    if snapshot.zones.is_empty() {
        return Err(ZoneRefusal::new(
            Reason::NoZone,
            "no ProxmoxNetworkZone exists; the administrator has to create one",
        ));
    }
    let tenant = Tenant::of(namespace, snapshot);
    match asked {
        Some(name) => named(name, &tenant, snapshot),
        None => unnamed(&tenant, snapshot),
    }
}

/// Why a zone takes no further network of `namespace` (design 2.1, maxNetworksPerNamespace).
/// `planned`: networks that will be in it besides those that are recorded.
pub fn quota_refusal(
    namespace: &Namespace,
    zone: &ZoneName,
    planned: usize,
    snapshot: &Snapshot,
) -> Option<ZoneRefusal> {
    let most = snapshot.zones.get(zone)?.spec.max_networks_per_namespace;
    let most = most.filter(|most| *most > 0)?;
    let has = snapshot.networks.iter().filter(|(key, seen)| {
        let record = seen.spec.as_ref();
        key.namespace == *namespace && record.and_then(|one| one.zone.as_ref()) == Some(zone)
    });
    let has = has.count() + planned;
    (has as u64 >= u64::from(most)).then(|| {
        let message = format!(
            "zone \"{zone}\" admits {most} networks of a namespace, and namespace \"{namespace}\" \
             has {has}; remove one, or the administrator can raise spec.maxNetworksPerNamespace"
        );
        ZoneRefusal::new(Reason::NamespaceNotAdmitted, message)
    })
}

fn named(
    name: &ZoneName,
    tenant: &Tenant<'_>,
    snapshot: &Snapshot,
) -> Result<ZoneName, ZoneRefusal> {
    let Some(zone) = snapshot.zones.get(name) else {
        return Err(ZoneRefusal::new(
            Reason::ZoneNotFound,
            format!(
                "zone \"{name}\", asked for in namespace \"{}\", does not exist; there are: {}",
                tenant.name,
                listed(snapshot.zones.keys())
            ),
        ));
    };
    tenant.admitted_by(zone).map_err(|why| {
        ZoneRefusal::new(
            Reason::NamespaceNotAdmitted,
            format!(
                "zone \"{name}\" does not admit namespace \"{}\": {why}",
                tenant.name
            ),
        )
    })?;
    Ok(name.clone())
}

fn unnamed(tenant: &Tenant<'_>, snapshot: &Snapshot) -> Result<ZoneName, ZoneRefusal> {
    let admitting: Vec<&ZoneName> = snapshot
        .zones
        .iter()
        .filter(|(_, zone)| tenant.admitted_by(zone).is_ok())
        .map(|(name, _)| name)
        .collect();
    match admitting.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            let why = snapshot.zones.iter().filter_map(|(name, zone)| {
                let why = tenant.admitted_by(zone).err()?;
                Some(format!("zone \"{name}\": {why}"))
            });
            let why: Vec<String> = why.collect();
            Err(ZoneRefusal::new(
                Reason::NamespaceNotAdmitted,
                format!(
                    "no zone admits namespace \"{}\" ({})",
                    tenant.name,
                    why.join("; ")
                ),
            ))
        }
        several => several
            .iter()
            .find(|name| name.as_str() == DEFAULT_ZONE)
            .map(|name| (*name).clone())
            .ok_or_else(|| {
                ZoneRefusal::new(
                    Reason::ZoneAmbiguous,
                    format!(
                        "namespace \"{}\" may use several zones: {}; set proxmox.zone to one of them",
                        tenant.name,
                        listed(several)
                    ),
                )
            }),
    }
}

/// A namespace as zones see it.
struct Tenant<'a> {
    name: &'a Namespace,
    labels: Labels,
    settings: &'a Settings,
}

impl<'a> Tenant<'a> {
    fn of(name: &'a Namespace, snapshot: &'a Snapshot) -> Self {
        let mut labels = snapshot
            .namespaces
            .get(name)
            .map(|namespace| namespace.labels.clone())
            .unwrap_or_default();
        labels.insert(NAMESPACE_NAME.to_owned(), name.to_string());
        Self {
            name,
            labels,
            settings: &snapshot.settings,
        }
    }

    fn admitted_by(&self, zone: &Seen<ZoneInput, ZoneStatus>) -> Result<(), String> {
        if zone.meta.deleting {
            return Err("it is being deleted".to_owned());
        }
        let prefix = &self.settings.tenant_prefix;
        match zone.spec.namespace_selector.as_ref() {
            Some(selector) if !selector.is_empty() => {
                if selector.matches(&self.labels) {
                    return Ok(());
                }
                Err(format!(
                    "its namespaceSelector wants {}, the namespace has {}",
                    selector_text(selector),
                    listed(
                        self.labels
                            .iter()
                            .map(|(key, value)| format!("{key}={value}"))
                    )
                ))
            }
            _ if self.name.as_str().starts_with(prefix) => Ok(()),
            _ => Err(format!(
                "it has no namespaceSelector and so admits the namespaces named {prefix}*"
            )),
        }
    }
}
