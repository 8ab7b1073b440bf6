//! The whole of it: certificates, watches, server; begun and ended.
//!
//! Started by `causeway webhook` and by tests. Must stay true: it listens once it has a
//! certificate, and says on /readyz what it still waits for; a cluster that is not ready for it yet
//! is waited for, not given up.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use causeway_drive::Wakes;
use causeway_observe::{Clock, Key, ObserveError, Observer};
use causeway_planner::snapshot::{Settings, Snapshot};
use kube::Client;
use tokio::{
    sync::{OnceCell, watch},
    task::JoinSet,
};

use crate::{
    configuration::Places,
    judge::Judge,
    keeper::{KeepError, Keeper},
    server::{BindError, Server},
    service::{Service, chain},
};

/// How long to wait before what the cluster lacks is looked for again.
const AGAIN: Duration = Duration::from_secs(2);

/// How it is to run.
#[derive(Clone)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where causeway is installed.
    pub places: Places,
    /// Names of the certificate besides those of the Service.
    pub names: Vec<String>,
    /// The installation's settings.
    pub settings: Settings,
    /// Tells the time.
    pub clock: Clock,
}

/// It cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No certificate.
    #[error("the webhook has no certificate to serve with")]
    Keep(#[from] KeepError),
    /// No server.
    #[error("the webhook cannot serve")]
    Bind(#[from] BindError),
}

type World = Arc<OnceCell<Arc<Observer>>>;

/// A webhook under way. Dropping it ends it at once; [`stop`](Self::stop) answers what has been
/// asked.
pub struct Webhook {
    address: SocketAddr,
    service: Service,
    keeper: Arc<Keeper>,
    world: World,
    stop: watch::Sender<bool>,
    server: JoinSet<()>,
    _others: JoinSet<()>,
}

impl Webhook {
    /// Begins, and listens when this returns. It answers once its watches are synced.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        let names = [options.places.names(), options.names].concat();
        let namespace = &options.places.namespace;
        let keeper = Keeper::new(client.clone(), namespace, names, Arc::clone(&options.clock));
        keeper.look().await?;
        let keeper = Arc::new(keeper);
        let service = Service::new();
        let server = Server::bind(options.listen, keeper.served(), service.clone()).await?;
        let address = server.address();
        let world = World::default();
        let mut others = JoinSet::new();
        let keeping = Arc::clone(&keeper);
        others.spawn(async move { keeping.run().await });
        others.spawn(observe(
            client,
            options.settings,
            options.clock,
            service.clone(),
            Arc::clone(&world),
        ));
        let (stop, stopped) = watch::channel(false);
        let mut running = JoinSet::new();
        running.spawn(server.run(stopped));
        Ok(Self {
            address,
            service,
            keeper,
            world,
            stop,
            server: running,
            _others: others,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why it should not be asked, if there is a reason: what /readyz says.
    pub fn unready(&self) -> Option<String> {
        self.service.unready()
    }

    /// Looks at the certificates now, as it does every minute.
    ///
    /// # Errors
    /// [`KeepError`].
    pub async fn keep_certificates(&self) -> Result<(), KeepError> {
        self.keeper.look().await
    }

    /// The world that it answers from, once its watches are synced.
    pub fn with_snapshot<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> Option<T> {
        Some(self.world.get()?.with_snapshot(look))
    }

    /// Answers what has been asked, takes nothing new, and returns when all is over.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.server.join_next().await.is_some() {}
    }
}

/// Starts the watches, waiting for what the cluster lacks.
async fn observe(client: Client, settings: Settings, clock: Clock, service: Service, world: World) {
    let wakes = Arc::new(Wakes::default());
    loop {
        match watches(&client, &settings, &clock, &wakes).await {
            Ok(observer) => {
                let observer = Arc::new(observer);
                service.judge_by(Judge::new(Arc::clone(&observer)));
                // Nobody else sets it.
                let _ = world.set(observer);
                break;
            }
            Err(error) => {
                let why = chain(&error);
                tracing::warn!("{why}");
                service.waits_for(why);
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
    // Nobody makes passes here: what is woken is let go.
    loop {
        wakes.next().await;
    }
}

async fn watches(
    client: &Client,
    settings: &Settings,
    clock: &Clock,
    wakes: &Arc<Wakes<Key>>,
) -> Result<Observer, ObserveError> {
    let (clock, wakes) = (Arc::clone(clock), Arc::clone(wakes));
    let observer = Observer::start(client.clone(), None, settings.clone(), clock, wakes).await?;
    if observer.caches.vpcs.is_none() {
        return Err(ObserveError::NotInstalled {
            kind: "VirtualPrivateCloud".to_owned(),
        });
    }
    Ok(observer)
}
