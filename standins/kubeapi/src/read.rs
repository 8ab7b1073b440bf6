//! Getting and listing objects.
//!
//! Must stay true: the pages of one list show one moment; a list's resourceVersion is the revision
//! after which a watch continues it without a gap.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use crate::{
    kinds::Kind,
    object::{self, Object},
    request::Call,
    select::Selector,
    status::Failure,
    store::{Key, News, Store},
};

/// One page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Object>,
    pub(crate) revision: u64,
    /// The token for the next page; empty on the last.
    pub(crate) next: String,
    /// How many objects follow, if no selector hides that.
    pub(crate) remaining: Option<usize>,
}

/// Where a list goes on: the revision of its first page and the last key shown.
struct Continue {
    revision: u64,
    after: Key,
}

impl Continue {
    /// Three parts that no name can contain a separator of.
    fn encode(&self) -> String {
        format!("{}/{}/{}", self.revision, self.after.0, self.after.1)
    }

    fn decode(token: &str) -> Result<Self, Failure> {
        let mut parts = token.splitn(3, '/');
        let parsed = (|| {
            let revision = parts.next()?.parse().ok()?;
            Some(Self {
                revision,
                after: (parts.next()?.to_owned(), parts.next()?.to_owned()),
            })
        })();
        parsed.ok_or_else(|| {
            Failure::bad_request(format!(
                "invalid continue token: continue key is not valid: {token:?}"
            ))
        })
    }
}

/// The objects that a call asks for.
pub(crate) fn list(store: &Store, kind: &Kind, call: &Call) -> Result<Page, Failure> {
    let query = &call.query;
    let (labels, fields) = (query.text("labelSelector"), query.text("fieldSelector"));
    let selector = Selector::read(kind, labels, fields)?;
    let limit = query.number("limit")?.filter(|limit| *limit > 0);
    let limit = limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(usize::MAX);
    let (token, wanted) = (query.text("continue"), query.text("resourceVersion"));
    if !token.is_empty() && !wanted.is_empty() && wanted != "0" {
        return Err(Failure::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    let from = if token.is_empty() {
        None
    } else {
        Some(Continue::decode(token)?)
    };
    let revision = match &from {
        Some(from) => from.revision,
        None => moment(store, wanted, query.text("resourceVersionMatch"))?,
    };
    let past = past_states(store, kind, revision)?;
    let mut page = Page {
        items: Vec::new(),
        revision,
        next: String::new(),
        remaining: None,
    };
    let mut last: Option<&Key> = None;
    let mut rest = 0;
    for (key, object) in state(store, kind, &call.namespace, &past) {
        let shown = from.as_ref().is_some_and(|from| *key <= from.after);
        if shown || !selector.matches(object) {
            continue;
        }
        if page.items.len() < limit {
            page.items.push(kind.present(object));
            last = Some(key);
        } else {
            rest += 1;
        }
    }
    if let (Some(last), true) = (last, rest > 0) {
        page.next = Continue {
            revision,
            after: last.clone(),
        }
        .encode();
        page.remaining = (labels.is_empty() && fields.is_empty()).then_some(rest);
    }
    Ok(page)
}

/// The objects of a namespace (empty: of all) with some of them as they were in the past.
fn state<'a>(
    store: &'a Store,
    kind: &Kind,
    namespace: &'a str,
    past: &'a BTreeMap<Key, Option<Object>>,
) -> Vec<(&'a Key, &'a Object)> {
    let now = store
        .list(&kind.resource, namespace)
        .filter(|(key, _)| !past.contains_key(*key));
    let then = past
        .iter()
        .filter(|(key, _)| namespace.is_empty() || key.0 == namespace);
    let mut all: Vec<_> = now
        .chain(then.filter_map(|(key, object)| Some((key, object.as_ref()?))))
        .collect();
    if !past.is_empty() {
        all.sort_by_key(|(key, _)| *key);
    }
    all
}

/// The objects that changed since a revision, as they were then (nothing: not there).
fn past_states(
    store: &Store,
    kind: &Kind,
    revision: u64,
) -> Result<BTreeMap<Key, Option<Object>>, Failure> {
    let mut past = BTreeMap::new();
    if revision == store.revision() {
        return Ok(past);
    }
    match store.changes_after(&kind.resource, revision) {
        News::Changes(changes) | News::Last(changes) => {
            for change in changes {
                let key = (
                    object::namespace(&change.object).to_owned(),
                    object::name(&change.object).to_owned(),
                );
                past.entry(key).or_insert_with(|| change.before.clone());
            }
            Ok(past)
        }
        News::Forgotten(_) => Err(Failure::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
        )),
    }
}

/// The revision that a list shows: the latest, unless exactly an older one is wanted.
fn moment(store: &Store, wanted: &str, matching: &str) -> Result<u64, Failure> {
    if wanted.is_empty() || wanted == "0" {
        return Ok(store.revision());
    }
    let revision: u64 = wanted.parse().map_err(|_| {
        Failure::bad_request(format!("invalid resource version: resourceVersion: Invalid value: {wanted:?}: strconv.ParseUint: parsing {wanted:?}: invalid syntax"))
    })?;
    if revision > store.revision() {
        let mut failure = Failure::new(
            http::StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!(
                "Timeout: Too large resource version: {revision}, current: {}",
                store.revision()
            ),
        );
        failure.details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        return Err(failure);
    }
    Ok(if matching == "Exact" {
        revision
    } else {
        store.revision()
    })
}

/// The list object of a page.
pub(crate) fn list_object(kind: &Kind, page: &Page) -> Value {
    json!({
        "kind": kind.list_name,
        "apiVersion": kind.api_version(),
        "metadata": list_meta(page),
    })
}

/// A list's metadata.
pub(crate) fn list_meta(page: &Page) -> Value {
    let mut meta = Map::new();
    meta.insert("resourceVersion".into(), page.revision.to_string().into());
    if !page.next.is_empty() {
        meta.insert("continue".into(), page.next.clone().into());
    }
    if let Some(remaining) = page.remaining {
        meta.insert("remainingItemCount".into(), remaining.into());
    }
    Value::Object(meta)
}

/// One object.
pub(crate) fn get(store: &Store, kind: &Kind, call: &Call) -> Result<Object, Failure> {
    let namespace = if kind.namespaced {
        call.namespace.as_str()
    } else {
        ""
    };
    let object = store
        .get(&kind.resource, namespace, &call.name)
        .ok_or_else(|| {
            Failure::not_found(&kind.resource.group, &kind.resource.plural, &call.name)
        })?;
    Ok(kind.present(&object))
}

/// The object reduced to what a metadata-only reader asks for.
pub(crate) fn partial(object: &Object) -> Object {
    Arc::new(json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    }))
}
