//! OVN's centre: the NB and SB databases and ovn-northd, in the site's central namespace.
//!
//! Called by `Site::start`. Reached by Unix sockets in the run directory, from every namespace and
//! from the host.

use std::path::{Path, PathBuf};

use futures::future::try_join;

use crate::{
    command::{CommandError, Run},
    netns::Netns,
    ovn::{Ovn, Program, Schema},
    processes::MARK,
    switch::{TOOL_PATIENCE, create_database, daemon},
};

#[derive(Clone, Debug)]
pub(crate) struct Central {
    netns: Netns,
    dir: PathBuf,
    ovn: Ovn,
}

impl Central {
    pub(crate) fn new(netns: Netns, dir: PathBuf, ovn: Ovn) -> Self {
        Self { netns, dir, ovn }
    }

    pub(crate) async fn start(&self) -> Result<(), CommandError> {
        try_join(
            self.database(Schema::Northbound, "nb"),
            self.database(Schema::Southbound, "sb"),
        )
        .await?;
        daemon(&self.netns, &self.ovn, Program::OvnNorthd, &self.dir)
            .args([
                format!("--ovnnb-db={}", self.nb_remote()),
                format!("--ovnsb-db={}", self.sb_remote()),
            ])
            .stdout()
            .await
            .map(drop)
    }

    async fn database(&self, schema: Schema, name: &str) -> Result<(), CommandError> {
        let file = |extension: &str| self.dir.join(format!("{name}.{extension}"));
        create_database(&self.netns, &self.ovn, schema, &file("db")).await?;
        let with = |option: &str, path: PathBuf| format!("{option}{}", path.display());
        // Options of the same name given twice: the later one counts.
        daemon(&self.netns, &self.ovn, Program::OvsdbServer, &self.dir)
            .args([
                with("--pidfile=", file("pid")),
                with("--log-file=", file("log")),
                with("--unixctl=", file("ctl")),
                with("--remote=punix:", file("sock")),
            ])
            .args([file("db")])
            .stdout()
            .await
            .map(drop)
    }

    pub(crate) fn nb_remote(&self) -> String {
        remote(&self.dir.join("nb.sock"))
    }

    pub(crate) fn sb_remote(&self) -> String {
        remote(&self.dir.join("sb.sock"))
    }

    pub(crate) fn nbctl(&self) -> Run {
        self.ctl(Program::OvnNbctl, &self.nb_remote())
    }

    pub(crate) fn sbctl(&self) -> Run {
        self.ctl(Program::OvnSbctl, &self.sb_remote())
    }

    fn ctl(&self, program: Program, remote: &str) -> Run {
        Run::new(self.ovn.program(program))
            .env(MARK, self.netns.claim())
            .args([&format!("--db={remote}"), TOOL_PATIENCE])
    }
}

fn remote(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}
