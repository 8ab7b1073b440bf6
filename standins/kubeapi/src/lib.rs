//! A stand-in for kube-apiserver: an in-process tower service behind [`kube::Client`], and the same
//! by HTTPS for kubectl.
//!
//! Made by tests, simulations and the demo; the product talks to it as to a real cluster. It
//! behaves as the real server of Kubernetes 1.34 does, for objects of the built-in kinds of
//! [`builtin`] and of every CRD that is created in it; what it does otherwise stands in
//! docs/reference/kubeapi.md.
//!
//! ```text
//! serve (HTTPS) ─▶ service ─▶ user, request, rbac ─▶ read | watching | write, scale, remove
//!                                                                 │            ─▶ store ─▶ journal
//!             incoming, patch, ownership (server-side apply), schema, cel, metadata, crd,
//!             admission (webhooks)
//! ```
//!
//! Must stay true: it is never kinder than the real server; with a given [`Clock`] it is
//! deterministic; nothing happens by itself (the garbage collector is a step that somebody takes,
//! [`KubeApi::collect_garbage`]).

mod admission;
mod body;
mod builtin;
mod cel;
mod clock;
mod crd;
mod discovery;
mod events;
mod gc;
mod incoming;
mod journal;
mod kinds;
mod metadata;
mod numbers;
mod object;
mod openapi;
mod options;
mod ownership;
mod patch;
mod protobuf;
mod rbac;
mod read;
mod remove;
mod request;
mod scale;
mod schema;
mod select;
mod serve;
mod service;
mod status;
mod store;
mod strategic;
mod strategy;
pub mod table;
mod user;
mod watching;
mod write;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

pub use clock::Clock;
pub use gc::GarbageCollector;
pub use numbers::SplitMix64;
pub use serve::{
    AuthorityError, ForeignKubeconfig, ServeError, Server, check_kubeconfig, forget_server,
    remove_unfinished,
};
pub use service::{Door, ResponseBody};
pub use user::User;

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
    /// How far the file has come, if there is one.
    durable: Option<watch::Receiver<journal::Durable>>,
}

impl Inner {
    pub(crate) fn lock(&self) -> MutexGuard<'_, store::Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything up to a revision is on the disk, where there is one.
    pub(crate) async fn settled(&self, revision: u64) -> Result<(), status::Failure> {
        match &self.durable {
            None => Ok(()),
            Some(durable) => journal::settled(&mut durable.clone(), revision).await,
        }
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
    /// The file.
    #[error("what is kept in {path} cannot be used")]
    File {
        /// Where it is.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// One of the first objects.
    #[error("the first objects cannot be made")]
    First {
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
        Self::start(clock, new_store()?, None)
    }

    /// An API whose objects are kept in a file, which is made if it is absent. Whatever it has
    /// answered outlasts the process, however that ends. A watch goes on from the latest revision;
    /// from an earlier one it gets 410.
    ///
    /// # Errors
    /// [`StartError`] if the file cannot be used, for example because another process does.
    pub fn open(path: &Path, clock: Clock) -> Result<Self, StartError> {
        let unusable = |source: Box<dyn std::error::Error + Send + Sync>| StartError::File {
            path: path.to_owned(),
            source,
        };
        let (journal, saved) =
            journal::Journal::open(path).map_err(|error| unusable(error.into()))?;
        let durable = journal.durable();
        // Uids must not come twice, though a given clock begins again.
        clock.skip(saved.revision);
        let mut store = new_store()?;
        store
            .restore(journal, saved)
            .map_err(|error| unusable(error.into()))?;
        Self::start(clock, store, Some(durable))
    }

    /// Writes what is left and closes the file, so that it can be opened again, though clients may
    /// still be about: what they write from now on is refused. Waits for the disk. Does nothing to
    /// an API without a file.
    pub fn close(&self) {
        let journal = self.inner.lock().close();
        drop(journal);
    }

    fn start(
        clock: Clock,
        store: store::Store,
        durable: Option<watch::Receiver<journal::Durable>>,
    ) -> Result<Self, StartError> {
        let api = Self {
            inner: Arc::new(Inner {
                clock,
                webhooks: admission::Webhooks::default(),
                store: Mutex::new(store),
                durable,
            }),
        };
        api.make_first_objects()?;
        Ok(api)
    }

    /// Makes what every cluster has from the start, as far as it is not there.
    fn make_first_objects(&self) -> Result<(), StartError> {
        let roles = rbac::first::objects().map_err(|error| StartError::First {
            source: error.into(),
        })?;
        let user = User::master(SERVER);
        // Roles and bindings draw uids of their own, so that the given clock's go to its users.
        let own = Clock::given(self.inner.clock.now(), 0);
        let namespaces = FIRST_NAMESPACES.iter().map(|name| {
            let object = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
            });
            (object, &self.inner.clock)
        });
        let mut store = self.inner.lock();
        for (object, clock) in namespaces.chain(roles.into_iter().map(|role| (role, &own))) {
            let desk = write::Desk {
                store: &mut store,
                clock,
                user: &user,
                visit: &admission::Visit::default(),
            };
            make_first(desk, object).map_err(|error| StartError::First {
                source: error.into(),
            })?;
        }
        store.writes.clear();
        Ok(())
    }

    /// A client that acts as `identity` and may do everything. The identity is its name in
    /// managedFields where a request names no field manager, and in [`writes`](Self::writes). Its
    /// default namespace is `default`.
    ///
    /// Must be called inside a tokio runtime (`kube::Client` starts a task).
    pub fn client(&self, identity: &str) -> kube::Client {
        self.client_as(User::master(identity))
    }

    /// A client of a user, who may do what roles and bindings give. Otherwise like
    /// [`client`](Self::client).
    pub fn client_as(&self, user: User) -> kube::Client {
        kube::Client::new(self.door_as(user), "default")
    }

    /// A client like [`client`](Self::client)'s whose writes no webhook is asked about. For what must
    /// be there before anybody can come in: a configuration that was kept may name a webhook that is
    /// gone, and could not be removed otherwise.
    pub fn client_past_webhooks(&self, identity: &str) -> kube::Client {
        kube::Client::new(self.door(identity).past_webhooks(), "default")
    }

    /// The service behind [`client`](Self::client), to be wrapped (fault injection).
    pub fn door(&self, identity: &str) -> Door {
        self.door_as(User::master(identity))
    }

    /// The service behind [`client_as`](Self::client_as).
    pub fn door_as(&self, user: User) -> Door {
        Door::new(Arc::clone(&self.inner), user)
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

fn new_store() -> Result<store::Store, StartError> {
    store::Store::new().map_err(|error| StartError::Table {
        source: error.into(),
    })
}

/// Makes one of the first objects unless it is there.
fn make_first(mut desk: write::Desk<'_>, object: serde_json::Value) -> Result<(), status::Failure> {
    let text = |field: &str| object.get(field).and_then(serde_json::Value::as_str);
    let (group, plural) = match text("kind") {
        Some("ClusterRole") => (rbac::GROUP, "clusterroles"),
        Some("ClusterRoleBinding") => (rbac::GROUP, "clusterrolebindings"),
        _ => ("", "namespaces"),
    };
    let kind = desk.store.kinds.find(group, "v1", plural);
    let kind = kind.ok_or_else(status::Failure::no_such_path)?;
    if desk
        .store
        .get(&kind.resource, "", object::name(&object))
        .is_some()
    {
        return Ok(());
    }
    let target = write::Target {
        kind: &kind,
        namespace: "",
        name: "",
        part: write::Part::Whole,
    };
    let options =
        options::Options::read(&request::Query::default(), SERVER, request::Verb::Create)?;
    desk.create(target, object, &options).map(|_| ())
}
