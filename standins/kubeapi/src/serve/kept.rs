//! What of a server outlasts it in its directory, so that a kubeconfig goes on working with the next
//! one there: the authority's key, and the administrator's kubeconfig with its port and certificate.
//!
//! Called by [`KubeApi::serve`](crate::KubeApi::serve), and by whoever begins or ends with such a
//! directory. Must stay true: both files are readable by their owner alone; the kubeconfig is
//! written anew only where it would not work, because people set namespaces in theirs; one that a
//! server here has not written, or that names other clusters too, is never replaced or removed.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::config::{Kubeconfig, KubeconfigError};
use rcgen::KeyPair;
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::{
    ADMINISTRATOR, KUBECONFIG,
    authority::{AuthorityError, CLUSTER},
};

/// The authority's key, as PEM.
const KEY: &str = "authority.key";

/// A kubeconfig that no server here has written, or not alone.
#[derive(Debug, thiserror::Error)]
pub enum ForeignKubeconfig {
    /// Whatever it is.
    #[error("it cannot be read as a kubeconfig")]
    Unreadable(#[source] KubeconfigError),
    /// Another tool's.
    #[error("it has no cluster `{CLUSTER}` with a user `{ADMINISTRATOR}`")]
    NoEntry,
    /// Its authority is gone.
    #[error("there is no `{KEY}` beside it, the key that it was made with")]
    NoKey,
    /// It would have to be written anew.
    #[error("it names other clusters too, and {0}, which it says of this one, is not to be had")]
    Shared(SocketAddr),
}

/// Removes what a server keeps in a directory. A kubeconfig that is not its own, or not alone,
/// stays. Says whether there was anything.
///
/// # Errors
/// The path that stays, and why.
pub fn forget_server(dir: &Path) -> Result<bool, (PathBuf, io::Error)> {
    let own = Card::read(dir).is_ok_and(|card| card.is_some_and(|card| card.alone));
    let mut found = own && remove(dir.join(KUBECONFIG))?;
    found |= remove(dir.join(KEY))?;
    Ok(found)
}

/// Removes what a server that was killed had not finished writing; it may hold keys. With the names
/// of other files that were [`open`](crate::KubeApi::open)ed in the directory.
///
/// # Errors
/// The path that stays, and why.
pub fn remove_unfinished(dir: &Path, others: &[&str]) -> Result<(), (PathBuf, io::Error)> {
    for name in [KUBECONFIG, KEY].iter().chain(others) {
        remove(unfinished(&dir.join(name)))?;
    }
    Ok(())
}

fn remove(path: PathBuf) -> Result<bool, (PathBuf, io::Error)> {
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err((path, error)),
    }
}

/// The key of the directory's authority.
pub(super) fn key(dir: &Path) -> Result<KeyPair, AuthorityError> {
    let path = dir.join(KEY);
    let failed = |source| AuthorityError::Key {
        path: path.clone(),
        source,
    };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(KeyPair::from_pem(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate()?;
            write_private(&path, &key.serialize_pem()).map_err(failed)?;
            Ok(key)
        }
        Err(error) => Err(failed(error)),
    }
}

/// What an earlier server's kubeconfig says.
pub(super) struct Card {
    pub(super) address: SocketAddr,
    /// The administrator's.
    pub(super) certificate: CertificateDer<'static>,
    /// There is no other cluster in it.
    pub(super) alone: bool,
}

impl Card {
    /// Nothing if there is no kubeconfig.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, ForeignKubeconfig> {
        let path = dir.join(KUBECONFIG);
        // A link that leads nowhere is something, too.
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let config = Kubeconfig::read_from(&path).map_err(ForeignKubeconfig::Unreadable)?;
        let card = Self::of(&config).ok_or(ForeignKubeconfig::NoEntry)?;
        if dir.join(KEY).exists() {
            Ok(Some(card))
        } else {
            Err(ForeignKubeconfig::NoKey)
        }
    }

    fn of(config: &Kubeconfig) -> Option<Self> {
        let mut clusters = config.clusters.iter();
        let named = clusters.find(|named| named.name == CLUSTER)?;
        let server = named.cluster.as_ref()?.server.as_ref()?;
        let mut users = config.auth_infos.iter();
        let user = users.find(|named| named.name == ADMINISTRATOR)?;
        let pem = user.auth_info.as_ref()?.client_certificate_data.as_ref()?;
        let pem = STANDARD.decode(pem).ok()?;
        Some(Self {
            address: server.strip_prefix("https://")?.parse().ok()?,
            certificate: CertificateDer::from_pem_slice(&pem).ok()?,
            alone: config.clusters.len() == 1,
        })
    }
}

/// Where a file is until it is whole.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Writes a file that its owner alone can read, in one step.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let fresh = unfinished(path);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}
