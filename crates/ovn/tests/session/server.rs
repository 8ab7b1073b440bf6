//! The distribution's ovsdb-server with a database of its own, in a folder of its own.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use causeway_ovn::{Client, Monitors, Remote};
use tempfile::TempDir;

use crate::northbound;

pub struct Server {
    folder: TempDir,
    process: Child,
}

impl Server {
    /// One with an empty database of this schema, a file beside this folder.
    pub fn start(schema: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        create_database(folder.path(), schema);
        let process = serve(folder.path());
        Self { folder, process }
    }

    pub fn northbound() -> Self {
        Self::start("northbound")
    }

    pub fn remote(&self) -> Remote {
        Remote::Unix(self.folder.path().join("socket"))
    }

    /// A client of all northbound tables.
    pub fn client(&self) -> Client {
        self.client_of("OVN_Northbound", northbound())
    }

    pub fn client_of(&self, database: &str, monitors: Monitors) -> Client {
        Client::start(self.remote(), database, monitors)
    }

    /// SIGKILL, and the end of the process.
    pub fn kill(&mut self) {
        self.process.kill().expect("the server can be killed");
        self.process.wait().expect("the server ends");
    }

    /// After [`Server::kill`]: serves the same database again.
    pub fn start_again(&mut self) {
        self.process = serve(self.folder.path());
    }

    /// After [`Server::kill`]: serves an empty database instead.
    pub fn start_empty(&mut self, schema: &str) {
        std::fs::remove_file(self.folder.path().join("database")).expect("the database is there");
        create_database(self.folder.path(), schema);
        self.start_again();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if the test has killed it, which is as well.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn create_database(folder: &Path, schema: &str) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{schema}.ovsschema"));
    let mut creation = command("ovsdb-tool", folder);
    creation
        .arg("create")
        .arg(folder.join("database"))
        .arg(schema);
    let status = creation.status().expect("ovsdb-tool runs");
    assert!(status.success(), "ovsdb-tool create failed");
}

fn serve(folder: &Path) -> Child {
    let mut server = command("ovsdb-server", folder);
    server
        .arg(folder.join("database"))
        .arg(format!(
            "--remote=punix:{}",
            folder.join("socket").display()
        ))
        .arg(format!("--unixctl={}", folder.join("control").display()))
        .args(["-vconsole:off", "-vsyslog:off"]);
    server.spawn().expect("ovsdb-server runs")
}

/// A command that leaves the system's folders alone. Daemons are not in everyone's PATH.
fn command(program: &str, folder: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/bin".into()])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| panic!("{program} is missing: install openvswitch-common"));
    let mut command = Command::new(program);
    command
        .env("OVS_RUNDIR", folder)
        .env("OVS_LOGDIR", folder)
        .env("OVS_DBDIR", folder)
        .stdin(Stdio::null());
    command
}
