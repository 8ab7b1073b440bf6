//! What kube-controller-manager does with objects whose owners go, and with namespaces.
//!
//! The stand-in does it as a step. Against a real server these cases need its
//! kube-controller-manager beside it and `CAUSEWAY_KUBEAPI_COLLECTS=1`; without, they say so and
//! check nothing.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::json;

use super::bench::{API_VERSION, Bench};

/// How long a real garbage collector may take to hear of a kind and to act.
const PATIENCE: Duration = Duration::from_mins(2);

/// A case that somebody collects for.
async fn collected() -> Option<Bench> {
    let bench = Bench::new().await;
    if bench.stand_in.is_none() && std::env::var_os("CAUSEWAY_KUBEAPI_COLLECTS").is_none() {
        eprintln!("nobody collects garbage beside this server: nothing is checked");
        return None;
    }
    Some(bench)
}

/// Waits until something has been done about the garbage.
async fn until<F: Future<Output = bool>>(bench: &Bench, what: &str, holds: impl Fn() -> F) {
    let wait = async {
        loop {
            if let Some(api) = &bench.stand_in {
                api.collect_garbage();
            }
            if holds().await {
                return;
            }
            // A real collector is asked now and then, not all the time.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, wait).await;
    assert!(done.is_ok(), "{what} in time");
}

async fn make_owned(bench: &Bench, name: &str, owners: &[&DynamicObject]) -> DynamicObject {
    let mut widget = Bench::widget(name, &json!({}));
    let references = owners.iter().map(|owner| {
        let reference = json!({
            "apiVersion": API_VERSION, "kind": "Widget", "name": owner.metadata.name,
            "uid": owner.metadata.uid, "blockOwnerDeletion": true,
        });
        serde_json::from_value(reference).expect("a reference")
    });
    widget.metadata.owner_references = Some(references.collect());
    bench
        .widgets
        .create(&PostParams::default(), &widget)
        .await
        .expect("made")
}

async fn is_there(bench: &Bench, name: &str) -> bool {
    bench
        .widgets
        .get_opt(name)
        .await
        .expect("an answer")
        .is_some()
}

async fn delete(bench: &Bench, name: &str, policy: PropagationPolicy) {
    let params = DeleteParams {
        propagation_policy: Some(policy),
        ..DeleteParams::default()
    };
    bench.widgets.delete(name, &params).await.expect("deleted");
}

#[tokio::test]
async fn what_a_deleted_object_owned_goes_after_it() {
    let Some(bench) = collected().await else {
        return;
    };
    let owner = bench.make("owner", &json!({})).await;
    let middle = make_owned(&bench, "middle", &[&owner]).await;
    make_owned(&bench, "last", &[&middle]).await;
    bench.make("free", &json!({})).await;
    delete(&bench, "owner", PropagationPolicy::Background).await;
    assert!(!is_there(&bench, "owner").await);
    until(&bench, "both go", async || {
        !is_there(&bench, "middle").await && !is_there(&bench, "last").await
    })
    .await;
    assert!(is_there(&bench, "free").await);
}

#[tokio::test]
async fn an_owner_that_is_deleted_in_the_foreground_goes_last() {
    let Some(bench) = collected().await else {
        return;
    };
    let owner = bench.make("owner", &json!({})).await;
    make_owned(&bench, "owned", &[&owner]).await;
    bench
        .merge("owned", json!({"metadata": {"finalizers": ["x.io/y"]}}))
        .await
        .expect("held");
    delete(&bench, "owner", PropagationPolicy::Foreground).await;
    until(&bench, "the owned object is marked", async || {
        let held = bench.widgets.get("owned").await.expect("it is held");
        held.metadata.deletion_timestamp.is_some()
    })
    .await;
    let waiting = bench.widgets.get("owner").await.expect("it waits");
    assert_eq!(
        waiting.metadata.finalizers,
        Some(vec!["foregroundDeletion".into()])
    );
    bench
        .merge("owned", json!({"metadata": {"finalizers": null}}))
        .await
        .expect("let go");
    until(&bench, "the owner goes", async || {
        !is_there(&bench, "owner").await
    })
    .await;
    assert!(!is_there(&bench, "owned").await);
}

#[tokio::test]
async fn what_an_orphaning_owner_owned_stays_and_is_free() {
    let Some(bench) = collected().await else {
        return;
    };
    let owner = bench.make("owner", &json!({})).await;
    make_owned(&bench, "owned", &[&owner]).await;
    delete(&bench, "owner", PropagationPolicy::Orphan).await;
    until(&bench, "the owner goes", async || {
        !is_there(&bench, "owner").await
    })
    .await;
    let freed = bench.widgets.get("owned").await.expect("it stays");
    assert_eq!(freed.metadata.owner_references, None);
}

#[tokio::test]
async fn one_of_two_owners_is_enough_and_the_other_is_forgotten() {
    let Some(bench) = collected().await else {
        return;
    };
    let (one, two) = (
        bench.make("one", &json!({})).await,
        bench.make("two", &json!({})).await,
    );
    make_owned(&bench, "owned", &[&one, &two]).await;
    delete(&bench, "one", PropagationPolicy::Background).await;
    until(&bench, "the reference goes", async || {
        let owned = bench.widgets.get("owned").await.expect("it stays");
        owned
            .metadata
            .owner_references
            .map_or(0, |references| references.len())
            == 1
    })
    .await;
    delete(&bench, "two", PropagationPolicy::Background).await;
    until(&bench, "it goes", async || !is_there(&bench, "owned").await).await;
}

#[tokio::test]
async fn what_is_owned_by_a_stranger_of_the_same_name_goes() {
    let Some(bench) = collected().await else {
        return;
    };
    let owner = bench.make("owner", &json!({})).await;
    delete(&bench, "owner", PropagationPolicy::Background).await;
    bench.make("owner", &json!({})).await;
    make_owned(&bench, "owned", &[&owner]).await;
    until(&bench, "it goes", async || !is_there(&bench, "owned").await).await;
    assert!(is_there(&bench, "owner").await);
}

#[tokio::test]
async fn a_namespace_goes_after_its_contents() {
    let Some(bench) = collected().await else {
        return;
    };
    bench.make("one", &json!({})).await;
    bench
        .merge("one", json!({"metadata": {"finalizers": ["x.io/y"]}}))
        .await
        .expect("held");
    let namespaces: Api<Namespace> = Api::all(bench.client.clone());
    namespaces
        .delete(&bench.namespace, &DeleteParams::default())
        .await
        .expect("marked");
    until(&bench, "its contents are marked", async || {
        let one = bench.widgets.get("one").await.expect("it is held");
        one.metadata.deletion_timestamp.is_some()
    })
    .await;
    assert!(
        namespaces
            .get_opt(&bench.namespace)
            .await
            .expect("an answer")
            .is_some()
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    bench
        .widgets
        .patch("one", &PatchParams::default(), &free)
        .await
        .expect("let go");
    until(&bench, "the namespace goes", async || {
        namespaces
            .get_opt(&bench.namespace)
            .await
            .expect("an answer")
            .is_none()
    })
    .await;
}
