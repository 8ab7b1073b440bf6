//! Getting and listing objects.

use std::collections::BTreeSet;

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, ListParams, PostParams, VersionMatch},
};
use serde_json::json;

use super::bench::{API_VERSION, Bench, GROUP, assert_refused, refusal, revision, widget_resource};

async fn some(bench: &Bench) {
    let labels = [
        ("a", "red", "1"),
        ("b", "green", "2"),
        ("c", "red", "3"),
        ("d", "blue", "4"),
    ];
    for (name, color, number) in labels {
        let mut widget = Bench::widget(name, &json!({}));
        widget.metadata.labels = Some(
            [
                ("color".to_owned(), color.to_owned()),
                ("n".to_owned(), number.to_owned()),
            ]
            .into(),
        );
        bench
            .widgets
            .create(&PostParams::default(), &widget)
            .await
            .expect("the widget");
    }
}

fn names(items: &[DynamicObject]) -> Vec<String> {
    items
        .iter()
        .map(|item| item.metadata.name.clone().unwrap_or_default())
        .collect()
}

#[tokio::test]
async fn a_list_is_ordered_and_carries_a_revision() {
    let bench = Bench::new().await;
    some(&bench).await;
    let list = bench
        .widgets
        .list(&ListParams::default())
        .await
        .expect("a list");
    assert_eq!(names(&list.items), ["a", "b", "c", "d"]);
    let newest = list
        .items
        .iter()
        .map(|item| revision(item).parse::<u64>().expect("a number"))
        .max();
    let of_list = list
        .metadata
        .resource_version
        .expect("a revision")
        .parse::<u64>()
        .expect("a number");
    assert!(Some(of_list) >= newest);
    let types = list.types;
    assert_eq!(
        (types.api_version.as_str(), types.kind.as_str()),
        (API_VERSION, "WidgetList")
    );
}

#[tokio::test]
async fn labels_select() {
    let bench = Bench::new().await;
    some(&bench).await;
    let cases = [
        ("color=red", vec!["a", "c"]),
        ("color!=red", vec!["b", "d"]),
        ("color in (red,green)", vec!["a", "b", "c"]),
        ("color notin (red,green)", vec!["d"]),
        ("color=red,n=3", vec!["c"]),
        ("color", vec!["a", "b", "c", "d"]),
        ("!color", vec![]),
        ("absent", vec![]),
        ("n>2", vec!["c", "d"]),
    ];
    for (selector, want) in cases {
        let list = bench
            .widgets
            .list(&ListParams::default().labels(selector))
            .await
            .expect("a list");
        assert_eq!(names(&list.items), want, "{selector}");
    }
    let broken = bench
        .widgets
        .list(&ListParams::default().labels("color in red"))
        .await;
    assert_refused(broken, 400, "BadRequest", "unable to parse requirement");
}

#[tokio::test]
async fn fields_select_by_name_and_namespace_only() {
    let bench = Bench::new().await;
    some(&bench).await;
    let fields = |selector: &str| ListParams::default().fields(selector);
    let one = bench
        .widgets
        .list(&fields("metadata.name=b"))
        .await
        .expect("a list");
    assert_eq!(names(&one.items), ["b"]);
    let rest = bench
        .widgets
        .list(&fields("metadata.name!=b"))
        .await
        .expect("a list");
    assert_eq!(names(&rest.items), ["a", "c", "d"]);
    let everywhere: Api<DynamicObject> = Api::all_with(bench.client.clone(), &widget_resource());
    let here = format!("metadata.namespace={}", bench.namespace);
    assert_eq!(
        everywhere
            .list(&fields(&here))
            .await
            .expect("a list")
            .items
            .len(),
        4
    );
    let other = bench.widgets.list(&fields("spec.size=1")).await;
    assert_refused(
        other,
        400,
        "BadRequest",
        "field label not supported: spec.size",
    );
}

#[tokio::test]
async fn a_list_comes_in_pages_of_one_moment() {
    let bench = Bench::new().await;
    some(&bench).await;
    let first = bench
        .widgets
        .list(&ListParams::default().limit(2))
        .await
        .expect("a page");
    assert_eq!(names(&first.items), ["a", "b"]);
    assert_eq!(first.metadata.remaining_item_count, Some(2));
    let token = first.metadata.continue_.clone().expect("more follows");
    // What happens meanwhile is not part of the list.
    bench
        .widgets
        .delete("c", &DeleteParams::default())
        .await
        .expect("deleted");
    bench.make("bb", &json!({})).await;
    let second = bench
        .widgets
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .expect("a page");
    assert_eq!(names(&second.items), ["c", "d"]);
    assert_eq!(second.metadata.continue_.unwrap_or_default(), "");
    assert_eq!(
        second.metadata.resource_version,
        first.metadata.resource_version
    );
    let broken = bench
        .widgets
        .list(&ListParams::default().continue_token("%%%"))
        .await;
    assert_eq!(refusal(broken).code, 400);
}

#[tokio::test]
async fn a_list_may_want_a_revision() {
    let bench = Bench::new().await;
    some(&bench).await;
    let before = bench
        .widgets
        .list(&ListParams::default())
        .await
        .expect("a list");
    let then = before.metadata.resource_version.expect("a revision");
    bench
        .widgets
        .delete("a", &DeleteParams::default())
        .await
        .expect("deleted");
    let at = |revision: &str, matching: VersionMatch| {
        ListParams::default().at(revision).matching(matching)
    };
    let exact = bench
        .widgets
        .list(&at(&then, VersionMatch::Exact))
        .await
        .expect("a list");
    assert_eq!(names(&exact.items), ["a", "b", "c", "d"]);
    let newer = bench
        .widgets
        .list(&at(&then, VersionMatch::NotOlderThan))
        .await
        .expect("a list");
    let names: BTreeSet<_> = names(&newer.items).into_iter().collect();
    assert!(
        names.is_superset(&["b", "c", "d"].map(str::to_owned).into()),
        "{names:?}"
    );
}

#[tokio::test]
async fn all_namespaces_are_listed_together_and_apart() {
    let (one, two) = (Bench::new().await, Bench::new().await);
    one.make("same", &json!({})).await;
    let own: Api<DynamicObject> = Api::all_with(one.client.clone(), &widget_resource());
    let mine = own.list(&ListParams::default()).await.expect("a list");
    let here = |item: &&DynamicObject| item.metadata.namespace.as_deref() == Some(&one.namespace);
    assert_eq!(mine.items.iter().filter(here).count(), 1);
    assert_eq!(
        two.widgets
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .len(),
        0
    );
}

#[tokio::test]
async fn only_metadata_may_be_asked_for() {
    let bench = Bench::new().await;
    bench.make("one", &json!({"size": 1})).await;
    let list = bench
        .widgets
        .list_metadata(&ListParams::default())
        .await
        .expect("a list");
    assert_eq!(list.items[0].metadata.name.as_deref(), Some("one"));
    let one = bench
        .widgets
        .get_metadata("one")
        .await
        .expect("the metadata");
    assert_eq!(one.metadata.generation, Some(1));
}

#[tokio::test]
async fn what_is_not_served_is_not_found() {
    let bench = Bench::new().await;
    for path in [
        format!("/apis/{GROUP}/v1/gadgets"),
        format!("/apis/{GROUP}/v2/widgets"),
        format!("/apis/{GROUP}/v1/namespaces/{}/racks", bench.namespace),
        "/apis/nowhere.dev/v1/things".to_owned(),
    ] {
        let request = http::Request::get(&path)
            .body(Vec::new())
            .expect("a request");
        let status = refusal(bench.client.request::<serde_json::Value>(request).await);
        assert_eq!(status.code, 404, "{path}: {status:?}");
    }
}
