//! What kube-ovn-cni does on a node, done to a site's nodes.
//!
//! Called by the Kube-OVN stand-in through its trait. Every method may be called again with the
//! same arguments.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, PoisonError},
};

use causeway_kubeovn::cni::{Cni, CniError, PodInterface, PodRef, PodSandbox, Trunk, TrunkReport};

use crate::{
    ClaimError, CommandError, Guest,
    guest::{Nic, device_for},
    netns::Netns,
    site::{Node, Parts},
    switch::Switch,
};

/// NICs by the provider network that they carry, on one node.
pub(crate) type Carried = BTreeMap<String, String>;

/// The CNI part of one site.
#[derive(Clone, Debug)]
pub struct SiteCni {
    parts: Arc<Parts>,
}

/// Why a node refused.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("this site has no such node")]
    NoNode,
    #[error("the node has no NIC `{0}`")]
    NoNic(String),
    #[error("NIC `{nic}` carries provider network {other} already")]
    NicTaken { nic: String, other: String },
    #[error("cannot read the MTU of `{nic}`: ip wrote `{said}`")]
    NoMtu { nic: String, said: String },
    #[error("ovn-controller does not install logical port {port}")]
    NotInstalled {
        port: String,
        #[source]
        source: CommandError,
    },
    #[error("the pod has no interface")]
    NoInterface,
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Cni for SiteCni {
    async fn carry_trunk(&self, node: &str, trunk: &Trunk) -> Result<TrunkReport, CniError> {
        let action = || format!("carrying provider network {}", trunk.provider_network);
        carry(self.node(node, action)?, trunk)
            .await
            .map_err(refused(node, action()))
    }

    async fn drop_trunk(&self, node: &str, provider_network: &str) -> Result<(), CniError> {
        let action = || format!("dropping provider network {provider_network}");
        drop_trunk(self.node(node, action)?, provider_network)
            .await
            .map_err(refused(node, action()))
    }

    async fn plug(&self, pod: &PodSandbox) -> Result<(), CniError> {
        let PodRef {
            node,
            namespace,
            name,
        } = &pod.pod;
        let action = || format!("plugging pod {namespace}/{name}");
        let switch = &self.node(node, action)?.switch;
        self.plug_into(switch, pod)
            .await
            .map_err(refused(node, action()))
    }

    async fn is_plugged(&self, pod: &PodRef) -> Result<bool, CniError> {
        Ok(self.pods().contains_key(&key(pod)))
    }

    async fn unplug(&self, pod: &PodRef) -> Result<(), CniError> {
        let action = || format!("unplugging pod {}/{}", pod.namespace, pod.name);
        let switch = &self.node(&pod.node, action)?.switch;
        self.unplug_from(switch, pod)
            .await
            .map_err(refused(&pod.node, action()))
    }
}

impl SiteCni {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    fn node(&self, name: &str, action: impl Fn() -> String) -> Result<&Node, CniError> {
        let node = self.parts.nodes.get(name);
        node.ok_or(Refused::NoNode).map_err(refused(name, action()))
    }

    async fn plug_into(&self, switch: &Switch, pod: &PodSandbox) -> Result<(), Refused> {
        let nics: Vec<_> = pod.interfaces.iter().map(nic).collect();
        let Some((first, others)) = nics.split_first() else {
            return Err(Refused::NoInterface);
        };
        let netns = self.parts.claim.make_netns(&suffix(&pod.pod)).await?;
        for interface in &pod.interfaces {
            attach(switch, &netns, &pod.pod, interface).await?;
        }
        // Routes after all addresses: one may lead through the next hop of another interface.
        let routes: Vec<_> = pod.interfaces.iter().flat_map(routes).collect();
        netns.ip(&routes).await?;
        for interface in &pod.interfaces {
            let port = device_for('p', &interface.port);
            switch
                .vsctl(["wait-until", "Interface", &port])
                .args(["external_ids:ovn-installed=true"])
                .stdout()
                .await
                .map_err(|source| Refused::NotInstalled {
                    port: interface.port.clone(),
                    source,
                })?;
        }
        let name = format!("{}/{}", pod.pod.namespace, pod.pod.name);
        let guest = Guest::new(name, netns, first.clone(), others.to_vec());
        self.pods().insert(key(&pod.pod), guest);
        Ok(())
    }

    async fn unplug_from(&self, switch: &Switch, pod: &PodRef) -> Result<(), Refused> {
        self.pods().remove(&key(pod));
        self.parts.claim.remove_netns(&suffix(pod)).await?;
        let ports = switch
            .vsctl(["--bare", "--columns=name", "find", "Interface"])
            .args([pod_id(pod)])
            .stdout()
            .await?;
        for port in ports.split_whitespace() {
            switch
                .vsctl(["--if-exists", "del-port", "br-int", port])
                .stdout()
                .await?;
        }
        Ok(())
    }

    fn pods(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Guest>> {
        let pods = self.parts.pods.lock();
        pods.unwrap_or_else(PoisonError::into_inner)
    }
}

async fn carry(node: &Node, trunk: &Trunk) -> Result<TrunkReport, Refused> {
    let mut carried = node.carried.lock().await;
    let nic = &trunk.interface;
    let mtu = mtu(node.switch.netns(), nic).await?;
    let taken = carried
        .iter()
        .find(|(network, held)| *held == nic && **network != trunk.provider_network);
    if let Some((other, _)) = taken {
        return Err(Refused::NicTaken {
            nic: nic.clone(),
            other: other.clone(),
        });
    }
    if let Some(old) = carried.get(&trunk.provider_network)
        && old != nic
    {
        let bridge = bridge(&trunk.provider_network);
        node.switch
            .vsctl(["--if-exists", "del-port", &bridge, old])
            .stdout()
            .await?;
    }
    let numbers: Vec<_> = std::iter::once(0)
        .chain(trunk.vlans.iter().copied())
        .map(|vlan| vlan.to_string())
        .collect();
    let bridge = bridge(&trunk.provider_network);
    node.switch
        .vsctl(["--may-exist", "add-br", &bridge])
        .args(["--", "set", "Bridge", &bridge, "datapath_type=netdev"])
        .args(["external_ids:vendor=kube-ovn"])
        .args(["--", "--may-exist", "add-port", &bridge, nic])
        .args(["--", "set", "Port", nic, "vlan_mode=trunk"])
        .args([format!("trunks={}", numbers.join(","))])
        .args(["external_ids:vendor=kube-ovn"])
        .stdout()
        .await?;
    carried.insert(trunk.provider_network.clone(), nic.clone());
    map_bridges(node, &carried).await?;
    Ok(TrunkReport { mtu })
}

async fn drop_trunk(node: &Node, provider_network: &str) -> Result<(), Refused> {
    let mut carried = node.carried.lock().await;
    carried.remove(provider_network);
    // The mapping first: ovn-controller takes its patch ports off before the bridge goes.
    map_bridges(node, &carried).await?;
    node.switch
        .vsctl(["--if-exists", "del-br", &bridge(provider_network)])
        .stdout()
        .await?;
    Ok(())
}

/// Which bridge carries which network, and the MAC address that routed frames of this chassis
/// carry on it: one a node, the same for as long as the node lives, as kube-ovn-cni keeps it.
async fn map_bridges(node: &Node, carried: &Carried) -> Result<(), Refused> {
    let number = node.number;
    let of = |value: &dyn Fn(&String) -> String| {
        let pairs = carried
            .keys()
            .map(|network| format!("{network}:{}", value(network)));
        format!("\"{}\"", pairs.collect::<Vec<_>>().join(","))
    };
    let bridges = of(&|network| bridge(network));
    let macs = of(&|_| format!("02:cc:00:00:00:{number:02x}"));
    node.switch
        .vsctl(["set", "Open_vSwitch", "."])
        .args([format!("external_ids:ovn-bridge-mappings={bridges}")])
        .args([format!("external_ids:ovn-chassis-mac-mappings={macs}")])
        .stdout()
        .await?;
    Ok(())
}

async fn mtu(netns: &Netns, nic: &str) -> Result<u32, Refused> {
    if !netns.has_device(nic).await? {
        return Err(Refused::NoNic(nic.to_owned()));
    }
    let said = netns
        .exec("cat")
        .args([format!("/sys/class/net/{nic}/mtu")])
        .stdout()
        .await?;
    said.trim().parse().map_err(|_| Refused::NoMtu {
        nic: nic.to_owned(),
        said,
    })
}

/// A cable from the pod to br-int. One end cannot be without the other, so the pod's tells.
async fn attach(
    switch: &Switch,
    netns: &Netns,
    pod: &PodRef,
    interface: &PodInterface,
) -> Result<(), Refused> {
    let port = device_for('p', &interface.port);
    let PodInterface { name, mac, mtu, .. } = interface;
    if !netns.has_device(name).await? {
        let pod_end = netns.name();
        switch
            .netns()
            .ip(&[format!(
                "link add {port} type veth peer name {name} netns {pod_end}"
            )])
            .await?;
    }
    switch
        .netns()
        .ip(&[
            format!("link set {port} mtu {mtu}"),
            format!("link set {port} up"),
        ])
        .await?;
    netns
        .ip(&[
            format!("link set {name} address {mac} mtu {mtu}"),
            format!(
                "addr replace {}/{} dev {name}",
                interface.address, interface.prefix
            ),
            format!("link set {name} up"),
        ])
        .await?;
    netns.no_offload(&[name]).await?;
    switch
        .vsctl(["--may-exist", "add-port", "br-int", &port])
        .args(["--", "set", "Interface", &port])
        .args([format!("external_ids:iface-id=\"{}\"", interface.port)])
        .args(["external_ids:vendor=kube-ovn", &pod_id(pod)])
        .stdout()
        .await?;
    Ok(())
}

fn routes(interface: &PodInterface) -> Vec<String> {
    let device = &interface.name;
    let default = interface
        .default_gateway
        .map(|via| format!("route replace default via {via} dev {device}"));
    let others = interface
        .routes
        .iter()
        .map(|route| format!("route replace {} via {} dev {device}", route.dst, route.via));
    default.into_iter().chain(others).collect()
}

fn nic(interface: &PodInterface) -> Nic {
    Nic {
        device: interface.name.clone(),
        mac: interface.mac.clone(),
        address: interface.address,
    }
}

fn bridge(provider_network: &str) -> String {
    format!("br-{provider_network}")
}

fn pod_id(pod: &PodRef) -> String {
    format!("external_ids:pod=\"{}/{}\"", pod.namespace, pod.name)
}

fn key(pod: &PodRef) -> (String, String) {
    (pod.namespace.clone(), pod.name.clone())
}

/// Kubernetes names are longer together than a file name may be; the cut ones get a number.
fn suffix(pod: &PodRef) -> String {
    const LONGEST: usize = 180;
    let whole = format!("pod-{}.{}", pod.namespace, pod.name);
    match whole.get(..LONGEST) {
        Some(cut) if whole.len() > LONGEST => format!("{cut}{}", device_for('-', &whole)),
        _ => whole,
    }
}

fn refused(node: &str, action: String) -> impl FnOnce(Refused) -> CniError + use<> {
    let node = node.to_owned();
    move |source| CniError {
        action,
        node,
        source: Box::new(source),
    }
}
