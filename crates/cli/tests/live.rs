//! `causeway explain`, `status`, `plan --live` and `check --live` on a running `causeway up`, by users
//! that may only list.
//!
//! Needs root, like every site.

#![cfg(feature = "embedded")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed, and says why"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use causeway_api::{
    ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud, ipam::InClusterIPPool, kubeovn,
    multus::NetworkAttachmentDefinition,
};
use causeway_lab::{
    State,
    embedded::apply_documents,
    up::{Up, client},
};
use causeway_observe::{OvnRemotes, look};
use causeway_ovn::Remote;
use causeway_planner::snapshot::Northbound;
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

const CAUSEWAY: &str = env!("CARGO_BIN_EXE_causeway");
/// Longest that something may take to show.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK: Duration = Duration::from_millis(200);

/// `reader` may list everything, `tenant` what tenants see in their namespace; neither may write.
const USERS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: v1
kind: Namespace
metadata: {name: tenant-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant, namespace: tenant-a}
rules:
  - {apiGroups: [proxmox.cozystack.io], resources: [proxmoxnetworks], verbs: [list]}
  - {apiGroups: [apps.cozystack.io], resources: [virtualprivateclouds], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: tenant-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tenant}]
"#;

/// Three networks and an overlay subnet.
const VPC: &str = "
apiVersion: apps.cozystack.io/v1alpha1
kind: VirtualPrivateCloud
metadata: {name: main, namespace: tenant-a}
spec:
  subnets:
    - {name: a, cidr: 172.20.1.0/24, proxmox: {}}
    - {name: b, cidr: 172.20.2.0/24, proxmox: {}}
    - {name: c, cidr: 172.20.3.0/24, proxmox: {}}
    - {name: pods, cidr: 172.20.9.0/24}
";

/// A zone that has these numbers.
fn zone(range: &str) -> String {
    format!(
        "
apiVersion: proxmox.cozystack.io/v1alpha1
kind: ProxmoxNetworkZone
metadata: {{name: default}}
spec:
  bridge: vmbr1
  vlans: {{ranges: [\"{range}\"]}}
  trunk:
    interface: eth1
    nodeSelector: {{matchLabels: {{proxmox.cozystack.io/trunk: \"true\"}}}}
"
    )
}

/// A running `causeway up`, and who looks at it.
struct Site {
    folder: TempDir,
    state: State,
    _up: Up,
    client: Client,
    /// `--ovn-nb`, remote, `--ovn-sb`, remote.
    remotes: Vec<String>,
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = self.state.end() {
            eprintln!("{}: {error}", self.state.dir().display());
        }
    }
}

impl Site {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::at(&folder.path().join("state")).expect("a path");
        let mut up = Up::start(Path::new(CAUSEWAY), &state).expect("started");
        let said = up.ready().await.expect("up");
        let remotes = said.iter().find_map(|line| {
            let (_, remotes) = line.split_once("explain NETWORK ")?;
            Some(remotes.split(' ').map(str::to_owned).collect())
        });
        let client = client(&state).await.expect("a client");
        let site = Self {
            folder,
            state,
            _up: up,
            client,
            remotes: remotes.expect("it says where the databases are"),
        };
        site.apply(USERS).await;
        site
    }

    async fn apply(&self, documents: &str) {
        apply_documents(&self.client, documents)
            .await
            .expect("applied");
    }

    /// The kubeconfig of a user that the administrator's one impersonates.
    fn kubeconfig(&self, user: &str) -> PathBuf {
        let own = fs::read(self.state.dir().join("kubeconfig")).expect("the kubeconfig");
        let mut config: Value = serde_json::from_slice(&own).expect("JSON");
        config["users"][0]["user"]["as"] = json!(user);
        let path = self.folder.path().join(user);
        fs::write(&path, config.to_string()).expect("written");
        path
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    fn causeway(&self, user: &str, words: &[&str]) -> Output {
        let mut command = Command::new(CAUSEWAY);
        command.args(words).env("KUBECONFIG", self.kubeconfig(user));
        command.output().expect("the command runs")
    }

    /// What a command prints that goes well.
    fn prints(&self, user: &str, words: &[&str]) -> String {
        let output = self.causeway(user, words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// The network, with its rows.
    fn explained(&self, network: &str) -> String {
        let remotes = self.remotes.iter().map(String::as_str);
        let words: Vec<&str> = ["explain", network].into_iter().chain(remotes).collect();
        self.prints("reader", &words)
    }

    async fn northbound(&self) -> Northbound {
        let remote = |option: usize| {
            let path = self.remotes[option]
                .strip_prefix("unix:")
                .expect("a socket");
            Remote::Unix(path.into())
        };
        let remotes = OvnRemotes {
            northbound: remote(1),
            southbound: remote(3),
        };
        look(remotes, PATIENCE).await.expect("rows").0
    }

    /// resourceVersions of everything that causeway could write.
    async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        note::<ProxmoxNetworkZone>(&self.client, &mut versions).await;
        note::<ProxmoxNetwork>(&self.client, &mut versions).await;
        note::<VirtualPrivateCloud>(&self.client, &mut versions).await;
        note::<kubeovn::ProviderNetwork>(&self.client, &mut versions).await;
        note::<kubeovn::Vlan>(&self.client, &mut versions).await;
        note::<kubeovn::Vpc>(&self.client, &mut versions).await;
        note::<kubeovn::Subnet>(&self.client, &mut versions).await;
        note::<NetworkAttachmentDefinition>(&self.client, &mut versions).await;
        note::<InClusterIPPool>(&self.client, &mut versions).await;
        versions
    }
}

async fn note<K>(client: &Client, versions: &mut BTreeMap<String, String>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    for object in api.list(&ListParams::default()).await.expect("a list") {
        let place = object.namespace().unwrap_or_default();
        let name = format!("{} {place}/{}", K::kind(&()), object.name_any());
        versions.insert(name, object.resource_version().expect("a version"));
    }
}

/// Looks until every one of these is in the text.
async fn shows(look: impl Fn() -> String, wanted: &[&str]) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = look();
        let missing: Vec<&&str> = wanted.iter().filter(|one| !text.contains(**one)).collect();
        if missing.is_empty() {
            return text;
        }
        assert!(Instant::now() < until, "not shown: {missing:?}\n{text}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Before there is a zone.
async fn without_zone(site: &Site) {
    site.apply(VPC).await;
    let no_zone = "NoZone: no ProxmoxNetworkZone exists; the administrator has to create one";
    let ready = format!("Ready: False, {no_zone}");
    let zone_ready = format!("ZoneReady: False, {no_zone}\n  The administrator can create a");
    shows(|| site.explained("tenant-a/main/a"), &[&zone_ready, &ready]).await;
    shows(
        || site.prints("reader", &["status"]),
        &[
            "no zones\n",
            "main/a   False   NoZone",
            "0 of 3 networks Ready, 0 of 1 VPCs Ready",
        ],
    )
    .await;
    // A VPC that is there already may be written as it is.
    let vpc = site.file("new.yaml", &VPC.replace("name: main", "name: new"));
    for command in ["plan", "check"] {
        let refused = site.causeway("reader", &[command, "--live", &vpc]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert!(said.contains("no ProxmoxNetworkZone exists"), "{said}");
    }
}

/// Two networks are Ready, the third finds no number.
async fn with_two_numbers(site: &Site) {
    let zone_file = site.file("zone.yaml", &zone("200-201"));
    let planned = site.prints("reader", &["plan", "--live", &zone_file]);
    assert!(
        planned.contains("nodes with the trunk: 2, 0 ready\n    + ProviderNetwork pve-default")
    );
    site.apply(&zone("200-201")).await;
    let claimed = "Vlan pve-default-200: number 200; of ProviderNetwork pve-default; claimed by this \
                   network; not released";
    shows(
        || site.explained("main/a"),
        &[
            "VLANAllocated: True, Allocated: VLAN 200\n",
            claimed,
            "2 numbers offered: 2 held, 0 resting, 0 free",
            "; ready on node1, node2; not ready on none; carries Vlan pve-default-200",
            "GatewayReady: True, Ready",
            ": held by chassis ",
            "/24, gateway 172.20.1.1; 0 of 128 used, 128 free",
            "\nReady: True, Ready\n  addresses in use: none seen\n",
        ],
    )
    .await;
    let full = "ZoneExhausted: zone \"default\" has no free VLAN (2 of 2 in use); the administrator \
                can extend spec.vlans.ranges";
    shows(
        || site.explained("main/c"),
        &[
            &format!("VLANAllocated: False, {full}"),
            "Vlan: none names this network as its owner",
            "The administrator can extend `spec.vlans.ranges` of the zone",
            &format!("\nReady: False, {full}"),
        ],
    )
    .await;
    shows(
        || site.prints("reader", &["status"]),
        &[
            "default   vmbr1    2/2     0      2/2     3          True    Ready",
            "main/c   False   ZoneExhausted   zone \"default\" has no free VLAN",
            "2 of 3 networks Ready, 0 of 1 VPCs Ready",
        ],
    )
    .await;
}

/// What is planned is what becomes of it.
async fn with_more_numbers(site: &Site) {
    let both = format!("{}---{VPC}", zone("200-299"));
    let file = site.file("both.yaml", &both);
    let planned = site.prints("reader", &["plan", "--live", &file]);
    for line in [
        "VLANs: 100, 2 used, 98 free",
        "): VLAN 200\n",
        "): VLAN 201\n",
        "): VLAN 202 (proposed)\n    zone default, bridge vmbr1, MTU 1500\n",
        "    + Vlan pve-default-202\n",
        "4 to make, 0 to change, 0 to remove, no errors; nothing was written",
    ] {
        assert!(planned.contains(line), "{line:?} is not in\n{planned}");
    }
    site.apply(&both).await;
    shows(
        || site.explained("main/c"),
        &["VLANAllocated: True, Allocated: VLAN 202\n"],
    )
    .await;
    shows(
        || site.prints("reader", &["status"]),
        &["3 of 3 networks Ready, 1 of 1 VPCs Ready"],
    )
    .await;
    let without = VPC.replace("    - {name: b, cidr: 172.20.2.0/24, proxmox: {}}\n", "");
    let file = site.file("without.yaml", &without);
    let planned = site.prints("reader", &["plan", "--live", &file]);
    assert!(planned.contains("): removed; VLAN 201\n"), "{planned}");
    assert!(
        planned.contains("0 to make, 1 to change, 4 to remove"),
        "{planned}"
    );
}

/// None of the commands has written anything: neither objects nor rows.
async fn nothing_is_written(site: &Site) {
    let file = site.file("both.yaml", &format!("{}---{VPC}", zone("200-250")));
    let until = Instant::now() + PATIENCE;
    loop {
        let before = (site.versions().await, site.northbound().await);
        site.explained("main/a");
        site.prints("reader", &["status"]);
        site.prints("reader", &["plan", "--live", &file]);
        site.prints("reader", &["check", "--live", &file]);
        let after = (site.versions().await, site.northbound().await);
        assert!(before.0.len() > 15, "{:?}", before.0);
        if before == after {
            return;
        }
        // A controller has written meanwhile; it comes to rest.
        assert!(Instant::now() < until, "{before:?}\n{after:?}");
    }
}

/// A tenant sees what the controller wrote, and is told what cannot be looked at.
fn as_a_tenant(site: &Site) {
    let said = site.prints("tenant", &["explain", "tenant-a/main/a"]);
    for line in [
        "VLANAllocated: True, Allocated: VLAN 200\n  Vlan: not readable with these rights\n",
        "ProxmoxNetworkZone default: not readable with these rights",
        "InClusterIPPool tenant-a/subnet-",
        "Not everything may be read with these rights: conditions are shown as written.",
    ] {
        assert!(said.contains(line), "{line:?} is not in\n{said}");
    }
    assert!(
        !said.contains("does not exist") && !said.contains("found now"),
        "{said}"
    );
    let said = site.prints("tenant", &["status", "-n", "tenant-a"]);
    assert!(
        said.starts_with("ProxmoxNetworkZone: not readable"),
        "{said}"
    );
    assert!(said.contains("3 of 3 networks Ready"), "{said}");
    let file = site.file("vpc.yaml", VPC);
    let refused = site.causeway("tenant", &["plan", "--live", &file]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("may not list objects of kind "), "{said}");
}

/// Names that mean nothing, or several networks, are answered with those that there are.
async fn wrong_names(site: &Site) {
    let other = VPC.replace("namespace: tenant-a", "namespace: tenant-b");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: tenant-b}\n";
    site.apply(&format!("{namespace}---{other}")).await;
    let started = |text: &str| text.starts_with("ProxmoxNetwork tenant-b/subnet-");
    let said = shows(|| site.explained("tenant-b/main/a"), &["Allocated: VLAN "]).await;
    assert!(started(&said), "{said}");
    let said = site.prints("reader", &["explain", "main/a", "-n", "tenant-b"]);
    assert!(started(&said), "{said}");
    let nowhere = ["--ovn-nb", "unix:/nowhere", "--ovn-sb", "unix:/nowhere"];
    for (words, wanted) in [
        (
            vec!["explain", "main/d", "-n", "tenant-a"],
            "no ProxmoxNetwork \"main/d\" in namespace tenant-a; there are:\n  tenant-a/subnet-",
        ),
        (
            vec!["explain", "main/a"],
            "\"main/a\" is the name of several networks:\n  tenant-a/subnet-",
        ),
        (
            vec!["explain", "tenant-a/main/pods"],
            "it is an overlay subnet of VPC tenant-a/main, ready: Ready",
        ),
        (
            vec!["explain", "main/a", "-n", "default"],
            "no ProxmoxNetwork \"main/a\" in namespace default; there is none",
        ),
        (
            [&["explain", "tenant-a/main/a"][..], &nowhere].concat(),
            "the northbound database does not answer within 10 s",
        ),
    ] {
        let refused = site.causeway("reader", &words);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(wanted), "{said}");
    }
}

#[tokio::test]
async fn what_is_explained_and_planned_is_so_and_nothing_is_written() {
    let site = Site::start().await;
    without_zone(&site).await;
    with_two_numbers(&site).await;
    with_more_numbers(&site).await;
    nothing_is_written(&site).await;
    as_a_tenant(&site);
    wrong_names(&site).await;
    site.state.end().expect("ended");
    let refused = site.causeway("reader", &["status"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("cannot list objects of kind ProxmoxNetworkZone"),
        "{said}"
    );
}
