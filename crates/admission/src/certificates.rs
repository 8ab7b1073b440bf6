//! The webhook's own authority and the leaf that it serves with: what they are, and when they are
//! made anew.
//!
//! Called by the keeper with the time. Pure but for the keys, which are random. Must stay true: the
//! API server, which learns a new bundle some time after it is written, always trusts the leaf that is
//! served. So a new authority signs only once its bundle has had time to arrive, and an old one
//! stays in the bundle until it ends.

use std::{sync::Arc, time::Duration};

use causeway_planner::snapshot::Moment;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use time::OffsetDateTime;
use x509_parser::{extensions::GeneralName, prelude::FromDer};

const DAY: Duration = Duration::from_hours(24);

/// How long an authority lives.
const AUTHORITY: Duration = DAY.saturating_mul(3 * 365);

/// How long a leaf lives.
const LEAF: Duration = DAY.saturating_mul(90);

/// A new authority signs no sooner after it was made: API servers see a new bundle within seconds,
/// a cluster that is being repaired may take longer.
const SETTLE: Duration = Duration::from_hours(1);

/// Clocks of other machines may be behind.
const SKEW: Duration = Duration::from_mins(10);

/// Certificates cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// One cannot be made.
    #[error("cannot make {what}")]
    Make {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        source: rcgen::Error,
    },
    /// What is kept is no certificate or key.
    #[error("{what} is not what it should be")]
    Unreadable {
        /// Which.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A time beyond what certificates can say.
    #[error("{0} ms since 1970 is no time for a certificate")]
    Time(i64),
}

fn unreadable(
    what: &'static str,
) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> CertificateError {
    move |source| CertificateError::Unreadable { what, source }
}

/// From when to when a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Validity {
    from: Moment,
    until: Moment,
}

impl Validity {
    fn of(life: Duration, now: Moment) -> Self {
        let skew = i64::try_from(SKEW.as_millis()).unwrap_or_default();
        Self {
            from: Moment(now.0.saturating_sub(skew)),
            until: now.after(life),
        }
    }

    /// Whether two thirds of it are over.
    fn is_old(self, now: Moment) -> bool {
        now.since(self.from) >= self.until.since(self.from) * 2 / 3
    }

    fn is_over(self, now: Moment) -> bool {
        now >= self.until
    }
}

/// A certificate in PEM and what matters of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Certificate {
    pem: String,
    validity: Validity,
    common_name: String,
    names: Vec<String>,
}

impl Certificate {
    fn read(pem: &str, what: &'static str) -> Result<Self, CertificateError> {
        let der = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|error| unreadable(what)(error.into()))?;
        let (_, parsed) = x509_parser::certificate::X509Certificate::from_der(&der)
            .map_err(|error| unreadable(what)(error.into()))?;
        let moment = |seconds: i64| Moment(seconds.saturating_mul(1000));
        let validity = Validity {
            from: moment(parsed.validity().not_before.timestamp()),
            until: moment(parsed.validity().not_after.timestamp()),
        };
        let mut common = parsed.subject().iter_common_name();
        let common_name = common.next().and_then(|name| name.as_str().ok());
        let alternative = parsed
            .subject_alternative_name()
            .map_err(|error| unreadable(what)(error.into()))?;
        let names = alternative.map(|extension| {
            let names = extension.value.general_names.iter();
            names.filter_map(plain_name).collect()
        });
        Ok(Self {
            pem: pem.to_owned(),
            validity,
            common_name: common_name.unwrap_or_default().to_owned(),
            names: names.unwrap_or_default(),
        })
    }
}

fn plain_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address: [u8; 4] = (*bytes).try_into().ok()?;
            Some(std::net::Ipv4Addr::from(address).to_string())
        }
        _ => None,
    }
}

/// All that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificates {
    /// The latest first.
    authorities: Vec<Certificate>,
    /// Of the latest authority.
    authority_key: String,
    leaf: Certificate,
    leaf_key: String,
}

impl Certificates {
    /// From what is kept: bundle, key, leaf, key, all PEM.
    pub(crate) fn read(
        bundle: &str,
        authority_key: &str,
        leaf: &str,
        leaf_key: &str,
    ) -> Result<Self, CertificateError> {
        const END: &str = "-----END CERTIFICATE-----\n";
        let authorities = bundle.split_inclusive(END);
        let authorities: Result<Vec<_>, _> = authorities
            .map(|pem| Certificate::read(pem, "ca.crt"))
            .collect();
        let read = Self {
            authorities: authorities?,
            authority_key: authority_key.to_owned(),
            leaf: Certificate::read(leaf, "tls.crt")?,
            leaf_key: leaf_key.to_owned(),
        };
        // Whoever cannot sign or serve with it shall hear of it now.
        let key = KeyPair::from_pem(authority_key);
        key.map_err(|error| unreadable("ca.key")(error.into()))?;
        read.served()?;
        Ok(read)
    }

    /// Bundle, key, leaf, key, all PEM.
    pub(crate) fn parts(&self) -> (String, &str, &str, &str) {
        (
            self.bundle(),
            &self.authority_key,
            &self.leaf.pem,
            &self.leaf_key,
        )
    }

    /// What the API server has to trust.
    pub(crate) fn bundle(&self) -> String {
        self.authorities
            .iter()
            .map(|one| one.pem.as_str())
            .collect()
    }

    /// What a TLS server serves with.
    pub(crate) fn served(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        let leaf = CertificateDer::from_pem_slice(self.leaf.pem.as_bytes())
            .map_err(|error| unreadable("tls.crt")(error.into()))?;
        let key = PrivateKeyDer::from_pem_slice(self.leaf_key.as_bytes())
            .map_err(|error| unreadable("tls.key")(error.into()))?;
        let pair = CertifiedKey::from_der(vec![leaf], key, &ring::default_provider())
            .map_err(|error| unreadable("tls.key")(error.into()))?;
        Ok(Arc::new(pair))
    }

    /// What is to be kept from now on, if that is something else.
    pub(crate) fn renewed(
        held: Option<&Self>,
        names: &[String],
        now: Moment,
    ) -> Result<Option<Self>, CertificateError> {
        let mut new = match held {
            Some(held) => held.clone(),
            None => return Self::made(names, now).map(Some),
        };
        new.authorities.retain(|one| !one.validity.is_over(now));
        if new
            .authorities
            .first()
            .is_none_or(|latest| latest.validity.is_old(now))
        {
            let (authority, key) = make_authority(now)?;
            new.authorities.insert(0, authority);
            new.authority_key = key;
        }
        let covers = names.iter().all(|name| new.leaf.names.contains(name));
        let over = new.leaf.validity.is_over(now) || !covers;
        if over || (new.leaf.validity.is_old(now) && new.may_sign(now)) {
            new.sign(names, now)?;
        }
        Ok((held != Some(&new)).then_some(new))
    }

    fn made(names: &[String], now: Moment) -> Result<Self, CertificateError> {
        let (authority, authority_key) = make_authority(now)?;
        let (leaf, leaf_key) = make_leaf(&authority, &authority_key, names, now)?;
        Ok(Self {
            authorities: vec![authority],
            authority_key,
            leaf,
            leaf_key,
        })
    }

    /// Whether the latest authority has had the time to become known.
    fn may_sign(&self, now: Moment) -> bool {
        let latest = self.authorities.first();
        latest.is_some_and(|one| now.since(one.validity.from) >= SKEW + SETTLE)
    }

    fn sign(&mut self, names: &[String], now: Moment) -> Result<(), CertificateError> {
        if let Some(latest) = self.authorities.first() {
            (self.leaf, self.leaf_key) = make_leaf(latest, &self.authority_key, names, now)?;
        }
        Ok(())
    }
}

fn params(
    mut params: CertificateParams,
    common_name: &str,
    validity: Validity,
) -> Result<CertificateParams, CertificateError> {
    let time = |moment: Moment| {
        let time = OffsetDateTime::from_unix_timestamp(moment.0.div_euclid(1000));
        time.map_err(|_| CertificateError::Time(moment.0))
    };
    params.distinguished_name = DistinguishedName::new();
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, common_name);
    params.not_before = time(validity.from)?;
    params.not_after = time(validity.until)?;
    Ok(params)
}

fn authority_params(
    common_name: &str,
    validity: Validity,
) -> Result<CertificateParams, CertificateError> {
    let mut params = params(CertificateParams::default(), common_name, validity)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// Its name has the time in it: two in one bundle are not to be taken for each other.
fn make_authority(now: Moment) -> Result<(Certificate, String), CertificateError> {
    let what = "the webhook's authority";
    let failed = |source| CertificateError::Make { what, source };
    let key = KeyPair::generate().map_err(failed)?;
    let name = format!("causeway webhook authority {}", now.0.div_euclid(1000));
    let params = authority_params(&name, Validity::of(AUTHORITY, now))?;
    let made = params.self_signed(&key).map_err(failed)?;
    Ok((unix_lines(&made, what)?, key.serialize_pem()))
}

fn make_leaf(
    authority: &Certificate,
    authority_key: &str,
    names: &[String],
    now: Moment,
) -> Result<(Certificate, String), CertificateError> {
    let what = "the webhook's certificate";
    let failed = |source| CertificateError::Make { what, source };
    let key = KeyPair::from_pem(authority_key).map_err(failed)?;
    let issuer = Issuer::new(
        authority_params(&authority.common_name, authority.validity)?,
        key,
    );
    let own = KeyPair::generate().map_err(failed)?;
    let asked = CertificateParams::new(names.to_vec()).map_err(failed)?;
    let mut params = params(asked, "causeway webhook", Validity::of(LEAF, now))?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let signed = params.signed_by(&own, &issuer).map_err(failed)?;
    Ok((unix_lines(&signed, what)?, own.serialize_pem()))
}

fn unix_lines(
    made: &rcgen::Certificate,
    what: &'static str,
) -> Result<Certificate, CertificateError> {
    Certificate::read(&made.pem().replace("\r\n", "\n"), what)
}

#[cfg(test)]
mod tests;
