//! A cluster as it is now, read once: lists of the API and, where asked for, the OVN databases.
//!
//! Used by `explain`, `status`, and `plan` and `check` with `--live`. Must stay true: only lists are
//! asked for, so that whoever may read can use it; what may not be read is named, and is not taken for
//! absent.

use std::{collections::BTreeMap, fmt::Debug, path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, bail};
use causeway_api::{
    ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud,
    ipam::{IPAddress, IPAddressClaim, InClusterIPPool},
    kubeovn,
    multus::NetworkAttachmentDefinition,
    observed,
};
use causeway_observe::OvnRemotes;
use causeway_ovn::Remote;
use causeway_planner::{
    explain::Sight,
    model::{SubnetKey, VpcKey},
    snapshot::{Moment, Snapshot},
};
use k8s_openapi::api::{
    core::v1::{Namespace as NamespaceObject, Node},
    networking::v1::ServiceCIDR,
};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;

/// Longest that the API server may take to be connected to, and the databases to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest that one list may take.
const LIST_PATIENCE: Duration = Duration::from_mins(1);

/// Which cluster.
#[derive(Debug, clap::Args)]
pub struct Cluster {
    /// The kubeconfig [default: as of kubectl: $KUBECONFIG, else ~/.kube/config; in a pod its service
    /// account].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Whether files are laid over a cluster, and over which.
#[derive(Debug, clap::Args)]
pub struct Live {
    /// Take the cluster of the kubeconfig as it is for the world that the files come into. Only
    /// reads.
    #[arg(long)]
    pub live: bool,
    #[command(flatten)]
    cluster: Cluster,
}

impl Live {
    /// The cluster, if it is asked for.
    ///
    /// # Errors
    /// Not everything may be read, or the cluster cannot be asked.
    pub fn snapshot(&self) -> anyhow::Result<Option<Snapshot>> {
        if self.live {
            return run(self.cluster.whole()).map(Some);
        }
        if self.cluster.kubeconfig.is_some() || self.cluster.context.is_some() {
            bail!("--kubeconfig and --context say which cluster --live means; give --live");
        }
        Ok(None)
    }
}

/// Which OVN databases.
#[derive(Debug, clap::Args)]
pub struct Databases {
    /// OVN's northbound database, as unix:PATH. Without the two, rows are not looked at.
    #[arg(long, value_name = "REMOTE", value_parser = remote, requires = "ovn_sb")]
    ovn_nb: Option<Remote>,
    /// OVN's southbound database, as unix:PATH.
    #[arg(long, value_name = "REMOTE", value_parser = remote, requires = "ovn_nb")]
    ovn_sb: Option<Remote>,
}

fn remote(text: &str) -> Result<Remote, String> {
    match text.strip_prefix("unix:") {
        Some(path) if !path.is_empty() => Ok(Remote::Unix(path.into())),
        _ => Err("it is unix:PATH, the socket of an ovsdb-server on this machine".to_owned()),
    }
}

/// Runs what asks a server.
///
/// # Errors
/// Those of `work`.
pub fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(work)
}

/// Reads a cluster.
pub struct Reader {
    client: Client,
    /// Looked at where a user may not see all namespaces.
    namespace: String,
    sight: Sight,
}

impl Cluster {
    /// Connects. `namespace` is what a user who may not see all namespaces asks about; the context's
    /// own if it is not given.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub async fn reader(&self, namespace: Option<&str>) -> anyhow::Result<Reader> {
        let mut config = self.config().await.context("cannot use the kubeconfig")?;
        config.connect_timeout = Some(PATIENCE);
        config.read_timeout = Some(LIST_PATIENCE);
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        let client = Client::try_from(config).context("cannot use the kubeconfig")?;
        let mut sight = Sight::default();
        sight.snapshot.now = Moment(jiff::Timestamp::now().as_millisecond());
        Ok(Reader {
            client,
            namespace,
            sight,
        })
    }

    /// The whole cluster, for who judges or plans on it.
    async fn whole(&self) -> anyhow::Result<Snapshot> {
        let sight = self.reader(None).await?.everything().await?;
        if !sight.is_whole() {
            let hidden: Vec<String> = sight.hidden.into_iter().collect();
            let kinds = match hidden.as_slice() {
                [] => "the objects of all namespaces".to_owned(),
                _ => format!("objects of kind {}", hidden.join(", ")),
            };
            bail!("this needs to see everything, and may not list {kinds}");
        }
        Ok(sight.snapshot)
    }

    async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        Ok(match &self.kubeconfig {
            Some(path) => {
                // Its messages say what their sources say.
                let kubeconfig = Kubeconfig::read_from(path).map_err(|error| anyhow!("{error}"))?;
                Config::from_custom_kubeconfig(kubeconfig, &options).await?
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options).await?,
            None => Config::infer().await?,
        })
    }
}

/// What a list came to.
enum Listed<K> {
    All(Vec<K>),
    NotServed,
    Forbidden,
}

/// A kind that can be read.
trait Readable: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug {}
impl<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug> Readable for K {}

impl Reader {
    /// Everything that plans are made of, but for the OVN databases.
    ///
    /// # Errors
    /// The API server does not answer, or lacks causeway's kinds.
    pub async fn everything(mut self) -> anyhow::Result<Sight> {
        self.read_own().await?;
        self.read_kube_ovn().await?;
        self.read_addresses().await?;
        let nodes = self.cluster::<Node>().await?.unwrap_or_default();
        self.sight.snapshot.nodes = keyed(&nodes, observed::node);
        let service_cidrs = self.cluster::<ServiceCIDR>().await?;
        self.sight.snapshot.service_cidrs =
            keyed(&service_cidrs.unwrap_or_default(), observed::service_cidr);
        let namespaces = self.cluster::<NamespaceObject>().await?;
        self.sight.snapshot.namespaces =
            keyed(&namespaces.unwrap_or_default(), observed::namespace);
        Ok(self.sight)
    }

    /// Zones, VPCs and networks alone.
    ///
    /// # Errors
    /// As of [`Self::everything`].
    pub async fn own(mut self) -> anyhow::Result<Sight> {
        self.read_own().await?;
        Ok(self.sight)
    }

    async fn read_own(&mut self) -> anyhow::Result<()> {
        let missing =
            || "the proxmox.cozystack.io API is not installed; apply what `causeway crd` prints";
        let zones = self.cluster::<ProxmoxNetworkZone>().await?;
        let zones = zones.with_context(missing)?;
        let networks = self.namespaced::<ProxmoxNetwork>().await?;
        let networks = networks.with_context(missing)?;
        let vpcs = self.namespaced::<VirtualPrivateCloud>().await?;
        let snapshot = &mut self.sight.snapshot;
        snapshot.zones = keyed(&zones, observed::zone);
        snapshot.networks = by_subnet(&networks, observed::network);
        snapshot.vpcs = vpcs
            .unwrap_or_default()
            .iter()
            .map(|vpc| {
                let namespace = vpc.namespace().unwrap_or_default();
                (VpcKey::new(&namespace, &vpc.name_any()), observed::vpc(vpc))
            })
            .collect();
        Ok(())
    }

    async fn read_kube_ovn(&mut self) -> anyhow::Result<()> {
        let Some(subnets) = self.cluster::<kubeovn::Subnet>().await? else {
            self.sight.snapshot.served.kube_ovn = false;
            return Ok(());
        };
        let provider_networks = self.cluster::<kubeovn::ProviderNetwork>().await?;
        let vlans = self.cluster::<kubeovn::Vlan>().await?;
        let routers = self.cluster::<kubeovn::Vpc>().await?;
        let ips = self.cluster::<kubeovn::IP>().await?;
        let snapshot = &mut self.sight.snapshot;
        snapshot.subnets = keyed(&subnets, observed::subnet);
        let site = subnets.iter();
        let site = site.filter_map(|one| Some((one.name_any(), observed::site_subnet(one)?)));
        snapshot.site_subnets = site.collect();
        snapshot.provider_networks = keyed(
            &provider_networks.unwrap_or_default(),
            observed::provider_network,
        );
        snapshot.vlans = keyed(&vlans.unwrap_or_default(), observed::vlan);
        snapshot.routers = keyed(&routers.unwrap_or_default(), observed::router);
        snapshot.ips = keyed(&ips.unwrap_or_default(), observed::ip);
        Ok(())
    }

    async fn read_addresses(&mut self) -> anyhow::Result<()> {
        let attachments = self.namespaced::<NetworkAttachmentDefinition>().await?;
        let pools = self.namespaced::<InClusterIPPool>().await?;
        let claims = self.namespaced::<IPAddressClaim>().await?;
        let given = self.namespaced::<IPAddress>().await?;
        let snapshot = &mut self.sight.snapshot;
        snapshot.served.multus = attachments.is_some();
        snapshot.served.ipam = pools.is_some();
        // The controller too knows only those of its own.
        let attachments = attachments.unwrap_or_default().into_iter();
        let attachments: Vec<_> = attachments
            .filter(|one| observed::meta(one).is_ours())
            .collect();
        let pools = pools.unwrap_or_default().into_iter();
        let pools: Vec<_> = pools.filter(|one| observed::meta(one).is_ours()).collect();
        snapshot.attachments = by_subnet(&attachments, observed::attachment);
        snapshot.pools = by_subnet(&pools, observed::pool);
        let claims = claims.unwrap_or_default();
        snapshot.claims = by_full_name(&claims, observed::address_claim);
        let given = given.unwrap_or_default();
        snapshot.addresses = by_full_name(&given, observed::given_address);
        Ok(())
    }

    /// Objects of a kind of the whole cluster; None where it is not served.
    async fn cluster<K: Readable>(&mut self) -> anyhow::Result<Option<Vec<K>>> {
        let listed = list(&Api::all(self.client.clone())).await?;
        Ok(self.note::<K>(listed))
    }

    /// Objects of a kind of all namespaces, or of the one where not all may be read.
    async fn namespaced<K: Readable + Resource<Scope = NamespaceResourceScope>>(
        &mut self,
    ) -> anyhow::Result<Option<Vec<K>>> {
        let mut listed = list(&Api::all(self.client.clone())).await?;
        if matches!(listed, Listed::Forbidden) {
            listed = list(&Api::namespaced(self.client.clone(), &self.namespace)).await?;
            self.sight.partial = true;
        }
        Ok(self.note::<K>(listed))
    }

    fn note<K: Readable>(&mut self, listed: Listed<K>) -> Option<Vec<K>> {
        match listed {
            Listed::All(objects) => Some(objects),
            Listed::NotServed => None,
            Listed::Forbidden => {
                self.sight.hidden.insert(K::kind(&()).into_owned());
                Some(Vec::new())
            }
        }
    }
}

async fn list<K: Readable>(api: &Api<K>) -> anyhow::Result<Listed<K>> {
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(Listed::All(list.items)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Listed::NotServed),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Listed::Forbidden),
        Err(error) => {
            let kind = K::kind(&());
            Err(error).with_context(|| format!("cannot list objects of kind {kind}"))
        }
    }
}

impl Databases {
    /// Puts the databases into what was seen, if they were given. Whether they were.
    ///
    /// # Errors
    /// A database that was given does not answer, or is another one.
    pub async fn read(&self, snapshot: &mut Snapshot) -> anyhow::Result<bool> {
        let (Some(northbound), Some(southbound)) = (&self.ovn_nb, &self.ovn_sb) else {
            return Ok(false);
        };
        let remotes = OvnRemotes {
            northbound: northbound.clone(),
            southbound: southbound.clone(),
        };
        let (northbound, southbound) = causeway_observe::look(remotes, PATIENCE).await?;
        snapshot.northbound = Some(northbound);
        snapshot.southbound = Some(southbound);
        Ok(true)
    }
}

fn keyed<K: Resource, Name: Ord + From<String>, T>(
    objects: &[K],
    read: impl Fn(&K) -> T,
) -> BTreeMap<Name, T> {
    let entry = |object: &K| (object.name_any().into(), read(object));
    objects.iter().map(entry).collect()
}

fn by_subnet<K: Resource, T>(objects: &[K], read: impl Fn(&K) -> T) -> BTreeMap<SubnetKey, T> {
    let entry = |object: &K| {
        let key = SubnetKey {
            namespace: object.namespace().unwrap_or_default().into(),
            id: object.name_any().into(),
        };
        (key, read(object))
    };
    objects.iter().map(entry).collect()
}

/// By namespace and name, where the object is one for us.
fn by_full_name<K: Resource, T>(
    objects: &[K],
    read: impl Fn(&K) -> Option<T>,
) -> BTreeMap<String, T> {
    let entry = |object: &K| {
        let namespace = object.namespace().unwrap_or_default();
        Some((format!("{namespace}/{}", object.name_any()), read(object)?))
    };
    objects.iter().filter_map(entry).collect()
}
