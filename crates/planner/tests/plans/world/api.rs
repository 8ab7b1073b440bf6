//! The API server: objects with uids, versions, generations, finalizers; writes that name another
//! version than the stored one are refused.

use std::collections::BTreeMap;

use causeway_planner::{
    model::{KubeOvnVlan, Uid, objects::Labels},
    plan::{Claim, Kind, Object, StatusWrite, Step, Target, Wanted},
    snapshot::{Meta, Mirror, Seen, Snapshot, Version},
};

use super::World;

/// A write was made from an older version, or of an object that is gone.
#[derive(Debug)]
pub struct Stale;

impl World {
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn new_meta(&mut self, labels: &Labels, held: bool) -> Meta {
        Meta {
            version: Version {
                uid: format!("uid-{}", self.number()).into(),
                resource_version: self.number().to_string(),
            },
            generation: 1,
            created: self.seen.now,
            deleting: false,
            held,
            labels: labels.clone(),
            annotations: Labels::new(),
        }
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Stale> {
        match step {
            Step::Apply { wanted, seen } => self.apply(wanted, seen.as_ref()),
            Step::Claim(claim) => {
                self.claim(claim);
                Ok(())
            }
            Step::ReleaseClaim { name, seen, subnet } => {
                let user = self.seen.subnets.get(subnet.as_str());
                let user = user.and_then(|subnet| subnet.spec.as_ref());
                if user.is_some_and(|user| user.vlan.as_ref() == Some(name)) {
                    return Err(Stale);
                }
                let target = Target::cluster(Kind::Vlan, name);
                self.change(&target, seen, |_| ())?;
                let now = self.seen.now;
                self.vlan(name).spec.released = Some(now);
                Ok(())
            }
            Step::KeepClaim { name, seen } => {
                let target = Target::cluster(Kind::Vlan, name);
                self.change(&target, seen, |_| ())?;
                self.vlan(name).spec.released = None;
                Ok(())
            }
            Step::Delete { target, seen } => self.delete(target, seen),
            Step::Hold { target, seen } => self.change(target, seen, |meta| meta.held = true),
            Step::LetGo { target, seen } => {
                self.change(target, seen, |meta| meta.held = false)?;
                self.end_if_free(target);
                Ok(())
            }
        }
    }

    fn delete(&mut self, target: &Target, seen: &Version) -> Result<(), Stale> {
        if target.kind == Kind::Vlan && self.is_under_a_subnet(&target.name) {
            return Err(Stale);
        }
        self.change(target, seen, |meta| meta.deleting = true)?;
        self.end_if_free(target);
        Ok(())
    }

    fn is_under_a_subnet(&self, vlan: &str) -> bool {
        let mut specs = self.seen.subnets.values().filter_map(|s| s.spec.as_ref());
        specs.any(|spec| spec.vlan.as_deref() == Some(vlan))
    }

    /// Somebody deletes an object by hand.
    pub fn delete_by_hand(&mut self, target: &Target) {
        let meta = self.meta(target).expect("an object to delete");
        meta.deleting = true;
        self.touch(target);
        self.end_if_free(target);
    }

    /// Changes an object if it is as `seen`.
    fn change(
        &mut self,
        target: &Target,
        seen: &Version,
        change: impl FnOnce(&mut Meta),
    ) -> Result<(), Stale> {
        let meta = self.meta(target).ok_or(Stale)?;
        if meta.version != *seen {
            return Err(Stale);
        }
        change(meta);
        self.touch(target);
        Ok(())
    }

    /// A new resourceVersion.
    pub(super) fn touch(&mut self, target: &Target) {
        let version = self.number().to_string();
        if let Some(meta) = self.meta(target) {
            meta.version.resource_version = version;
        }
    }

    /// A deleted object goes with its last finalizer.
    pub(super) fn end_if_free(&mut self, target: &Target) {
        let waits = self.kube_ovn.contains(target) || self.pool_is_used(target);
        let free = |meta: &mut Meta| meta.deleting && !meta.held && !waits;
        if self.meta(target).is_some_and(free) {
            remove(&mut self.seen, target);
        }
    }

    fn pool_is_used(&self, target: &Target) -> bool {
        let key = super::reaction::subnet_key(target);
        target.kind == Kind::Pool && self.machines.get(&key).is_some_and(|used| *used > 0)
    }

    pub(super) fn vlan(
        &mut self,
        name: &str,
    ) -> &mut Seen<KubeOvnVlan, causeway_planner::snapshot::VlanState> {
        self.seen.vlans.get_mut(name).expect("a Vlan")
    }

    fn claim(&mut self, claim: &Claim) {
        if self.seen.vlans.contains_key(&claim.name) {
            return;
        }
        let vlan = Seen {
            meta: self.new_meta(&claim.labels, false),
            spec: KubeOvnVlan {
                vid: Some(claim.vid),
                provider: claim.provider.clone(),
                owner: Some(claim.owner.clone()),
                released: None,
            },
            status: None,
        };
        self.seen.vlans.insert(claim.name.clone(), vlan);
    }

    fn apply(&mut self, wanted: &Wanted, seen: Option<&Version>) -> Result<(), Stale> {
        let fresh = self.new_meta(&wanted.labels, wanted.held);
        let all = &mut self.seen;
        match wanted.object.clone() {
            Object::ProviderNetwork { name, spec } => {
                put(&mut all.provider_networks, name, spec, wanted, seen, fresh)
            }
            Object::Vpc { id, spec } => put(&mut all.routers, id, spec, wanted, seen, fresh),
            Object::Network { key, spec } => put(&mut all.networks, key, spec, wanted, seen, fresh),
            Object::Attachment { key, spec } => {
                put(&mut all.attachments, key, spec, wanted, seen, fresh)
            }
            Object::Subnet { id, spec } => {
                if seen.is_none() && all.subnets.contains_key(id.as_str()) {
                    return Ok(());
                }
                if let Some(vlan) = &spec.vlan {
                    let claim = all.vlans.get(vlan).ok_or(Stale)?;
                    let provider = all.provider_networks.get(&claim.spec.provider);
                    let state = provider.and_then(|provider| provider.status.as_ref());
                    let carried = state.is_some_and(|state| state.vlans.contains(vlan));
                    assert!(carried, "Subnet {id} before {vlan} is carried");
                }
                put(&mut all.subnets, id.to_string(), spec, wanted, seen, fresh)
            }
            Object::Pool { key, spec } => put(&mut all.pools, key, spec, wanted, seen, fresh),
        }
    }

    pub(super) fn write_status(&mut self, status: StatusWrite) {
        match status {
            StatusWrite::Zone(name, status) => {
                let zone = self.seen.zones.get_mut(&name).expect("the zone");
                zone.status = Some(status);
                self.touch(&Target::cluster(Kind::Zone, &name));
            }
            StatusWrite::Vpc(key, status) => {
                let vpc = self.seen.vpcs.get_mut(&key).expect("the VPC");
                vpc.status = Some(status);
            }
            StatusWrite::Network(key, status) => {
                let network = self.seen.networks.get_mut(&key).expect("the network");
                network.status = Some(status);
                self.touch(&Target::namespaced(Kind::Network, &key));
            }
        }
    }

    pub fn meta(&mut self, target: &Target) -> Option<&mut Meta> {
        meta_of(&mut self.seen, target)
    }

    /// Read your writes: what the step touched, as it is now, into an older view. A claim brings
    /// all claims of its owner along, as the executor lists them.
    pub(super) fn fold(&self, step: &Step, view: &mut Snapshot) {
        match step {
            Step::Apply { wanted, .. } => match &wanted.object {
                Object::ProviderNetwork { name, .. } => {
                    copy(
                        &self.seen.provider_networks,
                        &mut view.provider_networks,
                        name,
                    );
                }
                Object::Vpc { id, .. } => copy(&self.seen.routers, &mut view.routers, id),
                Object::Network { key, .. } => {
                    copy(&self.seen.networks, &mut view.networks, key);
                }
                Object::Attachment { key, .. } => {
                    copy(&self.seen.attachments, &mut view.attachments, key);
                }
                Object::Subnet { id, .. } => {
                    copy(&self.seen.subnets, &mut view.subnets, &id.to_string());
                }
                Object::Pool { key, .. } => copy(&self.seen.pools, &mut view.pools, key),
            },
            Step::Claim(claim) => {
                copy(&self.seen.vlans, &mut view.vlans, &claim.name);
                for name in self.claims_of(&claim.owner) {
                    copy(&self.seen.vlans, &mut view.vlans, &name);
                }
            }
            Step::ReleaseClaim { name, subnet, .. } => {
                copy(&self.seen.vlans, &mut view.vlans, name);
                copy(&self.seen.subnets, &mut view.subnets, &subnet.to_string());
            }
            Step::KeepClaim { name, .. } => copy(&self.seen.vlans, &mut view.vlans, name),
            Step::Delete { .. } | Step::Hold { .. } | Step::LetGo { .. } => {
                *view = self.seen.clone();
            }
        }
    }

    fn claims_of(&self, owner: &Uid) -> Vec<String> {
        let vlans = self.seen.vlans.iter();
        let mine = vlans.filter(|(_, vlan)| vlan.spec.owner.as_ref() == Some(owner));
        mine.map(|(name, _)| name.clone()).collect()
    }
}

fn copy<K: Ord + Clone, V: Clone>(from: &BTreeMap<K, V>, to: &mut BTreeMap<K, V>, key: &K) {
    match from.get(key) {
        Some(value) => to.insert(key.clone(), value.clone()),
        None => to.remove(key),
    };
}

/// Server-side apply.
fn put<K: Ord, T: PartialEq, S>(
    map: &mut BTreeMap<K, Mirror<T, S>>,
    key: K,
    spec: T,
    wanted: &Wanted,
    seen: Option<&Version>,
    fresh: Meta,
) -> Result<(), Stale> {
    let Some(object) = map.get_mut(&key) else {
        if seen.is_some() {
            return Err(Stale);
        }
        let meta = Meta {
            annotations: wanted.annotations.clone(),
            ..fresh
        };
        let new = Seen {
            meta,
            spec: Some(spec),
            status: None,
        };
        map.insert(key, new);
        return Ok(());
    };
    let meta = &mut object.meta;
    if seen.is_some_and(|seen| *seen != meta.version) {
        return Err(Stale);
    }
    meta.version.resource_version = fresh.version.resource_version;
    meta.labels.extend(wanted.labels.clone());
    meta.annotations.extend(wanted.annotations.clone());
    meta.held |= wanted.held;
    if object.spec.as_ref() != Some(&spec) {
        meta.generation += 1;
        object.spec = Some(spec);
    }
    Ok(())
}

fn meta_of<'a>(all: &'a mut Snapshot, target: &Target) -> Option<&'a mut Meta> {
    let name = &target.name;
    let key = super::reaction::subnet_key(target);
    match target.kind {
        Kind::Zone => Some(&mut all.zones.get_mut(&name.as_str().into())?.meta),
        Kind::Network => Some(&mut all.networks.get_mut(&key)?.meta),
        Kind::ProviderNetwork => Some(&mut all.provider_networks.get_mut(name)?.meta),
        Kind::Vlan => Some(&mut all.vlans.get_mut(name)?.meta),
        Kind::Vpc => Some(&mut all.routers.get_mut(&name.as_str().into())?.meta),
        Kind::Subnet => Some(&mut all.subnets.get_mut(name)?.meta),
        Kind::Attachment => Some(&mut all.attachments.get_mut(&key)?.meta),
        Kind::Pool => Some(&mut all.pools.get_mut(&key)?.meta),
    }
}

fn remove(all: &mut Snapshot, target: &Target) {
    let name = &target.name;
    let key = super::reaction::subnet_key(target);
    match target.kind {
        Kind::Zone => drop(all.zones.remove(&name.as_str().into())),
        Kind::Network => drop(all.networks.remove(&key)),
        Kind::ProviderNetwork => {
            let carries = all.vlans.values().any(|vlan| vlan.spec.provider == *name);
            assert!(!carries, "{name} deleted under its Vlans");
            drop(all.provider_networks.remove(name));
        }
        Kind::Vlan => drop(all.vlans.remove(name)),
        Kind::Vpc => drop(all.routers.remove(&name.as_str().into())),
        Kind::Subnet => drop(all.subnets.remove(name)),
        Kind::Attachment => drop(all.attachments.remove(&key)),
        Kind::Pool => drop(all.pools.remove(&key)),
    }
}
