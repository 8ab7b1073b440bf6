//! The thin types of foreign kinds against the definitions that the foreign systems ship, field by
//! field. Those files are not part of this repository: where the folder beside it has none, there is
//! nothing to compare, and the test says so.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what these tests share may fail them"
)]

use std::{collections::BTreeMap, fs, path::Path};

use causeway_api::foreign_crds;
use serde_json::{Map, Value};

/// The shipped definitions, beside the repository.
const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/crds");

/// What a thin type leaves to the foreign system, or adds for a server that knows only it. `max` and
/// `min` are no keywords of a schema: Kube-OVN's file has them, and a server drops them.
const NOT_COMPARED: &[&str] = &[
    "description",
    "title",
    "max",
    "min",
    "properties",
    "items",
    "required",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// The shipped definitions by name.
fn shipped(folder: &Path) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for document in documents {
            if let Some(name) = document["metadata"]["name"].as_str() {
                found.insert(name.to_owned(), document);
            }
        }
    }
    found
}

fn version<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    versions.iter().find(|version| version["name"] == name)
}

fn rest(schema: &Value) -> Map<String, Value> {
    let mut rest = schema.as_object().cloned().unwrap_or_default();
    rest.retain(|key, _| !NOT_COMPARED.contains(&key.as_str()));
    // A bound is the same whether it is written 4095 or 4095.0.
    for value in rest.values_mut() {
        if let Some(number) = value.as_f64() {
            *value = number.into();
        }
    }
    rest
}

/// Whether the field is required, for the fields that the thin type states.
fn required(schema: &Value, field: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|name| name == field))
}

fn compare(path: &str, thin: &Value, real: &Value, differences: &mut Vec<String>) {
    if real.is_null() {
        differences.push(format!("{path}: the real one has no such field"));
        return;
    }
    let (left, right) = (rest(thin), rest(real));
    if left != right {
        let (left, right) = (Value::from(left), Value::from(right));
        differences.push(format!("{path}: {left} here, {right} there"));
    }
    if thin["items"].is_object() {
        compare(
            &format!("{path}[]"),
            &thin["items"],
            &real["items"],
            differences,
        );
    }
    for (field, schema) in thin["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{field}");
        if required(thin, field) != required(real, field) {
            differences.push(format!("{path}: required in one only"));
        }
        compare(&path, schema, &real["properties"][field], differences);
    }
}

#[test]
fn every_field_of_a_thin_type_is_that_of_the_real_definition() {
    let folder = Path::new(SHIPPED);
    if !folder.is_dir() {
        println!("left out: there are no shipped definitions beside the repository");
        return;
    }
    let shipped = shipped(folder);
    let mut differences = Vec::new();
    for thin in foreign_crds() {
        let thin = serde_json::to_value(&thin).unwrap();
        let name = thin["metadata"]["name"].as_str().unwrap();
        let Some(real) = shipped.get(name) else {
            differences.push(format!("{name} is not shipped"));
            continue;
        };
        for field in ["group", "scope", "names"] {
            let (thin, real) = (&thin["spec"][field], &real["spec"][field]);
            let same = thin.as_object().map_or(thin == real, |names| {
                names.iter().all(|(key, value)| real[key] == *value)
            });
            if !same {
                differences.push(format!("{name}: {field} {thin} here, {real} there"));
            }
        }
        for thin in thin["spec"]["versions"].as_array().unwrap() {
            let number = thin["name"].as_str().unwrap();
            let Some(real) = version(real, number) else {
                differences.push(format!("{name} has no version {number}"));
                continue;
            };
            if thin["subresources"]["status"].is_object()
                != real["subresources"]["status"].is_object()
            {
                differences.push(format!("{name}: status is a subresource in one only"));
            }
            let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
            compare(name, &schema(thin), &schema(real), &mut differences);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
