//! A real Kubernetes control plane on loopback: etcd, kube-apiserver, kube-controller-manager, and
//! on demand the in-cluster IPAM manager.
//!
//! Started by the scenarios that run on the real API, by the stand-ins' conformance suites and by
//! tests. Its programs come from `cargo xtask peers`. Must stay true: everything listens on 127.0.0.1
//! or on a socket in the run directory only; it ends with this value, on the signals that
//! [`end_sites_on_signals`](crate::end_sites_on_signals) watches, or at the latest when another of
//! the same name starts.

mod audit;
mod certs;
mod folder;
mod ipam;
mod program;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{core::v1::ServiceAccount, rbac::v1::ClusterRoleBinding};
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};

pub use audit::{AuditError, Request, Requests};
pub use certs::CertError;
pub use folder::{Peers, PeersMissing};

use crate::{
    ClaimError, Progress,
    claim::Claim,
    command::{CommandError, Run},
    processes::MARK,
};
use certs::Authority;
use program::Program;

/// How long anything of a cluster may take to become ready: far more than the seconds it needs.
const PATIENCE: Duration = Duration::from_mins(3);

/// How often a server that is starting is asked whether it has.
const ASK: Duration = Duration::from_millis(50);

/// What kube-apiserver lets do everything.
const MASTERS: &str = "system:masters";

/// Those of kube-controller-manager's controllers that matter where no kubelet runs. A node
/// lifecycle controller would take nodes without heartbeats for dead.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,\
    serviceaccount-controller,root-ca-certificate-publisher-controller,\
    clusterrole-aggregation-controller,deployment-controller,replicaset-controller";

/// Writes are recorded, when they are answered, with who made them.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete, deletecollection]
  - level: None
";

/// The cluster cannot be started or used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The programs.
    #[error("there is no real API server to start")]
    Peers(#[from] PeersMissing),
    /// Its name or run directory.
    #[error("a run directory cannot be had")]
    Claim(#[from] ClaimError),
    /// Certificates.
    #[error("certificates cannot be made")]
    Cert(#[from] CertError),
    /// No port.
    #[error("no port of 127.0.0.1 can be had")]
    Port(#[source] io::Error),
    /// A file of the run directory.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program ended by itself.
    #[error("{program} has ended ({status}); it wrote last:\n{log}")]
    Ended {
        /// Which.
        program: &'static str,
        /// How.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// A program does not get ready.
    #[error("{what} is not ready after {} s: {last}\n{log}", PATIENCE.as_secs())]
    NotReady {
        /// Which.
        what: &'static str,
        /// The last answer.
        last: String,
        /// The end of its log.
        log: String,
    },
    /// What listens on every interface would be reached from elsewhere.
    #[error(
        "the IPAM manager's webhooks listen on every interface: they are run in a network namespace \
         that has loopback alone (`unshare --net`)"
    )]
    NotAlone,
    /// A kubeconfig of ours cannot be used.
    #[error("no client can be made for {user}")]
    Client {
        /// Whom it was for.
        user: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// kubectl.
    #[error(transparent)]
    Kubectl(#[from] CommandError),
}

impl ClusterError {
    /// Why a file cannot be used.
    fn file(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}

/// A running control plane.
#[derive(Debug)]
pub struct Cluster {
    peers: Peers,
    authority: Authority,
    server: String,
    admin: PathBuf,
    programs: Vec<Program>,
    claim: Arc<Claim>,
    /// Bound and never listening: the port stays ours before kube-apiserver listens on it.
    _port: TcpSocket,
}

impl Cluster {
    /// Starts a control plane of this name and waits until it serves and its controllers work.
    ///
    /// # Errors
    /// [`ClusterError`] with what is missing, or the end of the log of what did not start.
    pub async fn start(name: &str, progress: &Progress) -> Result<Self, ClusterError> {
        let peers = Peers::find()?;
        progress.step("starting the real kube-apiserver, etcd and kube-controller-manager");
        let claim = Claim::take(name)?;
        let (socket, port) = free_port().map_err(ClusterError::Port)?;
        let authority = Authority::new()?;
        let server = format!("https://127.0.0.1:{port}");
        let mut cluster = Self {
            admin: claim.dir().join("admin.kubeconfig"),
            peers,
            authority,
            server,
            programs: Vec::new(),
            claim,
            _port: socket,
        };
        cluster.write_files()?;
        cluster.run_etcd()?;
        cluster.run_api_server(port)?;
        cluster.wait_for_api(port).await?;
        cluster.run_controllers()?;
        cluster.wait_for_controllers().await?;
        Ok(cluster)
    }

    /// The administrator's kubeconfig, with everything in it.
    pub fn kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// The administrator's client.
    ///
    /// # Errors
    /// [`ClusterError::Client`].
    pub async fn admin(&self) -> Result<Client, ClusterError> {
        client_of("admin", &self.admin).await
    }

    /// A client of a user who may do what roles are bound to that name; see [`allow`](Self::allow).
    ///
    /// # Errors
    /// [`ClusterError`] if no certificate or client can be made.
    pub async fn client(&self, user: &str) -> Result<Client, ClusterError> {
        client_of(user, &self.kubeconfig_of(user, None)?).await
    }

    /// Binds a cluster role to a user.
    ///
    /// # Errors
    /// [`ClusterError::Kubectl`] if the API refuses.
    pub async fn allow(&self, user: &str, cluster_role: &str) -> Result<(), ClusterError> {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": cluster_role,
            },
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "User",
                "name": user,
            }],
        });
        self.apply(&binding.to_string()).await
    }

    /// `kubectl` with these arguments, as the administrator; what it prints.
    ///
    /// # Errors
    /// [`ClusterError::Kubectl`] if it fails.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, ClusterError> {
        Ok(self.kubectl_run(args).stdout().await?)
    }

    fn kubectl_run(&self, args: &[&str]) -> Run {
        // Its caches of discovery go with the cluster.
        Run::new(self.peers.program("kubectl"))
            .args(args)
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.claim.dir().join("kubectl-cache"))
    }

    /// `kubectl`, to be run as the administrator; marked, so that it ends with the cluster at the
    /// latest.
    pub fn kubectl_command(&self) -> std::process::Command {
        let mut command = std::process::Command::new(self.peers.program("kubectl"));
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.claim.dir().join("kubectl-cache"))
            .env(MARK, self.claim.name());
        command
    }

    /// Every write that the API was asked for so far, whoever asked.
    ///
    /// # Errors
    /// [`AuditError`] if the audit log cannot be read.
    pub fn writes(&self) -> Result<Requests, AuditError> {
        audit::read(&self.claim.dir().join("audit.log"))
    }

    /// Ends it, and says what could not be ended.
    ///
    /// # Errors
    /// [`ClusterError::Claim`] with what stays.
    pub fn stop(self) -> Result<(), ClusterError> {
        Ok(self.claim.clear()?)
    }

    async fn apply(&self, yaml: &str) -> Result<(), ClusterError> {
        let args = ["apply", "--server-side", "--filename", "-"];
        let applied = self.kubectl_run(&args).input(yaml.to_owned());
        applied.stdout().await?;
        Ok(())
    }

    fn write_files(&self) -> Result<(), ClusterError> {
        let server = self.authority.server()?;
        self.write("ca.crt", self.authority.certificate())?;
        self.write("server.crt", &server.certificate)?;
        self.write("server.key", &server.key)?;
        let accounts = certs::account_key()?;
        self.write("accounts.key", &accounts.secret)?;
        self.write("accounts.pub", &accounts.public)?;
        self.write("audit.yaml", AUDIT_POLICY)?;
        let admin = self.kubeconfig_of("admin", Some(MASTERS))?;
        debug_assert_eq!(admin, self.admin);
        Ok(())
    }

    fn run_etcd(&mut self) -> Result<(), ClusterError> {
        let dir = self.claim.dir();
        // A lone member is dialled by nobody: what it advertises is only a name.
        let name = "http://127.0.0.1:2380";
        let arguments = [
            format!("--data-dir={}", dir.join("etcd").display()),
            format!("--listen-client-urls={}", self.etcd()),
            format!("--advertise-client-urls={name}"),
            format!(
                "--listen-peer-urls=unix://{}",
                dir.join("peer.sock").display()
            ),
            format!("--initial-advertise-peer-urls={name}"),
            format!("--initial-cluster=default={name}"),
            // The data go with the cluster.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        self.run("etcd", &arguments)
    }

    fn etcd(&self) -> String {
        format!("unix://{}", self.claim.dir().join("etcd.sock").display())
    }

    fn run_api_server(&mut self, port: u16) -> Result<(), ClusterError> {
        let file = |name: &str| self.claim.dir().join(name).display().to_string();
        let arguments = [
            format!("--etcd-servers={}", self.etcd()),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--permit-port-sharing=true".to_owned(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("accounts.pub")),
            format!(
                "--service-account-signing-key-file={}",
                file("accounts.key")
            ),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            // Nobody reaches the server by its Service; an address must be named all the same, and
            // loopback is refused.
            "--endpoint-reconciler-type=none".to_owned(),
            "--advertise-address=192.0.2.1".to_owned(),
            format!("--audit-policy-file={}", file("audit.yaml")),
            format!("--audit-log-path={}", file("audit.log")),
        ];
        self.run("kube-apiserver", &arguments)
    }

    fn run_controllers(&mut self) -> Result<(), ClusterError> {
        let kubeconfig = self.kubeconfig_of("system:kube-controller-manager", None)?;
        let file = |name: &str| self.claim.dir().join(name).display().to_string();
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            "--use-service-account-credentials=true".to_owned(),
            format!(
                "--service-account-private-key-file={}",
                file("accounts.key")
            ),
            format!("--root-ca-file={}", file("ca.crt")),
            format!("--controllers={CONTROLLERS}"),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        self.run("kube-controller-manager", &arguments)
    }

    fn run(&mut self, program: &'static str, arguments: &[String]) -> Result<(), ClusterError> {
        let path = self.peers.program(program);
        let log = self.claim.dir().join(format!("{program}.log"));
        let started = Program::start(&self.claim, program, &path, arguments, log)?;
        self.programs.push(started);
        Ok(())
    }

    /// Until it listens, and lets a controller manager ask for its health: it makes such roles and
    /// bindings itself, and the controller manager gives up after 10 s without.
    async fn wait_for_api(&mut self, port: u16) -> Result<(), ClusterError> {
        let what = "kube-apiserver";
        self.wait(what, async || {
            let connected = TcpStream::connect(("127.0.0.1", port)).await;
            connected
                .map(drop)
                .map_err(|error| kube::Error::Service(error.into()))
        })
        .await?;
        let bindings: Api<ClusterRoleBinding> = Api::all(self.admin().await?);
        self.wait(what, async || {
            bindings.get("system:public-info-viewer").await.map(drop)
        })
        .await
    }

    /// Until the first of their works can be seen.
    async fn wait_for_controllers(&mut self) -> Result<(), ClusterError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin().await?, "default");
        let what = "kube-controller-manager";
        self.wait(what, async || accounts.get("default").await.map(drop))
            .await
    }

    async fn wait(
        &mut self,
        what: &'static str,
        ready: impl AsyncFn() -> Result<(), kube::Error>,
    ) -> Result<(), ClusterError> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let Err(error) = ready().await else {
                return Ok(());
            };
            for program in &mut self.programs {
                program.check()?;
            }
            if tokio::time::Instant::now() > deadline {
                return Err(ClusterError::NotReady {
                    what,
                    last: error.to_string(),
                    log: self.log_of(what),
                });
            }
            tokio::time::sleep(ASK).await;
        }
    }

    fn log_of(&self, name: &str) -> String {
        let mut programs = self.programs.iter();
        let program = programs.find(|program| program.name() == name);
        program.map(Program::log_end).unwrap_or_default()
    }

    /// Writes a kubeconfig of a user, with a certificate of its own.
    fn kubeconfig_of(&self, user: &str, group: Option<&str>) -> Result<PathBuf, ClusterError> {
        let path = self.claim.dir().join(format!("{user}.kubeconfig"));
        let pair = self.authority.user(user, group)?;
        let base64 = |text: &str| k8s_openapi::ByteString(text.as_bytes().to_vec());
        // JSON is YAML.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "causeway", "cluster": {
                "server": self.server,
                "certificate-authority-data": base64(self.authority.certificate()),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate-data": base64(&pair.certificate),
                "client-key-data": base64(&pair.key),
            }}],
            "contexts": [{"name": "causeway", "context": {"cluster": "causeway", "user": user}}],
            "current-context": "causeway",
        });
        write(&path, &config.to_string())?;
        Ok(path)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), ClusterError> {
        write(&self.claim.dir().join(name), text)
    }
}

/// Most of these are secrets.
fn write(path: &Path, text: &str) -> Result<(), ClusterError> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    let mut options = fs::OpenOptions::new();
    options.create(true).write(true).truncate(true).mode(0o600);
    options
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(ClusterError::file(path))
}

async fn client_of(user: &str, kubeconfig: &Path) -> Result<Client, ClusterError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| ClusterError::Client {
        user: user.to_owned(),
        source,
    };
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| failed(error.into()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| failed(error.into()))?;
    Client::try_from(config).map_err(|error| failed(error.into()))
}

/// A port of 127.0.0.1, reserved for who shares it by `SO_REUSEPORT`.
fn free_port() -> io::Result<(TcpSocket, u16)> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let port = socket.local_addr()?.port();
    Ok((socket, port))
}
