//! The embedded mode: a site with the real controllers in one process, on the stand-in of the API or
//! on the real one.
//!
//! Made by `causeway demo` and by the packet scenarios. Must stay true: controllers, planner and OVN
//! writer are the ones of a cluster; only what is on the other side of the API differs; everything
//! ends with this value.

mod apply;
mod backend;
mod dump;
mod wait;

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use causeway_api::{ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud, keys};
use causeway_controller::{Controller, Options as ControllerOptions};
use causeway_drive::Watched;
use causeway_kubeapi::Server;
use causeway_kubeovn::KubeOvn;
use causeway_observe::{ObserveError, OvnRemotes};
use causeway_ovn::{Client as OvnClient, Remote};
use causeway_planner::{
    model::{SubnetId, VpcKey},
    snapshot::{Moment, Settings},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::Serialize;
use serde_json::json;
use tokio::{sync::oneshot, task::JoinHandle};

pub use apply::{ApplyError, documents as apply_documents};
pub use backend::Backend;
pub use dump::ApiDump;
pub use wait::{gone, wait, when_all};

use crate::{Cluster, ClusterError, Guest, GuestError, Options, Progress, Site, SiteError};
use backend::World;

/// How long anything may take to become so: far more than it needs on a loaded machine.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// The label that zones of the lab select trunk nodes by.
const TRUNK_LABEL: &str = keys::TRUNK;

/// A site with all that makes it a cluster.
pub struct Embedded {
    /// Namespaces, OVN and guests.
    pub site: Site,
    admin: Client,
    settings: Settings,
    controllers: Vec<Running>,
    kube_ovn: Option<KubeOvn>,
    world: World,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The embedded mode cannot be started, or something in it does not become so.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The stand-in of the API.
    #[error("the API cannot be started")]
    Api(#[from] causeway_kubeapi::StartError),
    /// The stand-in by HTTPS.
    #[error("the API cannot be served")]
    Serve(#[from] causeway_kubeapi::ServeError),
    /// The real API.
    #[error("the real API cannot be used")]
    Cluster(#[from] ClusterError),
    /// The site.
    #[error("the site cannot be built")]
    Site(#[from] SiteError),
    /// A guest.
    #[error("a guest cannot be made")]
    Guest(#[from] GuestError),
    /// The controller.
    #[error("the controller cannot be started")]
    Observe(#[from] ObserveError),
    /// Files.
    #[error("an object cannot be applied")]
    Apply(#[from] ApplyError),
    /// A request to the API.
    #[error("cannot {verb} {what}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// On what.
        what: String,
        /// What the API says.
        #[source]
        source: Box<kube::Error>,
    },
    /// It did not become so.
    #[error("{what} is not so after {} s: {last}", PATIENCE.as_secs())]
    Never {
        /// What was waited for.
        what: String,
        /// What it is instead.
        last: String,
    },
    /// A watch ended.
    #[error("cannot wait for {what}")]
    Wait {
        /// What was waited for.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::runtime::wait::Error>,
    },
}

impl Embedded {
    /// Builds a site of this name, with the stand-ins of the API, Kube-OVN and IPAM, and no
    /// controller yet.
    ///
    /// # Errors
    /// [`EmbeddedError`] with what is missing.
    pub async fn start(
        name: &str,
        options: Options,
        settings: Settings,
        progress: Progress,
    ) -> Result<Self, EmbeddedError> {
        Self::start_on(Backend::StandIn, name, options, settings, progress).await
    }

    /// The same, on the stand-in of the API or on the real one.
    ///
    /// # Errors
    /// [`EmbeddedError`] with what is missing.
    pub async fn start_on(
        backend: Backend,
        name: &str,
        options: Options,
        settings: Settings,
        progress: Progress,
    ) -> Result<Self, EmbeddedError> {
        let trunk_nodes: BTreeMap<String, bool> = options
            .nodes
            .iter()
            .map(|node| (node.name.clone(), node.trunk))
            .collect();
        backend.check()?;
        let site = Site::start(name, options, progress.clone()).await?;
        let world = World::start(backend, name, &progress).await?;
        let admin = world.client("admin").await?;
        let kubelet = world.founder().await?;
        for (name, trunk) in &trunk_nodes {
            let chassis = site.chassis(name)?;
            make_node(&kubelet, name, chassis, *trunk).await?;
        }
        let mut embedded = Self {
            site,
            admin,
            settings,
            controllers: Vec::new(),
            kube_ovn: None,
            world,
        };
        embedded.start_kube_ovn().await?;
        Ok(embedded)
    }

    /// Starts Kube-OVN's stand-in, where it was stopped.
    ///
    /// # Errors
    /// [`EmbeddedError`] if the API does not let it in.
    pub async fn start_kube_ovn(&mut self) -> Result<(), EmbeddedError> {
        let northbound = OvnClient::start(
            remote(&self.site.nb_remote()),
            "OVN_Northbound",
            causeway_kubeovn::monitors(),
        );
        self.kube_ovn = Some(KubeOvn::start(
            self.world.client("kube-ovn").await?,
            northbound,
            self.site.cni(),
            causeway_kubeovn::Options::default(),
        ));
        Ok(())
    }

    /// Stops Kube-OVN's stand-in after its pass under way; what it has made stays.
    pub async fn stop_kube_ovn(&mut self) {
        if let Some(kube_ovn) = self.kube_ovn.take() {
            kube_ovn.stop().await;
        }
    }

    /// Starts a controller; several may run at once.
    ///
    /// # Errors
    /// [`EmbeddedError`] if it cannot observe the API.
    pub async fn start_controller(&mut self) -> Result<(), EmbeddedError> {
        let options = ControllerOptions {
            settings: self.settings.clone(),
            ovn: Some(OvnRemotes {
                northbound: remote(&self.site.nb_remote()),
                southbound: remote(&self.site.sb_remote()),
            }),
            clock: Arc::new(machine_time),
            seed: self.controllers.len() as u64,
        };
        let client = self.world.client("causeway").await?;
        let mut controller = Controller::start(client, options).await?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            controller
                .run_until(async {
                    // A dropped sender is a stop too.
                    let _ = stopped.await;
                })
                .await;
        });
        self.controllers.push(Running { stop, task });
        Ok(())
    }

    /// Stops all controllers, each after its pass under way.
    pub async fn stop_controllers(&mut self) {
        for running in self.controllers.drain(..) {
            // A controller that has ended already does not listen.
            let _ = running.stop.send(());
            if let Err(error) = running.task.await {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "controller failed"
                );
            }
        }
    }

    /// The real control plane, if that is what this site is on.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.world.cluster()
    }

    /// The API by HTTPS, if it is served.
    pub fn server(&self) -> Option<&Server> {
        self.world.server()
    }

    /// A client of the administrator's.
    pub fn client(&self) -> Client {
        self.admin.clone()
    }

    /// Applies every document of a YAML file, as `kubectl apply --server-side` does. Namespaces that
    /// documents name are made.
    ///
    /// # Errors
    /// [`EmbeddedError::Apply`] for the first document that is refused.
    pub async fn apply(&self, yaml: &str) -> Result<(), EmbeddedError> {
        Ok(apply::documents(&self.admin, yaml).await?)
    }

    /// Everything in the API, without what no two runs share.
    ///
    /// # Errors
    /// [`EmbeddedError`] if the API refuses.
    pub async fn dump(&self) -> Result<ApiDump, EmbeddedError> {
        dump::everything(&self.admin).await
    }

    /// Waits until a network's condition Ready is True; gives the network and how long it took.
    ///
    /// # Errors
    /// [`EmbeddedError::Never`] with the conditions that it has instead.
    pub async fn network_ready(
        &self,
        vpc: &VpcKey,
        subnet: &str,
    ) -> Result<(ProxmoxNetwork, Duration), EmbeddedError> {
        let start = Instant::now();
        let id: SubnetId = vpc.subnet_id(&subnet.into());
        let api: Api<ProxmoxNetwork> = Api::namespaced(self.admin.clone(), vpc.namespace.as_str());
        let network = wait(&api, id.as_str(), |network: &ProxmoxNetwork| {
            network
                .status
                .as_ref()
                .is_some_and(|status| is_ready(&status.conditions))
        })
        .await?;
        Ok((network, start.elapsed()))
    }

    /// Waits until a VPC's condition Ready is True.
    ///
    /// # Errors
    /// [`EmbeddedError::Never`] with the conditions that it has instead.
    pub async fn vpc_ready(&self, vpc: &VpcKey) -> Result<VirtualPrivateCloud, EmbeddedError> {
        let api = Api::namespaced(self.admin.clone(), vpc.namespace.as_str());
        wait(&api, vpc.name.as_str(), |vpc: &VirtualPrivateCloud| {
            let observed = vpc
                .status
                .as_ref()
                .and_then(|status| status.observed_generation);
            observed == vpc.metadata.generation
                && vpc
                    .status
                    .as_ref()
                    .is_some_and(|status| is_ready(&status.conditions))
        })
        .await
    }

    /// Waits until a zone's condition Ready is True.
    ///
    /// # Errors
    /// [`EmbeddedError::Never`] with the conditions that it has instead.
    pub async fn zone_ready(&self, zone: &str) -> Result<ProxmoxNetworkZone, EmbeddedError> {
        wait(
            &Api::all(self.admin.clone()),
            zone,
            |zone: &ProxmoxNetworkZone| {
                zone.status
                    .as_ref()
                    .is_some_and(|status| is_ready(&status.conditions))
            },
        )
        .await
    }

    /// Makes a pod on a node with secondary networks on subnets of a VPC, each with routes to
    /// `routes` by its subnet's gateway, and waits until it runs. Its `net1` is the first of them.
    ///
    /// # Errors
    /// [`EmbeddedError`] if it does not run.
    pub async fn pod(
        &self,
        vpc: &VpcKey,
        name: &str,
        node: &str,
        attachment: &PodAttachment<'_>,
    ) -> Result<Guest, EmbeddedError> {
        let id = vpc.subnet_id(&attachment.subnet.into());
        let provider = id.provider(&vpc.namespace);
        let routes: Vec<_> = attachment
            .routes
            .iter()
            .map(|cidr| json!({"dst": cidr, "gw": attachment.gateway}))
            .collect();
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": vpc.namespace,
                "annotations": {
                    (keys::POD_NETWORKS): format!("{}/{id}", vpc.namespace),
                    (keys::pod_annotation(&provider, "routes")): json!(routes).to_string(),
                },
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "none"}],
            },
        });
        let api: Api<Pod> = Api::namespaced(self.admin.clone(), vpc.namespace.as_str());
        let pod: Pod = serde_json::from_value(pod).map_err(|source| EmbeddedError::Request {
            verb: "write",
            what: format!("pod {name}"),
            source: Box::new(kube::Error::SerdeError(source)),
        })?;
        create(&api, &pod).await?;
        wait(&api, name, |pod: &Pod| {
            let phase = pod
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref());
            phase == Some("Running")
        })
        .await?;
        Ok(self.site.pod(vpc.namespace.as_str(), name)?)
    }

    /// Ends everything, and says what could not be ended.
    ///
    /// # Errors
    /// [`EmbeddedError::Site`] with what stays.
    pub async fn stop(mut self) -> Result<(), EmbeddedError> {
        self.stop_controllers().await;
        // Not stopped: a pass may be waiting for a switch, and the switches go now.
        drop(self.kube_ovn.take());
        let world = self.world.stop().await;
        self.site.stop()?;
        world
    }
}

/// A pod's secondary network.
#[derive(Clone, Copy, Debug)]
pub struct PodAttachment<'a> {
    /// Name of the subnet in the VPC.
    pub subnet: &'a str,
    /// Its gateway.
    pub gateway: Ipv4Addr,
    /// CIDRs that are reached by the gateway: a pod's default route is its primary interface's.
    pub routes: &'a [&'a str],
}

/// Milliseconds since 1970, as the machine has them.
pub fn machine_time() -> Moment {
    Moment(k8s_openapi::jiff::Timestamp::now().as_millisecond())
}

/// A database of the site, which names it as OVN's tools do.
fn remote(text: &str) -> Remote {
    Remote::Unix(text.strip_prefix("unix:").unwrap_or(text).into())
}

/// Whether condition Ready is True.
pub(crate) fn is_ready(conditions: &[causeway_api::Condition]) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn create<K: Watched + Serialize>(api: &Api<K>, object: &K) -> Result<(), EmbeddedError> {
    let created = api.create(&PostParams::default(), object).await;
    created
        .map(|_| ())
        .map_err(|source| EmbeddedError::Request {
            verb: "create",
            what: format!("{} {}", K::kind(&()), object.name_any()),
            source: Box::new(source),
        })
}

async fn make_node(
    client: &Client,
    name: &str,
    chassis: &str,
    trunk: bool,
) -> Result<(), EmbeddedError> {
    let labels = if trunk {
        json!({"kubernetes.io/hostname": name, (TRUNK_LABEL): "true"})
    } else {
        json!({"kubernetes.io/hostname": name})
    };
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {(keys::CHASSIS): chassis},
        },
    });
    let status = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    });
    let api: Api<Node> = Api::all(client.clone());
    let kubelet = PatchParams::apply("kubelet").force();
    let failed = |source| EmbeddedError::Request {
        verb: "make",
        what: format!("node {name}"),
        source: Box::new(source),
    };
    api.patch(name, &kubelet, &Patch::Apply(&node))
        .await
        .map_err(failed)?;
    api.patch_status(name, &kubelet, &Patch::Apply(&status))
        .await
        .map_err(failed)?;
    Ok(())
}
