//! Watches of the API, NB and SB folded into the planner's snapshot.
//!
//! ```text
//! kube-apiserver ──Cache──┐ index: one object at a time
//!                         ├──▶ Snapshot ──▶ plan (under the lock, synchronous)
//! OVN NB, SB ──Replica────┘ rebuilt when the replica's version has changed
//!        └───── wakes: which keys a change concerns ──▶ Wakes<Key>
//! ```
//!
//! Used by the controller (later also by admission, cli and web). Must stay true: the snapshot holds
//! every object of a kind or marks the kind as not served; what the caller wrote and folded in is in
//! it before the next plan.

mod caches;
mod key;
mod live;
mod ovn;
mod wake;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use causeway_drive::Wakes;
use causeway_ovn::Remote;
use causeway_planner::snapshot::{Moment, Settings, Snapshot};

pub use caches::{Caches, KubeOvn, ObserveError};
pub use key::Key;
pub use ovn::{LookError, Ovn, look};

/// Tells the time; given, so that tests and the simulation own it.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Where the OVN databases are.
#[derive(Clone, Debug)]
pub struct OvnRemotes {
    /// Northbound.
    pub northbound: Remote,
    /// Southbound.
    pub southbound: Remote,
}

/// The observed world, always current.
pub struct Observer {
    snapshot: Arc<Mutex<Snapshot>>,
    clock: Clock,
    /// The API's objects.
    pub caches: Caches,
    /// The OVN databases, where they were given.
    pub ovn: Option<Ovn>,
}

impl Observer {
    /// Starts all watches and waits until each kind is whole; then every key is woken once. The
    /// databases may come later: until then the snapshot says that there is no connection.
    ///
    /// # Errors
    /// [`ObserveError`] if the API cannot say which kinds it serves.
    pub async fn start(
        client: kube::Client,
        ovn: Option<OvnRemotes>,
        settings: Settings,
        clock: Clock,
        wakes: Arc<Wakes<Key>>,
    ) -> Result<Self, ObserveError> {
        let snapshot = Arc::new(Mutex::new(Snapshot {
            settings,
            ..Snapshot::default()
        }));
        let caches = Caches::start(client, &snapshot, &wakes).await?;
        let ovn = ovn.map(|remotes| Ovn::start(remotes, Arc::clone(&snapshot), Arc::clone(&wakes)));
        let observer = Self {
            snapshot,
            clock,
            caches,
            ovn,
        };
        wake::everything(&lock(&observer.snapshot), &wakes);
        Ok(observer)
    }

    /// Decides on the world as it is now. `decide` must not block.
    pub fn with_snapshot<T>(&self, decide: impl FnOnce(&Snapshot) -> T) -> T {
        if let Some(ovn) = &self.ovn {
            ovn.refresh();
        }
        let mut snapshot = lock(&self.snapshot);
        snapshot.now = (self.clock)();
        decide(&snapshot)
    }

    /// Every key that something in the world concerns, for the full pass.
    pub fn wake_everything(&self, wakes: &Wakes<Key>) {
        wake::everything(&lock(&self.snapshot), wakes);
    }

    /// Now.
    pub fn now(&self) -> Moment {
        (self.clock)()
    }
}

/// The snapshot is whole between any two statements that hold the lock: each replaces one entry.
fn lock(snapshot: &Mutex<Snapshot>) -> MutexGuard<'_, Snapshot> {
    snapshot.lock().unwrap_or_else(PoisonError::into_inner)
}
