//! What is on the other side of the API: stand-ins in this process, or the real control plane with
//! the real IPAM manager. Kube-OVN is a stand-in with both.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use causeway_api::{apps_crds, crds, foreign_crds, ipam::InClusterIPPool};
use causeway_drive::Watched;
use causeway_ipam::{Ipam, WEBHOOK_URL, webhook, webhook_configuration};
use causeway_kubeapi::{Clock, GarbageCollector, KubeApi, Server, check_kubeconfig};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;

use super::{EmbeddedError, wait};
use crate::{Cluster, Progress};

/// Which API a site is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The stand-ins.
    StandIn,
    /// The stand-ins, with the objects in this file and the API by HTTPS on loopback, its kubeconfig
    /// in the file's directory.
    Kept(PathBuf),
    /// kube-apiserver, kube-controller-manager, etcd and the in-cluster IPAM manager, as
    /// `cargo xtask peers` builds them.
    Real,
}

impl Backend {
    /// What keeps it from starting and can be told before anything is built.
    pub(super) fn check(&self) -> Result<(), EmbeddedError> {
        match self {
            Self::Kept(file) => Ok(file.parent().map_or(Ok(()), check_kubeconfig)?),
            Self::StandIn | Self::Real => Ok(()),
        }
    }
}

/// Those whose roles are not written yet.
const TRUSTED: [&str; 2] = ["causeway", "kube-ovn"];

/// Who makes what is there before anybody comes.
const FOUNDER: &str = "admin";

/// Whose the definitions are.
const MANAGER: &str = "causeway-up";

/// A running API with everything of a cluster that has no part in the site.
pub(super) enum World {
    StandIn {
        api: KubeApi,
        ipam: Ipam,
        server: Option<Server>,
        _collector: GarbageCollector,
    },
    Real(Box<Cluster>),
}

impl World {
    /// Starts it, with all definitions.
    pub(super) async fn start(
        backend: Backend,
        site: &str,
        progress: &Progress,
    ) -> Result<Self, EmbeddedError> {
        match backend {
            Backend::StandIn => {
                Self::stand_in(KubeApi::new(Clock::machine())?, None, progress).await
            }
            Backend::Kept(file) => {
                let api = KubeApi::open(&file, Clock::machine())?;
                Self::stand_in(api, file.parent(), progress).await
            }
            Backend::Real => {
                let mut cluster = Cluster::start(&format!("{site}-api"), progress).await?;
                cluster.ipam().await?;
                // The IPAM manager comes with its own.
                let group = InClusterIPPool::group(&());
                define(&cluster.admin().await?, |it| it != group).await?;
                for user in TRUSTED {
                    cluster.allow(user, "cluster-admin").await?;
                }
                Ok(Self::Real(Box::new(cluster)))
            }
        }
    }

    async fn stand_in(
        api: KubeApi,
        dir: Option<&Path>,
        progress: &Progress,
    ) -> Result<Self, EmbeddedError> {
        progress.step("starting the API, Kube-OVN and IPAM stand-ins");
        let collector = api.collect_in_background();
        api.webhook(WEBHOOK_URL, webhook(api.client("ipam")));
        let founder = api.client_past_webhooks(FOUNDER);
        define(&founder, |_| true).await?;
        apply(&Api::all(founder), &webhook_configuration()).await?;
        let ipam = Ipam::start(api.client("ipam"));
        let server = match dir {
            Some(dir) => Some(api.serve((Ipv4Addr::LOCALHOST, 0).into(), dir).await?),
            None => None,
        };
        Ok(Self::StandIn {
            api,
            ipam,
            server,
            _collector: collector,
        })
    }

    /// A client with this identity.
    pub(super) async fn client(&self, identity: &str) -> Result<Client, EmbeddedError> {
        match self {
            Self::StandIn { api, .. } => Ok(api.client(identity)),
            Self::Real(cluster) if identity == "admin" => Ok(cluster.admin().await?),
            Self::Real(cluster) => Ok(cluster.client(identity).await?),
        }
    }

    /// A client for what has to be there before anybody can come in. The stand-in asks no webhook
    /// about it: a configuration that was kept may name one that is gone, and could never be removed.
    pub(super) async fn founder(&self) -> Result<Client, EmbeddedError> {
        match self {
            Self::StandIn { api, .. } => Ok(api.client_past_webhooks(FOUNDER)),
            Self::Real(_) => self.client(FOUNDER).await,
        }
    }

    pub(super) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::StandIn { .. } => None,
            Self::Real(cluster) => Some(cluster),
        }
    }

    pub(super) fn server(&self) -> Option<&Server> {
        match self {
            Self::StandIn { server, .. } => server.as_ref(),
            Self::Real(_) => None,
        }
    }

    pub(super) async fn stop(self) -> Result<(), EmbeddedError> {
        match self {
            Self::StandIn {
                api, ipam, server, ..
            } => {
                ipam.stop().await;
                if let Some(server) = server {
                    server.stop().await;
                }
                api.close();
                Ok(())
            }
            Self::Real(cluster) => Ok(cluster.stop()?),
        }
    }
}

/// Installs our definitions and those of the foreign kinds whose group is wanted, and waits until
/// they are served.
async fn define(admin: &Client, wanted: impl Fn(&str) -> bool) -> Result<(), EmbeddedError> {
    let api: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let all = crds().into_iter().chain(apps_crds()).chain(foreign_crds());
    let all: Vec<_> = all.filter(|it| wanted(&it.spec.group)).collect();
    for definition in &all {
        apply(&api, definition).await?;
    }
    for definition in &all {
        wait(&api, &definition.name_any(), is_established).await?;
    }
    Ok(())
}

/// Applied, not created: an earlier version of us may have left its own.
async fn apply<K: Watched + Serialize>(api: &Api<K>, object: &K) -> Result<(), EmbeddedError> {
    let applied = causeway_drive::apply(api, MANAGER, object).await;
    applied
        .map(|_| ())
        .map_err(|source| EmbeddedError::Request {
            verb: "apply",
            what: format!("{} {}", K::kind(&()), object.name_any()),
            source: Box::new(source),
        })
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let status = definition.status.as_ref();
    let mut conditions = status
        .and_then(|it| it.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|it| it.type_ == "Established" && it.status == "True")
}
