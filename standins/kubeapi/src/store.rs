//! The objects and their history.
//!
//! One lock around it is the stand-in's only synchronization; every request is one visit. Must
//! stay true: revisions rise with every change of any kind and never repeat; a change is in the
//! history before anybody hears of it; stored objects are never changed in place.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::{
    builtin,
    crd::{self, DefinitionError},
    events,
    journal::{Journal, Saved},
    kinds::{Kind, Kinds, Resource},
    object::{self, Object},
};

/// How many changes of a kind are remembered for watches that come later. The real server's watch
/// cache holds 100 to 100 000; this is enough for every client that is merely slow.
const HISTORY: usize = 20_000;

/// Where the revisions begin. Above 1, so that "a revision from before the kind was served" exists
/// as it does on a real server.
const FIRST_REVISION: u64 = 100;

/// Namespace (empty for cluster-scoped kinds) and name.
pub(crate) type Key = (String, String);

/// Where the objects of a resource are.
fn place(resource: &Resource) -> Cow<'_, Resource> {
    if events::are_elsewhere(resource) {
        Cow::Owned(events::place())
    } else {
        Cow::Borrowed(resource)
    }
}

fn key(object: &Value) -> Key {
    (
        object::namespace(object).to_owned(),
        object::name(object).to_owned(),
    )
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    /// The object after the change; for a deletion its last state, with the deletion's revision.
    pub(crate) object: Object,
    /// The object before the change; nothing for a creation.
    pub(crate) before: Option<Object>,
    pub(crate) deleted: bool,
}

/// Everything of one resource.
#[derive(Debug)]
struct Lane {
    objects: BTreeMap<Key, Object>,
    history: VecDeque<Arc<Change>>,
    /// The history holds every change after this revision.
    complete_after: u64,
    /// No longer served: watches end once they have shown the history.
    withdrawn: bool,
    news: watch::Sender<u64>,
}

impl Lane {
    fn new(complete_after: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            complete_after,
            withdrawn: false,
            news: watch::Sender::new(complete_after),
        }
    }

    fn remember(&mut self, change: Change) {
        let revision = change.revision;
        self.history.push_back(Arc::new(change));
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.complete_after = oldest.revision;
        }
        self.news.send_replace(revision);
    }
}

/// What a watch finds after its last revision.
pub(crate) enum News {
    /// These changes, perhaps none.
    Changes(Vec<Arc<Change>>),
    /// These, and then no more: the kind is no longer served.
    Last(Vec<Arc<Change>>),
    /// Some are forgotten: the oldest revision to start from.
    Forgotten(u64),
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) kinds: Kinds,
    lanes: BTreeMap<Resource, Lane>,
    revision: u64,
    /// Writes that changed something, by identity and kind.
    pub(crate) writes: BTreeMap<(String, String), u64>,
    news: watch::Sender<u64>,
    journal: Option<Journal>,
}

impl Store {
    /// A store that serves the built-in kinds.
    pub(crate) fn new() -> Result<Self, builtin::TableError> {
        let mut store = Self {
            kinds: Kinds::default(),
            lanes: BTreeMap::new(),
            revision: FIRST_REVISION,
            writes: BTreeMap::new(),
            news: watch::Sender::new(FIRST_REVISION),
            journal: None,
        };
        for kind in builtin::kinds()? {
            store.serve(kind.resource.clone(), vec![kind]);
        }
        Ok(store)
    }

    /// Takes up what a file holds, and notes every change in it from now on. What happened before
    /// is forgotten.
    pub(crate) fn restore(
        &mut self,
        journal: Journal,
        saved: Saved,
    ) -> Result<(), DefinitionError> {
        self.revision = self.revision.max(saved.revision);
        let definitions = saved
            .objects
            .iter()
            .filter(|(resource, _)| resource.plural == "customresourcedefinitions");
        for (_, definition) in definitions {
            self.serve(crd::resource(definition), crd::kinds(definition)?);
        }
        for (resource, object) in saved.objects {
            if let Some(lane) = self.lanes.get_mut(&resource) {
                lane.objects.insert(key(&object), object);
            }
        }
        for lane in self.lanes.values_mut() {
            lane.complete_after = self.revision;
        }
        self.journal = Some(journal);
        Ok(())
    }

    /// Notes no change any more; the journal ends when it is dropped.
    pub(crate) fn close(&mut self) -> Option<Journal> {
        self.journal.take()
    }

    /// Serves these versions of a resource; objects that are there stay.
    pub(crate) fn serve(&mut self, resource: Resource, versions: Vec<Arc<Kind>>) {
        let revision = self.revision;
        let lane = self
            .lanes
            .entry(place(&resource).into_owned())
            .or_insert_with(|| Lane::new(revision));
        lane.withdrawn = false;
        self.kinds.serve(resource, versions);
    }

    /// Ends the service of a resource and every watch on it.
    pub(crate) fn withdraw(&mut self, resource: &Resource) {
        self.kinds.withdraw(resource);
        let revision = self.revision;
        if let Some(lane) = self.lanes.get_mut(&*place(resource)) {
            lane.withdrawn = true;
            lane.news.send_replace(revision);
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Object> {
        let key = (namespace.to_owned(), name.to_owned());
        self.lanes
            .get(&*place(resource))?
            .objects
            .get(&key)
            .cloned()
    }

    /// The objects of a resource in order of namespace and name; `namespace` empty means all.
    pub(crate) fn list<'a>(
        &'a self,
        resource: &Resource,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Object)> {
        let first = (namespace.to_owned(), String::new());
        self.lanes
            .get(&*place(resource))
            .into_iter()
            .flat_map(move |lane| lane.objects.range(first.clone()..))
            .take_while(move |((of, _), _)| namespace.is_empty() || of == namespace)
    }

    /// Stores an object under a new revision.
    pub(crate) fn put(&mut self, resource: &Resource, mut object: Value) -> Object {
        let revision = self.advance();
        if *resource == events::place() || events::are_elsewhere(resource) {
            object = events::as_stored(object);
        }
        object::set_meta(&mut object, "resourceVersion", revision.to_string().into());
        let key = key(&object);
        let object = Arc::new(object);
        if let Some(journal) = &self.journal {
            journal.note(
                &place(resource),
                key.clone(),
                Some(Arc::clone(&object)),
                revision,
            );
        }
        if let Some(lane) = self.lanes.get_mut(&*place(resource)) {
            let before = lane.objects.insert(key, Arc::clone(&object));
            lane.remember(Change {
                revision,
                object: Arc::clone(&object),
                before,
                deleted: false,
            });
        }
        self.news.send_replace(revision);
        object
    }

    /// Removes an object, whose last state is `last`, under a new revision.
    pub(crate) fn remove(&mut self, resource: &Resource, last: &Value) -> Object {
        let revision = self.advance();
        let key = key(last);
        if let Some(journal) = &self.journal {
            journal.note(&place(resource), key.clone(), None, revision);
        }
        let mut object = last.clone();
        if events::are_elsewhere(resource) {
            object = events::as_stored(object);
        }
        object::set_meta(&mut object, "resourceVersion", revision.to_string().into());
        let object = Arc::new(object);
        if let Some(lane) = self.lanes.get_mut(&*place(resource)) {
            let before = lane.objects.remove(&key);
            lane.remember(Change {
                revision,
                object: Arc::clone(&object),
                before,
                deleted: true,
            });
        }
        self.news.send_replace(revision);
        object
    }

    fn advance(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }

    /// Counts a write of an identity.
    pub(crate) fn count(&mut self, identity: &str, kind: &str) {
        *self
            .writes
            .entry((identity.to_owned(), kind.to_owned()))
            .or_default() += 1;
    }

    /// The changes of a resource after a revision.
    pub(crate) fn changes_after(&self, resource: &Resource, revision: u64) -> News {
        let Some(lane) = self.lanes.get(&*place(resource)) else {
            return News::Last(Vec::new());
        };
        if revision < lane.complete_after {
            return News::Forgotten(lane.complete_after);
        }
        let first = lane
            .history
            .partition_point(|change| change.revision <= revision);
        let changes = lane.history.range(first..).cloned().collect();
        if lane.withdrawn {
            News::Last(changes)
        } else {
            News::Changes(changes)
        }
    }

    /// Wakes its holder at every change of a resource; ends when the resource is withdrawn.
    pub(crate) fn hear(&self, resource: &Resource) -> Option<watch::Receiver<u64>> {
        self.lanes
            .get(&*place(resource))
            .map(|lane| lane.news.subscribe())
    }

    /// Wakes its holder at every change of anything.
    pub(crate) fn hear_all(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Forgets the history: watches that are behind get 410.
    pub(crate) fn forget_history(&mut self) {
        // A revision that belongs to no change, so that the newest change is forgotten too.
        let revision = self.advance();
        if let Some(journal) = &self.journal {
            journal.note_revision(revision);
        }
        for lane in self.lanes.values_mut() {
            lane.history.clear();
            lane.complete_after = revision;
            lane.news.send_replace(revision);
        }
    }
}
