//! One Open vSwitch of its own: ovsdb-server and ovs-vswitchd with the userspace datapath, in one
//! namespace, with their files in one folder.
//!
//! Called for every node and hypervisor of a site.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    command::{CommandError, Run},
    netns::{Netns, kill_one_in},
    ovn::{Ovn, Program, Schema},
    processes::MARK,
};

/// Seconds that the OVS and OVN tools wait for a condition or an answer.
pub(crate) const TOOL_PATIENCE: &str = "--timeout=60";

/// A switch's daemon cannot be ended.
#[derive(Debug, thiserror::Error)]
#[error("cannot end {daemon} in {netns}")]
pub struct KillError {
    daemon: &'static str,
    netns: String,
    #[source]
    source: io::Error,
}

#[derive(Clone, Debug)]
pub(crate) struct Switch {
    netns: Netns,
    dir: PathBuf,
    ovn: Ovn,
}

impl Switch {
    pub(crate) fn new(netns: Netns, dir: PathBuf, ovn: Ovn) -> Self {
        Self { netns, dir, ovn }
    }

    /// Starts both daemons with the configuration that ovs-vsctl makes of `config`; the bridges
    /// are there when it returns.
    pub(crate) async fn start<S: AsRef<OsStr>>(
        &self,
        config: impl IntoIterator<Item = S>,
    ) -> Result<(), CommandError> {
        let file = self.dir.join("conf.db");
        create_database(&self.netns, &self.ovn, Schema::OpenVswitch, &file).await?;
        self.daemon(Program::OvsdbServer)
            .args([format!("--remote=punix:{}/db.sock", self.dir.display())])
            .args([file])
            .stdout()
            .await?;
        // One thread of each kind: a site has several switches and a machine may have many cores.
        self.vsctl(["--no-wait", "init", "--", "set", "Open_vSwitch", "."])
            .args(["other_config:n-handler-threads=1"])
            .args(["other_config:n-revalidator-threads=1", "--"])
            .args(config)
            .stdout()
            .await?;
        self.start_vswitchd().await
    }

    /// `--detach` returns once the configured bridges are there.
    pub(crate) async fn start_vswitchd(&self) -> Result<(), CommandError> {
        self.daemon(Program::OvsVswitchd)
            .args(["--disable-system"])
            .args([self.remote()])
            .stdout()
            .await
            .map(drop)
    }

    /// ovs-vsctl on this switch; waits until ovs-vswitchd has done what was configured.
    pub(crate) fn vsctl<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        Run::new(self.ovn.program(Program::OvsVsctl))
            .env(MARK, self.netns.claim())
            .args([format!("--db={}", self.remote())])
            .args([TOOL_PATIENCE])
            .args(args)
    }

    pub(crate) fn daemon(&self, program: Program) -> Run {
        daemon(&self.netns, &self.ovn, program, &self.dir)
    }

    /// The switch's database, for ovn-controller.
    pub(crate) fn remote(&self) -> String {
        format!("unix:{}/db.sock", self.dir.display())
    }

    /// The machine's name: its folder bears it.
    pub(crate) fn machine(&self) -> &str {
        let name = self.dir.file_name().and_then(OsStr::to_str);
        name.unwrap_or_default()
    }

    pub(crate) fn netns(&self) -> &Netns {
        &self.netns
    }

    /// SIGKILLs a daemon of this switch by its pidfile and waits until it is gone.
    pub(crate) fn kill(&self, daemon: &'static str) -> Result<(), KillError> {
        let pidfile = self.dir.join(format!("{daemon}.pid"));
        fs::read_to_string(pidfile)
            .and_then(|text| text.trim().parse().map_err(io::Error::other))
            .and_then(|pid| kill_one_in(&self.netns, pid))
            .map_err(|source| KillError {
                daemon,
                netns: self.netns.name().to_owned(),
                source,
            })
    }
}

/// A daemon that goes to the background once it serves, with all its files in `dir`.
pub(crate) fn daemon(netns: &Netns, ovn: &Ovn, program: Program, dir: &Path) -> Run {
    [
        "OVS_RUNDIR",
        "OVS_DBDIR",
        "OVS_LOGDIR",
        "OVS_SYSCONFDIR",
        "OVN_RUNDIR",
        "OVN_DBDIR",
        "OVN_LOGDIR",
        "OVN_SYSCONFDIR",
    ]
    .into_iter()
    .fold(netns.exec(ovn.program(program)), |run, key| {
        run.env(key, dir)
    })
    .args(["--detach", "--pidfile", "--log-file", "-vconsole:off"])
}

pub(crate) async fn create_database(
    netns: &Netns,
    ovn: &Ovn,
    schema: Schema,
    path: &Path,
) -> Result<(), CommandError> {
    Run::new(ovn.program(Program::OvsdbTool))
        .env(MARK, netns.claim())
        .args([OsStr::new("create"), path.as_os_str()])
        .args([ovn.schema(schema)])
        .stdout()
        .await
        .map(drop)
}
