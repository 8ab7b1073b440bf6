//! A cache of one kind, filled by list and watch, that never forgets our own writes.
//!
//! Used by `observe` for the controller, and by the stand-ins. Must stay true: an object that was
//! folded in is never replaced by an older version of itself, and one that we saw deleted does not
//! come back by a late event.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::StreamExt;
use kube::{Api, Resource, ResourceExt, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::AbortHandle, time::Instant};

/// Kinds that a cache can hold.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static
{
}

/// Namespace (empty for cluster-scoped kinds) and name.
pub type Name = (String, String);

/// What happened to an object of a cache.
#[derive(Debug)]
pub enum Change<'a, K> {
    /// It came, or it is now this.
    Is(&'a K),
    /// It went; this is how it was last seen.
    Gone(&'a K),
}

impl<'a, K> Change<'a, K> {
    /// The object, whatever happened to it.
    pub fn object(self) -> &'a K {
        match self {
            Self::Is(object) | Self::Gone(object) => object,
        }
    }
}

impl<K> Clone for Change<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Change<'_, K> {}

/// Called with every change, folded ones too, in order and while the cache is locked (so it must not
/// call the cache): keeps an index that is never behind, and wakes keys.
type OnChange<K> = Box<dyn Fn(Change<K>) + Send + Sync>;

/// The objects of one kind. Cheap to clone; the watch ends with the last clone.
#[derive(Clone)]
pub struct Cache<K> {
    objects: Arc<Mutex<Objects<K>>>,
    synced: watch::Receiver<bool>,
    failing: watch::Receiver<Option<Instant>>,
    _watch: Arc<EndOnDrop>,
}

struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Objects<K> {
    by_name: BTreeMap<Name, Arc<K>>,
    /// Names that only a write of ours has shown so far: a list made before it lacks them.
    unconfirmed: BTreeSet<Name>,
    /// uids that a delete of ours has ended.
    ended: BTreeSet<String>,
    /// The latest version that the watch has shown: what is older and absent is gone.
    shown: u64,
    /// The list that is being received.
    relist: BTreeMap<Name, K>,
    on_change: OnChange<K>,
}

fn name_of<K: Resource>(object: &K) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// resourceVersions of one API server are comparable as numbers (Kubernetes 1.35 promises it; etcd
/// has always made them so).
fn version<K: Resource>(object: &K) -> u64 {
    object
        .resource_version()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}

impl<K: Watched> Cache<K> {
    /// Lists and watches what the selector names until the last clone is dropped. `on_change` is
    /// called with every change, those that [`Cache::fold`] brings too.
    pub fn start(
        api: Api<K>,
        selector: watcher::Config,
        on_change: impl Fn(Change<K>) + Send + Sync + 'static,
    ) -> Self {
        let objects = Arc::new(Mutex::new(Objects::new(Box::new(on_change))));
        let (whole, synced) = watch::channel(false);
        let (broken, failing) = watch::channel(None);
        let told = Told { whole, broken };
        let task = tokio::spawn(follow(api, selector, Arc::clone(&objects), told));
        Self {
            objects,
            synced,
            failing,
            _watch: Arc::new(EndOnDrop(task.abort_handle())),
        }
    }

    /// Waits for the first whole list. False if the watch ended before.
    pub async fn synced(&self) -> bool {
        let mut synced = self.synced.clone();
        synced.wait_for(|synced| *synced).await.is_ok()
    }

    /// Whether the first whole list is there.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Since when the watch has been broken: what the cache holds may be as old as that. A whole list
    /// ends it.
    pub fn failing_since(&self) -> Option<Instant> {
        *self.failing.borrow()
    }

    /// One object. `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = (namespace.to_owned(), name.to_owned());
        lock(&self.objects).by_name.get(&key).cloned()
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> BTreeMap<Name, Arc<K>> {
        lock(&self.objects).by_name.clone()
    }

    /// Takes in the answer to a write of ours, or to a live read.
    pub fn fold(&self, object: K) {
        lock(&self.objects).fold(object);
    }

    /// Takes in that a delete of ours, or a live read, found the object gone.
    pub fn fold_gone(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut objects = lock(&self.objects);
        objects.unconfirmed.remove(&key);
        if let Some(object) = objects.drop_object(&key) {
            objects.ended.extend(object.uid());
        }
    }
}

impl<K: Resource + Clone> Objects<K> {
    fn new(on_change: OnChange<K>) -> Self {
        Self {
            by_name: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
            ended: BTreeSet::new(),
            shown: 0,
            relist: BTreeMap::new(),
            on_change,
        }
    }

    fn drop_object(&mut self, name: &Name) -> Option<Arc<K>> {
        let object = self.by_name.remove(name)?;
        (self.on_change)(Change::Gone(&object));
        Some(object)
    }

    /// An answer that comes late brings nothing back: the watch, which shows versions in their
    /// order, may have shown the object's end already.
    fn fold(&mut self, object: K) {
        let name = name_of(&object);
        if version(&object) > self.shown && self.take(object) {
            self.unconfirmed.insert(name);
        }
    }

    /// Whether the object is news.
    fn take(&mut self, object: K) -> bool {
        if object.uid().is_some_and(|uid| self.ended.contains(&uid)) {
            return false;
        }
        let name = name_of(&object);
        let known = self.by_name.get(&name).map_or(0, |known| version(&**known));
        if version(&object) <= known {
            return false;
        }
        (self.on_change)(Change::Is(&object));
        self.by_name.insert(name, Arc::new(object));
        true
    }

    fn event(&mut self, event: watcher::Event<K>) {
        if let watcher::Event::Apply(object) | watcher::Event::Delete(object) = &event {
            self.shown = self.shown.max(version(object));
        }
        match event {
            watcher::Event::Apply(object) => {
                self.unconfirmed.remove(&name_of(&object));
                self.take(object);
            }
            watcher::Event::Delete(object) => self.gone(&object),
            watcher::Event::Init => self.relist.clear(),
            watcher::Event::InitApply(object) => {
                self.relist.insert(name_of(&object), object);
            }
            watcher::Event::InitDone => self.replace(),
        }
    }

    fn gone(&mut self, object: &K) {
        if let Some(uid) = object.uid() {
            self.ended.remove(&uid);
        }
        let name = name_of(object);
        self.unconfirmed.remove(&name);
        let known = self.by_name.get(&name);
        if known.is_some_and(|known| known.uid() == object.uid()) {
            self.drop_object(&name);
        }
    }

    fn replace(&mut self) {
        let list = std::mem::take(&mut self.relist);
        let absent: Vec<Name> = self
            .by_name
            .keys()
            .filter(|name| !list.contains_key(*name) && !self.unconfirmed.contains(*name))
            .cloned()
            .collect();
        for name in absent {
            self.drop_object(&name);
        }
        for object in list.into_values() {
            self.take(object);
        }
    }
}

/// What is known of a watch.
struct Told {
    whole: watch::Sender<bool>,
    broken: watch::Sender<Option<Instant>>,
}

/// A watch that breaks begins again with a list: only that says that nothing was missed, and that
/// there is an answer at all (a watch that goes on is silent until something changes).
async fn follow<K: Watched>(
    api: Api<K>,
    selector: watcher::Config,
    objects: Arc<Mutex<Objects<K>>>,
    told: Told,
) {
    let mut backoff = watcher::DefaultBackoff::default();
    loop {
        let mut events = std::pin::pin!(watcher(api.clone(), selector.clone()));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let whole = matches!(event, watcher::Event::InitDone);
                    lock(&objects).event(event);
                    if whole {
                        told.whole.send_replace(true);
                        told.broken.send_replace(None);
                    }
                }
                Err(error) => {
                    tracing::debug!(kind = %K::kind(&()), error = &error as &dyn std::error::Error, "watch failed");
                    told.broken.send_if_modified(|since| {
                        since.replace(since.unwrap_or_else(Instant::now)).is_none()
                    });
                    break;
                }
            }
        }
        // The backoff has no end, and begins anew after two minutes without a failure.
        tokio::time::sleep(backoff.next().unwrap_or_default()).await;
    }
}

fn lock<K>(objects: &Mutex<Objects<K>>) -> MutexGuard<'_, Objects<K>> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
