//! The custom resource definitions of every kind here, and the files in `deploy/crds`.
//!
//! Called by `causeway crd`, by the embedded mode and the stand-ins (which serve them), and by the
//! test that compares the files.
//! Must stay true: the same types give the same bytes, whoever asks.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, ValidationRule,
};
use kube::CustomResourceExt;

use crate::{
    ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud,
    ipam::{IPAddress, IPAddressClaim, InClusterIPPool},
    kubeovn::{IP, ProviderNetwork, Subnet, Vlan, Vpc},
    multus::NetworkAttachmentDefinition,
    vpc, zone,
};

/// A definition could not be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the definition of {name} as YAML")]
pub struct RenderError {
    name: String,
    source: serde_saphyr::SerializeError,
}

/// A file of `deploy/crds`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdFile {
    /// Path below `deploy/crds`.
    pub path: String,
    /// What stands in it.
    pub contents: String,
}

/// The kinds of the group proxmox.cozystack.io.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        bound_name(finish(ProxmoxNetworkZone::crd()), zone::LONGEST_NAME),
        finish(ProxmoxNetwork::crd()),
    ]
}

/// The kinds of the group apps.cozystack.io: not to be installed where the platform serves them.
pub fn apps_crds() -> Vec<CustomResourceDefinition> {
    vec![bound_name(
        finish(VirtualPrivateCloud::crd()),
        vpc::LONGEST_NAME,
    )]
}

/// The foreign kinds, for where the real definitions are not installed.
pub fn foreign_crds() -> Vec<CustomResourceDefinition> {
    let derived = [
        ProviderNetwork::crd(),
        Vlan::crd(),
        Vpc::crd(),
        Subnet::crd(),
        IP::crd(),
        NetworkAttachmentDefinition::crd(),
        InClusterIPPool::crd(),
        IPAddressClaim::crd(),
        IPAddress::crd(),
    ];
    let mut definitions = derived.map(finish);
    // None of the real definitions requires a spec.
    for root in definitions.iter_mut().flat_map(roots) {
        root.required = None;
    }
    definitions.into()
}

/// The root of an object, which no attribute reaches: a null status is dropped like any other null.
fn finish(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for root in roots(&mut crd) {
        for property in root.properties.iter_mut().flat_map(BTreeMap::values_mut) {
            property.nullable = None;
        }
    }
    crd
}

/// A name that becomes part of other names or of a label value may not be as long as Kubernetes
/// allows. A schema cannot bound `metadata.name` by its length alone: a rule at the root can.
fn bound_name(mut crd: CustomResourceDefinition, longest: usize) -> CustomResourceDefinition {
    for root in roots(&mut crd) {
        root.x_kubernetes_validations = Some(vec![ValidationRule {
            rule: format!("self.metadata.name.size() <= {longest}"),
            // The planner's words without its figures: no schema bounds a name in the eyes of the
            // API server, so that putting it into the message would cost too much for it (seen).
            message: Some(format!(
                "metadata.name has too many characters; at most {longest} are possible"
            )),
            ..ValidationRule::default()
        }]);
    }
    crd
}

fn roots(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    crd.spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// A definition as YAML, with a comment that says where it comes from.
///
/// # Errors
/// [`RenderError`] if the definition holds something that YAML cannot.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, RenderError> {
    let options = serde_saphyr::ser_options! {
        // Descriptions as one line each: a diff shows the field that changed.
        prefer_block_scalars: false,
    };
    let body =
        serde_saphyr::to_string_with_options(crd, options).map_err(|source| RenderError {
            name: crd.metadata.name.clone().unwrap_or_default(),
            source,
        })?;
    let arguments = match crd.spec.group.as_str() {
        "proxmox.cozystack.io" => "",
        "apps.cozystack.io" => " --apps",
        _ => " --foreign",
    };
    Ok(format!(
        "# Generated from the types in crates/api by: cargo run -p causeway-cli -- crd{arguments}\n{body}"
    ))
}

/// Every file of `deploy/crds`.
///
/// # Errors
/// [`RenderError`] if a definition cannot be written.
pub fn files() -> Result<Vec<CrdFile>, RenderError> {
    let ours = crds().into_iter().map(|crd| ("", crd));
    let apps = apps_crds().into_iter().map(|crd| ("apps/", crd));
    ours.chain(apps)
        .map(|(folder, crd)| {
            Ok(CrdFile {
                path: format!("{folder}{}_{}.yaml", crd.spec.group, crd.spec.names.plural),
                contents: to_yaml(&crd)?,
            })
        })
        .collect()
}
