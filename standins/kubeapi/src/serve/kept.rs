//! What of a server outlasts it in its directory, so that a kubeconfig goes on working with the next
//! one there: the authority's key, and the administrator's kubeconfig with its port and certificate.
//!
//! Called by [`KubeApi::serve`](crate::KubeApi::serve). Must stay true: both files are readable by
//! their owner alone; the kubeconfig is written anew only where it would not work, because people
//! set namespaces in theirs.

use std::{
    io::{self, Write},
    net::SocketAddr,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::config::Kubeconfig;
use rcgen::KeyPair;
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::{ADMINISTRATOR, authority::AuthorityError};

/// The authority's key, as PEM.
const KEY: &str = "authority.key";

/// The key of the directory's authority, and whether it is new.
pub(super) fn key(dir: &Path) -> Result<(KeyPair, bool), AuthorityError> {
    let path = dir.join(KEY);
    let failed = |source| AuthorityError::Key {
        path: path.clone(),
        source,
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok((KeyPair::from_pem(&text)?, false)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = KeyPair::generate()?;
            write_private(&path, &key.serialize_pem()).map_err(failed)?;
            Ok((key, true))
        }
        Err(error) => Err(failed(error)),
    }
}

/// What an earlier server's kubeconfig says.
pub(super) struct Card {
    pub(super) address: SocketAddr,
    /// The administrator's.
    pub(super) certificate: CertificateDer<'static>,
}

impl Card {
    /// Nothing if there is none, or none that a server here has written.
    pub(super) fn read(kubeconfig: &Path) -> Option<Self> {
        let config = Kubeconfig::read_from(kubeconfig).ok()?;
        let mut servers = config.clusters.iter().filter_map(|named| {
            let server = named.cluster.as_ref()?.server.as_ref()?;
            server.strip_prefix("https://")?.parse().ok()
        });
        let users = config.auth_infos.iter();
        let mut users = users.filter(|named| named.name == ADMINISTRATOR);
        let user = users.next()?.auth_info.as_ref()?;
        let pem = STANDARD.decode(user.client_certificate_data.as_ref()?);
        Some(Self {
            address: servers.next()?,
            certificate: CertificateDer::from_pem_slice(&pem.ok()?).ok()?,
        })
    }
}

/// Writes a file that its owner alone can read, in one step.
pub(super) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    // One that an earlier end left behind may be readable by others.
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}
