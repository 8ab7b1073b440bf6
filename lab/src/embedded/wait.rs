//! Waits for objects of the API: on watches, and for no longer than [`PATIENCE`].

use std::collections::BTreeMap;

use causeway_drive::Watched;
use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    runtime::{WatchStreamExt, wait::await_condition, watcher},
};
use serde::Serialize;

use super::{EmbeddedError, PATIENCE};

/// Waits until an object is such; after [`PATIENCE`], says what it is instead.
///
/// # Errors
/// [`EmbeddedError::Never`].
pub async fn wait<K: Watched + Serialize>(
    api: &Api<K>,
    name: &str,
    such: impl Fn(&K) -> bool + Send,
) -> Result<K, EmbeddedError> {
    let what = format!("{} {name}", K::kind(&()));
    let condition = |object: Option<&K>| object.is_some_and(&such);
    match tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, condition)).await {
        Ok(Ok(Some(object))) => Ok(object),
        Ok(Err(source)) => Err(EmbeddedError::Wait {
            what,
            source: Box::new(source),
        }),
        Ok(Ok(None)) | Err(_) => Err(EmbeddedError::Never {
            last: last_seen(api, name).await,
            what,
        }),
    }
}

/// Watches all objects of an API until they are such together; after [`PATIENCE`], gives them as
/// they are.
///
/// # Errors
/// [`EmbeddedError::Never`].
pub async fn when_all<K: Watched>(
    api: Api<K>,
    what: &str,
    such: impl Fn(&BTreeMap<String, K>) -> bool,
) -> Result<BTreeMap<String, K>, EmbeddedError> {
    let name = |object: &K| {
        let namespace = object.namespace().unwrap_or_default();
        format!("{namespace}/{}", object.name_any())
    };
    let mut all = BTreeMap::new();
    let mut whole = false;
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while let Ok(Some(event)) = tokio::time::timeout_at(deadline, events.next()).await {
        match event {
            Ok(watcher::Event::Init) => all.clear(),
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                all.insert(name(&object), object);
            }
            Ok(watcher::Event::Delete(object)) => {
                all.remove(&name(&object));
            }
            Ok(watcher::Event::InitDone) => whole = true,
            Err(error) => tracing::debug!(%error, "watch failed"),
        }
        if whole && such(&all) {
            return Ok(all);
        }
    }
    Err(EmbeddedError::Never {
        what: what.to_owned(),
        last: format!("{} objects", all.len()),
    })
}

/// Waits until an object is gone.
///
/// # Errors
/// [`EmbeddedError::Never`] with what it is instead.
pub async fn gone<K: Watched + Serialize>(api: &Api<K>, name: &str) -> Result<(), EmbeddedError> {
    let what = format!("the end of {} {name}", K::kind(&()));
    let absent = |object: Option<&K>| object.is_none();
    match tokio::time::timeout(PATIENCE, await_condition(api.clone(), name, absent)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(EmbeddedError::Wait {
            what,
            source: Box::new(source),
        }),
        Err(_) => Err(EmbeddedError::Never {
            last: last_seen(api, name).await,
            what,
        }),
    }
}

async fn last_seen<K: Watched + Serialize>(api: &Api<K>, name: &str) -> String {
    match api.get_opt(name).await {
        Ok(Some(object)) => serde_json::to_value(&object).map_or_else(
            |error| error.to_string(),
            |object| object["status"].to_string(),
        ),
        Ok(None) => "there is none".to_owned(),
        Err(error) => error.to_string(),
    }
}
