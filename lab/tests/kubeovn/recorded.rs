//! The plain recorded site, made again: the same objects, compared object by object and row by row.
//!
//! How it compares is what `full` and `links` use for their recordings.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::{
    keys::POD_NETWORKS,
    kubeovn::{IP, ProviderNetwork, Subnet, Vlan, Vpc},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::bench::{Bench, Object};

macro_rules! data {
    ($name:literal) => {
        include_str!(concat!("data/", $name))
    };
}

pub fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("recorded objects are YAML")
}

/// What somebody wrote to have the recorded object.
pub fn asked(text: &str) -> Value {
    let object = yaml(text);
    json!({"metadata": {"name": object["metadata"]["name"]}, "spec": object["spec"]})
}

/// The recorded objects of a list, with their names.
fn items(list: &str, compared: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
    let list = yaml(list);
    let items = list["items"].as_array().expect("a list");
    let named = items.iter().map(|item| {
        let name = item["metadata"]["name"].as_str().expect("has a name");
        (name.to_owned(), item.clone())
    });
    named.filter(|(name, _)| compared(name)).collect()
}

/// Makes the recorded pods on their nodes, with the annotations that are no answers of Kube-OVN's,
/// and waits until they run.
pub async fn run_pods(bench: &Bench, list: &str, compared: impl Fn(&str) -> bool) {
    for (name, recorded) in items(list, compared) {
        let said = &recorded["metadata"]["annotations"];
        let mut annotations = json!({});
        let (networks, switch) = (POD_NETWORKS, "ovn.kubernetes.io/logical_switch");
        if said[networks].is_string() {
            annotations[networks] = said[networks].clone();
        }
        if said[switch] != "ovn-default" {
            annotations[switch] = said[switch].clone();
        }
        let node = recorded["spec"]["nodeName"].as_str().expect("has a node");
        bench.pod(&name, node, annotations).await;
        bench.running(&name).await;
    }
}

/// Waits until both nodes with the label carry the trunk.
pub async fn both_nodes_carry(bench: &Bench) {
    let both = |it: &ProviderNetwork| {
        let status = it.status.as_ref();
        let nodes = status.and_then(|it| it.ready_nodes.as_ref());
        nodes.map(Vec::len) == Some(2)
    };
    bench.when::<ProviderNetwork>("pve-default", both).await;
}

/// The recorded site with everything in it.
pub async fn site() -> Bench {
    let bench = Bench::start().await;
    let network = asked(data!("provider-network-pve-default.yaml"));
    bench.create::<ProviderNetwork>(&network).await;
    bench
        .create::<Vlan>(&asked(data!("vlan-pve-default-214.yaml")))
        .await;
    bench
        .create::<Vpc>(&asked(data!("vpc-vpc-1a2b3c.yaml")))
        .await;
    bench.attachment("subnet-1a2b3c4d").await;
    for text in [
        data!("subnet-subnet-1a2b3c4d.yaml"),
        data!("subnet-subnet-overlay1.yaml"),
    ] {
        let subnet = asked(text);
        bench.create::<Subnet>(&subnet).await;
        bench
            .ready::<Subnet>(subnet["metadata"]["name"].as_str().expect("has a name"))
            .await;
    }
    run_pods(&bench, data!("pods.yaml"), |_| true).await;
    for subnet in ["ovn-default", "subnet-1a2b3c4d", "subnet-overlay1"] {
        let one = |it: &Subnet| it.status.as_ref().and_then(|it| it.v4_using_ips) == Some(1);
        bench.when::<Subnet>(subnet, one).await;
    }
    both_nodes_carry(&bench).await;
    bench
}

/// What both sides must share: finalizers, labels, spec and status, without times, MAC addresses
/// and the order of nodes.
fn essence(object: &Value) -> Value {
    let mut essence = json!({
        "finalizers": object["metadata"]["finalizers"],
        "spec": object["spec"],
        "status": object["status"],
    });
    for condition in list(&mut essence, "/status/conditions") {
        let condition = condition.as_object_mut().expect("conditions are objects");
        condition.retain(|field, _| !field.starts_with("last"));
    }
    let nodes = list(&mut essence, "/status/readyNodes");
    nodes.sort_by_key(ToString::to_string);
    without_macs(&essence)
}

fn list<'a>(value: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    let list = value.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.map_or(&mut [], |list| list.as_mut_slice())
}

fn without_macs(value: &Value) -> Value {
    let text = hide_macs(&value.to_string());
    serde_json::from_str(&text).expect("is JSON as before")
}

/// Writes `MAC` for each `aa:bb:cc:dd:ee:ff`.
fn hide_macs(text: &str) -> String {
    const LENGTH: usize = 17;
    let is_mac = |part: &str| {
        part.len() == LENGTH
            && part.split(':').count() == 6
            && part
                .split(':')
                .all(|byte| byte.len() == 2 && u8::from_str_radix(byte, 16).is_ok())
    };
    let mut hidden = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(mac) = rest.get(..LENGTH).filter(|part| is_mac(part)) {
            hidden.push_str("MAC");
            rest = &rest[mac.len()..];
        } else {
            hidden.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    hidden
}

pub async fn assert_same<K: Object>(bench: &Bench, text: &str, change: impl Fn(&mut Value)) {
    let recorded = yaml(text);
    let name = recorded["metadata"]["name"].as_str().expect("has a name");
    let (mut ours, mut theirs) = (
        essence(&json!(bench.get::<K>(name).await)),
        essence(&recorded),
    );
    change(&mut ours);
    change(&mut theirs);
    assert_eq!(ours, theirs, "{name}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_are_those_recorded() {
    let bench = site().await;
    let same = |_: &mut Value| {};
    assert_same::<ProviderNetwork>(&bench, data!("provider-network-pve-default.yaml"), same).await;
    assert_same::<Vlan>(&bench, data!("vlan-pve-default-214.yaml"), same).await;
    assert_same::<Vpc>(&bench, data!("vpc-vpc-1a2b3c.yaml"), same).await;
    assert_same::<Vpc>(&bench, data!("vpc-ovn-cluster.yaml"), same).await;
    assert_same::<Subnet>(&bench, data!("subnet-subnet-1a2b3c4d.yaml"), same).await;
    assert_same::<Subnet>(&bench, data!("subnet-subnet-overlay1.yaml"), same).await;
    assert_same::<Subnet>(&bench, data!("subnet-ovn-default.yaml"), same).await;
    assert_same::<Subnet>(&bench, data!("subnet-join.yaml"), without_counters).await;
}

/// Compares all IP objects with their labels. How many.
pub async fn assert_same_addresses(
    bench: &Bench,
    list: &str,
    compared: impl Fn(&str) -> bool,
) -> usize {
    let recorded = items(list, compared);
    for (name, recorded) in &recorded {
        let ours = json!(bench.get::<IP>(name).await);
        assert_eq!(essence(&ours), essence(recorded), "{name}");
        let labels = |ip: &Value| ip["metadata"]["labels"].clone();
        assert_eq!(labels(&ours), labels(recorded), "{name}");
    }
    let ours = bench.api::<IP>().list(&ListParams::default()).await;
    let ours: BTreeSet<_> = ours
        .expect("can be read")
        .iter()
        .map(IP::name_any)
        .collect();
    assert_eq!(
        ours,
        recorded.iter().map(|(name, _)| name.clone()).collect()
    );
    recorded.len()
}

/// Compares the annotations of pods. How many.
pub async fn assert_same_pods(bench: &Bench, list: &str, compared: impl Fn(&str) -> bool) -> usize {
    let recorded = items(list, compared);
    for (name, recorded) in &recorded {
        let ours = json!(bench.namespaced::<Pod>().get(name).await.expect("is there"));
        let annotations = |pod: &Value| without_macs(&pod["metadata"]["annotations"]);
        assert_eq!(annotations(&ours), annotations(recorded), "{name}");
    }
    recorded.len()
}

/// Compares the node's labels about provider networks.
pub async fn assert_same_node(bench: &Bench, text: &str) {
    let recorded = yaml(text);
    let name = recorded["metadata"]["name"].as_str().expect("has a name");
    let ours = json!(bench.get::<Node>(name).await);
    let labels = |node: &Value| {
        let labels = node["metadata"]["labels"]
            .as_object()
            .expect("has labels")
            .clone();
        let theirs = labels
            .into_iter()
            .filter(|(key, _)| key.contains(".provider-network."));
        theirs.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(labels(&ours), labels(&recorded));
}

/// Nodes have no address on `join` here.
pub fn is_no_nodes(ip: &str) -> bool {
    !ip.starts_with("node-")
}

/// Nodes have no address on `join` here.
pub fn without_counters(object: &mut Value) {
    let status = object["status"].as_object_mut().expect("has a status");
    status.retain(|field, _| !field.starts_with("v4"));
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_pods_and_nodes_are_those_recorded() {
    let bench = site().await;
    let addresses = assert_same_addresses(&bench, data!("ips.yaml"), is_no_nodes).await;
    let pods = assert_same_pods(&bench, data!("pods.yaml"), |_| true).await;
    assert_eq!((addresses, pods), (3, 2), "all that was recorded");
    assert_same_node(&bench, data!("node-node1.yaml")).await;
}

const TABLES: [(&str, &str); 8] = [
    ("Logical_Switch", data!("nb-logical_switch.txt")),
    ("Logical_Switch_Port", data!("nb-logical_switch_port.txt")),
    ("Logical_Router", data!("nb-logical_router.txt")),
    ("Logical_Router_Port", data!("nb-logical_router_port.txt")),
    (
        "Logical_Router_Policy",
        data!("nb-logical_router_policy.txt"),
    ),
    (
        "Logical_Router_Static_Route",
        data!("nb-logical_router_static_route.txt"),
    ),
    ("ACL", data!("nb-acl.txt")),
    ("Port_Group", data!("nb-port_group.txt")),
];

/// Columns that refer to rows of these tables.
const REFERENCES: [&str; 7] = [
    "ports",
    "acls",
    "policies",
    "static_routes",
    "gateway_chassis",
    "ha_chassis_group",
    "ha_chassis",
];

pub type Row = BTreeMap<String, String>;

/// Reads what `ovn-nbctl list` writes.
fn rows(text: &str) -> Vec<Row> {
    let column = |line: &str| {
        let (name, value) = line.split_once(':').expect("a column and its value");
        (name.trim().to_owned(), value.trim().to_owned())
    };
    let row = |block: &str| {
        block
            .lines()
            .filter(|line| !line.is_empty())
            .map(column)
            .collect()
    };
    text.split("\n\n")
        .filter(|block| !block.trim().is_empty())
        .map(row)
        .collect()
}

/// Rows that only one side writes: see the crate's known differences.
fn is_compared(table: &str, row: &Row) -> bool {
    let says = |column: &str, words: &str| row.get(column).is_some_and(|it| it.contains(words));
    match table {
        "ACL" => !says("external_ids", "kubeovn_deny_all") && !says("external_ids", "standin="),
        "Logical_Router_Policy" => !says("external_ids", "node="),
        "Logical_Router_Static_Route" => !says("policy", "src-ip"),
        "Logical_Switch_Port" => !says("name", "node-"),
        "Port_Group" => {
            !says("external_ids", "node=") && !says("external_ids", "sg=kubeovn_deny_all")
        }
        _ => true,
    }
}

/// All rows as lines, references by what they refer to, without what is not compared.
fn normalized(tables: &[(&str, Vec<Row>)]) -> BTreeSet<String> {
    let mut shown = BTreeMap::new();
    for (table, rows) in tables {
        for row in rows.iter().filter(|row| is_compared(table, row)) {
            shown.insert(
                row["_uuid"].clone(),
                format!("{table} {}", own_columns(row)),
            );
        }
    }
    let mut lines = BTreeSet::new();
    for (table, rows) in tables {
        for row in rows.iter().filter(|row| is_compared(table, row)) {
            let mut line = vec![format!("{table} {}", own_columns(row))];
            for column in REFERENCES {
                let list = row.get(column).map_or("", String::as_str);
                let list = list.trim_matches(['[', ']']).split(", ");
                let referred: BTreeSet<_> = list.filter_map(|uuid| shown.get(uuid)).collect();
                line.push(format!("{column}={referred:?}"));
            }
            let line = line.join(" ");
            assert!(lines.insert(line.clone()), "twice: {line}");
        }
    }
    lines
}

fn own_columns(row: &Row) -> String {
    // What chassis and northd write; load balancers, which are not done.
    let not_own = ["_uuid", "up", "status", "load_balancer"];
    let own = row.iter().filter(|(column, _)| {
        !not_own.contains(&column.as_str()) && !REFERENCES.contains(&column.as_str())
    });
    hide_macs(&format!("{own:?}", own = own.collect::<BTreeMap<_, _>>()))
}

/// Compares tables with what was recorded of each, as far as the rows are to be compared. How many
/// rows are the same.
pub fn assert_same_rows(
    bench: &Bench,
    tables: &[(&str, &str)],
    compared: impl Fn(&Row) -> bool,
) -> usize {
    let side = |text: &dyn Fn(&str, &str) -> String| {
        let tables = tables.iter().map(|(table, recorded)| {
            let mut rows = rows(&text(table, recorded));
            rows.retain(&compared);
            (*table, rows)
        });
        normalized(&tables.collect::<Vec<_>>())
    };
    let ours = side(&|table, _| bench.nbctl(&["list", table]));
    let theirs = side(&|_, recorded| recorded.to_owned());
    let only_ours: Vec<_> = ours.difference(&theirs).collect();
    let only_theirs: Vec<_> = theirs.difference(&ours).collect();
    assert!(
        only_ours.is_empty() && only_theirs.is_empty(),
        "only ours: {only_ours:#?}\nonly recorded: {only_theirs:#?}"
    );
    ours.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_are_those_recorded() {
    let bench = site().await;
    assert_eq!(
        assert_same_rows(&bench, &TABLES, |_| true),
        4 + 8 + 2 + 4 + 4 + 1 + 4,
        "all that is compared was recorded"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_when_nothing_changed() {
    let mut bench = site().await;
    bench.stop_kube_ovn().await;
    let (writes, rows) = (bench.writes(), bench.northbound.replica().version);
    bench.start_kube_ovn();
    bench.settle().await;
    bench.stop_kube_ovn().await;
    // Of what settling takes. The Vpc: finalizer, status, its Subnet in it and out, finalizer away;
    // the Subnet: spec, finalizer, status, finalizer away.
    let written = bench.writes() - writes;
    assert!(
        written <= 10,
        "{written} writes for a Vpc and a Subnet that came and went"
    );
    assert_eq!(
        bench.northbound.replica().version - rows,
        4,
        "router and switch came and went"
    );
}
