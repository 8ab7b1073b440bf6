//! Watches, raw and through kube's own watcher.

use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt};
use kube::{
    Api,
    api::{
        DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
    runtime::watcher,
};
use serde_json::json;

use super::bench::{Bench, refusal, revision, widget_resource};

/// Long enough for any server; a case that works never waits for it.
const PATIENCE: Duration = Duration::from_mins(1);

async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    tokio::time::timeout(PATIENCE, stream.next())
        .await
        .expect("an event in time")
        .expect("an open stream")
}

fn shown(event: &WatchEvent<DynamicObject>) -> String {
    let name = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
    match event {
        WatchEvent::Added(object) => format!("added {}", name(object)),
        WatchEvent::Modified(object) => format!("modified {}", name(object)),
        WatchEvent::Deleted(object) => format!("deleted {}", name(object)),
        WatchEvent::Bookmark(_) => "bookmark".into(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

/// The next events that are no bookmarks.
async fn events(
    stream: &mut (impl Stream<Item = Result<WatchEvent<DynamicObject>, kube::Error>> + Unpin),
    count: usize,
) -> Vec<WatchEvent<DynamicObject>> {
    let mut found = Vec::new();
    while found.len() < count {
        let event = next(stream).await.expect("an event");
        if !matches!(event, WatchEvent::Bookmark(_)) {
            found.push(event);
        }
    }
    found
}

async fn now(bench: &Bench) -> String {
    bench
        .widgets
        .list(&ListParams::default())
        .await
        .expect("a list")
        .metadata
        .resource_version
        .expect("a revision")
}

fn texts(events: &[WatchEvent<DynamicObject>]) -> Vec<String> {
    events.iter().map(shown).collect()
}

#[tokio::test]
async fn a_watch_shows_every_change_after_its_revision_in_order() {
    let bench = Bench::new().await;
    bench.make("before", &json!({})).await;
    let from = now(&bench).await;
    let mut stream = Box::pin(
        bench
            .widgets
            .watch(&WatchParams::default(), &from)
            .await
            .expect("a watch"),
    );
    let made = bench.make("one", &json!({"size": 1})).await;
    bench
        .merge("one", json!({"spec": {"size": 2}}))
        .await
        .expect("changed");
    bench
        .merge("one", json!({"spec": {"size": 2}}))
        .await
        .expect("not changed");
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    bench.make("two", &json!({})).await;
    let seen = events(&mut stream, 4).await;
    assert_eq!(
        texts(&seen),
        ["added one", "modified one", "deleted one", "added two"]
    );
    let WatchEvent::Added(added) = &seen[0] else {
        panic!("{seen:?}")
    };
    assert_eq!(added, &made);
    let WatchEvent::Deleted(last) = &seen[2] else {
        panic!("{seen:?}")
    };
    assert_eq!(last.data["spec"]["size"], 2);
    let number = |object: &DynamicObject| revision(object).parse::<u64>().expect("a number");
    assert!(number(last) > number(added));
}

#[tokio::test]
async fn a_watch_resumes_without_a_gap() {
    let bench = Bench::new().await;
    let made = bench.make("one", &json!({})).await;
    bench.make("two", &json!({})).await;
    bench
        .widgets
        .delete("two", &DeleteParams::default())
        .await
        .expect("deleted");
    for _ in 0..2 {
        let stream = bench
            .widgets
            .watch(&WatchParams::default(), &revision(&made))
            .await
            .expect("a watch");
        let seen = events(&mut Box::pin(stream), 2).await;
        assert_eq!(texts(&seen), ["added two", "deleted two"]);
    }
}

#[tokio::test]
async fn a_watch_from_now_begins_with_what_is_there() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let mut stream = Box::pin(
        bench
            .widgets
            .watch(&WatchParams::default(), "0")
            .await
            .expect("a watch"),
    );
    assert_eq!(texts(&events(&mut stream, 1).await), ["added one"]);
    bench.make("two", &json!({})).await;
    assert_eq!(texts(&events(&mut stream, 1).await), ["added two"]);
}

#[tokio::test]
async fn a_watch_shows_one_namespace_or_all() {
    let bench = Bench::new().await;
    let everywhere: Api<DynamicObject> = Api::all_with(bench.client.clone(), &widget_resource());
    let elsewhere: Api<DynamicObject> =
        Api::namespaced_with(bench.client.clone(), "default", &widget_resource());
    let from = now(&bench).await;
    let mut all = Box::pin(
        everywhere
            .watch(&WatchParams::default(), &from)
            .await
            .expect("a watch"),
    );
    let mut other = Box::pin(
        elsewhere
            .watch(&WatchParams::default(), &from)
            .await
            .expect("a watch"),
    );
    let (here, name) = (
        format!("in-{}", bench.namespace),
        format!("of-{}", bench.namespace),
    );
    bench.make(&here, &json!({})).await;
    elsewhere
        .create(&PostParams::default(), &Bench::widget(&name, &json!({})))
        .await
        .expect("the widget");
    let mine = |text: &String| text.ends_with(&here) || text.ends_with(&name);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(texts(&events(&mut all, 1).await).into_iter().filter(mine));
    }
    assert_eq!(seen, [format!("added {here}"), format!("added {name}")]);
    let first = loop {
        let text = texts(&events(&mut other, 1).await).remove(0);
        if mine(&text) {
            break text;
        }
    };
    assert_eq!(first, format!("added {name}"));
    elsewhere
        .delete(&name, &DeleteParams::default())
        .await
        .expect("cleaned up");
}

#[tokio::test]
async fn an_object_that_leaves_the_selector_is_shown_as_deleted() {
    let bench = Bench::new().await;
    let from = now(&bench).await;
    let red = WatchParams::default().labels("color=red");
    let mut stream = Box::pin(bench.widgets.watch(&red, &from).await.expect("a watch"));
    let mut widget = Bench::widget("one", &json!({"size": 1}));
    widget.metadata.labels = Some([("color".to_owned(), "red".to_owned())].into());
    bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("the widget");
    bench.make("other", &json!({})).await;
    bench
        .merge(
            "one",
            json!({"metadata": {"labels": {"color": "green"}}, "spec": {"size": 2}}),
        )
        .await
        .expect("changed");
    bench
        .merge("one", json!({"spec": {"size": 3}}))
        .await
        .expect("changed");
    bench
        .merge("one", json!({"metadata": {"labels": {"color": "red"}}}))
        .await
        .expect("changed");
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("deleted");
    let seen = events(&mut stream, 4).await;
    assert_eq!(
        texts(&seen),
        ["added one", "deleted one", "added one", "deleted one"]
    );
    let WatchEvent::Deleted(left) = &seen[1] else {
        panic!("{seen:?}")
    };
    assert_eq!(left.data["spec"]["size"], 1);
    assert_eq!(
        left.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("color"))
            .map(String::as_str),
        Some("red")
    );
}

#[tokio::test]
async fn a_watch_of_one_name_shows_that_object_only() {
    let bench = Bench::new().await;
    let from = now(&bench).await;
    let params = WatchParams::default().fields("metadata.name=two");
    let mut stream = Box::pin(bench.widgets.watch(&params, &from).await.expect("a watch"));
    bench.make("one", &json!({})).await;
    bench.make("two", &json!({})).await;
    assert_eq!(texts(&events(&mut stream, 1).await), ["added two"]);
}

#[tokio::test]
async fn a_watch_from_a_forgotten_revision_is_expired() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let watch = bench.widgets.watch(&WatchParams::default(), "1").await;
    // A server may say so before the stream or in it.
    let code = match watch {
        Err(error) => refusal::<()>(Err(error)).code,
        Ok(stream) => match next(&mut Box::pin(stream)).await.expect("an event") {
            WatchEvent::Error(status) => status.code,
            other => panic!("{other:?}"),
        },
    };
    assert_eq!(code, 410);
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over() {
    let bench = Bench::new().await;
    let from = now(&bench).await;
    let stream = bench
        .widgets
        .watch(&WatchParams::default().timeout(1), &from)
        .await
        .expect("a watch");
    let rest: Vec<_> = tokio::time::timeout(PATIENCE, stream.try_collect())
        .await
        .expect("an end")
        .expect("no error");
    let rest: Vec<WatchEvent<DynamicObject>> = rest;
    assert!(
        rest.iter()
            .all(|event| matches!(event, WatchEvent::Bookmark(_))),
        "{rest:?}"
    );
}

#[tokio::test]
async fn a_streaming_list_ends_with_a_bookmark() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let params = WatchParams::default().initial_events();
    let mut stream = Box::pin(bench.widgets.watch(&params, "").await.expect("a watch"));
    assert_eq!(
        shown(&next(&mut stream).await.expect("an event")),
        "added one"
    );
    let WatchEvent::Bookmark(end) = next(&mut stream).await.expect("an event") else {
        panic!("no bookmark")
    };
    assert_eq!(
        end.metadata
            .annotations
            .get("k8s.io/initial-events-end")
            .map(String::as_str),
        Some("true")
    );
    bench.make("two", &json!({})).await;
    assert_eq!(texts(&events(&mut stream, 1).await), ["added two"]);
}

#[tokio::test]
async fn kubes_watcher_lists_and_then_follows() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let bench = Bench::new().await;
        bench.make("one", &json!({})).await;
        let mut stream = Box::pin(watcher(bench.widgets.clone(), config));
        let mut seen = Vec::new();
        while seen.last().map(String::as_str) != Some("deleted two") {
            match next(&mut stream).await.expect("an event") {
                watcher::Event::Init => seen.push("init".to_owned()),
                watcher::Event::InitApply(object) => seen.push(format!(
                    "there {}",
                    object.metadata.name.unwrap_or_default()
                )),
                watcher::Event::InitDone => {
                    seen.push("done".to_owned());
                    bench.make("two", &json!({})).await;
                    bench
                        .widgets
                        .delete("two", &DeleteParams::default())
                        .await
                        .expect("deleted");
                }
                watcher::Event::Apply(object) => seen.push(format!(
                    "applied {}",
                    object.metadata.name.unwrap_or_default()
                )),
                watcher::Event::Delete(object) => seen.push(format!(
                    "deleted {}",
                    object.metadata.name.unwrap_or_default()
                )),
            }
        }
        assert_eq!(
            seen,
            ["init", "there one", "done", "applied two", "deleted two"]
        );
    }
}

#[tokio::test]
async fn a_marked_object_is_shown_as_modified_and_then_as_deleted() {
    let bench = Bench::new().await;
    let from = now(&bench).await;
    let mut stream = Box::pin(
        bench
            .widgets
            .watch(&WatchParams::default(), &from)
            .await
            .expect("a watch"),
    );
    bench
        .apply(
            "a",
            "one",
            json!({"metadata": {"finalizers": ["x.io/y"]}, "spec": {}}),
        )
        .await
        .expect("applied");
    bench
        .widgets
        .delete("one", &DeleteParams::default())
        .await
        .expect("marked");
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    bench
        .widgets
        .patch("one", &PatchParams::default(), &patch)
        .await
        .expect("freed");
    assert_eq!(
        texts(&events(&mut stream, 3).await),
        ["added one", "modified one", "deleted one"]
    );
}
