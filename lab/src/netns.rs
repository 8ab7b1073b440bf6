//! A network namespace by name: what runs in it and how to run something in it.
//!
//! Called by everything that builds or uses a site. Only [`crate::claim`] makes and removes them.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::Pid;

use crate::{
    command::{CommandError, Run},
    processes::{DEATH, MARK, ends_within, kill_all, kill_if},
};

/// A named namespace of `ip netns`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Netns {
    name: String,
    claim: String,
}

impl Netns {
    pub(crate) fn named(name: impl Into<String>, claim: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            claim: claim.into(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whose it is. Commands bear this [mark](MARK): one that outlives its parent could still make
    /// a namespace or a daemon after all others have been removed.
    pub(crate) fn claim(&self) -> &str {
        &self.claim
    }

    /// Where `ip netns` keeps it.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// A command that runs inside.
    pub(crate) fn exec(&self, program: impl AsRef<std::ffi::OsStr>) -> Run {
        Run::new("ip")
            .env(MARK, &self.claim)
            .args(["netns", "exec", &self.name])
            .args([program.as_ref()])
    }

    /// Lines of `ip`, carried out inside in one go; stops at the first that fails.
    pub(crate) async fn ip(&self, lines: &[String]) -> Result<(), CommandError> {
        self.ip_command(&["-batch", "-"])
            .input(lines.join("\n"))
            .stdout()
            .await
            .map(drop)
    }

    /// One `ip` command inside.
    pub(crate) fn ip_command(&self, args: &[&str]) -> Run {
        Run::new("ip")
            .env(MARK, &self.claim)
            .args(["-n", &self.name])
            .args(args)
    }

    /// Is there a device of that name inside?
    pub(crate) async fn has_device(&self, device: &str) -> Result<bool, CommandError> {
        let listed = self.ip_command(&["-o", "link", "show"]).stdout().await?;
        // `7: eth0@if6: <BROADCAST,…`
        Ok(listed.lines().any(|line| {
            line.split(": ")
                .nth(1)
                .and_then(|name| name.split('@').next())
                == Some(device)
        }))
    }

    /// No IPv6 (this lab is IPv4, and neighbour discovery would only be noise in captures), and
    /// ARP answered only by the device that has the address: userspace OVS holds NICs that the
    /// kernel still sees, and the kernel must not answer there for the tunnel address.
    pub(crate) async fn settle(&self) -> Result<(), CommandError> {
        let script = "for c in all default; do \
             [ ! -e /proc/sys/net/ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/$c/disable_ipv6; \
             echo 1 > /proc/sys/net/ipv4/conf/$c/arp_ignore || exit 1; done; ip link set lo up";
        self.exec("sh")
            .args(["-ec", script])
            .stdout()
            .await
            .map(drop)
    }

    /// Checksums are filled in by the sender: userspace OVS hands frames on as they are, and a
    /// receiver drops a TCP segment whose checksum was left to hardware that is not there.
    pub(crate) async fn no_offload(&self, devices: &[&str]) -> Result<(), CommandError> {
        let script = "for d; do ethtool -K \"$d\" tx off || exit 1; done";
        self.exec("sh")
            .args(["-c", script, "sh"])
            .args(devices)
            .stdout()
            .await
            .map(drop)
    }
}

/// Kills every process inside `namespaces` and waits until none is left.
///
/// Such a process was started by a site, whoever its parent is now.
pub(crate) fn kill_all_in(namespaces: &[Netns]) -> io::Result<()> {
    let inodes: BTreeSet<_> = namespaces
        .iter()
        .filter_map(|netns| identity(&netns.path()))
        .collect();
    kill_all(|pid| is_in(pid, &inodes))
}

/// Kills one process if it runs inside `netns` and waits until it is gone.
pub(crate) fn kill_one_in(netns: &Netns, pid: i32) -> io::Result<()> {
    let inodes: BTreeSet<_> = identity(&netns.path()).into_iter().collect();
    let Some(pid) = Pid::from_raw(pid) else {
        return Err(io::Error::other(format!("{pid} is no process number")));
    };
    match kill_if(pid, |pid| is_in(pid, &inodes))? {
        Some(handle) if !ends_within(&handle, DEATH)? => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("process {pid:?} does not end"),
        )),
        _ => Ok(()),
    }
}

type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// A dead process that nobody has waited for yet has no namespace any more.
fn is_in(pid: Pid, inodes: &BTreeSet<Identity>) -> bool {
    let path = format!("/proc/{}/ns/net", pid.as_raw_nonzero());
    identity(Path::new(&path)).is_some_and(|id| inodes.contains(&id))
}
