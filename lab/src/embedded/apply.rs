//! YAML documents applied as `kubectl apply --server-side` does it.

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{Scope, oneshot},
};
use serde_json::json;

/// kubectl's own field manager.
const MANAGER: &str = "kubectl";

/// A document that cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It is no YAML, or no Kubernetes object.
    #[error("not a Kubernetes object")]
    Document(#[source] Box<serde_saphyr::Error>),
    /// It has no kind or name.
    #[error("a document without {0}")]
    Missing(&'static str),
    /// The API refuses.
    #[error("{kind} {name} is refused")]
    Refused {
        /// Kind.
        kind: String,
        /// Name.
        name: String,
        /// What the API says.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Applies every document of a YAML file; namespaces that documents name are made.
///
/// # Errors
/// [`ApplyError`] for the first document that is refused.
pub async fn documents(client: &Client, yaml: &str) -> Result<(), ApplyError> {
    let documents: Vec<DynamicObject> =
        serde_saphyr::from_multiple(yaml).map_err(|error| ApplyError::Document(Box::new(error)))?;
    for document in &documents {
        one(client, document).await?;
    }
    Ok(())
}

async fn one(client: &Client, object: &DynamicObject) -> Result<(), ApplyError> {
    let types = object.types.as_ref().ok_or(ApplyError::Missing("kind"))?;
    let name = object.metadata.name.as_ref();
    let name = name.ok_or(ApplyError::Missing("metadata.name"))?;
    let refused = |source| ApplyError::Refused {
        kind: types.kind.clone(),
        name: name.clone(),
        source: Box::new(source),
    };
    let kind = GroupVersionKind::try_from(types).map_err(|_| ApplyError::Missing("apiVersion"))?;
    let (resource, capabilities) = oneshot::pinned_kind(client, &kind).await.map_err(refused)?;
    let api: Api<DynamicObject> = match (&capabilities.scope, &object.metadata.namespace) {
        (Scope::Namespaced, Some(namespace)) => {
            make_namespace(client, namespace).await.map_err(refused)?;
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    let params = PatchParams::apply(MANAGER);
    let applied = api.patch(name, &params, &Patch::Apply(object)).await;
    applied.map(|_| ()).map_err(refused)
}

async fn make_namespace(client: &Client, name: &str) -> Result<(), kube::Error> {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name},
    });
    let params = PatchParams::apply(MANAGER);
    api.patch(name, &params, &Patch::Apply(&namespace)).await?;
    Ok(())
}
