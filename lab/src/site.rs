//! The site: fabric, OVN's centre, nodes, hypervisors; and the handle by which scenarios use it.
//!
//! Called by `causeway demo`, `causeway up` and the packet scenarios. Dropping it removes it.

mod build;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    path::Path,
    sync::{Arc, PoisonError},
};

use crate::{
    Capture, CaptureError, ClaimError, CommandError, Guest, GuestError, NbDump, Place, Progress,
    SiteCni, TcpError, TcpReport, Vm,
    central::Central,
    claim::{Claim, complain},
    cni::Carried,
    guest::{Nic, device_for},
    nb::DumpError,
    netns::Netns,
    ovn::{ObtainError, Ovn, Program},
    packages::PackagesMissing,
    switch::{KillError, Switch},
    tcp,
};

/// What a site consists of. The default is three nodes, the third without a trunk, and two
/// hypervisors; failover elections need three chassis, for of two the survivor thinks itself cut
/// off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Nodes, in order: the first has chassis number 1.
    pub nodes: Vec<NodeOptions>,
    /// Names of hypervisors.
    pub hypervisors: Vec<String>,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Name.
    pub name: String,
    /// Does it have `eth1` on the trunk wire?
    pub trunk: bool,
}

impl Default for Options {
    fn default() -> Self {
        let node = |(name, trunk): (&str, bool)| NodeOptions {
            name: name.to_owned(),
            trunk,
        };
        Self {
            nodes: [("node1", true), ("node2", true), ("node3", false)]
                .map(node)
                .to_vec(),
            hypervisors: ["pve1", "pve2"].map(str::to_owned).to_vec(),
        }
    }
}

/// A site cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Namespaces and devices are root's to make.
    #[error("a site needs root: it makes network namespaces")]
    NotRoot,
    /// Distribution packages are missing.
    #[error(transparent)]
    Packages(#[from] PackagesMissing),
    /// OVN is missing.
    #[error(transparent)]
    Ovn(#[from] ObtainError),
    /// The name cannot be had.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// A machine's name does not fit into device names.
    #[error("`{0}` is no name for a machine: 1 to 12 lower-case letters, digits and hyphens, once")]
    MachineName(String),
    /// No such machine.
    #[error("this site has no machine named `{0}`")]
    NoMachine(String),
    /// A folder of the run directory cannot be made.
    #[error("cannot make the run directory")]
    Folder(#[source] io::Error),
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A daemon cannot be ended.
    #[error(transparent)]
    Kill(#[from] KillError),
}

/// A running site. Dropping it ends every process and removes every namespace and file of it.
#[derive(Debug)]
pub struct Site {
    parts: Arc<Parts>,
}

/// What the site and the CNI part share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) claim: Arc<Claim>,
    pub(crate) ovn: Ovn,
    pub(crate) central: Central,
    pub(crate) nodes: BTreeMap<String, Node>,
    hypervisors: BTreeMap<String, Switch>,
    pub(crate) pods: std::sync::Mutex<BTreeMap<(String, String), Guest>>,
    vms: std::sync::Mutex<BTreeMap<String, Guest>>,
}

/// A node: a switch and the ovn-controller that drives it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) switch: Switch,
    /// `system-id`: the name of the Chassis row.
    pub(crate) chassis: String,
    pub(crate) number: usize,
    /// Provider networks that it carries; also the lock under which that changes.
    pub(crate) carried: tokio::sync::Mutex<Carried>,
}

impl Site {
    /// Builds a site and returns once every chassis is registered. A dead site of the same name is
    /// removed first.
    ///
    /// # Errors
    /// [`SiteError`] saying what is missing or failed; nothing is left then.
    pub async fn start(
        name: &str,
        options: Options,
        progress: Progress,
    ) -> Result<Self, SiteError> {
        build::site(name, &options, &progress).await
    }

    /// Ends and removes the site. Blocks as dropping it does, but tells what could not be removed.
    ///
    /// # Errors
    /// [`SiteError::Claim`] if something stays.
    pub fn stop(self) -> Result<(), SiteError> {
        Ok(self.parts.claim.clear()?)
    }

    /// The machine part of kube-ovn-cni for this site; cheap to clone.
    pub fn cni(&self) -> SiteCni {
        SiteCni::new(Arc::clone(&self.parts))
    }

    /// The site's name.
    pub fn name(&self) -> &str {
        self.parts.claim.name()
    }

    /// Sockets, databases and logs of the site's daemons, one folder a machine.
    pub fn run_dir(&self) -> &Path {
        self.parts.claim.dir()
    }

    /// `unix:…/nb.sock`, reachable from the host.
    pub fn nb_remote(&self) -> String {
        self.parts.central.nb_remote()
    }

    /// `unix:…/sb.sock`, reachable from the host.
    pub fn sb_remote(&self) -> String {
        self.parts.central.sb_remote()
    }

    /// The OVN in use.
    pub fn ovn(&self) -> &Ovn {
        &self.parts.ovn
    }

    /// Names of the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.parts.nodes.keys().map(String::as_str)
    }

    /// Names of the hypervisors.
    pub fn hypervisors(&self) -> impl Iterator<Item = &str> {
        self.parts.hypervisors.keys().map(String::as_str)
    }

    /// Chassis name (`system-id`) of a node.
    ///
    /// # Errors
    /// [`SiteError::NoMachine`].
    pub fn chassis(&self, node: &str) -> Result<&str, SiteError> {
        Ok(&self.node(node)?.chassis)
    }

    /// Runs ovn-nbctl; its standard output.
    ///
    /// # Errors
    /// [`SiteError::Command`] if it fails.
    pub async fn nbctl<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String, SiteError> {
        Ok(self.parts.central.nbctl().args(args).stdout().await?)
    }

    /// Runs ovn-sbctl; its standard output.
    ///
    /// # Errors
    /// [`SiteError::Command`] if it fails.
    pub async fn sbctl<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String, SiteError> {
        Ok(self.parts.central.sbctl().args(args).stdout().await?)
    }

    /// Runs ovs-vsctl on a node or hypervisor; its standard output.
    ///
    /// # Errors
    /// [`SiteError`] if there is no such machine or it fails.
    pub async fn vsctl<S: AsRef<OsStr>>(
        &self,
        machine: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String, SiteError> {
        Ok(self.switch(machine)?.vsctl(args).stdout().await?)
    }

    /// Waits until each of these nodes has seen the others alive: only then does a node of a
    /// gateway's list know which of them may hold the port, and a death is noticed as a death.
    ///
    /// # Errors
    /// [`SiteError`] if there is no such node or BFD does not come up between two of them.
    pub async fn bfd_up(&self, nodes: &[&str]) -> Result<(), SiteError> {
        for (here, there) in nodes.iter().flat_map(|a| nodes.iter().map(move |b| (a, b))) {
            if here == there {
                continue;
            }
            let far = build::tunnel_address(self.node(there)?.number);
            let far = format!("options:remote_ip=\"{far}\"");
            let columns = ["--bare", "--columns=name", "find", "Interface", &far];
            let tunnel = self.vsctl(here, columns).await?;
            let up = [
                "wait-until",
                "Interface",
                tunnel.trim(),
                "bfd_status:state=up",
            ];
            self.vsctl(here, up).await?;
        }
        Ok(())
    }

    /// All content of the northbound database, comparable.
    ///
    /// # Errors
    /// [`DumpError`] if it cannot be dumped or read.
    pub async fn dump_nb(&self) -> Result<NbDump, DumpError> {
        NbDump::of(&self.parts.ovn, &self.nb_remote()).await
    }

    /// SIGKILLs ovs-vswitchd and ovn-controller of a node: its chassis is dead at once.
    ///
    /// # Errors
    /// [`SiteError`] if there is no such node or a daemon does not end.
    pub fn kill(&self, node: &str) -> Result<(), SiteError> {
        let switch = &self.node(node)?.switch;
        switch.kill(Program::OvsVswitchd.file_name())?;
        switch.kill(Program::OvnController.file_name())?;
        Ok(())
    }

    /// Starts both daemons of a killed node again.
    ///
    /// # Errors
    /// [`SiteError`] if there is no such node or a daemon does not start.
    pub async fn restart(&self, node: &str) -> Result<(), SiteError> {
        let node = self.node(node)?;
        // Else a restarted vswitchd waits for flows, upcalls off and BFD down, until the next
        // `nb_cfg`; Kube-OVN's start script removes it too.
        node.switch
            .vsctl(["--no-wait", "remove", "Open_vSwitch", "."])
            .args(["other_config", "flow-restore-wait=true"])
            .stdout()
            .await?;
        node.switch.start_vswitchd().await?;
        Ok(build::join_tunnels(node).await?)
    }

    /// Makes a VM: a guest behind a tagged port of a hypervisor's bridge.
    ///
    /// # Errors
    /// [`GuestError`] if there is no such hypervisor or a step fails.
    pub async fn vm(&self, vm: Vm) -> Result<Guest, GuestError> {
        let switch = self.hypervisor(&vm.hypervisor)?;
        let netns = self.parts.claim.make_netns(&vm_suffix(&vm.name)).await?;
        let port = device_for('v', &vm.name);
        switch
            .netns()
            .ip(&[
                format!(
                    "link add {port} type veth peer name eth0 address {} netns {}",
                    vm.mac,
                    netns.name()
                ),
                format!("link set {port} up"),
            ])
            .await?;
        let mut lines = vec![
            format!("addr add {} dev eth0", vm.address),
            "link set eth0 up".to_owned(),
        ];
        lines.extend(vm.gateway.map(|via| format!("route add default via {via}")));
        netns.ip(&lines).await?;
        netns.no_offload(&["eth0"]).await?;
        let tag = format!("tag={}", vm.tag);
        let id = format!("external_ids:vm={}", vm.name);
        switch
            .vsctl(["add-port", build::VM_BRIDGE, &port, &tag])
            .args(["--", "set", "Interface", &port, &id])
            .stdout()
            .await?;
        let nic = Nic {
            device: "eth0".to_owned(),
            mac: vm.mac,
            address: vm.address.addr(),
        };
        let guest = Guest::new(vm.name.clone(), netns, nic, Vec::new());
        let vms = self.parts.vms.lock();
        let mut vms = vms.unwrap_or_else(PoisonError::into_inner);
        vms.insert(vm.name, guest.clone());
        Ok(guest)
    }

    /// The VMs on all hypervisors.
    pub fn vms(&self) -> Vec<Guest> {
        let vms = self.parts.vms.lock();
        let vms = vms.unwrap_or_else(PoisonError::into_inner);
        vms.values().cloned().collect()
    }

    /// Removes a VM from a hypervisor; fine if there is none.
    ///
    /// # Errors
    /// [`GuestError`] if there is no such hypervisor or a step fails.
    pub async fn remove_vm(&self, hypervisor: &str, name: &str) -> Result<(), GuestError> {
        let switch = self.hypervisor(hypervisor)?;
        let vms = self.parts.vms.lock();
        vms.unwrap_or_else(PoisonError::into_inner).remove(name);
        self.parts.claim.remove_netns(&vm_suffix(name)).await?;
        let port = device_for('v', name);
        switch
            .vsctl(["--if-exists", "del-port", build::VM_BRIDGE, &port])
            .stdout()
            .await?;
        Ok(())
    }

    /// The pod that the CNI part plugged.
    ///
    /// # Errors
    /// [`GuestError::NoPod`] if it did not or unplugged it.
    pub fn pod(&self, namespace: &str, name: &str) -> Result<Guest, GuestError> {
        let key = (namespace.to_owned(), name.to_owned());
        let pods = self.parts.pods.lock();
        let pods = pods.unwrap_or_else(PoisonError::into_inner);
        pods.get(&key).cloned().ok_or(GuestError::NoPod {
            namespace: key.0,
            name: key.1,
        })
    }

    /// Sends `bytes` bytes over TCP.
    ///
    /// # Errors
    /// [`TcpError`] if they do not arrive.
    pub async fn tcp(&self, from: &Guest, to: &Guest, bytes: u64) -> Result<TcpReport, TcpError> {
        tcp::transfer(from, to, bytes).await
    }

    /// Listens at a place; `filter` in tcpdump's words, empty for all.
    ///
    /// # Errors
    /// [`CaptureError`] if tcpdump does not listen.
    pub async fn capture(&self, place: &Place, filter: &str) -> Result<Capture, CaptureError> {
        let at = |machine: &String| -> Result<Netns, CaptureError> {
            let switch = self.switch(machine);
            let switch = switch.map_err(|_| CaptureError::NoMachine(machine.clone()))?;
            Ok(switch.netns().clone())
        };
        let (netns, device) = match place {
            Place::Trunk(machine) => (at(machine)?, build::TRUNK_NIC),
            Place::Tunnels(machine) => (at(machine)?, build::TUNNEL_NIC),
            Place::Guest(guest) => (guest.netns().clone(), guest.device()),
        };
        Capture::start(&netns, device, filter).await
    }

    fn node(&self, name: &str) -> Result<&Node, SiteError> {
        let node = self.parts.nodes.get(name);
        node.ok_or_else(|| SiteError::NoMachine(name.to_owned()))
    }

    fn hypervisor(&self, name: &str) -> Result<&Switch, GuestError> {
        let switch = self.parts.hypervisors.get(name);
        switch.ok_or_else(|| GuestError::NoMachine(name.to_owned()))
    }

    fn switch(&self, machine: &str) -> Result<&Switch, SiteError> {
        match self.parts.hypervisors.get(machine) {
            Some(switch) => Ok(switch),
            None => Ok(&self.node(machine)?.switch),
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = self.parts.claim.clear() {
            complain(&error);
        }
    }
}

fn vm_suffix(name: &str) -> String {
    format!("vm-{name}")
}
