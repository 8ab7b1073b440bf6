//! What is on the other side of the API: stand-ins in this process, or the real control plane with
//! the real IPAM manager. Kube-OVN is a stand-in with both.

use causeway_api::{apps_crds, crds, foreign_crds, ipam::InClusterIPPool};
use causeway_ipam::{Ipam, WEBHOOK_URL, webhook, webhook_configuration};
use causeway_kubeapi::{Clock, GarbageCollector, KubeApi};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Resource, ResourceExt};

use super::{EmbeddedError, create, wait};
use crate::{Cluster, Progress};

/// Which API a site is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The stand-ins.
    StandIn,
    /// kube-apiserver, kube-controller-manager, etcd and the in-cluster IPAM manager, as
    /// `cargo xtask peers` builds them.
    Real,
}

/// Those whose roles are not written yet.
const TRUSTED: [&str; 2] = ["causeway", "kube-ovn"];

/// A running API with everything of a cluster that has no part in the site.
pub(super) enum World {
    StandIn {
        api: KubeApi,
        ipam: Ipam,
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
                progress.step("starting the API, Kube-OVN and IPAM stand-ins");
                let api = KubeApi::new(Clock::machine())?;
                let collector = api.collect_in_background();
                let admin = api.client("admin");
                define(&admin, |_| true).await?;
                api.webhook(WEBHOOK_URL, webhook(api.client("ipam")));
                create(&Api::all(admin), &webhook_configuration()).await?;
                let ipam = Ipam::start(api.client("ipam"));
                Ok(Self::StandIn {
                    api,
                    ipam,
                    _collector: collector,
                })
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

    /// A client with this identity.
    pub(super) async fn client(&self, identity: &str) -> Result<Client, EmbeddedError> {
        match self {
            Self::StandIn { api, .. } => Ok(api.client(identity)),
            Self::Real(cluster) if identity == "admin" => Ok(cluster.admin().await?),
            Self::Real(cluster) => Ok(cluster.client(identity).await?),
        }
    }

    pub(super) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::StandIn { .. } => None,
            Self::Real(cluster) => Some(cluster),
        }
    }

    pub(super) async fn stop(self) -> Result<(), EmbeddedError> {
        match self {
            Self::StandIn { ipam, .. } => {
                ipam.stop().await;
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
        create(&api, definition).await?;
    }
    for definition in &all {
        wait(&api, &definition.name_any(), is_established).await?;
    }
    Ok(())
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let status = definition.status.as_ref();
    let mut conditions = status
        .and_then(|it| it.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|it| it.type_ == "Established" && it.status == "True")
}
