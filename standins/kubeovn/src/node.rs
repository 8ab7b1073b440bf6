//! kube-ovn-cni and the part of kubelet: one task a Node, so that a node that hangs holds up nobody
//! else.
//!
//! Started and woken by the controller. Must stay true: a pod is plugged once in the life of its
//! node, with what its annotations say then; later changes of them do not reach its interfaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, PoisonError},
};

use causeway_api::{
    keys::{
        provider_network_exclude, provider_network_interface, provider_network_mtu,
        provider_network_ready,
    },
    kubeovn::{ProviderNetwork, Subnet},
};
use causeway_drive::{Backoff, Name, Wakes};
use ipnet::Ipv4Net;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Preconditions},
};
use serde::Deserialize;
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    attachments::{Attachment, attachments},
    cni::{Cni, PodInterface, PodRef, PodSandbox, Route, Trunk},
    key::{Key, NodeKey},
    objects::Objects,
    pass::PassError,
};

/// MTU of a provider network whose node does not say it.
const WIRE_MTU: u32 = 1500;

/// Failures of nodes, by node and provider network.
type Failures = Arc<Mutex<BTreeMap<(String, String), String>>>;

/// The nodes' tasks.
pub(crate) struct Nodes<C> {
    objects: Objects,
    cni: Arc<C>,
    overlay_mtu: u32,
    stopped: watch::Receiver<bool>,
    failures: Failures,
    running: BTreeMap<String, Running>,
}

struct Running {
    wakes: Arc<Wakes<NodeKey>>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<C: Cni> Nodes<C> {
    pub(crate) fn new(
        objects: Objects,
        cni: Arc<C>,
        overlay_mtu: u32,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let failures = Failures::default();
        Self {
            objects,
            cni,
            overlay_mtu,
            stopped,
            failures,
            running: BTreeMap::new(),
        }
    }

    /// Starts the task of a Node that is there, ends that of one that is gone, and wakes what a
    /// changed Node may concern.
    pub(crate) fn follow(&mut self, name: &str) {
        if self.objects.nodes.get(name).is_none() {
            self.running.remove(name);
            return;
        }
        if !self.running.contains_key(name) {
            let running = self.begin(name);
            for ((namespace, pod), object) in self.objects.pods.all() {
                if node_of(&object) == Some(name) {
                    running.wakes.wake(NodeKey::Pod((namespace, pod)));
                }
            }
            self.running.insert(name.to_owned(), running);
        }
        for network in self.objects.networks.all() {
            self.wake(name, NodeKey::Trunk(network.name_any()));
        }
    }

    fn begin(&self, name: &str) -> Running {
        let wakes = Arc::new(Wakes::default());
        let daemon = Daemon {
            node: name.to_owned(),
            objects: self.objects.clone(),
            cni: Arc::clone(&self.cni),
            overlay_mtu: self.overlay_mtu,
            failures: Arc::clone(&self.failures),
            wakes: Arc::clone(&wakes),
            carried: BTreeMap::new(),
            clean: BTreeSet::new(),
            plugged: BTreeMap::new(),
        };
        let task = tokio::spawn(daemon.run(self.stopped.clone()));
        Running { wakes, task }
    }

    pub(crate) fn wake(&self, node: &str, key: NodeKey) {
        if let Some(running) = self.running.get(node) {
            running.wakes.wake(key);
        }
    }

    pub(crate) fn wake_all(&self, key: &NodeKey) {
        for running in self.running.values() {
            running.wakes.wake(key.clone());
        }
    }

    /// Why the node does not carry the provider network, if it tried in vain.
    pub(crate) fn failure(&self, node: &str, network: &str) -> Option<String> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures
            .get(&(node.to_owned(), network.to_owned()))
            .cloned()
    }

    /// Waits for all tasks; they have been told to stop.
    pub(crate) async fn end(&mut self) {
        for running in self.running.values_mut() {
            if let Err(error) = (&mut running.task).await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "a node's task did not end well");
            }
        }
    }
}

/// Whether the node is to carry the provider network: by the selector if there is one, else unless
/// it is excluded.
pub(crate) fn selects(network: &ProviderNetwork, node: &Node) -> bool {
    let Some(selector) = &network.spec.node_selector else {
        let excluded = network.spec.exclude_nodes.as_deref().unwrap_or_default();
        return !excluded.contains(&node.name_any());
    };
    let labels = node.labels();
    let exact = selector.match_labels.iter().flatten();
    let matches = exact
        .clone()
        .all(|(key, value)| labels.get(key) == Some(value));
    let expressions = selector.match_expressions.iter().flatten();
    matches
        && expressions.clone().all(|expression| {
            let value = labels.get(&expression.key);
            let values = expression.values.as_deref().unwrap_or_default();
            let listed = value.is_some_and(|value| values.contains(value));
            match expression.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// One node's part of kube-ovn-cni.
struct Daemon<C> {
    node: String,
    objects: Objects,
    cni: Arc<C>,
    overlay_mtu: u32,
    failures: Failures,
    wakes: Arc<Wakes<NodeKey>>,
    /// What was carried last, and the MTU that the node told.
    carried: BTreeMap<String, (Trunk, u32)>,
    /// Provider networks that were dropped already.
    clean: BTreeSet<String>,
    /// Pods that have been plugged, and their uids.
    plugged: BTreeMap<Name, String>,
}

impl<C: Cni> Daemon<C> {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut backoff = Backoff::new(0);
        let wakes = Arc::clone(&self.wakes);
        loop {
            let key = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                key = wakes.next() => key,
            };
            let done = match &key {
                NodeKey::Trunk(network) => self.trunk(network).await,
                NodeKey::Pod(name) => self.pod(name).await,
            };
            match done {
                Ok(()) => backoff.did_well(&key),
                Err(error) => {
                    let wait = backoff.failed(&key);
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(node = self.node, ?key, error, ?wait, "will try again");
                    wakes.wake_after(key, wait);
                }
            }
        }
    }

    async fn trunk(&mut self, name: &str) -> Result<(), PassError> {
        let Some(node) = self.objects.nodes.get(&self.node) else {
            return Ok(());
        };
        let network = self.objects.networks.get(name);
        let outcome = match &network {
            Some(network) if selects(network, &node) => self.carry(network, name).await,
            _ => self.drop_trunk(name).await.map(|()| None),
        };
        let failure = outcome.as_ref().err().map(chain);
        self.tell(name, failure.as_ref());
        let carried = outcome?;
        let mut changed = Node::clone(&node);
        let labels = changed.labels_mut();
        for key in [
            provider_network_ready,
            provider_network_interface,
            provider_network_mtu,
        ] {
            labels.remove(&key(name));
        }
        labels.remove(&provider_network_exclude(name));
        match carried {
            Some((interface, mtu)) => labels.extend([
                (provider_network_ready(name), "true".to_owned()),
                (provider_network_interface(name), interface),
                (provider_network_mtu(name), mtu.to_string()),
            ]),
            None if network.is_some() => {
                labels.insert(provider_network_exclude(name), "true".to_owned());
            }
            None => {}
        }
        self.objects.nodes.change(&node, &changed).await?;
        Ok(())
    }

    /// Carries the network, if it is not carried so already. The NIC and its MTU.
    async fn carry(
        &mut self,
        network: &ProviderNetwork,
        name: &str,
    ) -> Result<Option<(String, u32)>, PassError> {
        let custom = network
            .spec
            .custom_interfaces
            .iter()
            .flatten()
            .find(|custom| custom.nodes.iter().flatten().any(|node| *node == self.node));
        let interface = custom.and_then(|custom| custom.interface.clone());
        let status = network.status.as_ref();
        let vlans = status
            .and_then(|status| status.vlans.as_deref())
            .unwrap_or_default();
        let vlans = vlans
            .iter()
            .filter_map(|vlan| self.objects.vlans.get(vlan)?.spec.id);
        let trunk = Trunk {
            provider_network: name.to_owned(),
            interface: interface.unwrap_or_else(|| network.spec.default_interface.clone()),
            vlans: vlans.filter(|id| *id > 0).collect(),
        };
        let mtu = match self.carried.get(name) {
            Some((carried, mtu)) if *carried == trunk => *mtu,
            _ => {
                self.carried.remove(name);
                self.cni.carry_trunk(&self.node, &trunk).await?.mtu
            }
        };
        let interface = trunk.interface.clone();
        self.carried.insert(name.to_owned(), (trunk, mtu));
        self.clean.remove(name);
        Ok(Some((interface, mtu)))
    }

    async fn drop_trunk(&mut self, name: &str) -> Result<(), PassError> {
        if !self.clean.contains(name) {
            self.cni.drop_trunk(&self.node, name).await?;
            self.carried.remove(name);
            self.clean.insert(name.to_owned());
        }
        Ok(())
    }

    fn tell(&self, network: &str, failure: Option<&String>) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.node.clone(), network.to_owned());
        let before = match failure {
            Some(failure) => failures.insert(key, failure.clone()),
            None => failures.remove(&key),
        };
        if before.as_ref() != failure {
            self.objects.wakes.wake(Key::Network(network.to_owned()));
        }
    }

    async fn pod(&mut self, name: &Name) -> Result<(), PassError> {
        let pod = self.objects.pods.get(&name.0, &name.1);
        let pod = pod.filter(|pod| node_of(pod) == Some(&self.node));
        let uid = pod.as_ref().and_then(|pod| pod.uid()).unwrap_or_default();
        let going = pod
            .as_ref()
            .is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
        if going
            || self
                .plugged
                .get(name)
                .is_some_and(|plugged| *plugged != uid)
        {
            self.cni.unplug(&self.reference(name)).await?;
            self.plugged.remove(name);
        }
        let Some(pod) = pod else { return Ok(()) };
        if going {
            return self.end_pod(name, &uid).await;
        }
        let host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        if host || ended || self.plugged.contains_key(name) {
            return Ok(());
        }
        // A node that begins anew makes the sandboxes of its running pods again.
        let runs = phase == Some("Running");
        if runs && self.cni.is_plugged(&self.reference(name)).await? {
            self.plugged.insert(name.clone(), uid);
            return Ok(());
        }
        let Some((interfaces, address)) = self.interfaces(name, &pod)? else {
            return Ok(());
        };
        let sandbox = PodSandbox {
            pod: self.reference(name),
            interfaces,
        };
        self.cni.plug(&sandbox).await?;
        if !runs {
            let status = json!({"metadata": {"uid": uid}, "status": {
                "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            }});
            self.objects.patch_pod(name, true, status).await?;
        }
        self.plugged.insert(name.clone(), uid);
        Ok(())
    }

    /// Ends the grace period, as kubelet does when the pod's containers have ended.
    async fn end_pod(&self, (namespace, name): &Name, uid: &str) -> Result<(), PassError> {
        let api: Api<Pod> = Api::namespaced(self.objects.client.clone(), namespace);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(uid.into()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match api.delete(name, &params).await {
            Ok(_) => Ok(()),
            // Gone, or another of that name by now.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn reference(&self, (namespace, name): &Name) -> PodRef {
        PodRef {
            node: self.node.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        }
    }

    /// What to plug and the pod's own address; none while the controller has not said all of it.
    fn interfaces(
        &self,
        (namespace, name): &Name,
        pod: &Pod,
    ) -> Result<Option<(Vec<PodInterface>, Ipv4Addr)>, PassError> {
        let mut interfaces = Vec::new();
        for attachment in attachments(pod, &self.objects.attachments)? {
            if attachment.says(pod, "allocated") != Some("true") {
                return Ok(None);
            }
            let subnet = attachment.subnet(pod, &self.objects)?;
            let port = attachment.port(namespace, name);
            interfaces.push(self.interface(pod, &attachment, &subnet, port)?);
        }
        let first = interfaces.first().map(|interface| interface.address);
        Ok(first.map(|address| (interfaces, address)))
    }

    fn interface(
        &self,
        pod: &Pod,
        attachment: &Attachment,
        subnet: &Subnet,
        port: String,
    ) -> Result<PodInterface, PassError> {
        let cidr: Ipv4Net = annotation(pod, attachment, "cidr")?;
        let gateway: Ipv4Addr = annotation(pod, attachment, "gateway")?;
        Ok(PodInterface {
            name: attachment.interface.clone(),
            port,
            mac: annotation(pod, attachment, "mac_address")?,
            address: annotation(pod, attachment, "ip_address")?,
            prefix: cidr.prefix_len(),
            default_gateway: attachment.is_primary().then_some(gateway),
            routes: routes(pod, attachment)?,
            mtu: self.mtu(subnet),
        })
    }

    /// The Subnet's own; else the wire's where the gateway is on the wire; else the overlay's, on
    /// VLANs with a logical gateway too.
    fn mtu(&self, subnet: &Subnet) -> u32 {
        let vlan = subnet.spec.vlan.as_deref().filter(|vlan| !vlan.is_empty());
        match (subnet.spec.mtu, vlan) {
            (Some(mtu), _) => mtu,
            (None, Some(vlan)) if subnet.spec.logical_gateway != Some(true) => {
                let network = self
                    .objects
                    .vlans
                    .get(vlan)
                    .map(|vlan| vlan.spec.provider.clone());
                let carried = network.and_then(|network| self.carried.get(&network));
                carried.map_or(WIRE_MTU, |(_, mtu)| *mtu)
            }
            _ => self.overlay_mtu,
        }
    }
}

fn annotation<T: std::str::FromStr>(
    pod: &Pod,
    attachment: &Attachment,
    what: &str,
) -> Result<T, PassError> {
    let said = attachment.says(pod, what).unwrap_or_default();
    said.parse().map_err(|_| {
        PassError::refused(format!(
            "annotation {} cannot be `{said}`",
            attachment.key(what)
        ))
    })
}

/// An entry of annotation `<provider>.kubernetes.io/routes`.
#[derive(Deserialize)]
struct Destination {
    dst: Option<String>,
    gw: IpAddr,
}

fn routes(pod: &Pod, attachment: &Attachment) -> Result<Vec<Route>, PassError> {
    let Some(said) = attachment
        .says(pod, "routes")
        .filter(|said| !said.is_empty())
    else {
        return Ok(Vec::new());
    };
    let read: Vec<Destination> = serde_json::from_str(said).map_err(|error| {
        PassError::refused(format!(
            "annotation {} cannot be read: {error}",
            attachment.key("routes")
        ))
    })?;
    let route = |destination: Destination| Route {
        dst: destination.dst.unwrap_or_else(|| "0.0.0.0/0".to_owned()),
        via: destination.gw,
    };
    Ok(read.into_iter().map(route).collect())
}

/// An error and what caused it, in one line.
fn chain(error: &PassError) -> String {
    let mut error: &dyn std::error::Error = error;
    let mut text = error.to_string();
    while let Some(source) = error.source() {
        text = format!("{text}: {source}");
        error = source;
    }
    text
}
