//! Creating objects.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, PostParams},
};
use serde_json::json;

use super::bench::{
    API_VERSION, Bench, assert_refused, generation, object, revision, widget_resource,
};

#[tokio::test]
async fn a_new_object_gets_uid_time_generation_and_revision_from_the_server() {
    let bench = Bench::new().await;
    let mut widget = Bench::widget("one", &json!({"size": 1}));
    widget.metadata.uid = Some("mine".into());
    widget.metadata.generation = Some(7);
    let made = bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("the widget");
    assert_ne!(made.metadata.uid.as_deref(), Some("mine"));
    assert_eq!(made.metadata.uid.as_deref().map(str::len), Some(36));
    assert_eq!(generation(&made), 1);
    assert!(made.metadata.creation_timestamp.is_some());
    assert_eq!(
        made.metadata.namespace.as_deref(),
        Some(bench.namespace.as_str())
    );
    assert!(revision(&made).parse::<u64>().expect("a number") > 0);
    assert_eq!(bench.widgets.get("one").await.expect("it is there"), made);
}

#[tokio::test]
async fn revisions_rise_over_all_kinds() {
    let bench = Bench::new().await;
    let number = |object: &DynamicObject| revision(object).parse::<u64>().expect("a number");
    let one = bench.make("one", &json!({})).await;
    let rack = object(
        &json!({"apiVersion": API_VERSION, "kind": "Rack", "metadata": {"name": bench.own_name()}}),
    );
    let rack = bench
        .racks
        .create(&PostParams::default(), &rack)
        .await
        .expect("the rack");
    let two = bench.make("two", &json!({})).await;
    assert!(number(&one) < number(&rack) && number(&rack) < number(&two));
    bench
        .racks
        .delete(&bench.own_name(), &DeleteParams::default())
        .await
        .expect("cleaned up");
}

#[tokio::test]
async fn a_generated_name_completes_its_prefix() {
    let bench = Bench::new().await;
    let widget = object(&json!({
        "apiVersion": API_VERSION, "kind": "Widget", "metadata": {"generateName": "gen-"}, "spec": {},
    }));
    let one = bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("the first");
    let two = bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("the second");
    let name = one.metadata.name.expect("a name");
    assert!(
        name.starts_with("gen-") && name.len() == "gen-".len() + 5,
        "{name}"
    );
    assert_ne!(Some(name), two.metadata.name);
}

#[tokio::test]
async fn a_name_is_given_once() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let again = bench
        .widgets
        .create(&PostParams::default(), &Bench::widget("one", &json!({})))
        .await;
    assert_refused(
        again,
        409,
        "AlreadyExists",
        "widgets.conformance.causeway.dev \"one\" already exists",
    );
}

#[tokio::test]
async fn an_object_without_a_name_is_refused() {
    let bench = Bench::new().await;
    let widget =
        object(&json!({"apiVersion": API_VERSION, "kind": "Widget", "metadata": {}, "spec": {}}));
    let made = bench.widgets.create(&PostParams::default(), &widget).await;
    assert_refused(
        made,
        422,
        "Invalid",
        "metadata.name: Required value: name or generateName is required",
    );
}

#[tokio::test]
async fn a_name_that_is_no_dns_name_is_refused() {
    let bench = Bench::new().await;
    for name in ["Upper", "under_score", "-dash", "dash-"] {
        let made = bench
            .widgets
            .create(&PostParams::default(), &Bench::widget(name, &json!({})))
            .await;
        assert_refused(
            made,
            422,
            "Invalid",
            "a lowercase RFC 1123 subdomain must consist of",
        );
    }
}

#[tokio::test]
async fn labels_and_owner_references_are_checked() {
    let bench = Bench::new().await;
    let cases = [
        (
            json!({"labels": {"a b": "x"}}),
            "metadata.labels: Invalid value: \"a b\"",
        ),
        (
            json!({"labels": {"a": "x y"}}),
            "metadata.labels: Invalid value: \"x y\"",
        ),
        (
            json!({"labels": {"a": "x".repeat(64)}}),
            "must be no more than 63 ",
        ),
        (
            json!({"annotations": {"/": "x"}}),
            "metadata.annotations: Invalid value: \"/\"",
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": ""}]}),
            "must not be empty",
        ),
    ];
    for (metadata, message) in cases {
        let mut json =
            json!({"apiVersion": API_VERSION, "kind": "Widget", "metadata": metadata, "spec": {}});
        json["metadata"]["name"] = "one".into();
        let made = bench
            .widgets
            .create(&PostParams::default(), &object(&json))
            .await;
        assert_refused(made, 422, "Invalid", message);
    }
}

#[tokio::test]
async fn an_object_needs_its_namespace() {
    let bench = Bench::new().await;
    let elsewhere: Api<DynamicObject> =
        Api::namespaced_with(bench.client.clone(), "nowhere-at-all", &widget_resource());
    let made = elsewhere
        .create(&PostParams::default(), &Bench::widget("one", &json!({})))
        .await;
    assert_refused(
        made,
        404,
        "NotFound",
        "namespaces \"nowhere-at-all\" not found",
    );
}

#[tokio::test]
async fn the_namespace_in_the_object_is_the_one_in_the_path() {
    let bench = Bench::new().await;
    let mut widget = Bench::widget("one", &json!({}));
    widget.metadata.namespace = Some("other".into());
    let made = bench.widgets.create(&PostParams::default(), &widget).await;
    assert_refused(
        made,
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
}

#[tokio::test]
async fn a_terminating_namespace_takes_nothing_new() {
    let bench = Bench::new().await;
    bench.make("one", &json!({})).await;
    let namespaces: Api<Namespace> = Api::all(bench.client.clone());
    let answer = namespaces
        .delete(&bench.namespace, &DeleteParams::default())
        .await
        .expect("deleted");
    let left = answer.left().expect("the namespace waits for its contents");
    assert_eq!(
        left.status.and_then(|status| status.phase).as_deref(),
        Some("Terminating")
    );
    let made = bench
        .widgets
        .create(&PostParams::default(), &Bench::widget("two", &json!({})))
        .await;
    let message = format!(
        "widgets.conformance.causeway.dev \"two\" is forbidden: unable to create new content in namespace {} because it is being terminated",
        bench.namespace
    );
    assert_refused(made, 403, "Forbidden", &message);
    // What is there can still be changed.
    bench
        .merge("one", json!({"spec": {"size": 2}}))
        .await
        .expect("a change");
}

#[tokio::test]
async fn a_new_namespace_is_active_and_named_in_its_labels() {
    let bench = Bench::new().await;
    let namespaces: Api<Namespace> = Api::all(bench.client.clone());
    let namespace = namespaces
        .get(&bench.namespace)
        .await
        .expect("the namespace");
    let labels = namespace.metadata.labels.expect("labels");
    assert_eq!(
        labels.get("kubernetes.io/metadata.name"),
        Some(&bench.namespace)
    );
    assert_eq!(
        namespace.status.and_then(|status| status.phase).as_deref(),
        Some("Active")
    );
    assert_eq!(
        namespace.spec.and_then(|spec| spec.finalizers),
        Some(vec!["kubernetes".into()])
    );
}

#[tokio::test]
async fn a_dry_run_answers_as_if_and_stores_nothing() {
    let bench = Bench::new().await;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = bench
        .widgets
        .create(&params, &Bench::widget("one", &json!({})))
        .await
        .expect("an answer");
    assert!(made.metadata.uid.is_some());
    assert_eq!(made.data["spec"]["mode"], "auto");
    assert_refused(
        bench.widgets.get("one").await,
        404,
        "NotFound",
        "widgets.conformance.causeway.dev \"one\" not found",
    );
    let twice = bench
        .widgets
        .create(&params, &Bench::widget("Not A Name", &json!({})))
        .await;
    assert_refused(twice, 422, "Invalid", "metadata.name");
}

#[tokio::test]
async fn a_status_in_a_new_object_is_dropped() {
    let bench = Bench::new().await;
    let mut widget = Bench::widget("one", &json!({}));
    widget.data["status"] = json!({"phase": "Done"});
    let made = bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("the widget");
    assert_eq!(made.data.get("status"), None);
}

#[tokio::test]
async fn a_resource_version_in_a_new_object_is_refused() {
    let bench = Bench::new().await;
    let mut widget = Bench::widget("one", &json!({}));
    widget.metadata.resource_version = Some("1".into());
    let made = bench.widgets.create(&PostParams::default(), &widget).await;
    assert_refused(
        made,
        500,
        "",
        "resourceVersion should not be set on objects to be created",
    );
}
