//! What the passes over pools and claims have in common: the caches, and how they write.
//!
//! Must stay true: a pass reads from the caches alone, what it wrote is in them before the next pass,
//! and nothing is written where nothing differs.

use std::sync::Arc;

use causeway_api::ipam::{IPAddress, IPAddressClaim, InClusterIPPool};
use causeway_drive::{Cache, Change, Name, Selection, Wakes, Watched};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde_json::{Value, json};

use crate::{address::AddressError, cluster::Cluster, pool::PoolError};

/// On an object: leave it and what it is asked for alone.
pub(crate) const PAUSED: &str = "cluster.x-k8s.io/paused";

/// A pass that did not reach its end. It is tried again, later and later.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    #[error("the API refused")]
    Api(#[from] Box<kube::Error>),
    #[error("the pool cannot be used")]
    Pool(#[from] PoolError),
    #[error("no address available")]
    Exhausted,
    #[error("what is given out already is no address")]
    Given(#[source] AddressError),
}

/// What wants a pass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// Claims first: what they take shows in the counts.
    Claim(Name),
    Pool(Name),
    /// All claims of a pool.
    ClaimsOf(Name),
    /// All claims of a cluster.
    ClaimsFor(Name),
}

/// All that is read.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) pools: Cache<InClusterIPPool>,
    pub(crate) claims: Cache<IPAddressClaim>,
    pub(crate) addresses: Cache<IPAddress>,
    pub(crate) clusters: Cache<Cluster>,
}

pub(crate) fn name_of<K: Resource>(object: &K) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}

impl World {
    pub(crate) fn start(client: Client, wakes: &Arc<Wakes<Key>>) -> Self {
        Self {
            pools: cache(&client, wakes, |pool| {
                let name = name_of(pool);
                vec![Key::Pool(name.clone()), Key::ClaimsOf(name)]
            }),
            claims: cache(&client, wakes, |claim| vec![Key::Claim(name_of(claim))]),
            addresses: cache(&client, wakes, |address: &IPAddress| {
                let namespace = address.namespace().unwrap_or_default();
                let of = |name: &str| (namespace.clone(), name.to_owned());
                vec![
                    Key::Claim(of(&address.spec.claim_ref.name)),
                    Key::Pool(of(&address.spec.pool_ref.name)),
                ]
            }),
            clusters: cache(&client, wakes, |cluster| {
                vec![Key::ClaimsFor(name_of(cluster))]
            }),
            client,
        }
    }

    /// Until the first lists are there: before, an address that is given out may look free.
    pub(crate) async fn synced(&self) -> bool {
        self.pools.synced().await && self.claims.synced().await && self.addresses.synced().await
    }
}

fn cache<K: Watched>(
    client: &Client,
    wakes: &Arc<Wakes<Key>>,
    keys: impl Fn(&K) -> Vec<Key> + Send + Sync + 'static,
) -> Cache<K> {
    let wakes = Arc::clone(wakes);
    let on_change = move |change: Change<K>| {
        for key in keys(change.object()) {
            wakes.wake(key);
        }
    };
    Cache::start(Api::all(client.clone()), Selection::default(), on_change)
}

/// Merges a patch into the version of the object that the pass has seen.
pub(crate) async fn write<K>(
    world: &World,
    cache: &Cache<K>,
    object: &K,
    status: bool,
    mut patch: Value,
) -> Result<K, PassError>
where
    K: Watched + Resource<Scope = NamespaceResourceScope>,
{
    let (namespace, name) = name_of(object);
    let api: Api<K> = Api::namespaced(world.client.clone(), &namespace);
    patch["metadata"]["resourceVersion"] = json!(object.resource_version());
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let written = if status {
        api.patch_status(&name, &params, &patch).await
    } else {
        api.patch(&name, &params, &patch).await
    };
    let written = written.map_err(Box::new)?;
    let last = written.finalizers().is_empty();
    if written.meta().deletion_timestamp.is_some() && last {
        cache.fold_gone(&namespace, &name);
    } else {
        cache.fold(written.clone());
    }
    Ok(written)
}

pub(crate) fn holds<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.finalizers().iter().any(|own| own == finalizer)
}

pub(crate) fn is_going<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// The finalizers with this one, or without it.
pub(crate) fn finalizers<K: Resource>(object: &K, finalizer: &str, held: bool) -> Value {
    let mut all = object.finalizers().to_vec();
    all.retain(|own| own != finalizer);
    if held {
        all.push(finalizer.to_owned());
    }
    json!({"metadata": {"finalizers": all}})
}
