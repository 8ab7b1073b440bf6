//! The cluster's own certificate authority, and what it signs.
//!
//! Must stay true: nothing of it outlives the run directory; keys are in files of mode 0600 only.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// A certificate could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make {what}")]
pub struct CertError {
    what: &'static str,
    source: rcgen::Error,
}

/// A certificate and its key, as PEM.
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Signs for one cluster.
#[derive(Debug)]
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub(super) fn new() -> Result<Self, CertError> {
        let failed = |source| CertError {
            what: "the authority",
            source,
        };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("causeway lab", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    pub(super) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// For a server on 127.0.0.1.
    pub(super) fn server(&self) -> Result<Pair, CertError> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let params = CertificateParams::new(names).map_err(|source| CertError {
            what: "the server's certificate",
            source,
        })?;
        self.sign(
            params,
            name("kube-apiserver", None),
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// For a user, whom Kubernetes knows by the common name, in a group, by the organisation.
    pub(super) fn user(&self, user: &str, group: Option<&str>) -> Result<Pair, CertError> {
        self.sign(
            CertificateParams::default(),
            name(user, group),
            ExtendedKeyUsagePurpose::ClientAuth,
        )
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        subject: DistinguishedName,
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Pair, CertError> {
        let failed = |source| CertError {
            what: "a certificate",
            source,
        };
        params.distinguished_name = subject;
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().map_err(failed)?;
        let signed: Certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Pair {
            certificate: signed.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The two halves of a key, as PEM.
pub(super) struct AccountKey {
    pub(super) secret: String,
    pub(super) public: String,
}

/// A key that tokens of service accounts are signed with.
pub(super) fn account_key() -> Result<AccountKey, CertError> {
    let key = KeyPair::generate().map_err(|source| CertError {
        what: "the key of service accounts",
        source,
    })?;
    Ok(AccountKey {
        secret: key.serialize_pem(),
        public: key.public_key_pem(),
    })
}

fn name(common: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}
