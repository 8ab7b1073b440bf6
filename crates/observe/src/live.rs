//! What the caches are worth: how old they may be, and a look at the API itself.
//!
//! Used by admission, which answers people who have only just written what their next write needs.
//! Must stay true: what a live read shows is folded in like our own writes, so no cache ever goes
//! back.

use std::{collections::BTreeSet, time::Duration};

use causeway_api::ProxmoxNetworkZone;
use causeway_drive::{Cache, Watched};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams};

use crate::Caches;

impl Caches {
    /// The kinds whose watch has been broken for longer than this.
    pub fn stale(&self, longer_than: Duration) -> Vec<String> {
        let mut stale = Stale {
            longer_than,
            kinds: Vec::new(),
        };
        stale.look(&self.zones);
        stale.look(&self.networks);
        stale.look(&self.nodes);
        stale.look(&self.namespaces);
        stale.look_if_there(self.vpcs.as_ref());
        stale.look_if_there(self.attachments.as_ref());
        stale.look_if_there(self.pools.as_ref());
        stale.look_if_there(self.claims.as_ref());
        stale.look_if_there(self.addresses.as_ref());
        stale.look_if_there(self.service_cidrs.as_ref());
        if let Some(kube_ovn) = &self.kube_ovn {
            stale.look(&kube_ovn.provider_networks);
            stale.look(&kube_ovn.vlans);
            stale.look(&kube_ovn.routers);
            stale.look(&kube_ovn.subnets);
            stale.look(&kube_ovn.ips);
        }
        stale.kinds
    }

    /// Reads all zones, and one namespace, from the API, not from its cache.
    ///
    /// # Errors
    /// What the API answers.
    pub async fn look_again(&self, namespace: Option<&str>) -> Result<(), kube::Error> {
        let before: BTreeSet<String> = self.zones.all().into_keys().map(|(_, name)| name).collect();
        let zones: Api<ProxmoxNetworkZone> = Api::all(self.client.clone());
        let mut absent = before;
        for zone in zones.list(&ListParams::default()).await? {
            absent.remove(&zone.name_any());
            self.zones.fold(zone);
        }
        // There before the list was asked for, and not in it.
        for name in absent {
            self.zones.fold_gone("", &name);
        }
        let Some(name) = namespace else { return Ok(()) };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        if let Some(found) = namespaces.get_opt(name).await? {
            self.namespaces.fold(found);
        }
        Ok(())
    }
}

struct Stale {
    longer_than: Duration,
    kinds: Vec<String>,
}

impl Stale {
    fn look<K: Watched>(&mut self, cache: &Cache<K>) {
        let since = cache.failing_since();
        if since.is_some_and(|since| since.elapsed() > self.longer_than) {
            self.kinds.push(K::kind(&()).into_owned());
        }
    }

    fn look_if_there<K: Watched>(&mut self, cache: Option<&Cache<K>>) {
        if let Some(cache) = cache {
            self.look(cache);
        }
    }
}
