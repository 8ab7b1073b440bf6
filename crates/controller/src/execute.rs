//! One step of a plan as requests to the API. Every answer is folded into the caches before the
//! step is done; an object that is not as the plan saw it is read live, so that the next plan sees
//! it.

use causeway_api::{keys, kubeovn, observed};
use causeway_drive::{Cache, Watched};
use causeway_observe::Caches;
use causeway_planner::{
    model::{AddrRange, Pool, SubnetId},
    plan::{Claim, Kind, Object, Step, Target, Wanted},
    snapshot::{Moment, Version},
};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::{ClusterResourceScope, NamespaceResourceScope},
};
use serde::Serialize;
use serde_json::json;

use crate::{PassError, render};

/// Label of a Kube-OVN `IP`: its Subnet.
const SUBNET_OF_IP: &str = "ovn.kubernetes.io/subnet";

/// Carries one step out.
pub(crate) async fn step(caches: &Caches, step: &Step, now: Moment) -> Result<(), PassError> {
    match step {
        Step::Apply { wanted, seen } => apply(caches, wanted, seen.as_ref()).await,
        Step::Claim(claim) => self::claim(caches, claim).await,
        Step::ReleaseClaim { name, seen, subnet } => release(caches, name, seen, subnet, now).await,
        Step::KeepClaim { name, seen } => keep(caches, name, seen).await,
        Step::Delete { target, seen } => dispatch(caches, target, Action::Delete(seen)).await,
        Step::Hold { target, seen } => dispatch(caches, target, Action::Hold(seen)).await,
        Step::LetGo { target, seen } => dispatch(caches, target, Action::LetGo(seen)).await,
    }
}

/// What is done to an object that exists.
enum Action<'a> {
    Delete(&'a Version),
    Hold(&'a Version),
    LetGo(&'a Version),
}

/// One kind's cache and API, for one object.
struct Place<'a, K> {
    cache: &'a Cache<K>,
    api: Api<K>,
    target: Target,
}

async fn apply(caches: &Caches, wanted: &Wanted, seen: Option<&Version>) -> Result<(), PassError> {
    let meta = |name: String, namespace| render::metadata(name, namespace, wanted, seen);
    match &wanted.object {
        Object::ProviderNetwork { name, spec } => {
            let target = Target::cluster(Kind::ProviderNetwork, name);
            let object = render::provider_network(meta(name.clone(), None), spec);
            let cache = &kube_ovn(caches, &target)?.provider_networks;
            cluster(caches, cache, target).apply(&object).await
        }
        Object::Vpc { id, spec } => {
            let target = Target::cluster(Kind::Vpc, id);
            let object = render::router(meta(id.to_string(), None), spec).map_err(|source| {
                PassError::Json {
                    target: target.clone(),
                    source,
                }
            })?;
            let cache = &kube_ovn(caches, &target)?.routers;
            cluster(caches, cache, target).apply(&object).await
        }
        Object::Network { key, spec } => {
            let target = Target::namespaced(Kind::Network, key);
            let namespace = Some(key.namespace.to_string());
            let object = render::network(meta(key.id.to_string(), namespace), spec);
            namespaced(caches, &caches.networks, target)
                .apply(&object)
                .await
        }
        Object::Attachment { key, spec } => {
            let target = Target::namespaced(Kind::Attachment, key);
            let namespace = Some(key.namespace.to_string());
            let object = render::attachment(meta(key.id.to_string(), namespace), key, spec);
            let cache = served(caches.attachments.as_ref(), &target)?;
            namespaced(caches, cache, target).apply(&object).await
        }
        Object::Subnet { id, spec } => {
            let target = Target::cluster(Kind::Subnet, id);
            let object = render::subnet(meta(id.to_string(), None), spec);
            let cache = &kube_ovn(caches, &target)?.subnets;
            let place = cluster(caches, cache, target);
            if seen.is_none() {
                if place.read_live().await? {
                    // Another controller was first; its VLAN may be another one (design 3.2).
                    return Ok(());
                }
                if let Some(vlan) = &spec.vlan {
                    claim_stands(caches, vlan).await?;
                }
            }
            place.apply(&object).await
        }
        Object::Pool { key, spec } => {
            let target = Target::namespaced(Kind::Pool, key);
            let namespace = Some(key.namespace.to_string());
            let object = render::pool(meta(key.id.to_string(), namespace), spec);
            let cache = served(caches.pools.as_ref(), &target)?;
            let place = namespaced(caches, cache, target);
            let seen = place.cache.get(place.namespace(), key.id.as_str());
            if seen.is_none_or(|pool| pool.spec.addresses != spec.addresses) {
                no_pod_is_in(caches, &key.id, spec).await?;
            }
            place.apply(&object).await
        }
    }
}

async fn dispatch(caches: &Caches, target: &Target, action: Action<'_>) -> Result<(), PassError> {
    let target = target.clone();
    match target.kind {
        Kind::Zone => cluster(caches, &caches.zones, target).act(action).await,
        Kind::Network => {
            namespaced(caches, &caches.networks, target)
                .act(action)
                .await
        }
        Kind::ProviderNetwork => {
            let cache = &kube_ovn(caches, &target)?.provider_networks;
            cluster(caches, cache, target).act(action).await
        }
        Kind::Vlan => {
            if matches!(action, Action::Delete(_)) {
                nobody_is_on(caches, &target).await?;
            }
            let cache = &kube_ovn(caches, &target)?.vlans;
            cluster(caches, cache, target).act(action).await
        }
        Kind::Vpc => {
            let cache = &kube_ovn(caches, &target)?.routers;
            cluster(caches, cache, target).act(action).await
        }
        Kind::Subnet => {
            let cache = &kube_ovn(caches, &target)?.subnets;
            cluster(caches, cache, target).act(action).await
        }
        Kind::Attachment => {
            let cache = served(caches.attachments.as_ref(), &target)?;
            namespaced(caches, cache, target).act(action).await
        }
        Kind::Pool => {
            let cache = served(caches.pools.as_ref(), &target)?;
            namespaced(caches, cache, target).act(action).await
        }
    }
}

fn served<'a, T>(part: Option<&'a T>, target: &Target) -> Result<&'a T, PassError> {
    part.ok_or_else(|| PassError::NotServed(target.clone()))
}

fn kube_ovn<'a>(
    caches: &'a Caches,
    target: &Target,
) -> Result<&'a causeway_observe::KubeOvn, PassError> {
    served(caches.kube_ovn.as_ref(), target)
}

fn cluster<'a, K>(caches: &Caches, cache: &'a Cache<K>, target: Target) -> Place<'a, K>
where
    K: Watched + kube::Resource<Scope = ClusterResourceScope>,
{
    Place {
        cache,
        api: Api::all(caches.client.clone()),
        target,
    }
}

fn namespaced<'a, K>(caches: &Caches, cache: &'a Cache<K>, target: Target) -> Place<'a, K>
where
    K: Watched + kube::Resource<Scope = NamespaceResourceScope>,
{
    let namespace = target.namespace.as_ref().map_or("", |name| name.as_str());
    Place {
        cache,
        api: Api::namespaced(caches.client.clone(), namespace),
        target,
    }
}

/// The number is ours if the create succeeds. Then the owner's claims are listed live before going
/// on, so that a second one, made by a controller that did not know of the first, is seen.
async fn claim(caches: &Caches, claim: &Claim) -> Result<(), PassError> {
    let target = Target::cluster(Kind::Vlan, &claim.name);
    let place = cluster(caches, &kube_ovn(caches, &target)?.vlans, target);
    let params = PostParams {
        field_manager: Some(keys::FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match place.api.create(&params, &render::claim(claim)).await {
        Ok(vlan) => place.cache.fold(vlan),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            place.read_live().await?;
            return Ok(());
        }
        Err(source) => return Err(place.failed("create", source)),
    }
    let label = |key| claim.labels.get(key).map_or("", String::as_str);
    let selector = format!(
        "{}={},{}={}",
        keys::VPC_ID,
        label(keys::VPC_ID),
        keys::SUBNET_NAME,
        label(keys::SUBNET_NAME)
    );
    let list = place
        .api
        .list(&ListParams::default().labels(&selector))
        .await;
    for vlan in list.map_err(|source| place.failed("list", source))? {
        place.cache.fold(vlan);
    }
    Ok(())
}

/// A Subnet is made only on a claim that is there and not released, read live: another controller
/// may have ended it since the plan's snapshot.
async fn claim_stands(caches: &Caches, vlan: &str) -> Result<(), PassError> {
    let target = Target::cluster(Kind::Vlan, vlan);
    let place = cluster(caches, &kube_ovn(caches, &target)?.vlans, target);
    place.read_live().await?;
    let stands = place.cache.get("", vlan).is_some_and(|vlan| {
        !vlan.annotations().contains_key(keys::RELEASED_AT)
            && vlan.metadata.deletion_timestamp.is_none()
    });
    if stands {
        Ok(())
    } else {
        Err(PassError::Stale {
            target: place.target,
        })
    }
}

/// A claim is ended only when no Subnet names its Vlan, read live: another controller may have made
/// one since the plan's snapshot.
async fn nobody_is_on(caches: &Caches, vlan: &Target) -> Result<(), PassError> {
    let cache = &kube_ovn(caches, vlan)?.subnets;
    let place = cluster(caches, cache, Target::cluster(Kind::Subnet, "*"));
    let subnets = place.api.list(&ListParams::default()).await;
    let mut used = false;
    for subnet in subnets.map_err(|source| place.failed("list", source))? {
        used |= subnet.spec.vlan.as_deref() == Some(vlan.name.as_str());
        cache.fold(subnet);
    }
    if used {
        Err(PassError::Stale {
            target: vlan.clone(),
        })
    } else {
        Ok(())
    }
}

/// A pool gets addresses only while no pod has one of them, read live: Kube-OVN may have given one
/// just before it took the excludes in.
async fn no_pod_is_in(caches: &Caches, subnet: &SubnetId, pool: &Pool) -> Result<(), PassError> {
    let target = Target::cluster(Kind::Subnet, subnet);
    let cache = &kube_ovn(caches, &target)?.ips;
    let place = cluster(caches, cache, target.clone());
    let of_subnet = ListParams::default().labels(&format!("{SUBNET_OF_IP}={subnet}"));
    let ips = place.api.list(&of_subnet).await;
    let ranges: Vec<AddrRange> = pool
        .addresses
        .iter()
        .flat_map(|text| text.parse())
        .collect();
    let mut taken = false;
    for ip in ips.map_err(|source| place.failed("list", source))? {
        let address = observed::ip(&ip).address;
        taken |= address.is_some_and(|at| ranges.iter().any(|range| range.contains(at)));
        cache.fold(ip);
    }
    if taken {
        Err(PassError::Stale { target })
    } else {
        Ok(())
    }
}

/// First step of a release, by JSON patch with a test of the resourceVersion. The Subnet is read
/// live before: one that names the Vlan keeps it.
async fn release(
    caches: &Caches,
    name: &str,
    seen: &Version,
    subnet: &SubnetId,
    now: Moment,
) -> Result<(), PassError> {
    let target = Target::cluster(Kind::Vlan, name);
    let kinds = kube_ovn(caches, &target)?;
    let user = cluster(
        caches,
        &kinds.subnets,
        Target::cluster(Kind::Subnet, subnet),
    );
    user.read_live().await?;
    let names_it = |subnet: &kubeovn::Subnet| subnet.spec.vlan.as_deref() == Some(name);
    if user
        .cache
        .get("", &user.target.name)
        .is_some_and(|subnet| names_it(&subnet))
    {
        return Err(PassError::Stale {
            target: user.target,
        });
    }
    let released = Timestamp::from_millisecond(now.0).unwrap_or_default();
    let op = json!({"op": "add", "path": released_at(), "value": released.to_string()});
    let place = cluster(caches, &kinds.vlans, target);
    place.patch_claim("release", seen, op).await
}

/// Takes a release back.
async fn keep(caches: &Caches, name: &str, seen: &Version) -> Result<(), PassError> {
    let target = Target::cluster(Kind::Vlan, name);
    let place = cluster(caches, &kube_ovn(caches, &target)?.vlans, target);
    let op = json!({"op": "remove", "path": released_at()});
    place.patch_claim("keep", seen, op).await
}

/// JSON pointer of the annotation. A claim of ours has annotations: it names its owner.
fn released_at() -> String {
    let key = keys::RELEASED_AT.replace('~', "~0").replace('/', "~1");
    format!("/metadata/annotations/{key}")
}

impl Place<'_, kubeovn::Vlan> {
    /// Changes a claim, if it is still as the plan saw it.
    async fn patch_claim(
        &self,
        verb: &'static str,
        seen: &Version,
        op: serde_json::Value,
    ) -> Result<(), PassError> {
        let version = json!({
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": seen.resource_version,
        });
        let patch = serde_json::from_value(json!([version, op]));
        let patch = patch.map_err(|source| PassError::Json {
            target: self.target.clone(),
            source,
        })?;
        let params = PatchParams {
            field_manager: Some(keys::FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let answer = self
            .api
            .patch(&self.target.name, &params, &Patch::<()>::Json(patch))
            .await;
        // The server answers a failed test as an invalid object.
        if matches!(&answer, Err(kube::Error::Api(status)) if status.code == 422) {
            return self.stale().await;
        }
        self.settle(verb, answer).await
    }
}

impl<K: Watched> Place<'_, K> {
    async fn apply(&self, object: &K) -> Result<(), PassError>
    where
        K: Serialize,
    {
        let answer = causeway_drive::apply(&self.api, keys::FIELD_MANAGER, object).await;
        self.settle("apply", answer).await
    }

    async fn act(&self, action: Action<'_>) -> Result<(), PassError> {
        match action {
            Action::Delete(seen) => self.delete(seen).await,
            Action::Hold(seen) => {
                self.set_finalizers("hold", seen, |names| names.push(keys::HOLD.to_owned()))
                    .await
            }
            Action::LetGo(seen) => {
                let others = |names: &mut Vec<String>| names.retain(|name| name != keys::HOLD);
                self.set_finalizers("let go", seen, others).await
            }
        }
    }

    async fn delete(&self, seen: &Version) -> Result<(), PassError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(seen.uid.to_string()),
                resource_version: Some(seen.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        match self.api.delete(&self.target.name, &params).await {
            Ok(answer) => {
                if let Some(object) = answer.left() {
                    self.fold_unless_gone(object);
                } else {
                    self.fold_gone();
                }
                Ok(())
            }
            Err(error) => self.settle("delete", Err(error)).await,
        }
    }

    async fn set_finalizers(
        &self,
        verb: &'static str,
        seen: &Version,
        change: impl FnOnce(&mut Vec<String>),
    ) -> Result<(), PassError> {
        let Some(object) = self.cache.get(self.namespace(), &self.target.name) else {
            return Err(PassError::Stale {
                target: self.target.clone(),
            });
        };
        let mut finalizers = object.finalizers().to_vec();
        change(&mut finalizers);
        let patch = json!({"metadata": {
            "uid": seen.uid,
            "resourceVersion": seen.resource_version,
            "finalizers": finalizers,
        }});
        let params = PatchParams {
            field_manager: Some(keys::FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let answer = self
            .api
            .patch(&self.target.name, &params, &Patch::Merge(&patch))
            .await;
        self.settle(verb, answer).await
    }

    /// Folds the answer; an object that is not as the plan saw it is read live.
    async fn settle(
        &self,
        verb: &'static str,
        answer: Result<K, kube::Error>,
    ) -> Result<(), PassError> {
        match answer {
            Ok(object) => {
                self.fold_unless_gone(object);
                Ok(())
            }
            // 409: another version, or gone; 404: gone.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => self.stale().await,
            Err(source) => {
                self.read_live().await?;
                Err(self.failed(verb, source))
            }
        }
    }

    /// The plan was made from another state: reads the present one.
    async fn stale(&self) -> Result<(), PassError> {
        self.read_live().await?;
        Err(PassError::Stale {
            target: self.target.clone(),
        })
    }

    /// A write that takes the last finalizer off a deleted object answers with an object that is
    /// not there any more.
    fn fold_unless_gone(&self, object: K) {
        let ended = object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty();
        if ended {
            self.fold_gone();
        } else {
            self.cache.fold(object);
        }
    }

    fn fold_gone(&self) {
        self.cache.fold_gone(self.namespace(), &self.target.name);
    }

    /// Reads the object and folds what is there. Whether it is there.
    async fn read_live(&self) -> Result<bool, PassError> {
        let answer = self.api.get_opt(&self.target.name).await;
        let object = answer.map_err(|source| self.failed("read", source))?;
        let there = object.is_some();
        match object {
            Some(object) => self.cache.fold(object),
            None => self.fold_gone(),
        }
        Ok(there)
    }

    fn namespace(&self) -> &str {
        let namespace = self.target.namespace.as_ref();
        namespace.map_or("", |name| name.as_str())
    }

    fn failed(&self, verb: &'static str, source: kube::Error) -> PassError {
        PassError::Api {
            verb,
            target: self.target.clone(),
            source: Box::new(source),
        }
    }
}
