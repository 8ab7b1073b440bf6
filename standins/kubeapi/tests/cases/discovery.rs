//! Discovery.

use kube::discovery::{self, Scope};

use super::bench::{Bench, GROUP};

#[tokio::test]
async fn a_new_kind_is_discovered_with_its_scope_and_subresources() {
    let bench = Bench::new().await;
    let group = discovery::group(&bench.client, GROUP)
        .await
        .expect("the group");
    let (widgets, capabilities) = group.recommended_kind("Widget").expect("the kind");
    assert_eq!(widgets.plural, "widgets");
    assert_eq!(capabilities.scope, Scope::Namespaced);
    assert_eq!(
        capabilities
            .subresources
            .iter()
            .map(|(resource, _)| resource.plural.as_str())
            .collect::<Vec<_>>(),
        ["status"]
    );
    let (_, capabilities) = group.recommended_kind("Rack").expect("the kind");
    assert_eq!(capabilities.scope, Scope::Cluster);
    assert!(capabilities.subresources.is_empty());
}

#[tokio::test]
async fn everything_is_discovered_in_both_forms() {
    let bench = Bench::new().await;
    let old = discovery::Discovery::new(bench.client.clone())
        .run()
        .await
        .expect("the old form");
    let new = discovery::Discovery::new(bench.client.clone())
        .run_aggregated()
        .await
        .expect("the aggregated form");
    for found in [old, new] {
        for (group, kind) in [
            ("", "Namespace"),
            ("", "Node"),
            ("", "Pod"),
            ("", "Event"),
            ("events.k8s.io", "Event"),
            ("coordination.k8s.io", "Lease"),
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            (GROUP, "Widget"),
        ] {
            let group = found
                .groups()
                .find(|known| known.name() == group)
                .expect("the group");
            assert!(
                group.recommended_kind(kind).is_some(),
                "{} {kind}",
                group.name()
            );
        }
    }
}

#[tokio::test]
async fn short_names_and_categories_are_told() {
    let bench = Bench::new().await;
    let resources = bench
        .client
        .list_api_group_resources(&format!("{GROUP}/v1"))
        .await
        .expect("the resources");
    let widgets = resources
        .resources
        .iter()
        .find(|resource| resource.name == "widgets")
        .expect("widgets");
    assert_eq!(widgets.short_names, Some(vec!["wd".into()]));
    assert_eq!(widgets.categories, Some(vec!["all".into()]));
    assert_eq!(widgets.singular_name, "widget");
}

#[tokio::test]
async fn the_version_is_told() {
    let bench = Bench::new().await;
    let version = bench.client.apiserver_version().await.expect("the version");
    assert_eq!(
        (version.major.as_str(), version.minor.as_str()),
        ("1", "34")
    );
}
