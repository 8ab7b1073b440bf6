//! Which networks a pod is on: the primary one and those of Multus' annotation.
//!
//! Asked by the controller, which gives the addresses, and by the nodes, which plug.

use std::sync::Arc;

use causeway_api::{
    keys::{POD_NETWORKS, pod_annotation},
    kubeovn::Subnet,
    multus::NetworkAttachmentDefinition,
};
use causeway_drive::Cache;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde::Deserialize;

use crate::{DEFAULT_SUBNET, objects::Objects};

/// Provider of primary networks.
const PRIMARY: &str = "ovn";
/// Type of CNI configurations that are Kube-OVN's.
const CNI_TYPE: &str = "kube-ovn";

/// The annotation, or what it names, is wrong or absent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AttachmentError {
    #[error("annotation {POD_NETWORKS} cannot be read: {0}")]
    Annotation(String),
    #[error("there is no NetworkAttachmentDefinition {0}")]
    Absent(String),
    #[error("the configuration of NetworkAttachmentDefinition {name} cannot be read: {why}")]
    Config { name: String, why: String },
    #[error("provider {0} is not bound to any subnet")]
    NoSubnet(String),
}

/// One interface that the pod is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// `ovn`, or `<nad>.<namespace>.ovn`.
    pub(crate) provider: String,
    /// Its name in the pod.
    pub(crate) interface: String,
}

impl Attachment {
    pub(crate) fn is_primary(&self) -> bool {
        self.provider == PRIMARY
    }

    /// The key of the pod's annotation about this interface.
    pub(crate) fn key(&self, what: &str) -> String {
        pod_annotation(&self.provider, what)
    }

    /// What the pod's annotation says.
    pub(crate) fn says<'a>(&self, pod: &'a Pod, what: &str) -> Option<&'a str> {
        pod.annotations().get(&self.key(what)).map(String::as_str)
    }

    /// Name of the logical switch port and of the IP object.
    pub(crate) fn port(&self, namespace: &str, pod: &str) -> String {
        if self.is_primary() {
            format!("{pod}.{namespace}")
        } else {
            format!("{pod}.{namespace}.{}", self.provider)
        }
    }

    /// The Subnet that it is on: the one that the pod names, whosever that is, or the first of the
    /// provider.
    pub(crate) fn subnet(
        &self,
        pod: &Pod,
        objects: &Objects,
    ) -> Result<Arc<Subnet>, AttachmentError> {
        let named = self
            .says(pod, "logical_switch")
            .filter(|name| !name.is_empty());
        let found = match named {
            Some(name) => objects.subnets.get(name),
            None if self.is_primary() => objects.subnets.get(DEFAULT_SUBNET),
            None => objects
                .subnets
                .all()
                .find(|subnet| subnet.spec.provider.as_deref() == Some(&self.provider)),
        };
        found.ok_or_else(|| AttachmentError::NoSubnet(self.provider.clone()))
    }
}

/// Whether the pod's primary network gave it its address.
pub(crate) fn is_allocated(pod: &Pod) -> bool {
    pod.annotations()
        .get(&pod_annotation(PRIMARY, "allocated"))
        .is_some_and(|it| it == "true")
}

/// The pod's interfaces on Kube-OVN's networks, the primary one first.
pub(crate) fn attachments(
    pod: &Pod,
    definitions: &Cache<NetworkAttachmentDefinition>,
) -> Result<Vec<Attachment>, AttachmentError> {
    let mut all = vec![Attachment {
        provider: PRIMARY.into(),
        interface: "eth0".into(),
    }];
    let own = pod.namespace().unwrap_or_default();
    let asked = pod
        .annotations()
        .get(POD_NETWORKS)
        .map_or("", String::as_str);
    for (index, asked) in selections(asked)?.into_iter().enumerate() {
        let namespace = asked.namespace.unwrap_or_else(|| own.clone());
        let whole = format!("{namespace}/{}", asked.name);
        let definition = definitions.get(&namespace, &asked.name);
        let definition = definition.ok_or_else(|| AttachmentError::Absent(whole.clone()))?;
        let config = definition.spec.config.as_deref().unwrap_or_default();
        let config: Config =
            serde_json::from_str(config).map_err(|error| AttachmentError::Config {
                name: whole,
                why: error.to_string(),
            })?;
        // Networks of other plugins are Multus' business.
        if config.is_kube_ovn() {
            all.push(Attachment {
                provider: format!("{}.{namespace}.ovn", asked.name),
                interface: asked
                    .interface
                    .unwrap_or_else(|| format!("net{}", index + 1)),
            });
        }
    }
    Ok(all)
}

/// A CNI configuration, as far as it tells whose it is.
#[derive(Deserialize)]
struct Config {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    plugins: Vec<Config>,
}

impl Config {
    fn is_kube_ovn(&self) -> bool {
        self.kind == CNI_TYPE || self.plugins.iter().any(Self::is_kube_ovn)
    }
}

/// An entry of the annotation.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Selection {
    name: String,
    namespace: Option<String>,
    interface: Option<String>,
}

/// Reads the annotation: a JSON list, or `[<namespace>/]<name>[@<interface>]` with commas between.
fn selections(text: &str) -> Result<Vec<Selection>, AttachmentError> {
    let text = text.trim();
    if text.starts_with('[') {
        return serde_json::from_str(text)
            .map_err(|error| AttachmentError::Annotation(error.to_string()));
    }
    let entries = text
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty());
    let read = |entry: &str| {
        let (path, interface) = match entry.split_once('@') {
            Some((path, interface)) => (path, Some(interface.to_owned())),
            None => (entry, None),
        };
        let (namespace, name) = match path.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, path),
        };
        if name.is_empty() || name.contains('/') {
            return Err(AttachmentError::Annotation(format!(
                "`{entry}` names no network"
            )));
        }
        Ok(Selection {
            name: name.to_owned(),
            namespace,
            interface,
        })
    };
    entries.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(name: &str, namespace: Option<&str>, interface: Option<&str>) -> Selection {
        Selection {
            name: name.into(),
            namespace: namespace.map(Into::into),
            interface: interface.map(Into::into),
        }
    }

    #[test]
    fn both_forms_of_the_annotation_are_read() {
        let expected = vec![
            selection("a", None, None),
            selection("b", Some("ns"), None),
            selection("c", Some("ns"), Some("eth7")),
        ];
        assert_eq!(selections("a, ns/b,ns/c@eth7"), Ok(expected));
        let json = r#"[{"name": "a"}, {"name": "c", "namespace": "ns", "interface": "eth7"}]"#;
        let expected = vec![
            selection("a", None, None),
            selection("c", Some("ns"), Some("eth7")),
        ];
        assert_eq!(selections(json), Ok(expected));
        assert_eq!(selections(""), Ok(vec![]));
    }

    #[test]
    fn an_entry_without_a_name_is_refused() {
        assert!(selections("ns/").is_err());
        assert!(selections("[{}]").is_err());
    }

    #[test]
    fn a_list_of_plugins_is_kube_ovns_if_one_of_them_is() {
        let is = |text| {
            serde_json::from_str::<Config>(text)
                .expect("is read")
                .is_kube_ovn()
        };
        assert!(is(r#"{"type": "kube-ovn"}"#));
        assert!(is(
            r#"{"plugins": [{"type": "kube-ovn"}, {"type": "tuning"}]}"#
        ));
        assert!(!is(r#"{"type": "macvlan", "ipam": {"type": "kube-ovn"}}"#));
    }
}
