//! Keeps the certificates: in a Secret that all replicas share, in the TLS server, and as caBundle in
//! the configuration.
//!
//! Started by the webhook. Must stay true: of several replicas one makes what is new (the others'
//! writes meet a conflict, and they read what is there); the bundle is published before a leaf
//! that needs it is served; a Secret that is lost or spoilt is written again as it was, because API servers
//! trust what it held.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use causeway_api::keys;
use causeway_drive::{Cache, Selection};
use causeway_observe::Clock;
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret},
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use rustls::{
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::sync::Notify;

use crate::{
    certificates::{CertificateError, Certificates},
    configuration,
};

/// Name of the Secret, in causeway's own namespace.
pub const SECRET: &str = "causeway-webhook-tls";

/// Keys of the Secret: what kubernetes.io/tls wants, and the authority.
const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const LEAF: &str = "tls.crt";
const LEAF_KEY: &str = "tls.key";

/// How often a replica looks whether something is due, besides when Secret or configuration change.
const EVERY: Duration = Duration::from_mins(1);

/// How often a write of the Secret may meet another replica's.
const TRIES: usize = 5;

/// Certificates cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The API.
    #[error("cannot {doing}")]
    Api {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        #[source]
        source: Box<kube::Error>,
    },
    /// A certificate.
    #[error("no certificate can be had")]
    Certificate(#[from] CertificateError),
    /// Others write all the time.
    #[error("Secret {SECRET} has been changed by others {TRIES} times while it was to be written")]
    Contended,
}

fn api(doing: &'static str) -> impl FnOnce(kube::Error) -> KeepError {
    move |source| KeepError::Api {
        doing,
        source: Box::new(source),
    }
}

/// What the TLS server serves with: changed while it serves.
#[derive(Default)]
pub(crate) struct Served(RwLock<Option<Arc<CertifiedKey>>>);

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Served")
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Keeps them.
pub(crate) struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    names: Vec<String>,
    clock: Clock,
    served: Arc<Served>,
    /// What is served.
    current: Mutex<Option<Certificates>>,
    changed: Arc<Notify>,
    /// They only wake; what is true is read live.
    _watches: (Cache<Secret>, Cache<ValidatingWebhookConfiguration>),
}

impl Keeper {
    /// One that has not looked yet. `names` are those that the certificate is for.
    pub(crate) fn new(client: Client, namespace: &str, names: Vec<String>, clock: Clock) -> Self {
        let changed = Arc::new(Notify::new());
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let only = |name: &str| Selection::default().fields(&format!("metadata.name={name}"));
        let (of_secret, of_configuration) = (Arc::clone(&changed), Arc::clone(&changed));
        let watches = (
            Cache::start(secrets.clone(), only(SECRET), move |_| {
                of_secret.notify_one();
            }),
            Cache::start(
                Api::all(client.clone()),
                only(configuration::NAME),
                move |_| of_configuration.notify_one(),
            ),
        );
        Self {
            client,
            secrets,
            names,
            clock,
            served: Arc::default(),
            current: Mutex::default(),
            changed,
            _watches: watches,
        }
    }

    /// What is served, now and later.
    pub(crate) fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served)
    }

    /// Looks when something changes, and at intervals, for ever.
    pub(crate) async fn run(&self) {
        loop {
            if tokio::time::timeout(EVERY, self.changed.notified())
                .await
                .is_ok()
            {
                tracing::debug!("the Secret or the configuration has changed");
            }
            if let Err(error) = self.look().await {
                // What is served goes on, for a third of its life.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "certificates cannot be kept"
                );
            }
        }
    }

    /// Makes what is due, publishes it and serves with it.
    pub(crate) async fn look(&self) -> Result<(), KeepError> {
        for _ in 0..TRIES {
            let secret = self.secrets.get_opt(SECRET).await;
            let secret = secret.map_err(api("read Secret causeway-webhook-tls"))?;
            let kept = secret.as_ref().and_then(readable);
            let known = kept.clone().or_else(|| self.current());
            let renewed = Certificates::renewed(known.as_ref(), &self.names, (self.clock)())?;
            let Some(wanted) = renewed.or(known) else {
                return Err(KeepError::Contended);
            };
            if kept.as_ref() != Some(&wanted) && !self.write(secret, &wanted).await? {
                continue;
            }
            self.publish(&wanted).await?;
            return self.serve(wanted);
        }
        Err(KeepError::Contended)
    }

    fn current(&self) -> Option<Certificates> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    fn serve(&self, wanted: Certificates) -> Result<(), KeepError> {
        let pair = wanted.served()?;
        *self
            .served
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(pair);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(wanted);
        Ok(())
    }

    async fn publish(&self, certificates: &Certificates) -> Result<(), KeepError> {
        let bundle = certificates.bundle();
        configuration::publish_bundle(&self.client, bundle.as_bytes())
            .await
            .map_err(api("write caBundle into the webhook configuration"))
    }

    /// False if somebody else was faster.
    async fn write(&self, old: Option<Secret>, new: &Certificates) -> Result<bool, KeepError> {
        let params = PostParams::default();
        let (answer, lost): (_, &[u16]) = match old {
            None => {
                let secret = written(None, new);
                (self.secrets.create(&params, &secret).await, &[409])
            }
            Some(old) => {
                let secret = written(Some(old), new);
                let answer = self.secrets.replace(SECRET, &params, &secret).await;
                // 404: it was deleted meanwhile.
                (answer, &[404, 409])
            }
        };
        match answer {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if lost.contains(&status.code) => Ok(false),
            Err(error) => Err(api("write Secret causeway-webhook-tls")(error)),
        }
    }
}

/// What a Secret holds, if that can be used.
fn readable(secret: &Secret) -> Option<Certificates> {
    match read(secret) {
        Ok(kept) => Some(kept),
        Err(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "Secret {SECRET} is written anew"
            );
            None
        }
    }
}

fn read(secret: &Secret) -> Result<Certificates, CertificateError> {
    let text = |key: &str| {
        let bytes = secret.data.as_ref().and_then(|data| data.get(key));
        bytes.map_or_else(String::new, |bytes| {
            String::from_utf8_lossy(&bytes.0).into_owned()
        })
    };
    Certificates::read(
        &text(AUTHORITY),
        &text(AUTHORITY_KEY),
        &text(LEAF),
        &text(LEAF_KEY),
    )
}

/// The Secret with these; the version of the old one makes the write fail if that has changed.
fn written(old: Option<Secret>, new: &Certificates) -> Secret {
    let (authority, authority_key, leaf, leaf_key) = new.parts();
    let parts = [
        (AUTHORITY, authority.as_str()),
        (AUTHORITY_KEY, authority_key),
        (LEAF, leaf),
        (LEAF_KEY, leaf_key),
    ];
    let data = parts.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    let mut secret = old.unwrap_or_else(|| Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            labels: Some(BTreeMap::from([(
                keys::MANAGED_BY.to_owned(),
                keys::MANAGER.to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    });
    secret.data.get_or_insert_default().extend(data);
    secret
}
