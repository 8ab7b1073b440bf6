//! Building a site: what stands where and in which order.
//!
//! Called by `Site::start`. Everything that does not depend on each other starts at once, and
//! every wait is for a condition: a daemon that serves, a chassis that is registered.

use std::{collections::BTreeSet, fs, sync::Arc};

use futures::future::{try_join, try_join_all, try_join3};

use super::{Node, Options, Parts, Site, SiteError};
use crate::{
    CommandError, Progress,
    central::Central,
    claim::Claim,
    netns::Netns,
    ovn::{self, Program},
    packages,
    switch::Switch,
};

/// A hypervisor's bridge with the VMs' ports.
pub(super) const VM_BRIDGE: &str = "vmbr1";
/// The NIC on the trunk wire, of nodes and hypervisors.
pub(super) const TRUNK_NIC: &str = "eth1";
/// A node's NIC on the tunnels' wire.
pub(super) const TUNNEL_NIC: &str = "eth0";
/// Holds the tunnel address: userspace tunnels need it on a bridge of the same datapath.
const TUNNEL_BRIDGE: &str = "br-ext";

/// With the two letters that the fabric's end of a cable puts before it, within a device name.
const LONGEST_MACHINE: usize = 12;

pub(super) async fn site(
    name: &str,
    options: &Options,
    progress: &Progress,
) -> Result<Site, SiteError> {
    if !rustix::process::geteuid().is_root() {
        return Err(SiteError::NotRoot);
    }
    packages::check()?;
    check_names(options)?;
    let ovn = ovn::obtain(progress).await?;
    progress.step(&format!("building site {name}"));
    let taken = name.to_owned();
    let claim = tokio::task::spawn_blocking(move || Claim::take(&taken))
        .await
        .map_err(|error| SiteError::Folder(std::io::Error::other(error)))??;
    // From here on the claim's drop removes what was built if a step fails.
    let parts = parts(&claim, ovn, options).await?;
    let fabric = fabric(&claim).await?;
    let cable = |machine, tunnels, trunk| lay_cables(&fabric, machine, tunnels, trunk);
    try_join3(
        async {
            progress.step("starting OVN's databases and northd");
            parts.central.start().await
        },
        try_join_all(options.nodes.iter().filter_map(|option| {
            let node = parts.nodes.get(&option.name)?;
            let sb = parts.central.sb_remote();
            Some(async move {
                cable(&node.switch, true, option.trunk).await?;
                start_node(node, &option.name, &sb).await
            })
        })),
        try_join_all(parts.hypervisors.values().map(|switch| async {
            cable(switch, false, true).await?;
            start_hypervisor(switch).await
        })),
    )
    .await?;
    progress.step("waiting for the chassis to register");
    registered(&parts).await?;
    Ok(Site { parts })
}

fn check_names(options: &Options) -> Result<(), SiteError> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let reserved = ["central", "fabric"];
    let mut seen: BTreeSet<&str> = reserved.into();
    let nodes = options.nodes.iter().map(|node| &node.name);
    for name in nodes.chain(&options.hypervisors) {
        let fits = (1..=LONGEST_MACHINE).contains(&name.len()) && name.chars().all(letters);
        if !fits || !seen.insert(name) {
            return Err(SiteError::MachineName(name.clone()));
        }
    }
    Ok(())
}

/// Namespaces and folders of all machines, nothing running yet.
async fn parts(
    claim: &Arc<Claim>,
    ovn: ovn::Ovn,
    options: &Options,
) -> Result<Arc<Parts>, SiteError> {
    let place = |machine: String| async move {
        let dir = claim.dir().join(&machine);
        fs::create_dir_all(&dir).map_err(SiteError::Folder)?;
        Ok::<_, SiteError>((claim.make_netns(&machine).await?, dir))
    };
    let nodes = options.nodes.iter().enumerate();
    let nodes = try_join_all(nodes.map(|(index, option)| {
        let ovn = ovn.clone();
        async move {
            let (netns, dir) = place(option.name.clone()).await?;
            let node = Node {
                switch: Switch::new(netns, dir, ovn),
                chassis: format!("00000000-0000-4000-8000-{:012}", index + 1),
                number: index + 1,
                carried: tokio::sync::Mutex::default(),
            };
            Ok::<_, SiteError>((option.name.clone(), node))
        }
    }));
    let hypervisors = try_join_all(options.hypervisors.iter().map(|name| {
        let ovn = ovn.clone();
        async move {
            let (netns, dir) = place(name.clone()).await?;
            Ok::<_, SiteError>((name.clone(), Switch::new(netns, dir, ovn)))
        }
    }));
    let (central, nodes, hypervisors) =
        try_join3(place("central".to_owned()), nodes, hypervisors).await?;
    Ok(Arc::new(Parts {
        claim: Arc::clone(claim),
        central: Central::new(central.0, central.1, ovn.clone()),
        ovn,
        nodes: nodes.into_iter().collect(),
        hypervisors: hypervisors.into_iter().collect(),
        pods: std::sync::Mutex::default(),
        vms: std::sync::Mutex::default(),
    }))
}

/// Two wires as bridges: `phys` passes tagged frames as they are, `mgmt` carries the tunnels.
async fn fabric(claim: &Arc<Claim>) -> Result<Netns, SiteError> {
    let netns = claim.make_netns("fabric").await?;
    let lines = ["phys", "mgmt"].map(|wire| {
        [
            format!("link add {wire} type bridge mcast_snooping 0 forward_delay 0"),
            format!("link set {wire} up"),
        ]
    });
    netns.ip(&lines.concat()).await?;
    Ok(netns)
}

/// Cables of one machine into the fabric; its ends are the NICs.
async fn lay_cables(
    fabric: &Netns,
    switch: &Switch,
    tunnels: bool,
    trunk: bool,
) -> Result<(), CommandError> {
    let netns = switch.netns();
    let machine = switch.machine();
    let wanted = [
        (tunnels, TUNNEL_NIC, "m", "mgmt"),
        (trunk, TRUNK_NIC, "t", "phys"),
    ];
    let cables = wanted.iter().filter(|cable| cable.0);
    let mut near = Vec::new();
    let mut far = Vec::new();
    let mut devices = Vec::new();
    for (_, nic, letter, wire) in cables {
        let end = format!("{letter}-{machine}");
        near.push(format!(
            "link add {nic} type veth peer name {end} netns {}",
            fabric.name()
        ));
        near.push(format!("link set {nic} up"));
        far.push(format!("link set {end} master {wire}"));
        far.push(format!("link set {end} up"));
        devices.push(*nic);
    }
    netns.ip(&near).await?;
    try_join(fabric.ip(&far), netns.no_offload(&devices)).await?;
    Ok(())
}

async fn start_node(node: &Node, name: &str, sb_remote: &str) -> Result<(), CommandError> {
    let external = |key: &str, value: &str| format!("external_ids:{key}=\"{value}\"");
    let number = node.number;
    let settings = [
        external("system-id", &node.chassis),
        external("hostname", name),
        external("ovn-remote", sb_remote),
        external("ovn-encap-type", "geneve"),
        external("ovn-encap-ip", &tunnel_address(number)),
        external("ovn-bridge-datapath-type", "netdev"),
    ];
    // A fixed address: else it changes with the ports, and the others' tunnels point nowhere.
    let mac = format!("other_config:hwaddr=\"02:ee:00:00:00:{number:02x}\"");
    let config = ["set", "Open_vSwitch", "."]
        .map(str::to_owned)
        .into_iter()
        .chain(settings)
        .chain(words(
            "-- add-br br-int -- set Bridge br-int datapath_type=netdev",
        ))
        .chain(words("fail_mode=secure other_config:disable-in-band=true"))
        .chain(words(
            "-- add-br br-ext -- set Bridge br-ext datapath_type=netdev",
        ))
        .chain([mac])
        .chain(words("-- add-port br-ext eth0"));
    node.switch.start(config).await?;
    join_tunnels(node).await
}

/// The tunnel address and ovn-controller: what a node needs once its switch runs.
pub(super) async fn join_tunnels(node: &Node) -> Result<(), CommandError> {
    let netns = node.switch.netns();
    let address = tunnel_address(node.number);
    netns
        .ip(&[
            format!("addr replace {address}/16 dev {TUNNEL_BRIDGE}"),
            format!("link set {TUNNEL_BRIDGE} up"),
        ])
        .await?;
    netns.no_offload(&[TUNNEL_BRIDGE]).await?;
    node.switch
        .daemon(Program::OvnController)
        .args([node.switch.remote()])
        .stdout()
        .await
        .map(drop)
}

async fn start_hypervisor(switch: &Switch) -> Result<(), CommandError> {
    let bridge = format!("add-br {VM_BRIDGE} -- set Bridge {VM_BRIDGE} datapath_type=netdev");
    let port = format!("-- add-port {VM_BRIDGE} {TRUNK_NIC}");
    switch.start(words(&bridge).chain(words(&port))).await
}

async fn registered(parts: &Parts) -> Result<(), CommandError> {
    let waits = parts
        .nodes
        .values()
        .flat_map(|node| words("-- wait-until Chassis").chain([node.chassis.clone()]));
    // `--` before the first command belongs to no command before it.
    let waits: Vec<_> = waits.skip(1).collect();
    if waits.is_empty() {
        return Ok(());
    }
    parts.central.sbctl().args(waits).stdout().await.map(drop)
}

/// Of a network that no guest has: it stays inside the fabric.
pub(super) fn tunnel_address(number: usize) -> String {
    format!("192.168.255.{number}")
}

fn words(line: &str) -> impl Iterator<Item = String> {
    line.split(' ')
        .map(str::to_owned)
        .collect::<Vec<_>>()
        .into_iter()
}
