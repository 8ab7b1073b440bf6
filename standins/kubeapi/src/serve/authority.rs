//! The server's own certificate authority, and who is known by which certificate or token.
//!
//! Must stay true: two authorities of one key are the same to whoever trusts one of them. Who is known
//! ends with the process, except for the administrator ([`super::kept`]).

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use serde_json::json;

use crate::User;

/// The cluster's name in kubeconfigs.
pub(super) const CLUSTER: &str = "causeway";

/// Certificates cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A certificate or key.
    #[error("a certificate cannot be made")]
    Certificate(#[from] rcgen::Error),
    /// The TLS configuration.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
    /// The check of client certificates.
    #[error("client certificates cannot be checked")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// The authority's key.
    #[error("cannot use {}", path.display())]
    Key {
        /// Where it is kept.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No randomness.
    #[error("there is no randomness for a token")]
    Random,
}

/// Who is known.
#[derive(Debug, Default)]
struct Known {
    certificates: BTreeMap<Vec<u8>, User>,
    tokens: BTreeMap<String, User>,
}

#[derive(Debug)]
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    address: SocketAddr,
    known: Mutex<Known>,
}

/// A certificate and its key.
struct Pair {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    pub(super) fn new(address: SocketAddr, key: KeyPair) -> Result<Self, AuthorityError> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, "kubernetes");
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, key)?,
            address,
            known: Mutex::new(Known::default()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the server shows itself, and whose certificates it takes.
    pub(super) fn tls(&self) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), self.address.ip().to_string()])?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        let pair = self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)?;
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone())?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![pair.certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Pair, AuthorityError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate, key })
    }

    /// A kubeconfig with a fresh certificate of a user.
    pub(super) fn kubeconfig(&self, user: &User) -> Result<String, AuthorityError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, user.name.as_str());
        let pair = self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)?;
        self.admit(pair.certificate.der(), user);
        let encode = |text: String| STANDARD.encode(text);
        // JSON is YAML, and quotes names as they need it.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CLUSTER, "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": encode(self.issuer.pem()),
            }}],
            "users": [{"name": user.name, "user": {
                "client-certificate-data": encode(pair.certificate.pem()),
                "client-key-data": encode(pair.key.serialize_pem()),
            }}],
            "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": user.name}}],
            "current-context": CLUSTER,
        });
        Ok(format!("{config:#}\n"))
    }

    /// From now on the certificate is this user's.
    pub(super) fn admit(&self, certificate: &CertificateDer<'_>, user: &User) {
        let der = certificate.as_ref().to_vec();
        self.lock().certificates.insert(der, user.clone());
    }

    /// A fresh token of a user.
    pub(super) fn token(&self, user: &User) -> Result<String, AuthorityError> {
        let mut bytes = [0; 32];
        ring::default_provider()
            .secure_random
            .fill(&mut bytes)
            .map_err(|_| AuthorityError::Random)?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        self.lock().tokens.insert(token.clone(), user.clone());
        Ok(token)
    }

    pub(super) fn by_certificate(&self, certificate: &CertificateDer<'_>) -> Option<User> {
        self.lock().certificates.get(certificate.as_ref()).cloned()
    }

    pub(super) fn by_token(&self, token: &str) -> Option<User> {
        self.lock().tokens.get(token).cloned()
    }
}
