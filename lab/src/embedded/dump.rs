//! Everything in the API, to compare before with after.

use std::{collections::BTreeMap, fmt};

use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};
use serde_json::Value;

use super::EmbeddedError;

/// What a real control plane writes by itself, whatever anybody does.
const RESTLESS: [&str; 3] = ["ComponentStatus", "Event", "Lease"];

/// All objects by kind, namespace and name, without uids, versions and times.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiDump(BTreeMap<String, Value>);

impl ApiDump {
    /// Everything that a client sees.
    ///
    /// # Errors
    /// [`EmbeddedError`] if the API refuses.
    pub async fn of(client: &Client) -> Result<Self, EmbeddedError> {
        everything(client).await
    }

    /// One line an object.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|(name, object)| format!("{name} {object}"))
    }

    /// What one has and the other has not, or has otherwise.
    pub fn difference(&self, after: &Self) -> Vec<String> {
        let gone = self
            .0
            .iter()
            .filter(|(name, object)| after.0.get(*name) != Some(object))
            .map(|(name, object)| format!("- {name} {object}"));
        let new = after
            .0
            .iter()
            .filter(|(name, object)| self.0.get(*name) != Some(object))
            .map(|(name, object)| format!("+ {name} {object}"));
        gone.chain(new).collect()
    }
}

impl fmt::Display for ApiDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in self.0.keys() {
            writeln!(f, "{name}")?;
        }
        Ok(())
    }
}

pub(super) async fn everything(client: &Client) -> Result<ApiDump, EmbeddedError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        |source| EmbeddedError::Request {
            verb: "list",
            what,
            source: Box::new(source),
        }
    };
    let discovery = Discovery::new(client.clone()).run().await;
    let discovery = discovery.map_err(failed("the API's kinds"))?;
    let mut dump = BTreeMap::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST)
                || RESTLESS.contains(&resource.kind.as_str())
            {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let list = api.list(&ListParams::default()).await;
            for object in list.map_err(failed(&resource.kind))? {
                let name = format!(
                    "{} {}/{}",
                    resource.kind,
                    object.namespace().unwrap_or_default(),
                    object.name_any()
                );
                dump.insert(name, normal(&object)?);
            }
        }
    }
    Ok(ApiDump(dump))
}

fn normal(object: &DynamicObject) -> Result<Value, EmbeddedError> {
    let mut object = serde_json::to_value(object).map_err(|source| EmbeddedError::Request {
        verb: "read",
        what: object.name_any(),
        source: Box::new(kube::Error::SerdeError(source)),
    })?;
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for key in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(key);
        }
    }
    without_times(&mut object);
    Ok(object)
}

fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for key in ["lastTransitionTime", "lastUpdateTime", "lastHeartbeatTime"] {
                fields.remove(key);
            }
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        _ => {}
    }
}
