//! The real in-cluster IPAM manager beside the control plane.
//!
//! Started by the scenarios on the real API, which leave its webhooks off, and by the conformance suite
//! of its stand-in, which has them. Must stay true: with webhooks it runs only where loopback is all
//! there is, because its webhook server listens on every interface and takes no address.

use std::{fs, io, path::Path};

use causeway_api::ipam::{InClusterIPPool, InClusterIPPoolSpec};
use kube::{Api, Resource, api::PostParams};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Cluster, ClusterError, free_port, write};

const USER: &str = "ipam-in-cluster";
const PROGRAM: &str = "ipam-in-cluster";

/// What its webhooks are asked about.
const KINDS: [&str; 2] = ["inclusterippool", "globalinclusterippool"];

impl Cluster {
    /// Starts the in-cluster IPAM manager, with its definitions and its own role.
    ///
    /// Its webhooks are off: they only default and validate what users write in pools.
    ///
    /// # Errors
    /// [`ClusterError`] if it cannot be started.
    pub async fn ipam(&mut self) -> Result<(), ClusterError> {
        self.prepare_ipam().await?;
        self.run_ipam(&["--webhook-port=0".to_owned()])
    }

    /// The same with its webhooks, in force when this returns.
    ///
    /// # Errors
    /// [`ClusterError::NotAlone`] where anything but loopback is there; else as [`ipam`](Self::ipam).
    pub async fn ipam_with_webhooks(&mut self) -> Result<(), ClusterError> {
        if !only_loopback()? {
            return Err(ClusterError::NotAlone);
        }
        self.prepare_ipam().await?;
        let certificates = self.claim.dir().join("ipam-webhook");
        fs::create_dir_all(&certificates).map_err(ClusterError::file(&certificates))?;
        let server = self.authority.server()?;
        write(&certificates.join("tls.crt"), &server.certificate)?;
        write(&certificates.join("tls.key"), &server.key)?;
        // The manager does not share its port, so it must be free again before it listens; nobody
        // else is in this network namespace.
        let (socket, port) = free_port().map_err(ClusterError::Port)?;
        drop(socket);
        self.run_ipam(&[
            format!("--webhook-port={port}"),
            format!("--webhook-cert-dir={}", certificates.display()),
        ])?;
        self.wait(PROGRAM, async || {
            let connected = TcpStream::connect(("127.0.0.1", port)).await;
            connected
                .map(drop)
                .map_err(|error| kube::Error::Service(error.into()))
        })
        .await?;
        for configuration in self.webhooks(port) {
            self.apply(&configuration.to_string()).await?;
        }
        self.wait_for_webhooks().await
    }

    /// Its definitions and its role.
    async fn prepare_ipam(&self) -> Result<(), ClusterError> {
        let folder = self.peers.program("");
        let documents = self.peers.documents();
        for path in documents.map_err(ClusterError::file(&folder))? {
            let text = fs::read_to_string(&path).map_err(ClusterError::file(&path))?;
            self.apply(&text).await?;
        }
        self.kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
            "--all",
        ])
        .await?;
        self.allow(USER, "manager-role").await
    }

    fn run_ipam(&mut self, webhooks: &[String]) -> Result<(), ClusterError> {
        let kubeconfig = self.kubeconfig_of(USER, None)?;
        let mut arguments = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            "--metrics-bind-address=0".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
        ];
        arguments.extend_from_slice(webhooks);
        self.run(PROGRAM, &arguments)
    }

    /// The configurations that it is shipped with, but for where it is.
    fn webhooks(&self, port: u16) -> [Value; 2] {
        let bundle = k8s_openapi::ByteString(self.authority.certificate().as_bytes().to_vec());
        let hooks = |name: &str, path: &str, operations: &[&str]| -> Vec<Value> {
            let hook = |kind: &&str| {
                json!({
                    "name": format!("{name}.{kind}.ipam.cluster.x-k8s.io"),
                    "clientConfig": {
                        "url": format!(
                            "https://127.0.0.1:{port}/{path}-ipam-cluster-x-k8s-io-v1alpha2-{kind}"
                        ),
                        "caBundle": bundle,
                    },
                    "rules": [{
                        "apiGroups": ["ipam.cluster.x-k8s.io"],
                        "apiVersions": ["v1alpha2"],
                        "operations": operations,
                        "resources": [format!("{kind}s")],
                    }],
                    "failurePolicy": "Fail",
                    "matchPolicy": "Equivalent",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1", "v1beta1"],
                })
            };
            KINDS.iter().map(hook).collect()
        };
        let configuration = |kind: &str, hooks: Vec<Value>| {
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": PROGRAM},
                "webhooks": hooks,
            })
        };
        [
            configuration(
                "MutatingWebhookConfiguration",
                hooks("default", "mutate", &["CREATE", "UPDATE"]),
            ),
            configuration(
                "ValidatingWebhookConfiguration",
                hooks("validation", "validate", &["CREATE", "UPDATE", "DELETE"]),
            ),
        ]
    }

    /// Until a pool that only a webhook refuses is refused by it.
    async fn wait_for_webhooks(&mut self) -> Result<(), ClusterError> {
        let pools: Api<InClusterIPPool> = Api::namespaced(self.admin().await?, "default");
        let mut pool = InClusterIPPool::new("without-addresses", InClusterIPPoolSpec::default());
        pool.meta_mut().namespace = Some("default".to_owned());
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        self.wait(PROGRAM, async || {
            match pools.create(&dry_run, &pool).await {
                Err(kube::Error::Api(status)) if status.message.contains("denied the request") => {
                    Ok(())
                }
                Err(error) => Err(error),
                Ok(_) => Err(kube::Error::Service(
                    "its webhook is not asked yet".to_owned().into(),
                )),
            }
        })
        .await
    }
}

/// No route leads out of this network namespace, and no IPv6 address is on another device.
fn only_loopback() -> Result<bool, ClusterError> {
    let read = |path: &str| match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(ClusterError::file(Path::new(path))),
    };
    // The first line names the columns.
    let routes = read("/proc/net/route")?.lines().count() > 1;
    // The last column names the device.
    let addresses = read("/proc/net/if_inet6")?;
    let elsewhere = addresses.lines().any(|line| !line.ends_with(" lo"));
    Ok(!routes && !elsewhere)
}
