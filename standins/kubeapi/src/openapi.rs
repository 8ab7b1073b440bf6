//! OpenAPI v3: what the kinds look like, for `kubectl explain` and for clients that ask whether a
//! server knows `fieldValidation`.
//!
//! One document per group and version, made when it is asked for. Must stay true: a schema is
//! shown as the CRD states it, completed by what every object has.

use serde_json::{Map, Value, json};

use crate::{
    builtin,
    kinds::{Kind, Kinds, Nature},
    status::Failure,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const API_VERSION_HELP: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND_HELP: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const META_HELP: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The document of a group and version, or the list of all.
pub(crate) fn document(kinds: &Kinds, of: Option<&(String, String)>) -> Result<Value, Failure> {
    let Some((group, version)) = of else {
        return Ok(index(kinds));
    };
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for kind in kinds.all() {
        if kind.resource.group == *group && kind.version == *version {
            schemas.insert(schema_name(kind), schema(kind));
            add_paths(&mut paths, kind);
        }
    }
    if schemas.is_empty() {
        return Err(Failure::no_such_path());
    }
    let metadata =
        builtin::metadata_document().map_err(|error| Failure::internal(error.to_string()))?;
    schemas.insert(META.into(), metadata);
    Ok(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.34.4"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn place(kind: &Kind) -> String {
    if kind.resource.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.resource.group, kind.version)
    }
}

fn index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for kind in kinds.all() {
        let place = place(kind);
        let url = format!("/openapi/v3/{place}");
        paths.insert(place, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// The name of a kind's schema: the group backwards, the version, the kind.
fn schema_name(kind: &Kind) -> String {
    let group = &kind.resource.group;
    let package = match (kind.nature, group.as_str()) {
        (Nature::Custom, group) => group.rsplit('.').collect::<Vec<_>>().join("."),
        (_, "") => "io.k8s.api.core".to_owned(),
        (Nature::Definition, _) => {
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned()
        }
        (_, group) => {
            let first = group.split('.').next().unwrap_or_default();
            format!("io.k8s.api.{first}")
        }
    };
    format!("{package}.{}.{}", kind.version, kind.name)
}

fn kind_of(kind: &Kind) -> Value {
    json!({"group": kind.resource.group, "version": kind.version, "kind": kind.name})
}

fn schema(kind: &Kind) -> Value {
    let mut schema = kind.document.clone();
    if kind.nature != Nature::Custom {
        add_merge_keys(&mut schema);
    }
    let properties = crate::object::map_mut(&mut schema, "properties");
    properties.insert(
        "apiVersion".into(),
        json!({"type": "string", "description": API_VERSION_HELP}),
    );
    properties.insert(
        "kind".into(),
        json!({"type": "string", "description": KIND_HELP}),
    );
    let reference = format!("#/components/schemas/{META}");
    properties.insert(
        "metadata".into(),
        json!({"description": META_HELP, "allOf": [{"$ref": reference}], "default": {}}),
    );
    schema["type"] = "object".into();
    schema["x-kubernetes-group-version-kind"] = json!([kind_of(kind)]);
    schema
}

/// Says how strategic merge patches tell apart the elements of keyed lists.
fn add_merge_keys(schema: &mut Value) {
    let key = schema.pointer("/x-kubernetes-list-map-keys/0").cloned();
    if let Some(key) = key {
        schema["x-kubernetes-patch-merge-key"] = key;
        schema["x-kubernetes-patch-strategy"] = "merge".into();
    }
    match schema {
        Value::Object(map) => map.values_mut().for_each(add_merge_keys),
        Value::Array(items) => items.iter_mut().for_each(add_merge_keys),
        _ => {}
    }
}

fn parameter(name: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})
}

fn operation(kind: &Kind, action: &str) -> Value {
    let mut operation = json!({
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind_of(kind),
        "responses": {"200": {"description": "OK", "content": {"application/json": {
            "schema": {"$ref": format!("#/components/schemas/{}", schema_name(kind))},
        }}}},
    });
    if matches!(action, "post" | "put" | "patch") {
        let mut parameters = vec![
            parameter("dryRun"),
            parameter("fieldManager"),
            parameter("fieldValidation"),
        ];
        if action == "patch" {
            parameters.push(json!({"name": "force", "in": "query", "schema": {"type": "boolean"}}));
        }
        operation["parameters"] = parameters.into();
    }
    operation
}

fn add_paths(paths: &mut Map<String, Value>, kind: &Kind) {
    let space = if kind.namespaced {
        "namespaces/{namespace}/"
    } else {
        ""
    };
    let all = format!("/{}/{space}{}", place(kind), kind.resource.plural);
    if kind.nature == Nature::Review {
        paths.insert(all, json!({"post": operation(kind, "post")}));
        return;
    }
    let one = format!("{all}/{{name}}");
    let four = json!({
        "get": operation(kind, "get"), "put": operation(kind, "put"),
        "patch": operation(kind, "patch"), "delete": operation(kind, "delete"),
    });
    if kind.has_status {
        let mut status = four.clone();
        if let Value::Object(map) = &mut status {
            map.remove("delete");
        }
        paths.insert(format!("{one}/status"), status);
    }
    paths.insert(one, four);
    paths.insert(
        all,
        json!({
            "get": operation(kind, "list"), "post": operation(kind, "post"),
            "delete": operation(kind, "deletecollection"),
        }),
    );
}
