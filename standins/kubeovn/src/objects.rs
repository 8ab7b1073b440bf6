//! The API objects that the stand-in reads, and how it writes them.
//!
//! Shared by the controller and the nodes. Must stay true: a write carries the resourceVersion that
//! it was decided on; its answer is in the cache, and its dependents are woken, before the next
//! pass.

use std::sync::Arc;

use causeway_api::{
    kubeovn::{IP, ProviderNetwork, Subnet, Vlan, Vpc},
    multus::NetworkAttachmentDefinition,
};
use causeway_drive::{Cache, Name, Selection, Wakes, Watched};
use k8s_openapi::{
    ClusterResourceScope,
    api::core::v1::{Node, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    key::{Change, Key},
    pass::PassError,
};

/// All of them. Clones are the same.
#[derive(Clone)]
pub(crate) struct Objects {
    pub(crate) client: Client,
    pub(crate) wakes: Arc<Wakes<Key>>,
    pub(crate) networks: Kind<ProviderNetwork>,
    pub(crate) vlans: Kind<Vlan>,
    pub(crate) vpcs: Kind<Vpc>,
    pub(crate) subnets: Kind<Subnet>,
    pub(crate) ips: Kind<IP>,
    pub(crate) nodes: Kind<Node>,
    pub(crate) pods: Cache<Pod>,
    pub(crate) attachments: Cache<NetworkAttachmentDefinition>,
}

impl Objects {
    pub(crate) fn start(client: Client) -> Self {
        let wakes = Arc::new(Wakes::default());
        Self {
            networks: Kind::start(&client, &wakes, |it| Change::Network(it.name_any())),
            vlans: Kind::start(&client, &wakes, |it| Change::Vlan {
                name: it.name_any(),
                network: it.spec.provider.clone(),
            }),
            vpcs: Kind::start(&client, &wakes, |it| Change::Vpc(it.name_any())),
            subnets: Kind::start(&client, &wakes, |it| Change::Subnet {
                name: it.name_any(),
                vpc: it.spec.vpc.clone(),
            }),
            ips: Kind::start(&client, &wakes, |it| Change::Ip {
                name: it.name_any(),
                subnet: it.spec.subnet.clone(),
            }),
            nodes: Kind::start(&client, &wakes, |it| Change::Node(it.name_any())),
            pods: watch(Api::all(client.clone()), &wakes, pod_change),
            attachments: watch(Api::all(client.clone()), &wakes, |_| Change::Attachment),
            client,
            wakes,
        }
    }

    /// Waits until every kind was listed. False if a watch has ended.
    pub(crate) async fn synced(&self) -> bool {
        self.networks.cache.synced().await
            && self.vlans.cache.synced().await
            && self.vpcs.cache.synced().await
            && self.subnets.cache.synced().await
            && self.ips.cache.synced().await
            && self.nodes.cache.synced().await
            && self.pods.synced().await
            && self.attachments.synced().await
    }

    /// Changes a pod, or with `status` its status, by a merge patch.
    pub(crate) async fn patch_pod(
        &self,
        (namespace, name): &Name,
        status: bool,
        patch: Value,
    ) -> Result<(), PassError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = PatchParams::default();
        let pod = if status {
            api.patch_status(name, &params, &Patch::Merge(patch))
                .await?
        } else {
            api.patch(name, &params, &Patch::Merge(patch)).await?
        };
        self.pods.fold(pod);
        Ok(())
    }
}

fn pod_change(pod: &Pod) -> Change {
    Change::Pod {
        name: (pod.namespace().unwrap_or_default(), pod.name_any()),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
    }
}

fn watch<K: Watched>(api: Api<K>, wakes: &Arc<Wakes<Key>>, change: fn(&K) -> Change) -> Cache<K> {
    let wakes = Arc::clone(wakes);
    Cache::start(api, Selection::default(), move |changed| {
        let (causeway_drive::Change::Is(object) | causeway_drive::Change::Gone(object)) = changed;
        wakes.wake(Key::Changed(change(object)));
    })
}

/// A cluster-scoped kind: its cache and the way to write it.
#[derive(Clone)]
pub(crate) struct Kind<K> {
    api: Api<K>,
    cache: Cache<K>,
}

impl<K> Kind<K>
where
    K: Watched + Serialize + Resource<Scope = ClusterResourceScope>,
{
    fn start(client: &Client, wakes: &Arc<Wakes<Key>>, change: fn(&K) -> Change) -> Self {
        let api = Api::all(client.clone());
        Self {
            cache: watch(api.clone(), wakes, change),
            api,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<K>> {
        self.cache.get("", name)
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<K>> + use<K> {
        self.cache.all().into_values()
    }

    /// Writes what differs outside the status; the object as it is then. Nothing is written where
    /// nothing differs.
    pub(crate) async fn change(&self, old: &K, new: &K) -> Result<K, PassError> {
        let patch = difference(old, new, |field| field != "status")?;
        self.patch(old, new, patch, false).await
    }

    /// Writes what differs in the status.
    pub(crate) async fn change_status(&self, old: &K, new: &K) -> Result<K, PassError> {
        let patch = difference(old, new, |field| field == "status")?;
        self.patch(old, new, patch, true).await
    }

    async fn patch(
        &self,
        old: &K,
        new: &K,
        patch: Option<Value>,
        status: bool,
    ) -> Result<K, PassError> {
        let Some(mut patch) = patch else {
            return Ok(new.clone());
        };
        patch["metadata"]["resourceVersion"] = old.resource_version().into();
        let (name, params, patch) = (old.name_any(), PatchParams::default(), Patch::Merge(patch));
        let written = if status {
            self.api.patch_status(&name, &params, &patch).await?
        } else {
            self.api.patch(&name, &params, &patch).await?
        };
        let gone = written.meta().deletion_timestamp.is_some() && written.finalizers().is_empty();
        if gone {
            self.cache.fold_gone("", &name);
        } else {
            self.cache.fold(written.clone());
        }
        Ok(written)
    }

    pub(crate) async fn create(&self, object: &K) -> Result<(), PassError> {
        let made = self.api.create(&PostParams::default(), object).await?;
        self.cache.fold(made);
        Ok(())
    }

    /// Deletes it; fine if it is gone.
    pub(crate) async fn delete(&self, object: &K) -> Result<(), PassError> {
        let name = object.name_any();
        match self.api.delete(&name, &DeleteParams::default()).await {
            Ok(answer) => {
                if let Some(marked) = answer.left() {
                    self.cache.fold(marked);
                } else {
                    self.cache.fold_gone("", &name);
                }
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.cache.fold_gone("", &name);
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// The merge patch that makes `new` of `old` in the fields named, if they differ.
fn difference<K: Serialize>(
    old: &K,
    new: &K,
    named: impl Fn(&str) -> bool,
) -> Result<Option<Value>, PassError> {
    let part = |object: &K| -> Result<Value, PassError> {
        let mut value = serde_json::to_value(object)?;
        if let Value::Object(fields) = &mut value {
            fields.retain(|field, _| named(field));
        }
        Ok(value)
    };
    Ok(merge_patch(&part(old)?, &part(new)?))
}

fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        _ if old == new => None,
        (Value::Object(old), Value::Object(new)) => {
            let gone = old.keys().filter(|field| !new.contains_key(*field));
            let mut patch: Map<_, _> = gone.map(|field| (field.clone(), Value::Null)).collect();
            for (field, value) in new {
                let was = old.get(field).unwrap_or(&Value::Null);
                if let Some(value) = merge_patch(was, value) {
                    patch.insert(field.clone(), value);
                }
            }
            Some(patch.into())
        }
        _ => Some(new.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merge_patch_names_what_differs_and_removes_what_is_gone() {
        let old = json!({"a": 1, "b": {"c": [1], "d": "x"}, "e": 2});
        let new = json!({"a": 1, "b": {"c": [2], "f": {}}});
        let patch = json!({"b": {"c": [2], "d": null, "f": {}}, "e": null});
        assert_eq!(merge_patch(&old, &new), Some(patch));
        assert_eq!(merge_patch(&old, &old), None);
    }
}
