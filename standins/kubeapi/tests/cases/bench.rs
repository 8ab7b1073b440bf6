//! What every case starts from: a namespace of its own and two kinds.

use std::fmt::Debug;

use causeway_kubeapi::KubeApi;
pub use causeway_kubeapi::User;
use http::HeaderValue;

use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Error,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    client::Body,
    core::Status,
};
use serde_json::{Value, json};

/// The group of the cases' kinds.
pub const GROUP: &str = "conformance.causeway.dev";
/// Its version.
pub const API_VERSION: &str = "conformance.causeway.dev/v1";

/// Where a case works.
pub struct Bench {
    pub client: Client,
    pub namespace: String,
    /// Namespaced, with a status subresource and a schema that uses everything.
    pub widgets: Api<DynamicObject>,
    /// Cluster-scoped, without a status subresource, unknown fields kept.
    pub racks: Api<DynamicObject>,
    /// Nothing when the cases run against a real server.
    pub stand_in: Option<KubeApi>,
}

impl Bench {
    pub async fn new() -> Self {
        let (client, stand_in) = client();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in [widget_definition(), rack_definition()] {
            let name = definition["metadata"]["name"]
                .as_str()
                .expect("a name")
                .to_owned();
            let params = PatchParams::apply("conformance").force();
            definitions
                .patch(&name, &params, &Patch::Apply(&definition))
                .await
                .expect("the CRD");
        }
        wait_until_served(&client).await;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"generateName": "case-"}}))
                .expect("a namespace");
        let made = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("the namespace");
        let namespace = made.metadata.name.expect("a generated name");
        Self {
            widgets: Api::namespaced_with(client.clone(), &namespace, &widget_resource()),
            racks: Api::all_with(client.clone(), &rack_resource()),
            client,
            namespace,
            stand_in,
        }
    }

    /// A widget with this spec.
    pub fn widget(name: &str, spec: &Value) -> DynamicObject {
        object(
            &json!({"apiVersion": API_VERSION, "kind": "Widget", "metadata": {"name": name}, "spec": spec}),
        )
    }

    pub async fn make(&self, name: &str, spec: &Value) -> DynamicObject {
        let widget = Self::widget(name, spec);
        self.widgets
            .create(&PostParams::default(), &widget)
            .await
            .expect("the widget")
    }

    /// Applies a widget that consists of `rest` besides its name.
    pub async fn apply(
        &self,
        manager: &str,
        name: &str,
        rest: Value,
    ) -> Result<DynamicObject, Error> {
        let params = PatchParams::apply(manager);
        self.widgets
            .patch(name, &params, &Patch::Apply(&config(name, rest)))
            .await
    }

    pub async fn apply_with_force(
        &self,
        manager: &str,
        name: &str,
        rest: Value,
    ) -> Result<DynamicObject, Error> {
        let params = PatchParams::apply(manager).force();
        self.widgets
            .patch(name, &params, &Patch::Apply(&config(name, rest)))
            .await
    }

    pub async fn merge(&self, name: &str, patch: Value) -> Result<DynamicObject, Error> {
        self.widgets
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
    }

    /// A name for a cluster-scoped object that no other case has.
    pub fn own_name(&self) -> String {
        format!("rack-{}", self.namespace)
    }

    /// Any request, its answer as JSON.
    pub async fn raw(&self, path: &str, accept: &str) -> Value {
        let request = http::Request::get(path)
            .header("accept", accept)
            .body(Vec::new())
            .expect("a request");
        self.client.request(request).await.expect("an answer")
    }
}

/// The configuration that applies `rest` to a widget.
pub fn config(name: &str, rest: Value) -> Value {
    let mut config =
        json!({"apiVersion": API_VERSION, "kind": "Widget", "metadata": {"name": name}});
    json_patch::merge(&mut config, &rest);
    config
}

/// The client of a case and, if the case runs against one, its stand-in.
fn client() -> (Client, Option<KubeApi>) {
    if let Ok(url) = std::env::var("CAUSEWAY_KUBEAPI_URL") {
        let config = kube::Config::new(url.parse().expect("a URL"));
        return (Client::try_from(config).expect("a client"), None);
    }
    let api = stand_in();
    (api.client("conformance"), Some(api))
}

/// A client of another user: of the stand-in's own, on a real server by impersonation.
pub fn client_as(bench: &Bench, user: &User) -> Client {
    if let Some(api) = &bench.stand_in {
        return api.client_as(user.clone());
    }
    let inner = bench.client.clone();
    let headers = std::iter::once(("impersonate-user", &user.name))
        .chain(user.groups.iter().map(|group| ("impersonate-group", group)));
    let headers: Vec<_> = headers
        .map(|(name, value)| (name, HeaderValue::from_str(value).expect("a header")))
        .collect();
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        for (name, value) in &headers {
            request.headers_mut().append(*name, value.clone());
        }
        let inner = inner.clone();
        async move { inner.send(request).await }
    });
    Client::new(service, "default")
}

fn stand_in() -> KubeApi {
    let start = "2026-01-02T03:04:05Z".parse().expect("a time");
    KubeApi::new(causeway_kubeapi::Clock::given(start, 1)).expect("a stand-in")
}

/// A real server serves a new CRD a moment after it is made.
async fn wait_until_served(client: &Client) {
    let (widgets, racks) = (
        Api::<DynamicObject>::all_with(client.clone(), &widget_resource()),
        Api::<DynamicObject>::all_with(client.clone(), &rack_resource()),
    );
    let limit = std::time::Duration::from_secs(30);
    tokio::time::timeout(limit, async {
        while widgets
            .list(&kube::api::ListParams::default())
            .await
            .is_err()
            || racks.list(&kube::api::ListParams::default()).await.is_err()
        {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the CRDs are served in time");
}

pub fn widget_resource() -> ApiResource {
    resource("Widget", "widgets")
}

pub fn rack_resource() -> ApiResource {
    resource("Rack", "racks")
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: GROUP.into(),
        version: "v1".into(),
        api_version: API_VERSION.into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

pub fn object(json: &Value) -> DynamicObject {
    serde_json::from_value(json.clone()).expect("an object")
}

/// The refusal in a result.
pub fn refusal<T: Debug>(result: Result<T, Error>) -> Status {
    match result {
        Err(Error::Api(status)) => *status,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Code, reason and message of a refusal, as a case states them.
pub fn assert_refused<T: Debug>(result: Result<T, Error>, code: u16, reason: &str, message: &str) {
    let status = refusal(result);
    assert_eq!(
        (status.code, status.reason.as_str()),
        (code, reason),
        "{status:?}"
    );
    assert!(
        status.message.contains(message),
        "{:?} does not contain {message:?}",
        status.message
    );
}

/// Reason and field of each cause.
pub fn causes(status: &Status) -> Vec<(String, String)> {
    let details = status.details.as_ref().expect("details");
    details
        .causes
        .iter()
        .map(|cause| (cause.reason.clone(), cause.field.clone()))
        .collect()
}

pub fn revision(object: &DynamicObject) -> String {
    object
        .metadata
        .resource_version
        .clone()
        .expect("a resourceVersion")
}

pub fn generation(object: &DynamicObject) -> i64 {
    object.metadata.generation.expect("a generation")
}

/// Who owns what, as (manager, operation, subresource) and the fields.
pub fn owners(object: &DynamicObject) -> Vec<(String, String, String, Value)> {
    object
        .metadata
        .managed_fields
        .iter()
        .flatten()
        .map(|entry| {
            (
                entry.manager.clone().unwrap_or_default(),
                entry.operation.clone().unwrap_or_default(),
                entry.subresource.clone().unwrap_or_default(),
                entry
                    .fields_v1
                    .as_ref()
                    .map(|fields| fields.0.clone())
                    .unwrap_or_default(),
            )
        })
        .collect()
}

/// The fields that one manager owns by applying.
pub fn applied_by(object: &DynamicObject, manager: &str) -> Value {
    let mut own = owners(object)
        .into_iter()
        .filter(|(name, operation, ..)| name == manager && operation == "Apply");
    own.next().map(|(.., fields)| fields).unwrap_or_default()
}

fn widget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.conformance.causeway.dev"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Reason", "type": "string", "priority": 1, "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
                ],
                "schema": {"openAPIV3Schema": widget_schema()}
            }]
        }
    })
}

fn widget_schema() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer", "minimum": 0, "maximum": 10},
                    "color": {"type": "string", "enum": ["red", "green"]},
                    "mode": {"type": "string", "default": "auto"},
                    "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
                    "on": {"type": "boolean"},
                    "weight": {"type": "number"},
                    "tags": {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "order": {"type": "array", "items": {"type": "string"}},
                    "parts": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "count": {"type": "integer", "default": 1},
                                "note": {"type": "string"}
                            }
                        }
                    },
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "required": ["port"],
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "name": {"type": "string"}
                            }
                        }
                    },
                    "limits": {"type": "object", "additionalProperties": {"type": "string"}},
                    "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                    "nested": {
                        "type": "object",
                        "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "level": {"type": "string", "default": "low"}}
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "amount": {"x-kubernetes-int-or-string": true}
                }
            },
            "status": status_schema()
        }
    })
}

fn status_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "phase": {"type": "string"},
            "used": {"type": "integer", "minimum": 0},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {
                    "type": "object",
                    "required": ["type", "status"],
                    "properties": {
                        "type": {"type": "string"},
                        "status": {"type": "string"},
                        "reason": {"type": "string"}
                    }
                }
            }
        }
    })
}

fn rack_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "racks.conformance.causeway.dev"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "racks", "kind": "Rack"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
            }]
        }
    })
}
