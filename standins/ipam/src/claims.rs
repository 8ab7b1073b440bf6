//! A pass over a claim: its finalizer, and the address that it is given or gives back.
//!
//! Must stay true: passes come one after the other, so that no address is given twice; a claim that
//! has its address keeps it, whatever becomes of the pool.

use causeway_api::ipam::{
    IPAddress, IPAddressClaim, IPAddressSpec, InClusterIPPool, ObjectName, PoolRef,
};
use causeway_drive::Name;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{
    PROTECT_ADDRESS, RELEASE_ADDRESS,
    address::address,
    pass::{PAUSED, PassError, World, finalizers, holds, is_going, name_of, write},
    pool::{gateway, gave, in_use, to_give},
};

/// Carries the name of the cluster that something is of.
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

pub(crate) async fn pass(world: &World, (namespace, name): &Name) -> Result<(), PassError> {
    let Some(claim) = world.claims.get(namespace, name) else {
        return Ok(());
    };
    if !is_ours(&claim.spec.pool_ref) || is_paused(&*claim) || waits_for_its_cluster(world, &claim)
    {
        return Ok(());
    }
    if !is_going(&*claim) && !holds(&*claim, RELEASE_ADDRESS) {
        let patch = finalizers(&*claim, RELEASE_ADDRESS, true);
        // The change wakes it again.
        return write(world, &world.claims, &*claim, false, patch)
            .await
            .map(drop);
    }
    let pool = world.pools.get(namespace, &claim.spec.pool_ref.name);
    match pool {
        Some(pool) if is_paused(&*pool) => Ok(()),
        Some(pool) if !is_going(&*claim) => give(world, &claim, &pool).await,
        None if !is_going(&*claim) => Ok(()),
        _ => release(world, &claim).await,
    }
}

/// Of a kind that this provider serves.
fn is_ours(of: &PoolRef) -> bool {
    of.api_group.as_deref() == Some(&*InClusterIPPool::group(&()))
        && of.kind == InClusterIPPool::kind(&())
}

fn is_paused<K: Resource>(object: &K) -> bool {
    object.annotations().contains_key(PAUSED)
}

/// The cluster that the claim names is not there or is paused. A claim that is going does not wait
/// for one that is not there.
fn waits_for_its_cluster(world: &World, claim: &IPAddressClaim) -> bool {
    let Some(cluster) = cluster_of(claim) else {
        return false;
    };
    let namespace = claim.namespace().unwrap_or_default();
    match world.clusters.get(&namespace, cluster) {
        Some(cluster) => cluster.spec.paused || is_paused(&*cluster),
        None => !is_going(claim),
    }
}

pub(crate) fn cluster_of(claim: &IPAddressClaim) -> Option<&str> {
    let named = claim.spec.cluster_name.as_deref();
    named.or_else(|| claim.labels().get(CLUSTER_NAME).map(String::as_str))
}

async fn give(
    world: &World,
    claim: &IPAddressClaim,
    pool: &InClusterIPPool,
) -> Result<(), PassError> {
    let (namespace, name) = name_of(claim);
    let there = world.addresses.get(&namespace, &name);
    let wanted = wanted(world, claim, pool, there.as_deref())?;
    let address = match there {
        None => create(world, &wanted).await?,
        Some(there) => {
            let mut merged = IPAddress::clone(&there);
            merged.spec = wanted.spec;
            merged.metadata.labels = wanted.metadata.labels;
            merged.metadata.owner_references = wanted.metadata.owner_references;
            merged.metadata.finalizers = wanted.metadata.finalizers;
            if merged != *there {
                let patch = json!({
                    "metadata": {
                        "labels": merged.metadata.labels,
                        "ownerReferences": merged.metadata.owner_references,
                        "finalizers": merged.metadata.finalizers,
                    },
                    "spec": merged.spec,
                });
                merged = write(world, &world.addresses, &*there, false, patch).await?;
            }
            merged
        }
    };
    let reference = ObjectName {
        name: address.name_any(),
    };
    let known = claim.status.as_ref().and_then(|it| it.address_ref.as_ref());
    if known != Some(&reference) {
        let patch = json!({"status": {"addressRef": reference}});
        write(world, &world.claims, claim, true, patch).await?;
    }
    Ok(())
}

/// The address object as it is to be. One that is there keeps what it says, if it is of the pool.
fn wanted(
    world: &World,
    claim: &IPAddressClaim,
    pool: &InClusterIPPool,
    there: Option<&IPAddress>,
) -> Result<IPAddress, PassError> {
    let mut address = there.cloned().unwrap_or_else(|| {
        let mut fresh = IPAddress::new(
            &claim.name_any(),
            IPAddressSpec {
                claim_ref: ObjectName {
                    name: claim.name_any(),
                },
                pool_ref: PoolRef {
                    api_group: Some(InClusterIPPool::group(&()).into_owned()),
                    kind: InClusterIPPool::kind(&()).into_owned(),
                    name: pool.name_any(),
                },
                ..IPAddressSpec::default()
            },
        );
        fresh.metadata.namespace = claim.namespace();
        fresh
    });
    if !there.is_some_and(|there| gave(pool, there)) {
        address.spec.address = lowest_free(world, pool)?;
        address.spec.gateway = gateway(&pool.spec).map(str::to_owned);
        address.spec.prefix = pool.spec.prefix.into();
    }
    let owners = address.owner_references_mut();
    own(owners, claim, true);
    own(owners, pool, false);
    if let Some(cluster) = claim.labels().get(CLUSTER_NAME) {
        let labels = address.labels_mut();
        labels.insert(CLUSTER_NAME.to_owned(), cluster.clone());
    }
    if !holds(&address, PROTECT_ADDRESS) {
        address.finalizers_mut().push(PROTECT_ADDRESS.to_owned());
    }
    Ok(address)
}

fn lowest_free(world: &World, pool: &InClusterIPPool) -> Result<String, PassError> {
    let addresses = world.addresses.all();
    let given = addresses.values().map(|address| &**address);
    let given: Vec<_> = given.filter(|address| gave(pool, address)).collect();
    for object in &given {
        address(&object.spec.address).map_err(PassError::Given)?;
    }
    let taken = in_use(given);
    let free = to_give(&pool.spec)?.without(&taken);
    let lowest = free.lowest().ok_or(PassError::Exhausted)?;
    Ok(lowest.to_string())
}

/// Adds the owner, or brings its entry up to date. Where somebody else controls the object already,
/// the claim does not become an owner.
fn own<K: Resource<DynamicType = ()>>(
    owners: &mut Vec<OwnerReference>,
    owner: &K,
    controller: bool,
) {
    let reference = OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(controller),
        block_owner_deletion: Some(true),
    };
    let same =
        |other: &&mut OwnerReference| other.kind == reference.kind && other.name == reference.name;
    let foreign = |other: &OwnerReference| {
        other.controller == Some(true)
            && (other.kind != reference.kind || other.name != reference.name)
    };
    if controller && owners.iter().any(foreign) {
        return;
    }
    match owners.iter_mut().find(same) {
        Some(entry) => *entry = reference,
        None => owners.push(reference),
    }
}

async fn create(world: &World, address: &IPAddress) -> Result<IPAddress, PassError> {
    let namespace = address.namespace().unwrap_or_default();
    let api: Api<IPAddress> = Api::namespaced(world.client.clone(), &namespace);
    let made = api.create(&PostParams::default(), address).await;
    let made = made.map_err(Box::new)?;
    world.addresses.fold(made.clone());
    Ok(made)
}

/// Gives back the address of the claim's name, whosever it is, and lets the claim go.
async fn release(world: &World, claim: &IPAddressClaim) -> Result<(), PassError> {
    let (namespace, name) = name_of(claim);
    if let Some(address) = world.addresses.get(&namespace, &name) {
        let mut address = IPAddress::clone(&address);
        if holds(&address, PROTECT_ADDRESS) {
            let patch = finalizers(&address, PROTECT_ADDRESS, false);
            address = write(world, &world.addresses, &address, false, patch).await?;
        }
        if !is_going(&address) {
            delete(world, &address).await?;
        }
    }
    if holds(claim, RELEASE_ADDRESS) {
        let patch = finalizers(claim, RELEASE_ADDRESS, false);
        write(world, &world.claims, claim, false, patch).await?;
    }
    Ok(())
}

async fn delete(world: &World, address: &IPAddress) -> Result<(), PassError> {
    let (namespace, name) = name_of(address);
    let api: Api<IPAddress> = Api::namespaced(world.client.clone(), &namespace);
    match api.delete(&name, &DeleteParams::default()).await {
        Ok(_) if address.finalizers().is_empty() => world.addresses.fold_gone(&namespace, &name),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            world.addresses.fold_gone(&namespace, &name);
        }
        Ok(_) => {}
        Err(error) => return Err(Box::new(error).into()),
    }
    Ok(())
}
