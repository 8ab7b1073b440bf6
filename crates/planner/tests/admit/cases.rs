//! Every rule of admission on real documents: `cases-admit/<rule>/{refused,accepted}*.yaml`.
//!
//! A file is a world. Markers beneath a line say what is said of it: `# error PATH: MESSAGE`,
//! `# warning …`, `# unchecked …`; `# fine` marks a legal neighbour, and each rule has as many of
//! those as of the others. `# idle …` (a field without effect) is for `causeway check` alone, which
//! runs through the same files and compares the lines as well.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use causeway_planner::{
    admit::{Subject, TransitInput, VlansInput, VpcInput, Weight, ZoneInput, review},
    model::{
        AntiSpoofing, Requirement, Selector, Trunk, TrunkException, VpcKey, ZoneName, objects::keys,
    },
    snapshot::{Meta, Moment, NamespaceState, Seen, Snapshot, Version},
};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Object<S> {
    metadata: Metadata,
    spec: S,
}

#[derive(Deserialize)]
struct Head {
    kind: String,
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ZoneYaml {
    bridge: String,
    wire: Option<String>,
    vlans: VlansInput,
    mtu: Option<u32>,
    trunk: TrunkYaml,
    gateway: Option<GatewayYaml>,
    #[serde(default)]
    anti_spoofing: AntiSpoofing,
    namespace_selector: Option<SelectorYaml>,
    max_networks_per_namespace: Option<u32>,
    transit: Option<TransitInput>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrunkYaml {
    interface: String,
    #[serde(default)]
    interfaces: Vec<TrunkException>,
    #[serde(default)]
    node_selector: SelectorYaml,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GatewayYaml {
    max_chassis: Option<u32>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorYaml {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Requirement>,
}

impl From<SelectorYaml> for Selector {
    fn from(yaml: SelectorYaml) -> Self {
        Self {
            labels: yaml.match_labels,
            expressions: yaml.match_expressions,
        }
    }
}

impl ZoneYaml {
    fn input(self, annotations: &BTreeMap<String, String>) -> ZoneInput {
        ZoneInput {
            bridge: self.bridge,
            wire: self.wire,
            vlans: self.vlans,
            mtu: self.mtu,
            trunk: Trunk {
                interface: self.trunk.interface,
                exceptions: self.trunk.interfaces,
                node_selector: self.trunk.node_selector.into(),
            },
            max_chassis: self.gateway.and_then(|gateway| gateway.max_chassis),
            anti_spoofing: self.anti_spoofing,
            namespace_selector: self.namespace_selector.map(Selector::from),
            max_networks_per_namespace: self.max_networks_per_namespace,
            transit: self.transit,
            separate_fabric: annotations
                .get(keys::SEPARATE_FABRIC)
                .is_some_and(|on| on == "true"),
        }
    }
}

/// A file's objects, and what its markers say of them: (document, line).
struct World {
    snapshot: Snapshot,
    documents: Vec<Option<Subject>>,
    said: Vec<(usize, String)>,
}

fn meta(age: usize, head: &Metadata) -> Meta {
    Meta {
        version: Version {
            uid: head.name.as_str().into(),
            resource_version: String::new(),
        },
        generation: 1,
        created: Moment(i64::try_from(age).expect("few documents")),
        deleting: false,
        held: false,
        labels: head.labels.clone(),
        annotations: head.annotations.clone(),
    }
}

fn read(text: &str) -> World {
    let mut world = World {
        snapshot: Snapshot::default(),
        documents: Vec::new(),
        said: Vec::new(),
    };
    for (index, document) in text.split("---\n").enumerate() {
        for line in document.lines().map(str::trim_start) {
            let marker = line.strip_prefix("# ").unwrap_or_default();
            match marker.split_once(' ').map_or(marker, |(word, _)| word) {
                "error" | "warning" | "unchecked" => world.said.push((index, marker.to_owned())),
                _ => {}
            }
        }
        let subject = add(&mut world.snapshot, index, document);
        world.documents.push(subject);
    }
    world
}

fn add(snapshot: &mut Snapshot, index: usize, document: &str) -> Option<Subject> {
    let document: Value = serde_saphyr::from_str(document).expect("YAML");
    let head: Head = Head::deserialize(&document).expect("an object");
    let observed = meta(index, &head.metadata);
    match head.kind.as_str() {
        "ProxmoxNetworkZone" => {
            let zone = Object::<ZoneYaml>::deserialize(&document).expect("a zone");
            let name = ZoneName::from(zone.metadata.name);
            let spec = zone.spec.input(&zone.metadata.annotations);
            let seen = Seen {
                meta: observed,
                spec,
                status: None,
            };
            assert!(
                snapshot.zones.insert(name.clone(), seen).is_none(),
                "{name} twice"
            );
            Some(Subject::Zone(name))
        }
        "VirtualPrivateCloud" => {
            let vpc = Object::<VpcInput>::deserialize(&document).expect("a VPC");
            let key = VpcKey::new(&vpc.metadata.namespace, &vpc.metadata.name);
            let seen = Seen {
                meta: observed,
                spec: vpc.spec,
                status: None,
            };
            assert!(
                snapshot.vpcs.insert(key.clone(), seen).is_none(),
                "{key} twice"
            );
            Some(Subject::Vpc(key))
        }
        "Namespace" => {
            let labels = head.metadata.labels;
            let name = head.metadata.name.as_str().into();
            snapshot.namespaces.insert(name, NamespaceState { labels });
            None
        }
        other => panic!("unexpected kind {other}"),
    }
}

fn remarks(case: &World, unchecked: bool) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = review(&case.snapshot)
        .into_iter()
        .filter(|remark| unchecked || remark.weight != Weight::Unchecked)
        .map(|remark| {
            let subject = Some(remark.subject);
            let document = case.documents.iter().position(|one| *one == subject);
            (
                document.expect("a subject of the file"),
                format!("{} {}", remark.weight, remark.violation),
            )
        })
        .collect();
    found.sort();
    found
}

fn rules() -> Vec<PathBuf> {
    sorted(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases-admit"))
}

fn sorted(folder: PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of cases");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

/// Lines with a marker of these words beneath.
fn marked(text: &str, words: &[&str]) -> usize {
    let word = |line: &str| {
        let marker = line.trim_start().strip_prefix("# ")?;
        let word = marker.split_once(' ').map_or(marker, |(word, _)| word);
        ["error", "warning", "unchecked", "idle", "fine"]
            .contains(&word)
            .then(|| word.to_owned())
    };
    let lines: Vec<Option<String>> = text.lines().map(word).collect();
    lines
        .split(Option::is_none)
        .filter(|group| {
            let mut found = group.iter().flatten();
            found.any(|word| words.contains(&word.as_str()))
        })
        .count()
}

#[test]
fn every_rule_refuses_what_it_should_and_accepts_as_many_neighbours() {
    let mut failures = Vec::new();
    for rule in rules() {
        let (mut refused, mut fine) = (0, 0);
        let words: &[&str] = if rule.ends_with("without-effect") {
            &["idle"]
        } else {
            &["error", "warning", "unchecked"]
        };
        for file in sorted(rule.clone()) {
            let text = fs::read_to_string(&file).expect("a case");
            let mut world = read(&text);
            world.said.sort();
            let unchecked = world
                .said
                .iter()
                .any(|(_, said)| said.starts_with("unchecked"));
            let found = remarks(&world, unchecked);
            for extra in found.iter().filter(|one| !world.said.contains(one)) {
                failures.push(format!("{}: unexpected: {extra:?}", file.display()));
            }
            for missing in world.said.iter().filter(|one| !found.contains(one)) {
                failures.push(format!("{}: not said: {missing:?}", file.display()));
            }
            if file
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("refused"))
            {
                refused += marked(&text, words);
            } else {
                fine += marked(&text, &["fine"]);
            }
        }
        if refused != fine || fine == 0 {
            failures.push(format!(
                "{}: {refused} refused, {fine} fine",
                rule.display()
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
