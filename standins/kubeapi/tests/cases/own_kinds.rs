//! Our own definitions agree with `planner::admit`: one table of documents, that of the planner's
//! own tests, through its rules and through the API server's schema and CEL.
//!
//! What the server refuses, admission refuses too; what admission accepts, the server accepts. The
//! words that both have are the same.

use std::{fs, path::Path};

use causeway_planner::{
    admit::{ALLOW_SUBNETS_ON_NETWORK, VpcInput, admit_vpc},
    model::VpcKey,
    snapshot::Settings,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Error,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::bench::{Bench, assert_refused, object};

/// A server that serves our definitions.
async fn served() -> Bench {
    let bench = Bench::new().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(bench.client.clone());
    for definition in [causeway_api::crds(), causeway_api::apps_crds()].concat() {
        let name = definition.metadata.name.clone().expect("a name");
        let params = PatchParams::apply("conformance").force();
        let made = definitions
            .patch(&name, &params, &Patch::Apply(&definition))
            .await;
        made.unwrap_or_else(|error| panic!("the server refuses {name}: {error}"));
    }
    let limit = std::time::Duration::from_secs(30);
    for kind in [
        "VirtualPrivateCloud",
        "ProxmoxNetworkZone",
        "ProxmoxNetwork",
    ] {
        let api = api(&bench, kind);
        tokio::time::timeout(limit, async {
            while api.list(&ListParams::default()).await.is_err() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the kinds are served in time");
    }
    bench
}

fn api(bench: &Bench, kind: &str) -> Api<DynamicObject> {
    let group = match kind {
        "VirtualPrivateCloud" => "apps.cozystack.io",
        _ => "proxmox.cozystack.io",
    };
    let resource = ApiResource {
        group: group.into(),
        version: "v1alpha1".into(),
        api_version: format!("{group}/v1alpha1"),
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()),
    };
    match kind {
        "ProxmoxNetworkZone" => Api::all_with(bench.client.clone(), &resource),
        _ => Api::namespaced_with(bench.client.clone(), &bench.namespace, &resource),
    }
}

/// A document of the planner's cases.
struct Document {
    file: String,
    json: Value,
    /// What admission says of it, as its markers have it: `path: message`.
    errors: Vec<String>,
}

fn documents() -> Vec<Document> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/planner/tests/cases-admit");
    let mut found = Vec::new();
    for rule in fs::read_dir(&root).expect("the planner's cases") {
        for file in fs::read_dir(rule.expect("a folder").path()).expect("a folder") {
            let path = file.expect("a file").path();
            let text = fs::read_to_string(&path).expect("text");
            for part in text.split("---\n") {
                let lines = part.lines().map(str::trim_start);
                let errors = lines
                    .filter_map(|line| line.strip_prefix("# error "))
                    .map(str::to_owned)
                    .collect();
                let json: Value = serde_saphyr::from_str(part).expect("YAML");
                if ["VirtualPrivateCloud", "ProxmoxNetworkZone"]
                    .contains(&json["kind"].as_str().unwrap_or_default())
                {
                    found.push(Document {
                        file: path
                            .strip_prefix(&root)
                            .expect("below")
                            .display()
                            .to_string(),
                        json,
                        errors,
                    });
                }
            }
        }
    }
    assert!(found.len() > 100, "{} documents", found.len());
    found
}

/// Whether the server would take the document.
async fn asked(bench: &Bench, document: &Value) -> Result<DynamicObject, Error> {
    let kind = document["kind"].as_str().expect("a kind");
    let mut json = document.clone();
    if kind == "VirtualPrivateCloud" {
        json["metadata"]["namespace"] = bench.namespace.clone().into();
    }
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api(bench, kind).create(&dry, &object(&json)).await
}

#[tokio::test]
async fn what_the_server_refuses_admission_refuses_and_what_admission_accepts_the_server_accepts() {
    let bench = served().await;
    let (mut refused, mut accepted) = (0, 0);
    for document in documents() {
        let answer = asked(&bench, &document.json).await;
        if document.json["kind"] == "VirtualPrivateCloud" {
            // The markers are admission's words: its own tests hold them, but for what other
            // objects decide.
            let spec: Option<VpcInput> = serde_json::from_value(document.json["spec"].clone()).ok();
            let text = |field: &str| {
                document.json["metadata"][field]
                    .as_str()
                    .unwrap_or_default()
            };
            let key = VpcKey::new(text("namespace"), text("name"));
            let said = spec.and_then(|spec| admit_vpc(&key, &spec, &Settings::default()).err());
            for violation in said.unwrap_or_default() {
                let said = violation.to_string();
                assert!(document.errors.contains(&said), "{}: {said}", document.file);
            }
        }
        match answer {
            Ok(_) => accepted += 1,
            Err(error) => {
                refused += 1;
                assert!(
                    !document.errors.is_empty(),
                    "{}: the server alone refuses it: {error}",
                    document.file
                );
            }
        }
    }
    assert!(
        refused > 30 && accepted > 60,
        "{refused} refused, {accepted} accepted"
    );
}

#[tokio::test]
async fn rules_of_the_definitions_speak_the_planners_words() {
    let bench = served().await;
    let mut checked = 0;
    for document in documents() {
        let long_name = document.errors.iter().find(|error| {
            error.starts_with("metadata.name: ") && error.contains("characters; at most")
        });
        let wanted = match document.file.as_str() {
            "allow-subnets-on-network/refused.yaml" => ALLOW_SUBNETS_ON_NETWORK,
            _ => match long_name {
                // Without the figures, which the API server finds too dear.
                Some(error) => &error[error.find("characters;").expect("found just above")..],
                None => continue,
            },
        };
        assert_refused(asked(&bench, &document.json).await, 422, "Invalid", wanted);
        checked += 1;
    }
    assert_eq!(checked, 3);
}

#[tokio::test]
async fn a_network_stays_as_it_was_made_but_for_its_vm_range_and_a_zone_that_it_gets_once() {
    let bench = served().await;
    let networks = api(&bench, "ProxmoxNetwork");
    let network = object(&json!({
        "apiVersion": "proxmox.cozystack.io/v1alpha1", "kind": "ProxmoxNetwork",
        "metadata": {"name": "one"},
        "spec": {
            "vpc": {"name": "main", "id": "vpc-4cf9df"}, "subnet": "workers", "cidr": "172.20.10.0/24",
            "gateway": "172.20.10.1", "vmRange": "172.20.10.64-172.20.10.191", "index": 0,
        },
    }));
    networks
        .create(&PostParams::default(), &network)
        .await
        .expect("the network");
    let change = async |spec: Value| {
        let patch = json!({"spec": spec});
        networks
            .patch("one", &PatchParams::default(), &Patch::Merge(&patch))
            .await
    };
    change(json!({"vmRange": "172.20.10.64-172.20.10.100"}))
        .await
        .expect("the range may change");
    change(json!({"zone": "gold"}))
        .await
        .expect("the zone is resolved");
    for (spec, message) in [
        (
            json!({"zone": "other"}),
            "spec.zone: Invalid value: \"object\": the zone \"gold\" cannot be changed",
        ),
        (
            json!({"zone": null}),
            "spec.zone: Invalid value: \"object\": the zone \"gold\" cannot be changed",
        ),
        (
            json!({"vpc": {"id": "vpc-other"}}),
            "spec.vpc: Invalid value: \"object\": the vpc cannot be changed",
        ),
        (
            json!({"subnet": "data"}),
            "spec.subnet: Invalid value: \"string\": the subnet cannot be changed",
        ),
        (
            json!({"cidr": "172.20.11.0/24"}),
            "spec.cidr: Invalid value: \"string\": the cidr cannot be changed",
        ),
        (
            json!({"gateway": "172.20.10.2"}),
            "spec.gateway: Invalid value: \"string\": the gateway cannot be changed",
        ),
        (
            json!({"index": 1}),
            "spec.index: Invalid value: \"integer\": the index cannot be changed",
        ),
    ] {
        assert_refused(change(spec).await, 422, "Invalid", message);
    }
}
