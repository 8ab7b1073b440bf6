//! A stand-in for kube-ovn-controller and kube-ovn-cni of Kube-OVN 1.15.10, for the kinds that
//! causeway writes.
//!
//! Started by the demo, the embedded mode and tests. It knows nothing of causeway; what it does is
//! what was recorded of the real one, its faults included, and it is never kinder than that.
//!
//! ```text
//!  API ──Caches──▶ Wakes<Key> ──▶ Controller: one pass a key ──▶ API status, IP objects, NB rows
//!                     │
//!                     └─▶ one Node task a Node ──▶ Cni (bridges, pods) ──▶ Node labels, Pod phase
//! ```
//!
//! Each pass reads everything from the caches and the replica of NB and writes what differs, the
//! rows in one transaction. Only the removal of a Subnet or Vpc needs memory, as with the real one:
//! what went while it was down leaves the rows behind that the real one leaves behind.
//!
//! Known differences from the real one:
//! - Rows that are not written: `src-ip` routes (Kube-OVN's patched OVN gives them the lowest
//!   priority, stock OVN one above shorter routes), load balancers, port groups and policies of
//!   nodes, ports of nodes on `join` (and IP objects and annotations of nodes), DHCP options, the
//!   `kubeovn_deny_all` group.
//! - A row that the real one does not write, marked `external_ids:standin=arp-drop`: an ACL on each
//!   VLAN switch with a logical gateway that imitates the patch of Kube-OVN's OVN by which requests
//!   from a localnet port for a router port without gateway chassis are dropped.
//! - A switch that is not patched moves a learnt MAC at once.
//! - ProviderNetwork status follows the nodes at once, not every 30 seconds.
//! - A Subnet's conditions are written once a pass; the real one writes `Validated` in two steps.
//! - IPv6, U2O, `VpcEgressGateway`, `IPPool`, `Vip`, EIPs, enableExternal, bfdPort and namespaces
//!   bound to Subnets are not done.
//! - It also plays kubelet's part for pods that have a node: it sets phase `Running` when all
//!   interfaces are plugged, plugs running pods again on a node that begins anew, and ends the grace
//!   period of a deleted pod once they are unplugged.
//! - The chassis annotation of Nodes (`ovn.kubernetes.io/chassis`) is whoever's that makes the Node.

mod addresses;
mod attachments;
pub mod cni;
mod controller;
mod key;
mod mac;
mod node;
mod northbound;
mod objects;
mod pass;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use causeway_ovn::{Client, Monitors};
use ipnet::Ipv4Net;
use tokio::{sync::watch, task::JoinHandle};

use crate::{cni::Cni, controller::Controller, objects::Objects};

/// Name of the Vpc, and router, that is there from the start.
pub const DEFAULT_VPC: &str = "ovn-cluster";
/// Name of the Subnet of pods that ask for none.
pub const DEFAULT_SUBNET: &str = "ovn-default";
/// Name of the Subnet of the nodes.
pub const JOIN_SUBNET: &str = "join";
/// Value of `external_ids:vendor` on every row of Kube-OVN's.
pub const VENDOR: &str = "kube-ovn";
/// Key of `external_ids` on rows that only the stand-in writes.
pub const STANDIN: &str = "standin";

/// What the administrator of a Kube-OVN sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// CIDR of `join`.
    pub join_cidr: Ipv4Net,
    /// CIDR of `ovn-default`.
    pub default_cidr: Ipv4Net,
    /// MTU in bytes of pods on Subnets that state none: 1500 less what Geneve takes.
    pub overlay_mtu: u32,
    /// Where MAC addresses come from. The default differs each time.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        let cidr = |address: [u8; 4]| Ipv4Net::new_assert(address.into(), 16);
        Self {
            join_cidr: cidr([100, 64, 0, 0]),
            default_cidr: cidr([10, 244, 0, 0]),
            overlay_mtu: 1400,
            seed: RandomState::new().hash_one(0),
        }
    }
}

/// The tables and columns that the [`Client`] given to [`KubeOvn::start`] has to monitor.
pub fn monitors() -> Monitors {
    northbound::monitors()
}

/// The running stand-in. It ends when this is dropped.
#[derive(Debug)]
pub struct KubeOvn {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl KubeOvn {
    /// Starts it. The kinds that it watches must be served by the API (or come to be: it waits);
    /// `northbound` monitors at least [`monitors`]. Must be called within a tokio runtime.
    pub fn start(
        client: kube::Client,
        northbound: Client,
        cni: impl Cni,
        options: Options,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let objects = Objects::start(client);
        let controller = Controller::new(objects, northbound, Arc::new(cni), options, stopped);
        let task = tokio::spawn(controller.run());
        Self { task, stop }
    }

    /// Ends it after the passes under way.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // An error only says that the task has ended otherwise.
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "did not end well");
        }
    }
}

impl Drop for KubeOvn {
    fn drop(&mut self) {
        self.task.abort();
    }
}
