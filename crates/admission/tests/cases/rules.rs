//! Every rule of admission (crates/planner/tests/cases-admit) through the API: what breaks one is refused with
//! the words that `causeway check` has for it, its legal neighbours are accepted.
//!
//! A file is a world, written in the order of creation. Markers are those of
//! `crates/planner/tests/admit/cases.rs`. What the schema refuses before the webhook is asked is put to
//! the webhook itself: where the platform serves the kind, there is no schema of ours.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use causeway_admission::configuration::RULES;
use causeway_planner::model::VpcKey;
use serde_json::{Value, json};

use super::{
    bench::{Bench, Written, vpc, zone},
    reviews::{door, post, review},
};
use kube::Client;

struct Document {
    object: Value,
    refused: BTreeSet<String>,
    warnings: Vec<String>,
}

fn documents(text: &str) -> Vec<Document> {
    let document = |text: &str| {
        let mut document = Document {
            object: serde_saphyr::from_str(text).expect("YAML"),
            refused: BTreeSet::new(),
            warnings: Vec::new(),
        };
        for line in text.lines().map(str::trim_start) {
            let marker = line.strip_prefix("# ").unwrap_or_default();
            match marker.split_once(' ') {
                Some(("error" | "unchecked", said)) => {
                    document.refused.insert(said.to_owned());
                }
                Some(("warning", said)) => document.warnings.push(said.to_owned()),
                _ => {}
            }
        }
        document
    };
    let mut all: Vec<Document> = text.split("---\n").map(document).collect();
    // Stable: within a kind the order is that of creation.
    all.sort_by_key(|one| match one.object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("ProxmoxNetworkZone") => 1,
        _ => 2,
    });
    all
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of cases");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

/// What became of documents, by rule.
#[derive(Default)]
struct Count {
    by_webhook: usize,
    by_schema: usize,
    /// Accepted only because what it collides with was refused before it.
    alone: usize,
    /// Legal, but over addresses of the real cluster's Services.
    by_site: usize,
    accepted: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_refuses_in_its_own_words_and_accepts_its_legal_neighbours() {
    let bench = Bench::new().await;
    let door = door(&bench).await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../planner/tests/cases-admit");
    let mut failures = Vec::new();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for rule in sorted(&folder) {
        let name = rule.file_name().expect("a name").display().to_string();
        let count = counts.entry(name.clone()).or_default();
        for file in sorted(&rule) {
            let text = fs::read_to_string(&file).expect("a case");
            let place = format!("{name}/{}", file.file_name().expect("a name").display());
            play((&bench, &door), &place, &text, count, &mut failures).await;
            bench.clear().await;
        }
    }
    let mut total = Count::default();
    for (rule, count) in &counts {
        println!(
            "{rule}: {} refused by the webhook, {} by the schema, {} only beside others; {} accepted",
            count.by_webhook, count.by_schema, count.alone, count.accepted
        );
        total.by_webhook += count.by_webhook;
        total.by_schema += count.by_schema;
        total.alone += count.alone;
        total.by_site += count.by_site;
        total.accepted += count.accepted;
        let idle = rule == "without-effect" || rule.starts_with("warned-");
        if !idle && count.by_webhook + count.by_schema == 0 {
            failures.push(format!("{rule}: nothing is refused"));
        }
    }
    println!(
        "in all {} documents refused by the webhook, {} by the schema, {} only beside others, {} for the \
         cluster's own addresses; {} accepted",
        total.by_webhook, total.by_schema, total.alone, total.by_site, total.accepted
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Writes a file's world, document by document.
async fn play(
    (bench, door): (&Bench, &Client),
    place: &str,
    text: &str,
    count: &mut Count,
    failures: &mut Vec<String>,
) {
    let documents = documents(text);
    let impossible = prepare(bench, &documents, text).await;
    let mut refused_before = false;
    for (index, document) in documents.iter().enumerate() {
        if document.object["kind"] == "Namespace" {
            continue;
        }
        let at = format!("{place}, document {}", index + 1);
        let namespace = document.object["metadata"]["namespace"].as_str();
        if namespace.is_some_and(|namespace| impossible.contains(namespace)) {
            ask_webhook(door, document, &at, failures).await;
            count.by_schema += 1;
            continue;
        }
        let answer = bench.create(&document.object).await;
        if answer.code == 201 {
            until_seen(bench, &document.object).await;
            if document.refused.is_empty() {
                count.accepted += 1;
                if answer.warnings != document.warnings {
                    failures.push(format!("{at}: warnings {:?}", answer.warnings));
                }
            } else if refused_before {
                count.alone += 1;
            } else {
                failures.push(format!("{at}: accepted, but {:?}", document.refused));
            }
            continue;
        }
        refused_before = true;
        match refusal(&answer) {
            Refusal::Rules(said) if document.refused.is_empty() && bench.is_of_the_site(&said) => {
                count.by_site += 1;
            }
            _ if document.refused.is_empty() => failures.push(format!("{at}: {answer:?}")),
            Refusal::Rules(said) if said == document.refused => count.by_webhook += 1,
            Refusal::Schema => {
                ask_webhook(door, document, &at, failures).await;
                count.by_schema += 1;
            }
            _ => failures.push(format!("{at}: {answer:?}, not {:?}", document.refused)),
        }
    }
}

/// What no API server with our schema would ask.
async fn ask_webhook(door: &Client, document: &Document, at: &str, failures: &mut Vec<String>) {
    let body = review("CREATE", &document.object, &Value::Null).to_string();
    let answer = post(door, body.into_bytes()).await;
    let message = answer.body["response"]["status"]["message"].as_str();
    let said = lines(message.unwrap_or_default());
    if said != document.refused {
        let wanted = &document.refused;
        failures.push(format!("{at}, asked directly: {answer:?}, not {wanted:?}"));
    }
}

/// The lines of a refusal, without what is about the zone that [`prepare`] has added.
fn lines(message: &str) -> BTreeSet<String> {
    let lines = message.lines();
    lines
        .filter(|line| !line.ends_with("does not exist; there are: added"))
        .map(str::to_owned)
        .collect()
}

/// The namespaces of a world, and a zone where it has none and is not about that. Returns names that
/// no namespace can have.
async fn prepare(bench: &Bench, documents: &[Document], text: &str) -> BTreeSet<String> {
    let mut impossible = BTreeSet::new();
    let mut namespaces: BTreeMap<String, Value> = BTreeMap::new();
    for document in documents {
        let metadata = &document.object["metadata"];
        if document.object["kind"] == "Namespace" {
            let name = metadata["name"].as_str().expect("a name");
            let labels = metadata.get("labels").cloned();
            namespaces.insert(name.to_owned(), labels.unwrap_or_else(|| json!({})));
        } else if let Some(namespace) = metadata["namespace"].as_str() {
            let none = || json!({});
            namespaces.entry(namespace.to_owned()).or_insert_with(none);
        }
    }
    for (name, labels) in &namespaces {
        let made = bench.try_namespace(name, labels).await;
        if made.code == 422 {
            impossible.insert(name.clone());
            continue;
        }
        assert!(made.code < 300, "{made:?}");
        let wanted = labels.as_object().cloned().unwrap_or_default();
        bench
            .until("the namespace's labels are seen", |snapshot| {
                let seen = snapshot.namespaces.get(&name.as_str().into());
                seen.is_some_and(|seen| {
                    // The API server adds the name.
                    let mut own = seen.labels.clone();
                    own.remove("kubernetes.io/metadata.name");
                    own.len() == wanted.len()
                        && own.iter().all(|(key, value)| {
                            wanted.get(key).and_then(Value::as_str) == Some(value)
                        })
                })
            })
            .await;
    }
    let has_zone = documents
        .iter()
        .any(|one| one.object["kind"] == "ProxmoxNetworkZone");
    if !has_zone && !text.contains("# unchecked") {
        let made = zone("added", "vmbr9", "added");
        let answer = bench.create(&made).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        until_seen(bench, &made).await;
    }
    impossible
}

async fn until_seen(bench: &Bench, object: &Value) {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let namespace = object["metadata"]["namespace"].as_str();
    bench
        .until("what was created is seen", |snapshot| match namespace {
            None => snapshot.zones.contains_key(&name.into()),
            Some(namespace) => snapshot.vpcs.contains_key(&VpcKey::new(namespace, name)),
        })
        .await;
}

enum Refusal {
    /// The webhook's, line by line.
    Rules(BTreeSet<String>),
    /// The schema's or CEL's, before the webhook was asked.
    Schema,
    Other,
}

fn refusal(answer: &Written) -> Refusal {
    let denied = format!("admission webhook \"{RULES}\" denied the request: ");
    match answer.message().strip_prefix(&denied) {
        Some(said) if answer.code == 403 => Refusal::Rules(lines(said)),
        None if matches!(answer.code, 400 | 422) => Refusal::Schema,
        _ => Refusal::Other,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_each_field_in_lines_and_in_causes_and_a_dry_run_is_answered_alike() {
    let bench = Bench::new().await;
    bench.namespace("tenant-a", &json!({})).await;
    let broken = vpc(
        "tenant-a",
        "main",
        json!({
            "subnets": [
                {"name": "a", "cidr": "10.1.0.0/24"},
                {"name": "b", "cidr": "10.1.0.0/25"},
            ],
            "peers": [{"tenantNamespace": "tenant-a", "vpcName": "main"}],
        }),
    );
    let refused = bench.create(&broken).await;
    assert_eq!(
        (refused.code, refused.body["reason"].as_str()),
        (403, Some("Forbidden"))
    );
    let denied = format!("admission webhook \"{RULES}\" denied the request: ");
    let said = refused
        .message()
        .strip_prefix(&denied)
        .expect("the webhook's");
    let causes = refused.body["details"]["causes"]
        .as_array()
        .expect("causes");
    let told: Vec<String> = causes
        .iter()
        .map(|cause| {
            let text = |field: &str| cause[field].as_str().expect("text");
            format!("{}: {}", text("field"), text("message"))
        })
        .collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), told);
    assert_eq!(told.len(), 2, "{told:?}");
    let dry = bench.try_create(&bench.client, &broken).await;
    assert_eq!(dry.message(), refused.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_asked_about_and_one_of_labels_alone_is_let_through() {
    let bench = Bench::new().await;
    bench.namespace("tenant-a", &json!({})).await;
    let made = bench.create(&zone("gold", "vmbr1", "default")).await;
    assert_eq!(made.code, 201, "{made:?}");
    let subnets = json!([{"name": "workers", "cidr": "10.1.0.0/24", "proxmox": {}}]);
    let main = vpc("tenant-a", "main", json!({"subnets": subnets}));
    let made = bench.create(&main).await;
    assert_eq!(made.code, 201, "written at once after its zone: {made:?}");

    let path = format!("{}/main", super::bench::path_of_vpcs("tenant-a"));
    let second = json!([subnets[0], {"name": "more", "cidr": "10.1.0.128/25"}]);
    let change = json!({"spec": {"subnets": second}});
    let refused = bench.merge(&bench.client, &path, &change).await;
    assert_eq!(refused.code, 403, "{refused:?}");

    // The zone goes; what names it stays, and may be labelled and deleted.
    let zones = format!("{}/gold", super::bench::path_of_zones());
    let gone = bench.delete(&bench.client, &zones).await;
    assert_eq!(gone.code, 200, "{gone:?}");
    let change = json!({"metadata": {"labels": {"team": "a"}}});
    let labelled = bench.merge(&bench.client, &path, &change).await;
    assert_eq!(labelled.code, 200, "{labelled:?}");
    let gone = bench.delete(&bench.client, &path).await;
    assert_eq!(gone.code, 200, "{gone:?}");
}
