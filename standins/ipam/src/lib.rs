//! A stand-in for the in-cluster IPAM provider of Cluster API (v1.0.3), as far as pools go: their
//! finalizer and their counts.
//!
//! Started by the demo, the embedded mode and tests. Addresses are given to nobody yet (the kinds
//! `IPAddressClaim` and `IPAddress` are not served), so nothing is ever in use and a deleted pool goes
//! at once. Must stay true: nothing is written where nothing differs.

mod count;

use causeway_api::ipam::{InClusterIPPool, PoolCounts};
use causeway_drive::{Backoff, Cache, Change, Name, Selection, Wakes};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{sync::watch, task::JoinHandle};

use count::{CountError, total};

/// Holds a pool for as long as addresses of it are in use.
pub const PROTECT_POOL: &str = "ipam.cluster.x-k8s.io/ProtectPool";

/// The running stand-in. It ends when this is dropped.
#[derive(Debug)]
pub struct Ipam {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Ipam {
    /// Starts it; it waits for the kind to be served. Must be called within a tokio runtime.
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

/// A pass that did not reach its end. It is tried again, later and later.
#[derive(Debug, thiserror::Error)]
enum PassError {
    #[error("the API refused")]
    Api(#[from] Box<kube::Error>),
    #[error("the pool cannot be counted")]
    Count(#[from] CountError),
}

async fn run(client: Client, mut stopped: watch::Receiver<bool>) {
    let wakes = Arc::new(Wakes::<Name>::default());
    let changed = Arc::clone(&wakes);
    let pools = Cache::start(
        Api::all(client.clone()),
        Selection::default(),
        move |change| {
            let (Change::Is(pool) | Change::Gone(pool)): Change<InClusterIPPool> = change;
            changed.wake((pool.namespace().unwrap_or_default(), pool.name_any()));
        },
    );
    let mut backoff = Backoff::new(0);
    loop {
        let key = tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => return,
            key = wakes.next() => key,
        };
        match pass(&client, &pools, &key).await {
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

async fn pass(
    client: &Client,
    pools: &Cache<InClusterIPPool>,
    (namespace, name): &Name,
) -> Result<(), PassError> {
    let Some(pool) = pools.get(namespace, name) else {
        return Ok(());
    };
    let held = pool
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == PROTECT_POOL);
    let going = pool.metadata.deletion_timestamp.is_some();
    let mut pool = InClusterIPPool::clone(&pool);
    if held == going {
        let mut finalizers = pool.finalizers().to_vec();
        if going {
            finalizers.retain(|finalizer| finalizer != PROTECT_POOL);
        } else {
            finalizers.push(PROTECT_POOL.to_owned());
        }
        let version = pool.resource_version();
        let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
        pool = write(client, pools, &pool, false, patch).await?;
    }
    if going {
        return Ok(());
    }
    let total = total(&pool.spec)?;
    let counts = PoolCounts {
        total,
        free: total,
        used: 0,
        out_of_range: 0,
    };
    if pool.status.as_ref().and_then(|status| status.ip_addresses) != Some(counts) {
        let patch = json!({"status": {"ipAddresses": counts}});
        write(client, pools, &pool, true, patch).await?;
    }
    Ok(())
}

async fn write(
    client: &Client,
    pools: &Cache<InClusterIPPool>,
    pool: &InClusterIPPool,
    status: bool,
    patch: Value,
) -> Result<InClusterIPPool, PassError> {
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let api: Api<InClusterIPPool> = Api::namespaced(client.clone(), &namespace);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let written = if status {
        api.patch_status(&name, &params, &patch).await
    } else {
        api.patch(&name, &params, &patch).await
    };
    let written = written.map_err(Box::new)?;
    if written.metadata.deletion_timestamp.is_some() && written.finalizers().is_empty() {
        pools.fold_gone(&namespace, &name);
    } else {
        pools.fold(written.clone());
    }
    Ok(written)
}
