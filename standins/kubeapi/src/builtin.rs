//! The kinds that the server has itself: Namespace, Node, Pod, Event, Lease, the CRDs and
//! the configurations of admission webhooks; those that are only stored are in [`plain`].
//!
//! Their schemas are tables beside this file, taken from the OpenAPI description of Kubernetes
//! 1.34 (types, list keys, enums, required fields; descriptions left out, deeply nested parts of
//! Pod that nothing here reads are kept as they come). Read once when a stand-in is made.

mod plain;

use std::sync::Arc;

use serde_json::Value;

use crate::{
    kinds::{Column, Kind, Nature, Resource},
    object,
    schema::{Schema, SchemaError, Type},
};

/// A built-in kind whose table cannot be read: a fault of this crate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TableError {
    /// Not JSON.
    #[error("the table of {kind} is no JSON")]
    Json {
        kind: &'static str,
        source: serde_json::Error,
    },
    /// Not a schema.
    #[error("the table of {kind} is no schema")]
    Schema {
        kind: &'static str,
        source: SchemaError,
    },
}

struct Entry {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    has_status: bool,
    nature: Nature,
    table: &'static str,
    /// Name, type, priority, path.
    columns: &'static [(&'static str, &'static str, i64, &'static str)],
}

const AGE: (&str, &str, i64, &str) = ("Age", "date", 0, ".metadata.creationTimestamp");

/// Of events of both groups.
const EVENT_COLUMNS: &[(&str, &str, i64, &str)] = &[
    ("Last Seen", "string", 0, ""),
    ("Type", "string", 0, ".type"),
    ("Reason", "string", 0, ".reason"),
    ("Object", "string", 0, ""),
    ("Subobject", "string", 1, ""),
    ("Source", "string", 1, ""),
    ("Message", "string", 0, ""),
    ("First Seen", "string", 1, ""),
    ("Count", "string", 1, ""),
    ("Name", "string", 1, ".metadata.name"),
];

const ENTRIES: &[Entry] = &[
    Entry {
        group: "",
        version: "v1",
        kind: "Namespace",
        plural: "namespaces",
        short: &["ns"],
        namespaced: false,
        has_status: true,
        nature: Nature::Namespace,
        table: include_str!("builtin/namespace.json"),
        columns: &[("Status", "string", 0, ".status.phase"), AGE],
    },
    Entry {
        group: "",
        version: "v1",
        kind: "Node",
        plural: "nodes",
        short: &["no"],
        namespaced: false,
        has_status: true,
        nature: Nature::Node,
        table: include_str!("builtin/node.json"),
        columns: &[
            ("Status", "string", 0, ""),
            ("Roles", "string", 0, ""),
            AGE,
            ("Version", "string", 0, ""),
            ("Internal-IP", "string", 1, ""),
            ("External-IP", "string", 1, ""),
            ("OS-Image", "string", 1, ""),
            ("Kernel-Version", "string", 1, ""),
            ("Container-Runtime", "string", 1, ""),
        ],
    },
    Entry {
        group: "",
        version: "v1",
        kind: "Pod",
        plural: "pods",
        short: &["po"],
        namespaced: true,
        has_status: true,
        nature: Nature::Pod,
        table: include_str!("builtin/pod.json"),
        columns: &[
            ("Ready", "string", 0, ""),
            ("Status", "string", 0, ""),
            ("Restarts", "string", 0, ""),
            AGE,
            ("IP", "string", 1, ""),
            ("Node", "string", 1, ""),
            ("Nominated Node", "string", 1, ""),
            ("Readiness Gates", "string", 1, ""),
        ],
    },
    Entry {
        group: "",
        version: "v1",
        kind: "Event",
        plural: "events",
        short: &["ev"],
        namespaced: true,
        has_status: false,
        nature: Nature::Event,
        table: include_str!("builtin/event.json"),
        columns: EVENT_COLUMNS,
    },
    Entry {
        group: "events.k8s.io",
        version: "v1",
        kind: "Event",
        plural: "events",
        short: &["ev"],
        namespaced: true,
        has_status: false,
        nature: Nature::Event,
        table: include_str!("builtin/events_k8s_io.json"),
        columns: EVENT_COLUMNS,
    },
    Entry {
        group: "coordination.k8s.io",
        version: "v1",
        kind: "Lease",
        plural: "leases",
        short: &[],
        namespaced: true,
        has_status: false,
        nature: Nature::Lease,
        table: include_str!("builtin/lease.json"),
        columns: &[("Holder", "string", 0, ".spec.holderIdentity"), AGE],
    },
    Entry {
        group: "apiextensions.k8s.io",
        version: "v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short: &["crd", "crds"],
        namespaced: false,
        has_status: true,
        nature: Nature::Definition,
        table: include_str!("builtin/crd.json"),
        columns: &[("Created At", "date", 0, ".metadata.creationTimestamp")],
    },
    Entry {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        short: &[],
        namespaced: false,
        has_status: false,
        nature: Nature::Webhooks,
        table: include_str!("builtin/mutating_webhooks.json"),
        columns: &[AGE],
    },
    Entry {
        group: "admissionregistration.k8s.io",
        version: "v1",
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        short: &[],
        namespaced: false,
        has_status: false,
        nature: Nature::Webhooks,
        table: include_str!("builtin/validating_webhooks.json"),
        columns: &[AGE],
    },
];

/// The kinds, each in its one version.
pub(crate) fn kinds() -> Result<Vec<Arc<Kind>>, TableError> {
    ENTRIES
        .iter()
        .chain(plain::ENTRIES)
        .map(|entry| entry.read().map(Arc::new))
        .collect()
}

impl Entry {
    fn read(&self) -> Result<Kind, TableError> {
        let column = |&(name, kind, priority, path): &(&str, &str, i64, &str)| Column {
            name: name.into(),
            kind: kind.into(),
            format: String::new(),
            description: String::new(),
            priority,
            path: path.into(),
        };
        Ok(Kind {
            resource: Resource {
                group: self.group.into(),
                plural: self.plural.into(),
            },
            version: self.version.into(),
            name: self.kind.into(),
            list_name: format!("{}List", self.kind),
            singular: self.kind.to_lowercase(),
            short_names: self.short.iter().copied().map(str::to_owned).collect(),
            categories: Vec::new(),
            namespaced: self.namespaced,
            document: parse_table(self.kind, self.table)?,
            schema: whole_object(read_table(self.kind, self.table)?)?,
            metadata_rules: None,
            has_status: self.has_status,
            scale: None,
            columns: self.columns.iter().map(column).collect(),
            nature: self.nature,
        })
    }
}

fn read_table(kind: &'static str, text: &str) -> Result<Schema, TableError> {
    let json = parse_table(kind, text)?;
    Schema::read("", &json).map_err(|source| TableError::Schema { kind, source })
}

fn parse_table(kind: &'static str, text: &str) -> Result<Value, TableError> {
    serde_json::from_str(text).map_err(|source| TableError::Json { kind, source })
}

/// The schema of `metadata` as it is stated.
pub(crate) fn metadata_document() -> Result<Value, TableError> {
    parse_table("ObjectMeta", include_str!("builtin/object_meta.json"))
}

/// Completes the schema of a kind by what every object has: apiVersion, kind, metadata.
pub(crate) fn whole_object(mut schema: Schema) -> Result<Schema, TableError> {
    let metadata = read_table("ObjectMeta", include_str!("builtin/object_meta.json"))?;
    let text = || Schema {
        kind: Type::String,
        ..Schema::default()
    };
    schema.properties.insert("metadata".into(), metadata);
    schema.properties.insert("apiVersion".into(), text());
    schema.properties.insert("kind".into(), text());
    Ok(schema)
}

/// What the server adds to an object of its own kinds when it is made.
pub(crate) fn prepare_new(nature: Nature, new: &mut Value) {
    match nature {
        Nature::Namespace => {
            let name = object::name(new).to_owned();
            let spec = object::map_mut(new, "spec");
            let finalizers = spec
                .entry("finalizers")
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = finalizers
                && !list.contains(&"kubernetes".into())
            {
                list.push("kubernetes".into());
            }
            object::map_mut(new, "status").insert("phase".into(), "Active".into());
            let meta = object::meta_mut(new);
            let labels = meta
                .entry("labels")
                .or_insert_with(|| Value::Object(serde_json::Map::new()));
            labels["kubernetes.io/metadata.name"] = name.into();
        }
        Nature::Pod => {
            let status = object::map_mut(new, "status");
            status.insert("phase".into(), "Pending".into());
            status
                .entry("qosClass")
                .or_insert_with(|| "BestEffort".into());
        }
        Nature::Secret => complete_secret(new),
        Nature::Custom
        | Nature::Node
        | Nature::Event
        | Nature::Lease
        | Nature::Definition
        | Nature::Webhooks
        | Nature::Plain
        | Nature::Access
        | Nature::Review => {}
    }
}

/// Writes what a Secret has in plain text into its data, and says its type.
pub(crate) fn complete_secret(new: &mut Value) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let plain = new.as_object_mut().and_then(|map| map.remove("stringData"));
    for (key, text) in plain
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
        object::map_mut(new, "data").insert(key.clone(), encoded.into());
    }
    if new
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty()
    {
        new["type"] = "Opaque".into();
    }
}
