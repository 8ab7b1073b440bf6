//! A stand-in for the in-cluster IPAM provider of Cluster API (v1.0.3): what it does with pools of a
//! namespace, with claims and with the addresses that it gives, and what its webhook refuses.
//!
//! Started by the demo, the embedded mode and tests. Must stay true: nothing is written where nothing
//! differs; `tests/conformance.rs` passes against the real one too.

mod address;
mod checks;
mod claims;
mod cluster;
mod pass;
mod pool;
mod pools;
mod ranges;
mod webhook;

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use causeway_drive::{Backoff, Wakes};
use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{Client, ResourceExt};
use tokio::{sync::watch, task::JoinHandle};

pub use cluster::{Cluster, ClusterSpec};
use pass::{Key, PassError, World, name_of};

/// Holds a pool for as long as addresses of it are in use.
pub const PROTECT_POOL: &str = "ipam.cluster.x-k8s.io/ProtectPool";

/// Holds an address for as long as its claim is there.
pub const PROTECT_ADDRESS: &str = "ipam.cluster.x-k8s.io/ProtectAddress";

/// Holds a claim until its address is given back.
pub const RELEASE_ADDRESS: &str = "ipam.cluster.x-k8s.io/ReleaseAddress";

/// Where [`webhook()`] is served, as its configuration says.
pub const WEBHOOK_URL: &str = "https://capi-ipam-in-cluster-webhook-service.capi-ipam-in-cluster-system.svc:443/validate-ipam-cluster-x-k8s-io-v1alpha2-inclusterippool";

/// The provider's validating webhook, which reads by this client.
pub fn webhook(
    client: Client,
) -> impl tower::Service<
    Request<Full<Bytes>>,
    Response = Response<Full<Bytes>>,
    Error = Infallible,
    Future: Send,
> + Clone
+ Send
+ Sync
+ 'static {
    webhook::Webhook { client }
}

/// The configuration that has [`webhook()`] asked at [`WEBHOOK_URL`].
pub fn webhook_configuration() -> ValidatingWebhookConfiguration {
    webhook::configuration(WEBHOOK_URL)
}

/// The running stand-in. It ends when this is dropped.
#[derive(Debug)]
pub struct Ipam {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Ipam {
    /// Starts it; it waits for the kinds to be served. Must be called within a tokio runtime.
    pub fn start(client: Client) -> Self {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(client, stopped));
        Self { task, stop }
    }

    /// Ends it after the pass under way.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.task).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "did not end well");
        }
    }
}

impl Drop for Ipam {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(client: Client, mut stopped: watch::Receiver<bool>) {
    let wakes = Arc::new(Wakes::<Key>::default());
    let world = World::start(client, &wakes);
    let mut backoff = Backoff::new(0);
    let synced = tokio::select! {
        _ = stopped.wait_for(|stopped| *stopped) => return,
        synced = world.synced() => synced,
    };
    if !synced {
        tracing::error!("a watch has ended");
        return;
    }
    loop {
        let key = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            key = wakes.next() => key,
        };
        match pass(&world, &wakes, &key).await {
            Ok(()) => backoff.did_well(&key),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::debug!(?key, error, "will try again");
                let wait = backoff.failed(&key);
                wakes.wake_after(key, wait);
            }
        }
    }
}

async fn pass(world: &World, wakes: &Wakes<Key>, key: &Key) -> Result<(), PassError> {
    match key {
        Key::Pool(name) => return pools::pass(world, name).await,
        Key::Claim(name) => return claims::pass(world, name).await,
        Key::ClaimsOf((namespace, pool)) => {
            for claim in world.claims.all().values() {
                let own = claim.namespace().as_ref() == Some(namespace);
                if own && claim.spec.pool_ref.name == *pool {
                    wakes.wake(Key::Claim(name_of(&**claim)));
                }
            }
        }
        Key::ClaimsFor((namespace, cluster)) => {
            for claim in world.claims.all().values() {
                let own = claim.namespace().as_ref() == Some(namespace);
                if own && claims::cluster_of(claim) == Some(cluster) {
                    wakes.wake(Key::Claim(name_of(&**claim)));
                }
            }
        }
    }
    Ok(())
}
