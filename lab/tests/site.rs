//! A site as scenarios use it: built, killed, used by guests, and gone without a trace.
//!
//! Needs root; fails, and says so, where a site cannot be built.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::{
    fs,
    net::Ipv4Addr,
    path::Path,
    time::{Duration, Instant},
};

use causeway_kubeovn::cni::{Cni, PodInterface, PodRef, PodSandbox, Trunk};
use causeway_lab::{
    ClaimError, Guest, Options, Place, Progress, Site, SiteError, Vm, chain, clear_leftovers,
};

/// Longest wait for something that takes a few seconds.
const PATIENCE: Duration = Duration::from_mins(2);

async fn site(name: &str, options: Options) -> Site {
    let begun = Instant::now();
    let progress = Progress::new(|step| println!("… {step}"));
    let site = Site::start(name, options, progress)
        .await
        .unwrap_or_else(|error| panic!("{}", chain(&error)));
    println!(
        "site {name} up after {:.2} s",
        begun.elapsed().as_secs_f64()
    );
    site
}

fn namespaces_of(site: &str) -> Vec<String> {
    let entries = fs::read_dir("/run/netns").map(|entries| {
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect::<Vec<_>>()
    });
    let mut names = entries.unwrap_or_default();
    names.retain(|name| name.starts_with(&format!("{site}-")));
    names
}

/// Processes whose command line names the site's run directory: every daemon's does.
fn daemons_of(site: &str) -> Vec<String> {
    let mark = format!("/run/causeway/{site}/");
    let processes = fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| fs::read(entry.unwrap().path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&mark))
        .collect()
}

fn assert_nothing_is_left(site: &str) {
    assert_eq!(namespaces_of(site), Vec::<String>::new());
    assert_eq!(daemons_of(site), Vec::<String>::new());
    assert!(!Path::new("/run/causeway").join(site).exists());
}

fn smallest() -> Options {
    Options {
        nodes: Options::default().nodes.into_iter().take(1).collect(),
        hypervisors: Vec::new(),
    }
}

fn vm(hypervisor: &str, name: &str, tag: u16, last: u8) -> Vm {
    Vm {
        hypervisor: hypervisor.to_owned(),
        name: name.to_owned(),
        tag,
        mac: format!("bc:24:11:00:00:{last:02x}"),
        address: format!("172.20.10.{last}/24").parse().unwrap(),
        gateway: Some(GATEWAY),
    }
}

fn pod(node: &str, name: &str, interface: PodInterface) -> PodSandbox {
    PodSandbox {
        pod: PodRef {
            node: node.to_owned(),
            namespace: "tenant-example".to_owned(),
            name: name.to_owned(),
        },
        interfaces: vec![interface],
    }
}

fn interface(port: &str, mac: &str, address: [u8; 4], mtu: u32) -> PodInterface {
    let [a, b, c, _] = address;
    PodInterface {
        name: "eth0".to_owned(),
        port: port.to_owned(),
        mac: mac.to_owned(),
        address: address.into(),
        prefix: 24,
        default_gateway: Some([a, b, c, 1].into()),
        routes: Vec::new(),
        mtu,
    }
}

fn db() -> PodSandbox {
    let eth0 = interface("db.example", "00:00:00:10:00:02", [172, 20, 10, 2], 1500);
    pod("node2", "db", eth0)
}

fn web() -> PodSandbox {
    let eth0 = interface("web.example", "00:00:00:50:00:02", [10, 50, 0, 2], 1400);
    pod("node3", "web", eth0)
}

/// The router's port on the VLAN in [`VPC`].
const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 20, 10, 1);
const GATEWAY_MAC: &str = "2e:8f:db:f3:0b:51";

/// A VPC as Kube-OVN makes it of a VLAN subnet with `logicalGateway` and an overlay subnet.
const VPC: &str = "\
    lr-add vpc -- set Logical_Router vpc options:dynamic_neigh_routers=true \
    options:always_learn_from_arp_request=false -- \
    lrp-add vpc vpc-vlan 2e:8f:db:f3:0b:51 172.20.10.1/24 -- \
    lrp-add vpc vpc-overlay 56:ab:79:e5:07:47 10.50.0.1/24 -- \
    ls-add vlan -- ls-add overlay -- \
    lsp-add vlan vlan-vpc -- lsp-set-type vlan-vpc router -- \
    lsp-set-addresses vlan-vpc router -- \
    lsp-set-options vlan-vpc router-port=vpc-vlan -- \
    lsp-add overlay overlay-vpc -- lsp-set-type overlay-vpc router -- \
    lsp-set-addresses overlay-vpc router -- \
    lsp-set-options overlay-vpc router-port=vpc-overlay -- \
    lsp-add vlan localnet.vlan -- lsp-set-type localnet.vlan localnet -- \
    lsp-set-addresses localnet.vlan unknown -- \
    lsp-set-options localnet.vlan network_name=pve-default -- \
    set Logical_Switch_Port localnet.vlan tag=214 -- \
    lsp-add vlan db.example -- \
    lsp-set-addresses db.example 00:00:00:10:00:02\\ 172.20.10.2 -- \
    lsp-add overlay web.example -- \
    lsp-set-addresses web.example 00:00:00:50:00:02\\ 10.50.0.2";

/// Words divided by spaces, a space kept with a backslash.
fn words(line: &str) -> Vec<String> {
    let words = line.replace("\\ ", "\0");
    words
        .split_whitespace()
        .map(|word| word.replace('\0', " "))
        .collect()
}

async fn carry_trunks(site: &Site) {
    let trunk = Trunk {
        provider_network: "pve-default".to_owned(),
        interface: "eth1".to_owned(),
        vlans: [214].into(),
    };
    for node in ["node1", "node2"] {
        let report = site.cni().carry_trunk(node, &trunk).await.unwrap();
        assert_eq!(report.mtu, 1500);
        let again = site.cni().carry_trunk(node, &trunk).await.unwrap();
        assert_eq!(again, report);
    }
    let refusal = site.cni().carry_trunk("node3", &trunk).await.unwrap_err();
    assert_eq!(
        chain(&refusal),
        "carrying provider network pve-default on node3 failed: the node has no NIC `eth1`"
    );
}

/// Gateway rows with node1 first, node2 second and node3, which has no trunk, as witness.
async fn set_gateway_chassis(site: &Site) {
    for (node, priority) in [("node1", "30"), ("node2", "20"), ("node3", "10")] {
        let chassis = site.chassis(node).unwrap();
        site.nbctl(["lrp-set-gateway-chassis", "vpc-vlan", chassis, priority])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn every_chassis_registers_and_nothing_is_left_after_drop() {
    let site = site("lab-whole", Options::default()).await;
    let listed = site
        .sbctl(["--bare", "--columns=hostname", "list", "Chassis"])
        .await
        .unwrap();
    let mut hosts: Vec<_> = listed.split_whitespace().collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["node1", "node2", "node3"]);
    assert_eq!(site.dump_nb().await.unwrap().to_string(), "");
    assert!(!daemons_of("lab-whole").is_empty());
    assert_eq!(namespaces_of("lab-whole").len(), 7);

    let begun = Instant::now();
    drop(site);
    println!("gone after {:.2} s", begun.elapsed().as_secs_f64());
    assert_nothing_is_left("lab-whole");
}

#[tokio::test]
async fn guests_on_a_tag_and_behind_the_gateway_reach_each_other_and_no_other_tag_does() {
    let site = site("lab-guests", Options::default()).await;
    let empty = site.dump_nb().await.unwrap();
    site.nbctl(words(VPC)).await.unwrap();
    carry_trunks(&site).await;
    for pod in [db(), web()] {
        site.cni().plug(&pod).await.unwrap();
        site.cni().plug(&pod).await.unwrap();
    }
    let db = site.pod("tenant-example", "db").unwrap();
    let web = site.pod("tenant-example", "web").unwrap();
    let worker = site.vm(vm("pve1", "worker", 214, 70)).await.unwrap();
    let stranger = site.vm(vm("pve2", "stranger", 300, 71)).await.unwrap();

    assert_reached_on_the_tag(&site, &worker, &db).await;
    assert_reached_through_the_gateway_once_it_has_a_chassis(&site, &worker, &web).await;

    assert!(stranger.ping(GATEWAY, 3).await.unwrap().silent());
    assert!(stranger.ping(db.address(), 3).await.unwrap().silent());
    assert_eq!(stranger.arp_probe(GATEWAY).await.unwrap(), None);

    let sent = 3_000_000;
    let moved = site.tcp(&db, &worker, sent).await.unwrap();
    println!("pod -> vm: {} bytes in {:?}", moved.bytes, moved.took);
    assert_eq!(moved.bytes, sent);

    assert_guests_and_trunk_can_be_taken_away(&site, &worker, db.address()).await;
    site.nbctl(words("ls-del vlan -- ls-del overlay -- lr-del vpc"))
        .await
        .unwrap();
    let after = site.dump_nb().await.unwrap();
    assert_eq!(empty.difference(&after), Vec::<String>::new());
    site.stop().unwrap();
    assert_nothing_is_left("lab-guests");
}

async fn assert_reached_on_the_tag(site: &Site, worker: &Guest, db: &Guest) {
    let mut wire = site
        .capture(&Place::Trunk("pve1".to_owned()), "vlan 214 and arp")
        .await
        .unwrap();
    let seen = worker.ping(db.address(), 3).await.unwrap();
    println!("vm -> pod on its tag: {seen}");
    assert!(seen.complete() && seen.ttl == Some(64), "{seen}");
    let request = ["vlan 214", "who-has 172.20.10.2"];
    println!(
        "on the wire: {}",
        wire.wait_for(&request, PATIENCE).await.unwrap()
    );
}

async fn assert_reached_through_the_gateway_once_it_has_a_chassis(
    site: &Site,
    worker: &Guest,
    web: &Guest,
) {
    let across = worker.ping(web.address(), 3).await.unwrap();
    assert!(across.silent(), "no gateway chassis yet: {across}");
    set_gateway_chassis(site).await;
    worker.flush_neighbours().await.unwrap();
    let took = worker.ping_until(GATEWAY, PATIENCE).await.unwrap();
    println!("vm -> gateway answered after {:.2} s", took.as_secs_f64());
    let known = worker.neighbour(GATEWAY).await.unwrap().unwrap();
    assert_eq!(known.mac.as_deref(), Some(GATEWAY_MAC));
    let answer = worker.arp_probe(GATEWAY).await.unwrap();
    assert_eq!(answer.as_deref(), Some(GATEWAY_MAC));
    worker.ping_until(web.address(), PATIENCE).await.unwrap();
    let across = worker.ping(web.address(), 3).await.unwrap();
    println!("vm -> overlay pod on the node without trunk: {across}");
    assert!(across.complete() && across.ttl == Some(63), "{across}");
}

async fn assert_guests_and_trunk_can_be_taken_away(site: &Site, worker: &Guest, pod: Ipv4Addr) {
    for pod in [db(), web()] {
        site.cni().unplug(&pod.pod).await.unwrap();
        site.cni().unplug(&pod.pod).await.unwrap();
    }
    assert!(site.pod("tenant-example", "db").is_err());
    assert!(worker.ping(pod, 2).await.unwrap().silent());
    site.remove_vm("pve1", "worker").await.unwrap();
    site.cni().drop_trunk("node1", "pve-default").await.unwrap();
    site.cni().drop_trunk("node1", "pve-default").await.unwrap();
    let bridges = site.vsctl("node1", ["list-br"]).await.unwrap();
    assert_eq!(
        bridges.split_whitespace().collect::<Vec<_>>(),
        ["br-ext", "br-int"]
    );
}

#[tokio::test]
async fn the_gateway_comes_back_on_another_chassis_after_the_active_one_was_killed() {
    let site = site("lab-failover", Options::default()).await;
    site.nbctl(words(VPC)).await.unwrap();
    carry_trunks(&site).await;
    site.cni().plug(&web()).await.unwrap();
    let web = site.pod("tenant-example", "web").unwrap();
    let worker = site.vm(vm("pve1", "worker", 214, 70)).await.unwrap();
    set_gateway_chassis(&site).await;
    worker.ping_until(web.address(), PATIENCE).await.unwrap();
    let active = active_chassis(&site, "node1").await;
    site.bfd_up(&["node1", "node2", "node3"]).await.unwrap();

    let mut pinger = worker.pinger(web.address()).unwrap();
    pinger.reply(PATIENCE).await.unwrap();
    site.kill("node1").unwrap();
    let gap = pinger
        .outage(Duration::from_millis(500), PATIENCE)
        .await
        .unwrap();
    println!(
        "active chassis killed: no answer for {:.1} s",
        gap.as_secs_f64()
    );
    assert_ne!(active_chassis(&site, "node2").await, active);

    site.restart("node1").await.unwrap();
    assert_eq!(active_chassis(&site, "node1").await, active);
    println!("killed chassis started again: it is the active one again");
    worker.ping_until(web.address(), PATIENCE).await.unwrap();
}

/// Waits until `node` holds the gateway port; its row in SB.
async fn active_chassis(site: &Site, node: &str) -> String {
    let chassis = site.chassis(node).unwrap();
    let name = format!("name={chassis}");
    let row = site
        .sbctl(["--bare", "--columns=_uuid", "find", "Chassis", &name])
        .await
        .unwrap();
    let holds = format!("chassis={}", row.trim());
    site.sbctl(["wait-until", "Port_Binding", "cr-vpc-vlan", &holds])
        .await
        .unwrap();
    row.trim().to_owned()
}

#[tokio::test]
async fn a_panic_removes_the_site_and_what_its_cni_part_would_still_make() {
    let site = site("lab-panic", smallest()).await;
    let cni = site.cni();
    let panicked = tokio::spawn(async move {
        let _held = site;
        panic!("as a failing scenario does");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert_nothing_is_left("lab-panic");

    let eth0 = interface("late.example", "00:00:00:10:00:03", [10, 50, 0, 3], 1400);
    let refusal = cni.plug(&pod("node1", "late", eth0)).await.unwrap_err();
    assert_eq!(
        chain(&refusal),
        "plugging pod tenant-example/late on node1 failed: site `lab-panic` has ended"
    );
    assert_nothing_is_left("lab-panic");
}

#[tokio::test]
async fn two_sites_run_side_by_side_and_a_running_one_keeps_its_name() {
    let (one, two) = tokio::join!(site("lab-one", smallest()), site("lab-two", smallest()));
    let refusal = Site::start("lab-one", smallest(), Progress::silent()).await;
    assert!(matches!(
        refusal,
        Err(SiteError::Claim(ClaimError::Running(name))) if name == "lab-one"
    ));
    one.nbctl(["ls-add", "only-here"]).await.unwrap();
    assert!(
        one.dump_nb()
            .await
            .unwrap()
            .to_string()
            .contains("only-here")
    );
    drop(one);
    assert_nothing_is_left("lab-one");
    assert_eq!(two.dump_nb().await.unwrap().to_string(), "");
    drop(two);
    assert_nothing_is_left("lab-two");
}

/// Set for the test program started once more by the test below: then it builds a site and stays.
const STAY: &str = "CAUSEWAY_LAB_STAY";

#[tokio::test]
async fn what_a_killed_site_left_is_removed_by_the_next_of_its_name() {
    if std::env::var_os(STAY).is_some() {
        causeway_lab::end_sites_on_signals().unwrap();
        let _site = site("lab-killed", smallest()).await;
        println!("{STAY}");
        return std::future::pending().await;
    }
    let mut victim = stay().await;
    victim.start_kill().unwrap();
    victim.wait().await.unwrap();
    assert!(!daemons_of("lab-killed").is_empty());

    let next = site("lab-killed", smallest()).await;
    assert_eq!(next.nodes().collect::<Vec<_>>(), ["node1"]);
    drop(next);
    assert_nothing_is_left("lab-killed");

    let mut victim = stay().await;
    let pid = victim.id().unwrap().to_string();
    let kill = tokio::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(kill.await.unwrap().success());
    assert_eq!(victim.wait().await.unwrap().code(), Some(130));
    assert_nothing_is_left("lab-killed");
    clear_leftovers("lab-killed").unwrap();
}

/// This test program again, with a site that it holds until it is killed.
async fn stay() -> tokio::process::Child {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .args(["what_a_killed_site_left_is_removed_by_the_next_of_its_name"])
        .env(STAY, "1")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(STAY) {
                return true;
            }
        }
        false
    };
    assert!(
        tokio::time::timeout(PATIENCE, ready).await.unwrap(),
        "no site"
    );
    child
}

#[tokio::test]
async fn a_name_that_is_none_is_refused() {
    for name in ["", "Site", "a/b", "a-name-that-is-far-too-long"] {
        let refusal = Site::start(name, smallest(), Progress::silent()).await;
        assert!(matches!(
            refusal,
            Err(SiteError::Claim(ClaimError::Name(_)))
        ));
    }
    let mut twice = smallest();
    twice.hypervisors = vec!["node1".to_owned()];
    let refusal = Site::start("lab-twice", twice, Progress::silent()).await;
    assert!(matches!(refusal, Err(SiteError::MachineName(_))));
}
