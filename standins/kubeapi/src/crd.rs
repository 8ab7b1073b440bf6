//! CRDs (`CustomResourceDefinition` objects): completing and judging them, and making kinds of
//! them.
//!
//! Called when a CRD is written; the store then serves the kinds. Must stay true: a CRD that is
//! stored can be served. The real server establishes a CRD a moment after the write, here it is
//! part of the write.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::{
    builtin, cel,
    kinds::{Column, Kind, Nature, Resource},
    object::{self, strings},
    scale::Scale,
    schema::{Schema, SchemaError},
    status::FieldFault,
};

/// A version whose schema cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionError {
    /// The CRD's own schema.
    #[error("the schema cannot be read")]
    Schema(#[from] SchemaError),
    /// The tables of this crate.
    #[error("the metadata table cannot be read")]
    Table(#[from] builtin::TableError),
}

fn text<'a>(json: &'a Value, pointer: &str) -> &'a str {
    json.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The resource that a CRD defines.
pub(crate) fn resource(crd: &Value) -> Resource {
    Resource {
        group: text(crd, "/spec/group").to_owned(),
        plural: text(crd, "/spec/names/plural").to_owned(),
    }
}

fn versions(crd: &Value) -> &[Value] {
    crd.pointer("/spec/versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Fills in what a CRD may leave out.
pub(crate) fn default(crd: &mut Value) {
    let spec = object::map_mut(crd, "spec");
    spec.entry("conversion")
        .or_insert_with(|| json!({"strategy": "None"}));
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        names
            .entry("singular")
            .or_insert_with(|| kind.to_lowercase().into());
        names
            .entry("listKind")
            .or_insert_with(|| format!("{kind}List").into());
    }
}

/// What is wrong with a CRD.
pub(crate) fn faults(crd: &Value) -> Vec<FieldFault> {
    let mut found = Vec::new();
    let resource = resource(crd);
    let name = object::name(crd);
    if name != format!("{}.{}", resource.plural, resource.group) {
        let rule = "must be spec.names.plural+\".\"+spec.group";
        found.push(FieldFault::invalid("metadata.name", &name.into(), rule));
    }
    let versions = versions(crd);
    let storing = versions
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .count();
    if storing != 1 {
        found.push(FieldFault::invalid(
            "spec.versions",
            &Value::Array(versions.to_vec()),
            "must have exactly one version marked as storage version",
        ));
    }
    let schema = |version: &'_ Value| version.pointer("/schema/openAPIV3Schema").cloned();
    let shared = versions.iter().all(|version| schema(version).is_some())
        && versions
            .windows(2)
            .all(|pair| schema(&pair[0]) == schema(&pair[1]));
    for (index, version) in versions.iter().enumerate() {
        // One schema for all versions is told of once, in words of the older form of CRDs (seen).
        if shared && index > 0 {
            break;
        }
        let path = if shared {
            "spec.validation.openAPIV3Schema".to_owned()
        } else {
            format!("spec.versions[{index}].schema.openAPIV3Schema")
        };
        let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
            found.push(FieldFault::required(path, ""));
            continue;
        };
        if text(schema, "/type") != "object" {
            found.push(FieldFault::required(
                format!("{path}.type"),
                "must not be empty at the root",
            ));
        }
        match Schema::read_shape(&path, schema) {
            Ok(_) => found.extend(cel::definition_faults(schema, &path)),
            Err(error) => found.push(FieldFault::invalid(path, &"".into(), &error.to_string())),
        }
    }
    found
}

/// The kinds that a CRD's served versions make.
pub(crate) fn kinds(crd: &Value) -> Result<Vec<Arc<Kind>>, DefinitionError> {
    let served = |version: &&Value| version.get("served") == Some(&Value::Bool(true));
    versions(crd)
        .iter()
        .filter(served)
        .map(|version| kind(crd, version).map(Arc::new))
        .collect()
}

fn kind(crd: &Value, version: &Value) -> Result<Kind, DefinitionError> {
    let owned = |pointer: &str| text(crd, pointer).to_owned();
    let list = |pointer: &str| {
        strings(crd.pointer(pointer))
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let json = version
        .pointer("/schema/openAPIV3Schema")
        .unwrap_or(&Value::Null);
    let schema = Schema::read("", json)?;
    let columns = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array);
    let age = Column::read(&json!({
        "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
    }));
    Ok(Kind {
        resource: resource(crd),
        version: text(version, "/name").to_owned(),
        name: owned("/spec/names/kind"),
        list_name: owned("/spec/names/listKind"),
        singular: owned("/spec/names/singular"),
        short_names: list("/spec/names/shortNames"),
        categories: list("/spec/names/categories"),
        namespaced: text(crd, "/spec/scope") == "Namespaced",
        metadata_rules: schema.properties.get("metadata").cloned(),
        document: json.clone(),
        schema: builtin::whole_object(schema)?,
        has_status: version.pointer("/subresources/status").is_some(),
        scale: version.pointer("/subresources/scale").map(Scale::read),
        // Without columns of its own a kind shows its age.
        columns: columns.map_or_else(|| vec![age], |list| list.iter().map(Column::read).collect()),
        nature: Nature::Custom,
    })
}

/// Writes the status that says that the CRD is served.
pub(crate) fn establish(crd: &mut Value, now: &str) {
    let names = crd.pointer("/spec/names").cloned().unwrap_or_default();
    let storing = versions(crd)
        .iter()
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| text(version, "/name").to_owned())
        .unwrap_or_default();
    let status = object::map_mut(crd, "status");
    status.insert("acceptedNames".into(), names);
    let stored = status
        .entry("storedVersions")
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = stored
        && !list.contains(&storing.clone().into())
    {
        list.push(storing.into());
    }
    condition(
        status,
        "NamesAccepted",
        "NoConflicts",
        "no conflicts found",
        now,
    );
    let message = "the initial names have been accepted";
    condition(status, "Established", "InitialNamesAccepted", message, now);
}

/// Writes the status that says that the CRD's objects are being deleted.
pub(crate) fn terminate(crd: &mut Value, now: &str) {
    let message = "CustomResource deletion is in progress";
    let status = object::map_mut(crd, "status");
    condition(
        status,
        "Terminating",
        "InstanceDeletionInProgress",
        message,
        now,
    );
}

/// Sets a condition to True; one that is True already stays as it is.
fn condition(status: &mut Map<String, Value>, kind: &str, reason: &str, message: &str, now: &str) {
    let list = status
        .entry("conditions")
        .or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return };
    let place = list
        .iter()
        .position(|condition| condition.get("type") == Some(&kind.into()));
    let condition = json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": now,
    });
    match place {
        Some(place) if list[place].get("status") == Some(&"True".into()) => {}
        Some(place) => list[place] = condition,
        None => list.push(condition),
    }
}
