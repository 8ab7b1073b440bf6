//! A stand-in for kube-apiserver: an in-process tower service behind [`kube::Client`].
//!
//! Made by tests, simulations and the demo; the product talks to it as to a real cluster. It
//! behaves as the real server of Kubernetes 1.34 does, as far as it goes: objects of the built-in
//! kinds of [`builtin`] and of every CRD that is created in it; no RBAC, admission webhooks, CEL,
//! HTTPS or persistence.
//!
//! ```text
//! request ─▶ request ─▶ service ─▶ read | watching | write, remove ─▶ store
//!                                          │
//!                        patch, ownership (server-side apply), schema, metadata, crd
//! ```
//!
//! Must stay true: it is never kinder than the real server; with a given [`Clock`] it is
//! deterministic; nothing happens by itself (the garbage collector is a step that somebody takes,
//! [`KubeApi::collect_garbage`]).

mod admission;
mod builtin;
mod cel;
mod clock;
mod crd;
mod discovery;
mod gc;
mod incoming;
mod kinds;
mod metadata;
mod object;
mod ownership;
mod patch;
mod read;
mod remove;
mod request;
mod scale;
mod schema;
mod select;
mod service;
mod status;
mod store;
mod strategy;
pub mod table;
mod watching;
mod write;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub use clock::Clock;
pub use gc::GarbageCollector;
pub use service::{Door, ResponseBody};

/// The namespace of clients that name none, there from the start like those of the real server.
const FIRST_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Who made the first namespaces.
const SERVER: &str = "kube-apiserver";

/// The stand-in. Clones are the same API.
#[derive(Clone, Debug)]
pub struct KubeApi {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) webhooks: admission::Webhooks,
    store: Mutex<store::Store>,
}

impl Inner {
    pub(crate) fn lock(&self) -> MutexGuard<'_, store::Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stand-in cannot be made: a fault of this crate's tables.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A built-in kind's table.
    #[error("a built-in kind cannot be read")]
    Table {
        /// Which and why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// One of the first namespaces.
    #[error("the first namespaces cannot be made")]
    Namespace {
        /// What the server says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Writes that changed something, by identity, then kind.
pub type Writes = BTreeMap<(String, String), u64>;

impl KubeApi {
    /// An API with the namespaces that every cluster has and nothing else.
    ///
    /// # Errors
    /// [`StartError`] if this crate's own tables are broken.
    pub fn new(clock: Clock) -> Result<Self, StartError> {
        let store = store::Store::new().map_err(|error| StartError::Table {
            source: error.into(),
        })?;
        let api = Self {
            inner: Arc::new(Inner {
                clock,
                webhooks: admission::Webhooks::default(),
                store: Mutex::new(store),
            }),
        };
        api.make_first_namespaces()
            .map_err(|error| StartError::Namespace {
                source: error.into(),
            })?;
        Ok(api)
    }

    fn make_first_namespaces(&self) -> Result<(), status::Failure> {
        let mut store = self.inner.lock();
        let kind = store
            .kinds
            .find("", "v1", "namespaces")
            .ok_or_else(status::Failure::no_such_path)?;
        let options = write::Options::read(&request::Query::default(), SERVER)?;
        for name in FIRST_NAMESPACES {
            let mut desk = write::Desk {
                store: &mut store,
                clock: &self.inner.clock,
                identity: SERVER,
                visit: &admission::Visit::default(),
            };
            let target = write::Target {
                kind: &kind,
                namespace: "",
                name: "",
                part: write::Part::Whole,
            };
            desk.create(
                target,
                serde_json::json!({"metadata": {"name": name}}),
                &options,
            )?;
        }
        store.writes.clear();
        Ok(())
    }

    /// A client that acts as `identity`: its name in managedFields where a request names no field
    /// manager, and in [`writes`](Self::writes). Its default namespace is `default`.
    ///
    /// Must be called inside a tokio runtime (`kube::Client` starts a task).
    pub fn client(&self, identity: &str) -> kube::Client {
        kube::Client::new(self.door(identity), "default")
    }

    /// The service behind [`client`](Self::client), to be wrapped (fault injection, HTTPS).
    pub fn door(&self, identity: &str) -> Door {
        Door::new(Arc::clone(&self.inner), identity)
    }

    /// How many writes changed something, by identity and kind. Writes that changed nothing, were
    /// refused or were dry runs do not count.
    pub fn writes(&self) -> Writes {
        self.inner.lock().writes.clone()
    }

    /// The revision of the latest change of any kind.
    pub fn revision(&self) -> u64 {
        self.inner.lock().revision()
    }

    /// Forgets the history, as a real server does in time: a watch from before gets 410.
    pub fn forget_history(&self) {
        self.inner.lock().forget_history();
    }
}
