//! The part of kube-controller-manager without which objects stay for ever: namespace contents,
//! owner references, and the pods that a kubelet would end.
//!
//! A step that somebody takes: [`KubeApi::collect_garbage`] by tests and simulations,
//! [`KubeApi::collect_in_background`] by the demo. Must stay true: an object with foreign
//! finalizers is never removed; a step on an API with no garbage writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    KubeApi,
    admission::Visit,
    events,
    kinds::{Kind, Nature},
    object::{self, FOREGROUND, ORPHAN, Object},
    remove::{CRD_CLEANUP, DeleteOptions},
    store::Store,
    user::User,
    write::{Desk, Part, Target},
};

/// Who collects, in [`KubeApi::writes`].
const COLLECTOR: &str = "kube-controller-manager";

/// Rounds of one step. Each round gets one level of owners or one namespace's contents out of the
/// way; nobody nests deeper.
const ROUNDS: usize = 32;

/// Collects in the background until it is dropped.
#[derive(Debug)]
pub struct GarbageCollector {
    task: tokio::task::JoinHandle<()>,
}

impl Drop for GarbageCollector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl KubeApi {
    /// Removes what is garbage now, and what becomes garbage by that: objects whose owners are
    /// gone, contents of terminating namespaces and CRDs, pods that have been told to stop.
    /// Returns how many objects it changed or removed.
    pub fn collect_garbage(&self) -> usize {
        let collector = User::master(COLLECTOR);
        let mut store = self.inner.lock();
        let mut all = 0;
        for _ in 0..ROUNDS {
            let mut desk = Desk {
                store: &mut store,
                clock: &self.inner.clock,
                user: &collector,
                visit: &Visit::default(),
            };
            let done = desk.collect();
            all += done;
            if done == 0 {
                break;
            }
        }
        all
    }

    /// Collects after every change, until the returned value is dropped. Must be called inside a
    /// tokio runtime.
    pub fn collect_in_background(&self) -> GarbageCollector {
        let api = self.clone();
        let mut news = self.inner.lock().hear_all();
        let task = tokio::spawn(async move {
            loop {
                api.collect_garbage();
                if news.changed().await.is_err() {
                    return;
                }
            }
        });
        GarbageCollector { task }
    }
}

/// Objects and their kinds.
type Found = Vec<(std::sync::Arc<Kind>, Object)>;

fn everything(store: &Store) -> Found {
    let of = |kind: &std::sync::Arc<Kind>| {
        let objects = store.list(&kind.resource, "");
        objects
            .map(|(_, object)| (std::sync::Arc::clone(kind), std::sync::Arc::clone(object)))
            .collect::<Vec<_>>()
    };
    let kinds = store.kinds.resources();
    kinds
        .filter(|kind| !events::are_elsewhere(&kind.resource))
        .flat_map(of)
        .collect()
}

impl Desk<'_> {
    /// One round.
    fn collect(&mut self) -> usize {
        let all = everything(self.store);
        self.empty_namespaces(&all)
            + self.empty_definitions(&all)
            + self.end_pods(&all)
            + self.follow_owners(&all)
    }

    /// Deletes an object if it still is the one that was looked at.
    fn discard(&mut self, kind: &Kind, object: &Value) -> usize {
        let target = target(kind, object);
        let before = self.store.revision();
        // Not found or another uid: somebody was faster, and there is nothing left to do.
        let _ = self.delete(target, &DeleteOptions::of_exactly(object));
        usize::from(self.store.revision() != before)
    }

    /// Stores a change of an object that the collector made, or removes it if nothing holds it.
    fn settle(&mut self, kind: &Kind, object: Value) -> usize {
        let grace = object
            .pointer("/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64);
        let held = !object::finalizers(&object).is_empty()
            || object.pointer("/spec/finalizers/0").is_some() && kind.nature == Nature::Namespace;
        if object::is_deleting(&object) && grace.unwrap_or_default() == 0 && !held {
            self.store.count(&self.user.name, &kind.name);
            self.store.remove(&kind.resource, &object);
        } else if self.put(kind, object).is_err() {
            return 0;
        }
        1
    }

    fn empty_namespaces(&mut self, all: &Found) -> usize {
        let mut done = 0;
        for (kind, namespace) in all.iter().filter(|(kind, object)| {
            kind.nature == Nature::Namespace && object::is_deleting(object)
        }) {
            let name = object::name(namespace);
            let contents: Vec<_> = all
                .iter()
                .filter(|(kind, object)| kind.namespaced && object::namespace(object) == name)
                .collect();
            for (kind, object) in contents
                .iter()
                .filter(|(_, object)| !object::is_deleting(object))
            {
                done += self.discard(kind, object);
            }
            if contents.is_empty() && namespace.pointer("/spec/finalizers/0").is_some() {
                let mut freed = Value::clone(namespace);
                object::map_mut(&mut freed, "spec").remove("finalizers");
                done += self.settle(kind, freed);
            }
        }
        done
    }

    fn empty_definitions(&mut self, all: &Found) -> usize {
        let mut done = 0;
        for (kind, crd) in all.iter().filter(|(kind, object)| {
            kind.nature == Nature::Definition
                && object::finalizers(object).contains(&CRD_CLEANUP)
                && object::is_deleting(object)
        }) {
            let resource = crate::crd::resource(crd);
            let instances: Vec<_> = all
                .iter()
                .filter(|(kind, _)| kind.resource == resource)
                .collect();
            for (kind, object) in instances
                .iter()
                .filter(|(_, object)| !object::is_deleting(object))
            {
                done += self.discard(kind, object);
            }
            if instances.is_empty() {
                self.store.withdraw(&resource);
                done += self.drop_finalizer(kind, crd, CRD_CLEANUP);
            }
        }
        done
    }

    /// What the kubelet does once a pod's containers have stopped. There are no kubelets here, and
    /// without this no pod on a node would ever go.
    fn end_pods(&mut self, all: &Found) -> usize {
        let mut done = 0;
        for (kind, pod) in all
            .iter()
            .filter(|(kind, object)| kind.nature == Nature::Pod && object::is_deleting(object))
        {
            let grace = pod
                .pointer("/metadata/deletionGracePeriodSeconds")
                .and_then(Value::as_i64);
            if grace.unwrap_or_default() > 0 {
                let mut stopped = Value::clone(pod);
                object::set_meta(&mut stopped, "deletionGracePeriodSeconds", 0.into());
                done += self.settle(kind, stopped);
            }
        }
        done
    }

    fn follow_owners(&mut self, all: &Found) -> usize {
        let uids: BTreeMap<&str, &Object> = all
            .iter()
            .map(|(_, object)| (object::uid(object), object))
            .collect();
        let owned: BTreeSet<&str> = all
            .iter()
            .flat_map(|(_, object)| owner_uids(object))
            .collect();
        let mut done = 0;
        for (kind, object) in all {
            done += self.follow_owners_of(kind, object, &uids);
            let uid = object::uid(object);
            let finalizers = object::finalizers(object);
            if !object::is_deleting(object) {
                continue;
            }
            if finalizers.contains(&FOREGROUND) && !blocks(all, uid) {
                done += self.drop_finalizer(kind, object, FOREGROUND);
            } else if finalizers.contains(&ORPHAN) {
                if owned.contains(uid) {
                    done += self.orphan(all, uid);
                } else {
                    done += self.drop_finalizer(kind, object, ORPHAN);
                }
            }
        }
        done
    }

    /// Deletes an object all of whose owners are gone, or are going and wait for it; of several owners
    /// forgets those.
    fn follow_owners_of(
        &mut self,
        kind: &Kind,
        object: &Object,
        uids: &BTreeMap<&str, &Object>,
    ) -> usize {
        let owners = owner_uids(object);
        if owners.is_empty() || object::is_deleting(object) {
            return 0;
        }
        // An owner in another namespace is no owner.
        let near = |owner: &&&Object| {
            object::namespace(owner).is_empty()
                || object::namespace(owner) == object::namespace(object)
        };
        let waits = |owner: &Object| {
            object::is_deleting(owner) && object::finalizers(owner).contains(&FOREGROUND)
        };
        let (solid, gone): (Vec<&str>, Vec<&str>) = owners.into_iter().partition(|uid| {
            let owner = uids.get(uid).filter(near);
            owner.is_some_and(|owner| !waits(owner))
        });
        match (solid.is_empty(), gone.is_empty()) {
            (true, _) => self.discard(kind, object),
            (false, true) => 0,
            // One that stays is enough; the others are forgotten.
            (false, false) => self.free(kind, object, &gone),
        }
    }

    fn drop_finalizer(&mut self, kind: &Kind, object: &Object, finalizer: &str) -> usize {
        // Another part of this round may have changed it.
        let Some(current) = self.live(target(kind, object)) else {
            return 0;
        };
        let rest: Vec<String> = object::finalizers(&current)
            .into_iter()
            .filter(|held| *held != finalizer)
            .map(str::to_owned)
            .collect();
        let mut freed = Value::clone(&current);
        object::set_finalizers(&mut freed, &rest);
        self.settle(kind, freed)
    }

    /// Frees every dependent of an owner.
    fn orphan(&mut self, all: &Found, owner: &str) -> usize {
        let mut done = 0;
        for (kind, object) in all
            .iter()
            .filter(|(_, object)| owner_uids(object).contains(&owner))
        {
            done += self.free(kind, object, &[owner]);
        }
        done
    }

    /// Takes references to owners from an object.
    fn free(&mut self, kind: &Kind, object: &Object, owners: &[&str]) -> usize {
        let Some(current) = self.live(target(kind, object)) else {
            return 0;
        };
        let mut freed = Value::clone(&current);
        if let Some(Value::Array(references)) = freed.pointer_mut("/metadata/ownerReferences") {
            references.retain(|reference| {
                let uid = reference.get("uid").and_then(Value::as_str);
                !uid.is_some_and(|uid| owners.contains(&uid))
            });
            if references.is_empty() {
                object::set_meta(&mut freed, "ownerReferences", Value::Null);
            }
        }
        self.settle(kind, freed)
    }
}

fn target<'a>(kind: &'a Kind, object: &'a Value) -> Target<'a> {
    Target {
        kind,
        namespace: object::namespace(object),
        name: object::name(object),
        part: Part::Whole,
    }
}

fn owner_uids(object: &Value) -> Vec<&str> {
    let owners = object
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    owners
        .into_iter()
        .flatten()
        .filter_map(|owner| owner.get("uid").and_then(Value::as_str))
        .collect()
}

/// Whether a dependent keeps an owner that is deleted in the foreground.
fn blocks(all: &Found, owner: &str) -> bool {
    all.iter().any(|(_, object)| {
        let owners = object
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        owners.into_iter().flatten().any(|reference| {
            reference.get("uid").and_then(Value::as_str) == Some(owner)
                && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
        })
    })
}
