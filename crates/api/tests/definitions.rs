//! The definitions that the types generate, and the files that ship them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what these tests share may fail them"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
    sync::LazyLock,
};

use causeway_api::{apps_crds, crds, crds::files, foreign_crds};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

static ALL: LazyLock<Vec<CustomResourceDefinition>> =
    LazyLock::new(|| [crds(), apps_crds(), foreign_crds()].concat());

fn definition(kind: &str) -> CustomResourceDefinition {
    ALL.iter()
        .find(|crd| crd.spec.names.kind == kind)
        .cloned()
        .unwrap_or_else(|| panic!("no definition of {kind}"))
}

fn version(kind: &str) -> Value {
    serde_json::to_value(&definition(kind).spec.versions[0]).unwrap()
}

/// The schema of a field; `[]` in the path steps into a list's items.
fn field(kind: &str, path: &str) -> Value {
    let version = version(kind);
    let mut schema = &version["schema"]["openAPIV3Schema"];
    for step in path.split('.') {
        schema = match step {
            "[]" => &schema["items"],
            name => &schema["properties"][name],
        };
        assert!(schema.is_object(), "{kind} has no field {path}");
    }
    schema.clone()
}

/// Every schema in a definition, with its path.
fn schemas(kind: &str) -> Vec<(String, Value)> {
    fn walk(path: String, schema: &Value, found: &mut Vec<(String, Value)>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(format!("{path}.{name}"), property, found);
        }
        if schema["items"].is_object() {
            walk(format!("{path}.[]"), &schema["items"], found);
        }
        found.push((path, schema.clone()));
    }
    let mut found = Vec::new();
    walk(
        kind.to_owned(),
        &version(kind)["schema"]["openAPIV3Schema"],
        &mut found,
    );
    found
}

/// Each column as name, path and whether it is printed in wide output only.
fn columns(kind: &str) -> Vec<(String, String, bool)> {
    let version = definition(kind).spec.versions[0].clone();
    let columns = version.additional_printer_columns.into_iter().flatten();
    columns
        .map(|column| {
            let wide = column.priority.is_some_and(|priority| priority > 0);
            (column.name, column.json_path, wide)
        })
        .collect()
}

fn headers(kind: &str, wide: bool) -> Vec<String> {
    let shown = columns(kind).into_iter().filter(|c| wide || !c.2);
    std::iter::once("NAME".to_owned())
        .chain(shown.map(|(name, ..)| name.to_uppercase()))
        .collect()
}

const OURS: [&str; 3] = [
    "ProxmoxNetworkZone",
    "ProxmoxNetwork",
    "VirtualPrivateCloud",
];

#[test]
fn the_files_in_deploy_are_what_the_types_generate_and_no_others() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let generated: BTreeMap<String, String> = files()
        .unwrap()
        .into_iter()
        .map(|file| (file.path, file.contents))
        .collect();
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(folder.join("apps")).unwrap();
        for (path, contents) in &generated {
            fs::write(folder.join(path), contents).unwrap();
        }
    }
    let mut present = BTreeMap::new();
    for below in ["", "apps/"] {
        for entry in fs::read_dir(folder.join(below)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.path().extension().is_some_and(|end| end == "yaml") {
                let contents = fs::read_to_string(entry.path()).unwrap();
                present.insert(format!("{below}{name}"), contents);
            }
        }
    }
    let differ: BTreeSet<&String> = present
        .keys()
        .chain(generated.keys())
        .filter(|path| present.get(*path) != generated.get(*path))
        .collect();
    assert!(
        differ.is_empty(),
        "deploy/crds: {differ:?} differ from the types; UPDATE=1 cargo test -p causeway-api --test \
         definitions writes them anew, as does cargo run -p causeway-cli -- crd"
    );
}

#[test]
fn a_file_says_how_it_is_made_and_reads_back_as_its_definition() {
    let definitions = [crds(), apps_crds()].concat();
    for (file, crd) in files().unwrap().iter().zip(definitions) {
        let first = file.contents.lines().next().unwrap();
        assert!(
            first.contains("cargo run -p causeway-cli -- crd"),
            "{first}"
        );
        let read: CustomResourceDefinition = serde_saphyr::from_str(&file.contents).unwrap();
        assert_eq!(read, crd, "{}", file.path);
    }
}

#[test]
fn words_that_older_yaml_readers_take_for_booleans_are_quoted() {
    let zones = causeway_api::to_yaml(&definition("ProxmoxNetworkZone")).unwrap();
    let off = zones.lines().find(|line| {
        let word = line.trim_start().trim_start_matches("- ");
        word.trim_matches(['"', '\'']) == "Off"
    });
    assert!(
        off.is_some_and(|line| line.contains(['"', '\''])),
        "{off:?}"
    );
}

#[test]
fn the_tables_have_the_columns_of_the_source_document() {
    assert_eq!(
        headers("ProxmoxNetwork", true).join(" "),
        "NAME ZONE VLAN BRIDGE CIDR USED FREE READY REASON"
    );
    assert_eq!(
        headers("ProxmoxNetwork", false).join(" "),
        "NAME ZONE VLAN BRIDGE CIDR USED FREE READY"
    );
    assert_eq!(
        headers("ProxmoxNetworkZone", true).join(" "),
        "NAME BRIDGE VLANS NETWORKS TRUNK READY REASON AGE"
    );
    assert_eq!(
        headers("ProxmoxNetworkZone", false).join(" "),
        "NAME BRIDGE VLANS NETWORKS TRUNK READY"
    );
    assert_eq!(
        headers("VirtualPrivateCloud", true).join(" "),
        "NAME ROUTER EGRESS READY REASON AGE"
    );
}

#[test]
fn every_column_shows_a_field_that_exists() {
    for kind in OURS {
        for (name, path, _) in columns(kind) {
            if path == ".metadata.creationTimestamp" {
                continue;
            }
            let path = path.trim_start_matches('.');
            let path = path.replace(r#"[?(@.type=="Ready")]"#, ".[]");
            assert!(field(kind, &path)["type"].is_string(), "{kind} {name}");
        }
    }
}

#[test]
fn scopes_and_short_names_are_those_of_the_design() {
    let named = |kind| {
        let spec = definition(kind).spec;
        let short = spec.names.short_names.unwrap_or_default();
        (spec.scope, short.join(","), spec.names.plural)
    };
    let named_as = |scope: &str, short: &str, plural: &str| {
        (scope.to_owned(), short.to_owned(), plural.to_owned())
    };
    assert_eq!(
        named("ProxmoxNetworkZone"),
        named_as("Cluster", "pvezone", "proxmoxnetworkzones")
    );
    assert_eq!(
        named("ProxmoxNetwork"),
        named_as("Namespaced", "pvenet", "proxmoxnetworks")
    );
    assert_eq!(
        named("VirtualPrivateCloud"),
        named_as("Namespaced", "", "virtualprivateclouds")
    );
}

#[test]
fn every_kind_of_ours_has_status_as_a_subresource_with_conditions_keyed_by_type() {
    for kind in OURS {
        assert_eq!(
            version(kind)["subresources"],
            json!({"status": {}}),
            "{kind}"
        );
        assert_eq!(field(kind, "status.observedGeneration")["format"], "int64");
        let conditions = field(kind, "status.conditions");
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    }
}

#[test]
fn every_field_of_ours_is_described() {
    for kind in OURS {
        for (path, schema) in schemas(kind) {
            let is_item = path.ends_with(".[]");
            let is_root_status = path.ends_with(&format!("{kind}.status"));
            let described = schema["description"].as_str().is_some_and(|d| d.len() > 8);
            assert!(is_item || is_root_status || described, "{path}");
            let broken = schema["description"]
                .as_str()
                .is_some_and(|d| d.contains('\n'));
            assert!(!broken, "{path} is described with line breaks");
        }
    }
}

#[test]
fn lists_are_bounded_and_say_how_they_merge() {
    for kind in OURS {
        for (path, schema) in schemas(kind) {
            let selector = path.contains("elector.matchExpressions");
            if schema["type"] == "array" {
                assert!(schema["x-kubernetes-list-type"].is_string(), "{path}");
                assert!(selector || schema["maxItems"].is_u64(), "{path}");
            }
        }
    }
    let bounds = [
        ("VirtualPrivateCloud", "spec.subnets", 64, json!(["name"])),
        (
            "VirtualPrivateCloud",
            "spec.peers",
            32,
            json!(["tenantNamespace", "vpcName"]),
        ),
        ("VirtualPrivateCloud", "spec.routes", 128, json!(["cidr"])),
        (
            "VirtualPrivateCloud",
            "spec.subnets.[].allowSubnets",
            64,
            Value::Null,
        ),
        ("VirtualPrivateCloud", "status.subnets", 64, json!(["name"])),
        ("ProxmoxNetworkZone", "spec.vlans.ranges", 64, Value::Null),
        ("ProxmoxNetworkZone", "spec.vlans.reserved", 64, Value::Null),
        (
            "ProxmoxNetworkZone",
            "spec.trunk.interfaces",
            256,
            json!(["interface"]),
        ),
        (
            "ProxmoxNetworkZone",
            "status.trunkNodes.notReady",
            50,
            Value::Null,
        ),
    ];
    for (kind, path, most, keys) in bounds {
        let list = field(kind, path);
        let merges = if keys.is_null() { "set" } else { "map" };
        assert_eq!(list["maxItems"], most, "{kind} {path}");
        assert_eq!(list["x-kubernetes-list-type"], merges, "{kind} {path}");
        assert_eq!(list["x-kubernetes-list-map-keys"], keys, "{kind} {path}");
    }
}

#[test]
fn strings_that_people_write_are_bounded() {
    let bounds = [
        ("VirtualPrivateCloud", "spec.subnets.[].name", 40),
        ("VirtualPrivateCloud", "spec.subnets.[].cidr", 18),
        ("VirtualPrivateCloud", "spec.subnets.[].allowSubnets.[]", 18),
        ("VirtualPrivateCloud", "spec.subnets.[].proxmox.zone", 63),
        ("VirtualPrivateCloud", "spec.subnets.[].proxmox.vmRange", 31),
        ("VirtualPrivateCloud", "spec.routes.[].cidr", 18),
        ("ProxmoxNetworkZone", "spec.wire", 40),
        ("ProxmoxNetworkZone", "spec.vlans.ranges.[]", 9),
        ("ProxmoxNetworkZone", "spec.vlans.reserved.[]", 9),
        ("ProxmoxNetworkZone", "spec.trunk.interface", 15),
        (
            "ProxmoxNetworkZone",
            "spec.trunk.interfaces.[].interface",
            15,
        ),
        ("ProxmoxNetwork", "spec.zone", 63),
    ];
    for (kind, path, longest) in bounds {
        assert_eq!(field(kind, path)["maxLength"], longest, "{kind} {path}");
    }
    for kind in OURS {
        for (path, schema) in schemas(kind) {
            let free = schema["enum"].is_array()
                || schema["format"].is_string()
                || path.contains("elector.matchExpressions");
            if schema["type"] == "string" && path.contains(".spec.") {
                assert!(free || schema["maxLength"].is_u64(), "{path}");
            }
        }
    }
    assert_eq!(
        field("ProxmoxNetworkZone", "spec.bridge")["pattern"],
        "^[A-Za-z][A-Za-z0-9_]{0,9}$"
    );
}

#[test]
fn a_name_that_becomes_a_label_value_is_short_enough() {
    let rule =
        &version("VirtualPrivateCloud")["schema"]["openAPIV3Schema"]["x-kubernetes-validations"];
    assert_eq!(rule[0]["rule"], "self.metadata.name.size() <= 43");
    let longest = format!("virtualprivatecloud-{}", "n".repeat(43));
    assert_eq!(longest.len(), 63);
}

#[test]
fn a_zone_has_the_defaults_and_limits_of_the_design() {
    let zone = |path| field("ProxmoxNetworkZone", path);
    assert_eq!(zone("spec.wire")["default"], "default");
    assert_eq!(zone("spec.mtu")["default"], 1500);
    assert_eq!(zone("spec.gateway")["default"], json!({"maxChassis": 3}));
    assert_eq!(zone("spec.gateway.maxChassis")["default"], 3);
    assert_eq!(zone("spec.antiSpoofing")["default"], "Gateway");
    assert_eq!(
        zone("spec.antiSpoofing")["enum"],
        json!(["Off", "Gateway", "Addresses"])
    );
    assert_eq!(zone("spec.maxNetworksPerNamespace")["default"], 0);
    let limits = |path| {
        let schema = zone(path);
        (schema["minimum"].as_f64(), schema["maximum"].as_f64())
    };
    assert_eq!(limits("spec.mtu"), (Some(1280.0), Some(9216.0)));
    assert_eq!(limits("spec.gateway.maxChassis"), (Some(1.0), Some(5.0)));
    assert_eq!(limits("spec.transit.vlan"), (Some(2.0), Some(4094.0)));
    assert_eq!(
        zone("spec")["required"],
        json!(["bridge", "trunk", "vlans"])
    );
    assert_eq!(zone("spec.trunk")["required"], json!(["interface"]));
}

#[test]
fn a_status_is_never_filled_with_values_that_nobody_observed() {
    for kind in OURS {
        for (path, schema) in schemas(kind) {
            let in_status = path.contains(".status");
            assert!(!in_status || schema["default"].is_null(), "{path}");
        }
    }
}

#[test]
fn schemas_are_structural_without_nulls_and_unknown_formats() {
    for kind in ALL.iter().map(|crd| crd.spec.names.kind.as_str()) {
        for (path, schema) in schemas(kind) {
            assert!(schema["type"].is_string(), "{path} has no type");
            assert!(schema["nullable"].is_null(), "{path} is nullable");
            for combination in ["anyOf", "oneOf", "allOf", "not"] {
                assert!(schema[combination].is_null(), "{path} has {combination}");
            }
            if let Some(format) = schema["format"].as_str() {
                assert!(
                    ["int32", "int64", "date-time"].contains(&format),
                    "{path}: {format}"
                );
            }
        }
    }
}

#[test]
fn foreign_definitions_keep_the_fields_that_the_thin_types_leave_out() {
    for crd in foreign_crds() {
        let kind = &crd.spec.names.kind;
        for part in ["spec", "status"] {
            let has_status =
                !["IP", "IPAddress", "NetworkAttachmentDefinition"].contains(&kind.as_str());
            if part == "spec" || has_status {
                let schema = field(kind, part);
                assert_eq!(
                    schema["x-kubernetes-preserve-unknown-fields"], true,
                    "{kind}"
                );
            }
        }
    }
    let acl = field("Subnet", "spec.acls.[]");
    assert_eq!(acl["x-kubernetes-preserve-unknown-fields"], true);
}

#[test]
fn foreign_definitions_require_what_the_real_ones_require() {
    let required = |kind, path| field(kind, path)["required"].clone();
    assert_eq!(
        required("ProviderNetwork", "spec"),
        json!(["defaultInterface"])
    );
    assert_eq!(required("Vlan", "spec"), json!(["provider"]));
    assert_eq!(required("Vpc", "spec"), Value::Null);
    assert_eq!(required("Subnet", "spec"), Value::Null);
    assert_eq!(required("IP", "spec"), Value::Null);
    assert_eq!(required("NetworkAttachmentDefinition", "spec"), Value::Null);
    assert_eq!(
        required("InClusterIPPool", "spec"),
        json!(["addresses", "prefix"])
    );
    assert_eq!(
        required("InClusterIPPool", "status.ipAddresses"),
        json!(["free", "outOfRange", "total", "used"])
    );
    assert_eq!(required("IPAddressClaim", "spec"), json!(["poolRef"]));
    assert_eq!(
        required("IPAddress", "spec"),
        json!(["address", "claimRef", "poolRef", "prefix"])
    );
    let expressions = field("ProviderNetwork", "spec.nodeSelector.matchExpressions");
    assert_eq!(expressions["x-kubernetes-list-map-keys"], json!(["key"]));
    assert_eq!(field("Subnet", "status.v4usingIPs")["type"], "number");
}

#[test]
fn only_the_foreign_kinds_that_have_a_status_subresource_get_one() {
    let with_status: Vec<String> = foreign_crds()
        .into_iter()
        .filter(|crd| crd.spec.versions[0].subresources.is_some())
        .map(|crd| crd.spec.names.plural)
        .collect();
    let expected = [
        "provider-networks",
        "vlans",
        "vpcs",
        "subnets",
        "inclusterippools",
        "ipaddressclaims",
    ];
    assert_eq!(with_status, expected);
}
