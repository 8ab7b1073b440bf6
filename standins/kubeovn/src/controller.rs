//! kube-ovn-controller: one pass after another over the keys that want one.
//!
//! Run by [`KubeOvn`](crate::KubeOvn). What the passes do is in the modules below, one a kind.

mod ip;
mod network;
mod pod;
mod start;
mod subnet;
mod vlan;
mod vpc;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use causeway_api::kubeovn::{Subnet, condition};
use causeway_drive::{Backoff, Name};
use causeway_ovn::{Client, Operation, Replica};
use kube::ResourceExt;
use tokio::sync::watch;

use crate::{
    Options,
    attachments::is_allocated,
    cni::Cni,
    key::{Change, Key, NodeKey},
    mac::Macs,
    node::Nodes,
    objects::Objects,
    pass::PassError,
};

/// The controller's state. What is not in the API or in NB is only what the real one keeps in
/// memory too.
pub(crate) struct Controller<C> {
    objects: Objects,
    northbound: Client,
    nodes: Nodes<C>,
    options: Options,
    macs: Macs,
    stopped: watch::Receiver<bool>,
    /// Vlans, by uid, whose first pass was done: only that one lists Subnets of its own accord.
    begun_vlans: BTreeSet<String>,
    /// Vpcs seen: a router goes only with a Vpc that was seen to go.
    seen_vpcs: BTreeSet<String>,
    /// Subnets seen, and their Vpcs: rows go only with a Subnet that was seen to go.
    seen_subnets: BTreeMap<String, String>,
    /// Subnets that were valid once: only then does the real one know their addresses.
    known_subnets: BTreeSet<String>,
    /// Pods seen, and their uids: another pod of the same name gets other addresses.
    seen_pods: BTreeMap<Name, String>,
    /// Addresses given back, by Subnet: they are given again last.
    given_back: BTreeMap<String, BTreeSet<Ipv4Addr>>,
}

impl<C: Cni> Controller<C> {
    pub(crate) fn new(
        objects: Objects,
        northbound: Client,
        cni: Arc<C>,
        options: Options,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self {
            nodes: Nodes::new(objects.clone(), cni, options.overlay_mtu, stopped.clone()),
            macs: Macs::new(options.seed),
            objects,
            northbound,
            options,
            stopped,
            begun_vlans: BTreeSet::new(),
            seen_vpcs: BTreeSet::new(),
            seen_subnets: BTreeMap::new(),
            known_subnets: BTreeSet::new(),
            seen_pods: BTreeMap::new(),
            given_back: BTreeMap::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            _ = self.objects.synced() => {}
        }
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            _ = self.northbound.connected() => {}
        }
        self.objects.wakes.wake(Key::Start);
        let wakes = Arc::clone(&self.objects.wakes);
        let mut backoff = Backoff::new(self.options.seed);
        loop {
            let key = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => break,
                key = wakes.next() => key,
            };
            match self.pass(&key).await {
                Ok(()) => backoff.did_well(&key),
                Err(error) => {
                    let wait = backoff.failed(&key);
                    let error: &dyn std::error::Error = &error;
                    tracing::debug!(?key, error, ?wait, "will try again");
                    wakes.wake_after(key, wait);
                }
            }
        }
        self.nodes.end().await;
    }

    async fn pass(&mut self, key: &Key) -> Result<(), PassError> {
        match key {
            Key::Changed(change) => {
                self.changed(change);
                Ok(())
            }
            Key::Start => self.start().await,
            Key::Vlan(name) => self.vlan(name).await,
            Key::Network(name) => self.network(name).await,
            Key::Vpc(name) => self.vpc(name).await,
            Key::Subnet(name) => self.subnet(name).await,
            Key::Ip(name) => self.ip(name).await,
            Key::Pod(name) => self.pod(name).await,
        }
    }

    /// Wakes what depends on an object.
    fn changed(&mut self, change: &Change) {
        let wakes = Arc::clone(&self.objects.wakes);
        match change {
            Change::Network(name) => {
                wakes.wake(Key::Network(name.clone()));
                self.wake_waiting_vlans(name);
                self.nodes.wake_all(&NodeKey::Trunk(name.clone()));
            }
            Change::Vlan { name, network } => {
                wakes.wake(Key::Vlan(name.clone()));
                self.wake_waiting_vlans(network);
                self.nodes.wake_all(&NodeKey::Trunk(network.clone()));
                self.wake_subnets(|subnet| subnet.spec.vlan.as_deref() == Some(name));
            }
            Change::Vpc(name) => {
                wakes.wake(Key::Vpc(name.clone()));
                self.wake_subnets(|subnet| {
                    subnet.spec.vpc.as_deref() == Some(name) && !is_ready(subnet)
                });
            }
            Change::Subnet { name, vpc } => {
                wakes.wake(Key::Subnet(name.clone()));
                if let Some(vpc) = vpc {
                    wakes.wake(Key::Vpc(vpc.clone()));
                }
                self.wake_waiting_pods();
            }
            Change::Ip { name, subnet } => {
                wakes.wake(Key::Ip(name.clone()));
                if let Some(subnet) = subnet {
                    wakes.wake(Key::Subnet(subnet.clone()));
                }
                self.wake_waiting_pods();
            }
            Change::Attachment => self.wake_waiting_pods(),
            Change::Node(name) => {
                self.nodes.follow(name);
                for network in self.objects.networks.all() {
                    wakes.wake(Key::Network(network.name_any()));
                }
            }
            Change::Pod { name, node } => {
                wakes.wake(Key::Pod(name.clone()));
                if let Some(node) = node {
                    self.nodes.wake(node, NodeKey::Pod(name.clone()));
                }
            }
        }
    }

    /// Vlans that this provider network does not carry yet, or that are in conflict there.
    fn wake_waiting_vlans(&self, network: &str) {
        let carried = self.objects.networks.get(network);
        let carried = carried
            .and_then(|network| network.status.as_ref()?.vlans.clone())
            .unwrap_or_default();
        for vlan in self.objects.vlans.all() {
            let conflict = vlan.status.as_ref().and_then(|status| status.conflict) == Some(true);
            let waits = conflict || !carried.contains(&vlan.name_any());
            if vlan.spec.provider == network && waits {
                self.objects.wakes.wake(Key::Vlan(vlan.name_any()));
            }
        }
    }

    fn wake_subnets(&self, which: impl Fn(&Subnet) -> bool) {
        for subnet in self.objects.subnets.all().filter(|subnet| which(subnet)) {
            self.objects.wakes.wake(Key::Subnet(subnet.name_any()));
        }
    }

    fn wake_waiting_pods(&self) {
        for (name, pod) in self.objects.pods.all() {
            if !is_allocated(&pod) {
                self.objects.wakes.wake(Key::Pod(name));
            }
        }
    }

    fn replica(&self) -> Arc<Replica> {
        self.northbound.replica()
    }

    /// Does the operations, if there are any.
    async fn transact(&self, operations: Vec<Operation>) -> Result<(), PassError> {
        if !operations.is_empty() {
            self.northbound.transact(operations).await?;
        }
        Ok(())
    }
}

fn is_ready(subnet: &Subnet) -> bool {
    let conditions = subnet
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    condition(conditions, "Ready").is_some_and(|ready| ready.status.as_deref() == Some("True"))
}

/// Now, as Kubernetes writes it.
fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}
