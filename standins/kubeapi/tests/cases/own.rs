//! A kind of a case's own, made of a schema.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Error,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::bench::{Bench, GROUP, object};

/// The kind, and its objects in the case's namespace.
pub struct Own {
    pub api: Api<DynamicObject>,
    pub resource: ApiResource,
}

impl Own {
    /// An object of the kind.
    pub fn object(&self, name: &str, rest: &Value) -> DynamicObject {
        let mut whole = json!({
            "apiVersion": self.resource.api_version, "kind": self.resource.kind,
            "metadata": {"name": name},
        });
        json_patch::merge(&mut whole, rest);
        object(&whole)
    }

    /// Makes an object whose spec is `spec`.
    pub async fn make(&self, name: &str, spec: Value) -> Result<DynamicObject, Error> {
        let object = self.object(name, &json!({"spec": spec}));
        self.api.create(&PostParams::default(), &object).await
    }
}

impl Bench {
    fn resource_of_own(&self) -> ApiResource {
        let suffix = self.namespace.replace("case-", "");
        ApiResource {
            group: GROUP.into(),
            version: "v1".into(),
            api_version: format!("{GROUP}/v1"),
            kind: format!("Own{suffix}"),
            plural: format!("own{suffix}s"),
        }
    }

    /// Asks for a CRD whose objects have this schema, with these changes to its version.
    pub async fn try_define(
        &self,
        schema: Value,
        version: Value,
    ) -> Result<CustomResourceDefinition, Error> {
        let resource = self.resource_of_own();
        let mut definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{GROUP}", resource.plural)},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": resource.plural, "kind": resource.kind},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        json_patch::merge(&mut definition["spec"]["versions"][0], &version);
        let definition = serde_json::from_value(definition).expect("a CRD");
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        definitions
            .create(&PostParams::default(), &definition)
            .await
    }

    /// A kind whose spec has this schema.
    pub async fn define(&self, spec: Value) -> Own {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        self.define_whole(schema, json!({})).await
    }

    /// A kind whose objects have this schema.
    pub async fn define_whole(&self, schema: Value, version: Value) -> Own {
        self.try_define(schema, version).await.expect("the CRD");
        let resource = self.resource_of_own();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let limit = std::time::Duration::from_secs(30);
        tokio::time::timeout(limit, async {
            while api.list(&ListParams::default()).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the CRD is served in time");
        Own { api, resource }
    }
}
