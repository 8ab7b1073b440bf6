//! Watches: the stream of changes after a revision.
//!
//! Each watch reads the store's history at its own pace and sleeps until the store has news. Must
//! stay true: a watch shows every change after its revision exactly once and in order, or ends
//! with 410; an object that leaves the selector is shown as deleted.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use http_body::Frame;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use crate::{
    Inner,
    kinds::Kind,
    object::{self, Object},
    read,
    request::Call,
    select::Selector,
    status::Failure,
    store::{Change, News, Store},
};

/// How long a watch lasts if the client does not say. The real server takes 30 to 60 minutes.
const LONGEST: Duration = Duration::from_mins(30);

/// How often a watch that allows bookmarks gets one, as in the real server's watch cache.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);

/// One watch under way.
struct Watching {
    inner: Arc<Inner>,
    kind: Arc<Kind>,
    namespace: String,
    selector: Selector,
    /// Everything up to here has been shown.
    revision: u64,
    bookmarks: bool,
    metadata_only: bool,
    next_bookmark: Instant,
    end: Instant,
    news: watch::Receiver<u64>,
    ready: Vec<u8>,
    finished: bool,
}

/// Opens a watch.
pub(crate) fn open(
    inner: &Arc<Inner>,
    store: &Store,
    kind: &Arc<Kind>,
    call: &Call,
    metadata_only: bool,
) -> Result<impl Stream<Item = Result<Frame<Bytes>, Infallible>> + use<>, Failure> {
    let query = &call.query;
    let mut labels_and_fields = query.text("fieldSelector").to_owned();
    if !call.name.is_empty() {
        labels_and_fields = format!("metadata.name={}", call.name);
    }
    let selector = Selector::read(kind, query.text("labelSelector"), &labels_and_fields)?;
    let initial = query.flag("sendInitialEvents");
    if initial && query.text("resourceVersionMatch") != "NotOlderThan" {
        return Err(Failure::invalid(
            "meta.k8s.io",
            "ListOptions",
            "",
            &[crate::status::FieldFault::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )],
        ));
    }
    let news = store
        .hear(&kind.resource)
        .ok_or_else(Failure::no_such_path)?;
    let timeout = query
        .number("timeoutSeconds")?
        .filter(|seconds| *seconds > 0);
    let now = Instant::now();
    let mut watching = Watching {
        inner: Arc::clone(inner),
        kind: Arc::clone(kind),
        namespace: call.namespace.clone(),
        selector,
        revision: store.revision(),
        bookmarks: query.flag("allowWatchBookmarks"),
        metadata_only,
        next_bookmark: now + BOOKMARK_INTERVAL,
        end: now + timeout.map_or(LONGEST, Duration::from_secs),
        news,
        ready: Vec::new(),
        finished: false,
    };
    let stated = query.text("resourceVersion");
    // Without a revision, or with 0, a watch begins with what is there.
    if initial || matches!(stated, "" | "0") {
        watching.show_all(store, initial);
    } else {
        watching.revision = stated.parse().map_err(|_| {
            Failure::internal(format!("resourceVersion: Invalid value: {stated:?}: strconv.ParseUint: parsing {stated:?}: invalid syntax"))
        })?;
        watching.show_changes(store);
    }
    Ok(stream::unfold(watching, Watching::next))
}

impl Watching {
    /// The next piece of the stream, when there is one.
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, Infallible>, Self)> {
        loop {
            if !self.ready.is_empty() {
                // Nobody is shown what could still be lost.
                if self.inner.settled(self.revision).await.is_err() {
                    return None;
                }
                let frame = Frame::data(Bytes::from(std::mem::take(&mut self.ready)));
                return Some((Ok(frame), self));
            }
            if self.finished {
                return None;
            }
            let bookmark = self.bookmarks.then_some(self.next_bookmark);
            let wake = bookmark.map_or(self.end, |bookmark| bookmark.min(self.end));
            tokio::select! {
                news = self.news.changed() => self.finished = news.is_err(),
                () = tokio::time::sleep_until(wake) => {
                    if Instant::now() >= self.end {
                        self.finished = true;
                    } else {
                        self.next_bookmark = Instant::now() + BOOKMARK_INTERVAL;
                        self.bookmark(false);
                    }
                }
            }
            let inner = Arc::clone(&self.inner);
            self.show_changes(&inner.lock());
        }
    }

    fn show_all(&mut self, store: &Store, announce_end: bool) {
        let kind = Arc::clone(&self.kind);
        let namespace = self.namespace.clone();
        for (_, object) in store.list(&kind.resource, &namespace) {
            if self.selector.matches(object) {
                self.push("ADDED", &kind.present(object));
            }
        }
        if announce_end {
            self.bookmark(true);
        }
    }

    fn show_changes(&mut self, store: &Store) {
        let news = store.changes_after(&self.kind.resource, self.revision);
        self.finished = self.finished || matches!(news, News::Last(_));
        match news {
            News::Changes(changes) | News::Last(changes) => {
                for change in changes {
                    self.show(&change);
                }
                self.revision = self.revision.max(store.revision());
            }
            News::Forgotten(oldest) => {
                let failure = Failure::expired(format!(
                    "too old resource version: {} ({oldest})",
                    self.revision
                ));
                self.write("ERROR", &failure.to_value());
                self.finished = true;
            }
        }
    }

    fn show(&mut self, change: &Change) {
        let here = |object: &Object| {
            (self.namespace.is_empty() || object::namespace(object) == self.namespace)
                && self.selector.matches(object)
        };
        let was = change.before.as_ref().is_some_and(here);
        let is = !change.deleted && here(&change.object);
        let event = match (was, is) {
            (false, false) => return,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        let mut shown = self.kind.present(&change.object);
        // Who watches a selector sees an object that leaves it as it last was inside it.
        if let (false, false, Some(before)) = (is, change.deleted, &change.before) {
            let mut last = Value::clone(before);
            object::set_meta(
                &mut last,
                "resourceVersion",
                change.revision.to_string().into(),
            );
            shown = self.kind.present(&Arc::new(last));
        }
        self.push(event, &shown);
    }

    fn push(&mut self, event: &str, object: &Object) {
        if self.metadata_only {
            let partial = read::partial(object);
            self.write(event, &partial);
        } else {
            self.write(event, object);
        }
    }

    fn bookmark(&mut self, ends_initial_events: bool) {
        let mut object = json!({
            "kind": self.kind.name,
            "apiVersion": self.kind.api_version(),
            "metadata": {"resourceVersion": self.revision.to_string(), "creationTimestamp": null},
        });
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.push("BOOKMARK", &Arc::new(object));
    }

    /// Writes one event and its newline.
    fn write(&mut self, event: &str, object: &Value) {
        let before = self.ready.len();
        self.ready
            .extend_from_slice(format!("{{\"type\":\"{event}\",\"object\":").as_bytes());
        if serde_json::to_writer(&mut self.ready, object).is_ok() {
            self.ready.extend_from_slice(b"}\n");
        } else {
            // JSON values always can be written to memory; half an event must not stay.
            self.ready.truncate(before);
        }
    }
}
