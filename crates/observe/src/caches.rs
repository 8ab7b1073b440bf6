//! One cache a kind, each keeping its part of the snapshot.
//!
//! Must stay true: a kind that the API does not serve is marked so; it is never an empty kind.

use std::sync::{Arc, Mutex};

use causeway_api::{
    ProxmoxNetwork, ProxmoxNetworkZone, VirtualPrivateCloud,
    ipam::{IPAddress, IPAddressClaim, InClusterIPPool},
    keys, kubeovn,
    multus::NetworkAttachmentDefinition,
    observed,
};
use causeway_drive::{Cache, Change, Selection, Wakes, Watched};
use causeway_planner::{
    model::{SubnetKey, VpcKey},
    snapshot::{ServedKinds, Snapshot},
};
use k8s_openapi::api::{
    core::v1::{Namespace, Node},
    networking::v1::ServiceCIDR,
};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};

use crate::{Key, lock, wake};

/// The kinds that are watched. A kind that is not served has no cache.
pub struct Caches {
    /// Talks to the API.
    pub client: Client,
    /// Zones.
    pub zones: Cache<ProxmoxNetworkZone>,
    /// VPCs; absent where the platform does not have the kind.
    pub vpcs: Option<Cache<VirtualPrivateCloud>>,
    /// Networks.
    pub networks: Cache<ProxmoxNetwork>,
    /// Kube-OVN's kinds.
    pub kube_ovn: Option<KubeOvn>,
    /// Attachments of ours.
    pub attachments: Option<Cache<NetworkAttachmentDefinition>>,
    /// Pools of ours.
    pub pools: Option<Cache<InClusterIPPool>>,
    pub(crate) claims: Option<Cache<IPAddressClaim>>,
    pub(crate) addresses: Option<Cache<IPAddress>>,
    pub(crate) service_cidrs: Option<Cache<ServiceCIDR>>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) namespaces: Cache<Namespace>,
}

/// Kube-OVN's kinds.
pub struct KubeOvn {
    /// `ProviderNetworks`.
    pub provider_networks: Cache<kubeovn::ProviderNetwork>,
    /// Vlans, everybody's.
    pub vlans: Cache<kubeovn::Vlan>,
    /// Vpcs.
    pub routers: Cache<kubeovn::Vpc>,
    /// Subnets.
    pub subnets: Cache<kubeovn::Subnet>,
    /// IPs.
    pub ips: Cache<kubeovn::IP>,
}

/// The API cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// It does not say whether it serves a kind.
    #[error("cannot list {kind}")]
    Api {
        /// The kind.
        kind: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// A kind of causeway's own is missing.
    #[error("the {kind} API is not installed; apply what `causeway crd` prints")]
    NotInstalled {
        /// The kind's group.
        kind: String,
    },
}

/// What an index needs to know of a kind: how an object changes the snapshot, and whom it concerns.
struct Indexer {
    client: Client,
    snapshot: Arc<Mutex<Snapshot>>,
    wakes: Arc<Wakes<Key>>,
}

impl Indexer {
    /// A cache that keeps its part of the snapshot by `put`. `put` gets the change in the planner's
    /// words and says whom it concerns.
    fn cache<K: Watched>(
        &self,
        selection: Selection,
        put: impl Fn(&mut Snapshot, Change<K>, &Wakes<Key>) + Send + Sync + 'static,
    ) -> Cache<K> {
        let snapshot = Arc::clone(&self.snapshot);
        let wakes = Arc::clone(&self.wakes);
        Cache::start(
            Api::all_with(self.client.clone(), &()),
            selection,
            move |change| put(&mut lock(&snapshot), change, &wakes),
        )
    }
}

impl Caches {
    pub(crate) async fn start(
        client: Client,
        snapshot: &Arc<Mutex<Snapshot>>,
        wakes: &Arc<Wakes<Key>>,
    ) -> Result<Self, ObserveError> {
        let served = ServedKinds {
            kube_ovn: serves::<kubeovn::Subnet>(&client).await?,
            multus: serves::<NetworkAttachmentDefinition>(&client).await?,
            ipam: serves::<InClusterIPPool>(&client).await?,
        };
        for (kind, installed) in [
            (
                "ProxmoxNetworkZone",
                serves::<ProxmoxNetworkZone>(&client).await?,
            ),
            ("ProxmoxNetwork", serves::<ProxmoxNetwork>(&client).await?),
        ] {
            if !installed {
                return Err(ObserveError::NotInstalled {
                    kind: kind.to_owned(),
                });
            }
        }
        lock(snapshot).served = served;
        let with_vpcs = serves::<VirtualPrivateCloud>(&client).await?;
        let with_claims = serves::<IPAddressClaim>(&client).await?;
        let with_addresses = serves::<IPAddress>(&client).await?;
        let with_service_cidrs = serves::<ServiceCIDR>(&client).await?;
        let indexer = Indexer {
            client: client.clone(),
            snapshot: Arc::clone(snapshot),
            wakes: Arc::clone(wakes),
        };
        let ours =
            || Selection::default().labels(&format!("{}={}", keys::MANAGED_BY, keys::MANAGER));
        let caches = Self {
            client,
            zones: indexer.cache(Selection::default(), put_zone),
            vpcs: with_vpcs.then(|| indexer.cache(Selection::default(), put_vpc)),
            networks: indexer.cache(Selection::default(), put_network),
            kube_ovn: served.kube_ovn.then(|| KubeOvn {
                provider_networks: indexer.cache(Selection::default(), put_provider_network),
                vlans: indexer.cache(Selection::default(), put_vlan),
                routers: indexer.cache(Selection::default(), put_router),
                subnets: indexer.cache(Selection::default(), put_subnet),
                ips: indexer.cache(Selection::default(), put_ip),
            }),
            attachments: served.multus.then(|| indexer.cache(ours(), put_attachment)),
            pools: served.ipam.then(|| indexer.cache(ours(), put_pool)),
            claims: with_claims.then(|| indexer.cache(Selection::default(), put_claim)),
            addresses: with_addresses.then(|| indexer.cache(Selection::default(), put_address)),
            service_cidrs: with_service_cidrs
                .then(|| indexer.cache(Selection::default(), put_service_cidr)),
            nodes: indexer.cache(Selection::default(), put_node),
            namespaces: indexer.cache(Selection::default(), put_namespace),
        };
        caches.synced().await;
        Ok(caches)
    }

    async fn synced(&self) {
        self.zones.synced().await;
        self.networks.synced().await;
        self.nodes.synced().await;
        self.namespaces.synced().await;
        if let Some(vpcs) = &self.vpcs {
            vpcs.synced().await;
        }
        if let Some(kube_ovn) = &self.kube_ovn {
            kube_ovn.provider_networks.synced().await;
            kube_ovn.vlans.synced().await;
            kube_ovn.routers.synced().await;
            kube_ovn.subnets.synced().await;
            kube_ovn.ips.synced().await;
        }
        if let Some(attachments) = &self.attachments {
            attachments.synced().await;
        }
        if let Some(pools) = &self.pools {
            pools.synced().await;
        }
        if let Some(claims) = &self.claims {
            claims.synced().await;
        }
        if let Some(addresses) = &self.addresses {
            addresses.synced().await;
        }
        if let Some(service_cidrs) = &self.service_cidrs {
            service_cidrs.synced().await;
        }
    }
}

/// Whether the API serves a kind: it answers 404 to a list of one that it does not.
async fn serves<K: Watched>(client: &Client) -> Result<bool, ObserveError> {
    let api: Api<K> = Api::all_with(client.clone(), &());
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(source) => Err(ObserveError::Api {
            kind: K::kind(&()).into_owned(),
            source: Box::new(source),
        }),
    }
}

fn subnet_key<K: Resource>(object: &K) -> SubnetKey {
    SubnetKey {
        namespace: object.namespace().unwrap_or_default().into(),
        id: object.name_any().into(),
    }
}

/// Replaces or removes an entry; gives what was there and what is there now.
macro_rules! put {
    ($map:expr, $key:expr, $change:expr, $read:path) => {
        match $change {
            Change::Is(object) => {
                let new = $read(object);
                let old = $map.insert($key(object), new.clone());
                (old, Some(new))
            }
            Change::Gone(object) => ($map.remove(&$key(object)), None),
        }
    };
}

/// As [`put!`], for kinds of which some objects are nothing to us.
macro_rules! put_known {
    ($map:expr, $key:expr, $change:expr, $read:path) => {{
        let new = match $change {
            Change::Is(object) => $read(object),
            Change::Gone(_) => None,
        };
        let key = $key($change.object());
        let old = match new.clone() {
            Some(new) => $map.insert(key, new),
            None => $map.remove(&key),
        };
        (old, new)
    }};
}

fn full_name<K: Resource>(object: &K) -> String {
    format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    )
}

fn put_zone(snapshot: &mut Snapshot, change: Change<ProxmoxNetworkZone>, wakes: &Wakes<Key>) {
    let name = |zone: &ProxmoxNetworkZone| zone.name_any().into();
    let zone = name(change.object());
    let (old, new) = put!(snapshot.zones, name, change, observed::zone);
    wakes.wake(Key::Zone(zone));
    if wake::content(old.as_ref()) != wake::content(new.as_ref()) {
        wake::everything(snapshot, wakes);
    }
}

fn put_vpc(snapshot: &mut Snapshot, change: Change<VirtualPrivateCloud>, wakes: &Wakes<Key>) {
    let name = |vpc: &VirtualPrivateCloud| {
        VpcKey::new(&vpc.namespace().unwrap_or_default(), &vpc.name_any())
    };
    let key = name(change.object());
    put!(snapshot.vpcs, name, change, observed::vpc);
    wakes.wake(Key::Vpc(key));
}

fn put_network(snapshot: &mut Snapshot, change: Change<ProxmoxNetwork>, wakes: &Wakes<Key>) {
    let (old, new) = put!(snapshot.networks, subnet_key, change, observed::network);
    wake::owners(old.as_ref(), new.as_ref(), wakes);
    if wake::content(old.as_ref()) == wake::content(new.as_ref()) {
        return;
    }
    if new.is_none() {
        // Others of the namespace may wait for its place in a zone.
        wake::vpcs(snapshot, wakes);
    }
    wakes.wake(Key::Northbound);
    for seen in old.iter().chain(&new) {
        if let Some(zone) = seen.spec.as_ref().and_then(|record| record.zone.as_ref()) {
            wakes.wake(Key::Zone(zone.clone()));
        }
    }
}

fn put_provider_network(
    snapshot: &mut Snapshot,
    change: Change<kubeovn::ProviderNetwork>,
    wakes: &Wakes<Key>,
) {
    let name = |object: &kubeovn::ProviderNetwork| object.name_any();
    let (old, new) = put!(
        snapshot.provider_networks,
        name,
        change,
        observed::provider_network
    );
    wake::zones(snapshot, wakes);
    if wake::ready_nodes(old.as_ref()) != wake::ready_nodes(new.as_ref()) {
        wake::everything(snapshot, wakes);
    }
    wake::carried_vlans(snapshot, old.as_ref(), new.as_ref(), wakes);
}

fn put_vlan(snapshot: &mut Snapshot, change: Change<kubeovn::Vlan>, wakes: &Wakes<Key>) {
    let name = |object: &kubeovn::Vlan| object.name_any();
    let (old, new) = put!(snapshot.vlans, name, change, observed::vlan);
    wake::owners(old.as_ref(), new.as_ref(), wakes);
    wake::zones(snapshot, wakes);
    if new.is_none() {
        wake::without_vlan(snapshot, wakes);
    }
}

fn put_router(snapshot: &mut Snapshot, change: Change<kubeovn::Vpc>, wakes: &Wakes<Key>) {
    let name = |object: &kubeovn::Vpc| object.name_any().into();
    let (old, new) = put!(snapshot.routers, name, change, observed::router);
    wake::owners(old.as_ref(), new.as_ref(), wakes);
}

fn put_subnet(snapshot: &mut Snapshot, change: Change<kubeovn::Subnet>, wakes: &Wakes<Key>) {
    let name = |object: &kubeovn::Subnet| object.name_any();
    put_known!(snapshot.site_subnets, name, change, observed::site_subnet);
    let (old, new) = put!(snapshot.subnets, name, change, observed::subnet);
    wake::owners(old.as_ref(), new.as_ref(), wakes);
}

fn put_ip(snapshot: &mut Snapshot, change: Change<kubeovn::IP>, wakes: &Wakes<Key>) {
    let name = |object: &kubeovn::IP| object.name_any();
    let (old, new) = put!(snapshot.ips, name, change, observed::ip);
    for ip in old.iter().chain(&new) {
        let subnet = snapshot.subnets.get(&ip.subnet);
        wake::owners(subnet, None, wakes);
    }
}

fn put_attachment(
    snapshot: &mut Snapshot,
    change: Change<NetworkAttachmentDefinition>,
    wakes: &Wakes<Key>,
) {
    let (old, new) = put!(
        snapshot.attachments,
        subnet_key,
        change,
        observed::attachment
    );
    wake::owners(old.as_ref(), new.as_ref(), wakes);
}

fn put_pool(snapshot: &mut Snapshot, change: Change<InClusterIPPool>, wakes: &Wakes<Key>) {
    let (old, new) = put!(snapshot.pools, subnet_key, change, observed::pool);
    wake::owners(old.as_ref(), new.as_ref(), wakes);
}

fn put_claim(snapshot: &mut Snapshot, change: Change<IPAddressClaim>, wakes: &Wakes<Key>) {
    let (old, new) = put_known!(snapshot.claims, full_name, change, observed::address_claim);
    for claim in old.iter().chain(&new) {
        wake::owners(snapshot.pools.get(&claim.pool), None, wakes);
    }
}

fn put_address(snapshot: &mut Snapshot, change: Change<IPAddress>, wakes: &Wakes<Key>) {
    let (old, new) = put_known!(
        snapshot.addresses,
        full_name,
        change,
        observed::given_address
    );
    for address in old.iter().chain(&new) {
        wake::owners(snapshot.pools.get(&address.pool), None, wakes);
    }
}

fn put_service_cidr(snapshot: &mut Snapshot, change: Change<ServiceCIDR>, _: &Wakes<Key>) {
    let name = |object: &ServiceCIDR| object.name_any();
    match change {
        Change::Is(object) => {
            let cidrs = observed::service_cidr(object);
            snapshot.service_cidrs.insert(name(object), cidrs);
        }
        Change::Gone(object) => {
            snapshot.service_cidrs.remove(&name(object));
        }
    }
}

fn put_node(snapshot: &mut Snapshot, change: Change<Node>, wakes: &Wakes<Key>) {
    let name = |object: &Node| object.name_any().into();
    let (old, new) = put!(snapshot.nodes, name, change, observed::node);
    if old != new {
        wake::everything(snapshot, wakes);
    }
}

fn put_namespace(snapshot: &mut Snapshot, change: Change<Namespace>, wakes: &Wakes<Key>) {
    let name = |object: &Namespace| object.name_any().into();
    let (old, new) = put!(snapshot.namespaces, name, change, observed::namespace);
    if old != new {
        wake::vpcs(snapshot, wakes);
    }
}
