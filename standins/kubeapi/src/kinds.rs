//! The kinds that are served: those the server has itself and those that CRDs add.
//!
//! Kept by the store, asked by every request. Must stay true: a kind is immutable; a changed CRD
//! makes new [`Kind`]s, and requests under way finish with the old ones.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{events, object, scale::Scale, schema::Schema};

/// One version of one kind.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) resource: Resource,
    pub(crate) version: String,
    pub(crate) name: String,
    pub(crate) list_name: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// The whole object, `metadata` included.
    pub(crate) schema: Schema,
    /// The schema as it was stated, with its descriptions.
    pub(crate) document: Value,
    /// What a CRD demands of `metadata` (only of the name, the real server allows no more).
    pub(crate) metadata_rules: Option<Schema>,
    /// Whether `/status` is a subresource of its own.
    pub(crate) has_status: bool,
    pub(crate) scale: Option<Scale>,
    pub(crate) columns: Vec<Column>,
    pub(crate) nature: Nature,
}

/// What all versions of a kind share: `plural.group`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) plural: String,
}

/// Which rules of its own a kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Defined by a CRD.
    Custom,
    Namespace,
    Node,
    Pod,
    Event,
    Lease,
    /// The CRDs themselves.
    Definition,
    /// Configurations of admission webhooks.
    Webhooks,
    /// No rules of its own.
    Plain,
    Secret,
    /// Roles and bindings.
    Access,
    /// Created and answered, never stored.
    Review,
}

impl Nature {
    /// Whether a write without a resourceVersion means "whatever the state is"
    /// (`AllowUnconditionalUpdate` of the real strategies).
    pub(crate) fn updates_unconditionally(self) -> bool {
        matches!(
            self,
            Self::Namespace
                | Self::Node
                | Self::Pod
                | Self::Event
                | Self::Plain
                | Self::Secret
                | Self::Access
        )
    }

    /// Whether a PUT makes an object that is absent (`AllowCreateOnUpdate`).
    pub(crate) fn creates_on_update(self) -> bool {
        matches!(self, Self::Event | Self::Lease | Self::Access)
    }

    /// What can be done with objects.
    pub(crate) fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Review => &["create"],
            _ => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
        }
    }

    /// Whether objects count their spec changes in `metadata.generation`.
    pub(crate) fn has_generation(self) -> bool {
        matches!(
            self,
            Self::Custom | Self::Definition | Self::Pod | Self::Webhooks
        )
    }
}

/// A column of the kind's table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    /// 0: always shown; more: only in wide tables.
    pub(crate) priority: i64,
    pub(crate) path: String,
}

impl Column {
    /// Reads an entry of a CRD's `additionalPrinterColumns`.
    pub(crate) fn read(json: &Value) -> Self {
        let text = |field: &str| {
            json.get(field)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: json
                .get("priority")
                .and_then(Value::as_i64)
                .unwrap_or_default(),
            path: text("jsonPath"),
        }
    }
}

impl Kind {
    /// `group/version`, or the version alone in the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.resource.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.resource.group, self.version)
        }
    }

    /// The object as this version's readers see it.
    pub(crate) fn present(&self, stored: &object::Object) -> object::Object {
        let api_version = self.api_version();
        if stored.get("apiVersion").and_then(Value::as_str) == Some(&api_version) {
            return Arc::clone(stored);
        }
        if self.nature == Nature::Event {
            return Arc::new(events::shown(stored, self));
        }
        let mut object = Value::clone(stored);
        object["apiVersion"] = api_version.into();
        Arc::new(object)
    }
}

/// All kinds, by resource and version.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    served: BTreeMap<Resource, Vec<Arc<Kind>>>,
}

impl Kinds {
    /// Serves these versions of a resource from now on, and no others.
    pub(crate) fn serve(&mut self, resource: Resource, versions: Vec<Arc<Kind>>) {
        self.served.insert(resource, versions);
    }

    /// Ends the service of a resource.
    pub(crate) fn withdraw(&mut self, resource: &Resource) {
        self.served.remove(resource);
    }

    /// The kind behind a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let resource = Resource {
            group: group.to_owned(),
            plural: plural.to_owned(),
        };
        self.served
            .get(&resource)?
            .iter()
            .find(|kind| kind.version == version)
            .cloned()
    }

    /// Every version of every kind, ordered by group and plural.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.served.values().flatten()
    }

    /// One version of every kind: the first that its CRD lists.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.served.values().filter_map(|versions| versions.first())
    }
}
