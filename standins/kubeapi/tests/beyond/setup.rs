//! Two kinds with free specs, and objects of them.

use std::time::Duration;

use causeway_kubeapi::{Clock, KubeApi};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

pub const START: &str = "2026-01-02T03:04:05Z";
/// Long enough for any machine; a test that works never waits for it.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub fn clock() -> Clock {
    Clock::given(START.parse().expect("a time"), 1)
}

pub fn api() -> KubeApi {
    KubeApi::new(clock()).expect("a stand-in")
}

pub fn kind(plural: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: "test.causeway.dev".into(),
        version: "v1".into(),
        api_version: "test.causeway.dev/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// Serves Things (namespaced) and Roots (cluster-scoped), whose specs are free.
pub async fn serve_kinds(client: &Client) {
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &definition());
    for (plural, kind, scope) in [
        ("things", "Thing", "Namespaced"),
        ("roots", "Root", "Cluster"),
    ] {
        let name = format!("{plural}.test.causeway.dev");
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": "test.causeway.dev", "scope": scope, "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        definitions
            .patch(&name, &PatchParams::apply("setup"), &Patch::Apply(crd))
            .await
            .expect("the CRD");
    }
}

pub fn definition() -> ApiResource {
    ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    }
}

pub async fn make_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace =
        serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .expect("the namespace");
}

pub fn things(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &kind("things", "Thing"))
}

pub fn roots(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &kind("roots", "Root"))
}

pub async fn make(api: &Api<DynamicObject>, kind: &str, metadata: Value) -> DynamicObject {
    let object = json!({"apiVersion": "test.causeway.dev/v1", "kind": kind, "metadata": metadata});
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object)
        .await
        .expect("the object")
}

pub fn owned_by(owner: &DynamicObject, blocks: bool) -> Value {
    let types = owner.types.clone().expect("a kind");
    json!([{
        "apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(),
        "uid": owner.metadata.uid, "blockOwnerDeletion": blocks,
    }])
}

pub async fn is_there<K>(api: &Api<K>, name: &str) -> bool
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.get_opt(name).await.expect("an answer").is_some()
}

pub fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> u16 {
    match result.expect_err("a refusal") {
        Error::Api(status) => status.code,
        other => unreachable!("{other}"),
    }
}
