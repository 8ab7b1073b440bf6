//! The lab's real control plane, and the product's kinds on it. Needs root and `cargo xtask peers`;
//! `cargo xtask test` runs it where Go is.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed, and says why"
)]

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use causeway_api::{ProxmoxNetwork, ProxmoxNetworkStatus, ProxmoxNetworkZone};
use causeway_kubeapi::table;
use causeway_lab::{
    Cluster, Progress, clear_leftovers,
    cluster::{Peers, Requests},
    embedded::{Backend, Embedded, PATIENCE, wait},
    scenarios::{ZONE, usual_site},
};
use causeway_planner::{model::VpcKey, snapshot::Settings};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
    runtime::watcher,
};
use serde_json::json;
use tokio::task::JoinHandle;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).expect("a ConfigMap")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_serves_within_seconds_knows_its_users_and_counts_what_they_write() {
    let start = Instant::now();
    let cluster = Cluster::start("t-api-users", &Progress::silent()).await;
    let cluster = cluster.expect("a cluster");
    println!("started in {:.1} s", start.elapsed().as_secs_f64());

    let reader = cluster.client("reader").await.expect("a client");
    cluster.allow("reader", "view").await.expect("a binding");
    let maps: Api<ConfigMap> = Api::namespaced(reader, "default");
    maps.list(&ListParams::default()).await.expect("may read");
    let refused = maps.create(&PostParams::default(), &config_map("no")).await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("may not write, but got {refused:?}");
    };
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));

    let admin = cluster.admin().await.expect("a client");
    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    let made = maps
        .create(&PostParams::default(), &config_map("yes"))
        .await;
    made.expect("made");
    let deleted = maps.delete("yes", &DeleteParams::default()).await;
    deleted.expect("deleted");
    let writes = cluster.writes().expect("an audit log");
    let own = writes.by("admin");
    let verbs: Vec<_> = own
        .0
        .keys()
        .filter(|it| it.object == "default/yes")
        .map(|it| (it.verb.as_str(), it.code))
        .collect();
    assert_eq!(verbs, [("create", 201), ("delete", 200)], "{own}");
    assert_eq!(writes.by("reader").total(), 1, "the refused one");
    cluster.stop().expect("everything ends");
}

/// Of the zone and the VPC, whose statuses follow every step of each network.
const MOST_STATUS_WRITES: usize = 15;

const VPC: &str = include_str!("../../examples/vpc.yaml");

/// What the source document shows, but for the generated name and the VLAN's number.
fn documented(network: &ProxmoxNetwork) -> String {
    let name = network.metadata.name.as_deref().expect("a name");
    let status = network.status.as_ref().expect("a status");
    let vlan = status.vlan.expect("a VLAN").to_string();
    let header = [
        "NAME", "ZONE", "VLAN", "BRIDGE", "CIDR", "USED", "FREE", "READY", "REASON",
    ];
    let row = [
        name,
        "default",
        &vlan,
        "vmbr1",
        "172.20.10.0/24",
        "0",
        "128",
        "True",
        "Ready",
    ];
    // Three spaces behind the longest of each column, none behind the last.
    let width = |index: usize| {
        if index + 1 == header.len() {
            0
        } else {
            header[index].len().max(row[index].len()) + 3
        }
    };
    let line = |cells: [&str; 9]| {
        let padded = cells.iter().enumerate();
        let padded: Vec<_> = padded
            .map(|(index, cell)| format!("{cell:<0$}", width(index)))
            .collect();
        padded.concat()
    };
    format!("{}\n{}\n", line(header), line(row))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_takes_few_writes_until_ready_then_none_and_kubectl_shows_it_as_documented() {
    let settings = Settings::default();
    let progress = Progress::silent();
    let site = Embedded::start_on(Backend::Real, "t-api", usual_site(), settings, progress).await;
    let mut site = site.expect("a site on the real API");
    let (seen, watching) = statuses(Api::all(site.client()));
    site.start_controller().await.expect("a controller");
    let start = Instant::now();
    site.apply(ZONE).await.expect("a zone");
    site.apply(VPC).await.expect("a VPC");
    let key = VpcKey::new("tenant-example", "main");
    site.network_ready(&key, "workers").await.expect("Ready");
    site.network_ready(&key, "data").await.expect("Ready");
    site.vpc_ready(&key).await.expect("Ready");
    println!("Ready after {:.1} s", start.elapsed().as_secs_f64());

    let kubeconfig = site.cluster().expect("the real API").kubeconfig();
    shows_workers_as_documented(&site, &key, kubeconfig).await;
    // The zone's own count is what follows Ready.
    wait(
        &Api::all(site.client()),
        "default",
        |zone: &ProxmoxNetworkZone| {
            zone.status
                .as_ref()
                .is_some_and(|status| status.networks == 2)
        },
    )
    .await
    .expect("both are counted");
    let until_ready = writes(&site);
    println!("{until_ready}");
    check_counts(&until_ready, &seen.lock().expect("seen"));
    let settled = steady(&site, until_ready).await;
    check_counts(&settled, &seen.lock().expect("seen"));
    watching.abort();
    site.stop().await.expect("everything ends");
}

/// What the controller has asked the API to write.
fn writes(site: &Embedded) -> Requests {
    let cluster = site.cluster().expect("the real API");
    cluster.writes().expect("an audit log").by("causeway")
}

/// Waits for a minute without any write. The election of gateways may still be under way after
/// Ready, and statuses follow it: then a later minute must be the quiet one.
async fn steady(site: &Embedded, mut before: Requests) -> Requests {
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let now = writes(site);
        let more = now.since(&before);
        if more.total() == 0 {
            return now;
        }
        println!("not yet steady:\n{more}");
        before = now;
    }
    panic!("there is no steady minute");
}

/// Ready may be lost and come back in the first seconds, while OVN's nodes agree on who holds the
/// gateway: kubectl is asked until it prints the network as it is while Ready.
async fn shows_workers_as_documented(site: &Embedded, key: &VpcKey, kubeconfig: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let workers = site.network_ready(key, "workers").await;
        let (workers, _) = workers.expect("Ready");
        let (shown, printed) = shown_by_kubectl(site, kubeconfig).await;
        let documented = documented(&workers);
        if shown == documented && printed == documented {
            return;
        }
        assert!(Instant::now() < deadline, "{shown}\n{printed}");
    }
}

const SELECTOR: &str =
    "cozystack.io/vpcName=virtualprivatecloud-main,cozystack.io/subnetName=workers";

/// What kubectl prints, and what our own printer makes of the same table.
async fn shown_by_kubectl(site: &Embedded, kubeconfig: &Path) -> (String, String) {
    let kubectl = Peers::find().expect("the real programs").kubectl();
    let shown = tokio::process::Command::new(kubectl)
        .env("KUBECONFIG", kubeconfig)
        .env("KUBECACHEDIR", kubeconfig.with_file_name("kubectl-cache"))
        .args(["get", "proxmoxnetworks", "--namespace", "tenant-example"])
        .args(["--output", "wide", "--selector", SELECTOR])
        .output()
        .await
        .expect("kubectl runs");
    assert!(shown.status.success(), "{shown:?}");
    let shown = String::from_utf8(shown.stdout).expect("text");
    println!("{shown}");
    let path = format!(
        "/apis/proxmox.cozystack.io/v1alpha1/namespaces/tenant-example/proxmoxnetworks\
         ?labelSelector={}",
        SELECTOR.replace('=', "%3D").replace(',', "%2C")
    );
    let table = table::fetch(&site.client(), &path).await.expect("a table");
    (shown, table::print(&table, true))
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_a_network_of_the_embedded_api_as_documented_too() {
    let kept = tempfile::tempdir().expect("a folder");
    let backend = Backend::Kept(kept.path().join("api.redb"));
    let (settings, progress) = (Settings::default(), Progress::silent());
    let site = Embedded::start_on(backend, "t-api-table", usual_site(), settings, progress).await;
    let mut site = site.expect("a site on the stand-in");
    site.start_controller().await.expect("a controller");
    site.apply(ZONE).await.expect("a zone");
    site.apply(VPC).await.expect("a VPC");
    let key = VpcKey::new("tenant-example", "main");
    let server = site.server().expect("HTTPS");
    shows_workers_as_documented(&site, &key, server.kubeconfig()).await;
    site.stop().await.expect("everything ends");
}

/// One write an object, and of a status no more than it has had values.
fn check_counts(writes: &Requests, seen: &BTreeMap<String, Vec<Option<ProxmoxNetworkStatus>>>) {
    for (request, count) in &writes.0 {
        let name = request.object.rsplit('/').next().unwrap_or_default();
        let bound = match (request.resource.as_str(), seen.get(name)) {
            ("proxmoxnetworks/status", Some(versions)) => versions.len(),
            (status, _) if status.ends_with("/status") => MOST_STATUS_WRITES,
            _ => 1,
        };
        assert!(
            *count <= bound,
            "{count} writes, {bound} changes: {request:?}"
        );
    }
}

type Statuses = Arc<Mutex<BTreeMap<String, Vec<Option<ProxmoxNetworkStatus>>>>>;

/// From now on, every status that each network has, one after the other.
fn statuses(networks: Api<ProxmoxNetwork>) -> (Statuses, JoinHandle<()>) {
    let seen = Statuses::default();
    let into = Arc::clone(&seen);
    let task = tokio::spawn(async move {
        let mut events = std::pin::pin!(watcher(networks, watcher::Config::default()));
        while let Some(event) = events.next().await {
            let Ok(watcher::Event::Apply(network)) = event else {
                continue;
            };
            let mut seen = into.lock().expect("seen");
            let statuses = seen.entry(network.name_any()).or_default();
            if statuses.last() != Some(&network.status) {
                statuses.push(network.status);
            }
        }
    });
    (seen, task)
}

/// The same test, run as a process of its own, is the victim.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_cluster_is_ended_by_the_next_of_its_name() {
    const NAME: &str = "t-api-killed";
    const ROLE: &str = "CAUSEWAY_TEST_IS_VICTIM";
    if std::env::var_os(ROLE).is_some() {
        let cluster = Cluster::start(NAME, &Progress::silent()).await;
        let cluster = cluster.expect("a cluster");
        println!("up {}", cluster.kubeconfig().display());
        std::future::pending::<()>().await;
    }
    let mut victim = Command::new(std::env::current_exe().expect("this test"))
        .args([
            "--exact",
            "--nocapture",
            "a_killed_cluster_is_ended_by_the_next_of_its_name",
        ])
        .env(ROLE, "yes")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let output = victim.stdout.take().expect("its output");
    let kubeconfig = {
        use std::io::BufRead;
        let mut lines = std::io::BufReader::new(output)
            .lines()
            .map_while(Result::ok);
        let up = lines.find_map(|line| line.strip_prefix("up ").map(str::to_owned));
        up.expect("a running cluster")
    };
    victim.kill().expect("killed");
    victim.wait().expect("dead");
    assert_eq!(
        programs_in("/run/causeway/t-api-killed"),
        3,
        "they outlive it"
    );
    assert!(Path::new(&kubeconfig).exists());
    clear_leftovers(NAME).expect("cleared");
    assert_eq!(programs_in("/run/causeway/t-api-killed"), 0);
    assert!(!Path::new(&kubeconfig).exists());
}

/// Processes whose working folder this is, or was.
fn programs_in(folder: &str) -> usize {
    let processes = std::fs::read_dir("/proc").expect("processes");
    let paths =
        processes.filter_map(|entry| std::fs::read_link(entry.ok()?.path().join("cwd")).ok());
    paths
        .filter(|path| path.to_string_lossy().starts_with(folder))
        .count()
}
