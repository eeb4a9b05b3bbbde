//! Certificates and their keys: the one that is served, wherever it comes from, and the one of a client.

use std::sync::Arc;

use parking_lot::RwLock;
use rustls::InconsistentKeys;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use policy_sync_api::moment::Moment;

/// A certificate and its key as PEM.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'p> {
    /// Where the certificate is, for whoever has to mend it.
    pub certificate_name: &'p str,
    /// The certificate, and what it takes to trust it beside the authority.
    pub certificate: &'p [u8],
    /// Where the key is.
    pub key_name: &'p str,
    /// The key.
    pub key: &'p [u8],
}

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It is no PEM.
    #[error("cannot read {0}")]
    Pem(String, #[source] pem::Error),
    /// There is none.
    #[error("{0} has no certificate")]
    Empty(String),
    /// The key is none, or not the certificate's.
    #[error("{key} is not the key of {certificate}")]
    Key {
        /// Where the certificate is.
        certificate: String,
        /// Where the key is.
        key: String,
        /// Why not.
        source: rustls::Error,
    },
}

/// The certificate that is served, none at first.
#[derive(Debug, Default)]
pub struct Certificates(RwLock<Option<Arc<CertifiedKey>>>);

impl Certificates {
    /// Serves this one from now on; returns whether it is another than before.
    ///
    /// # Errors
    ///
    /// Where it cannot be served: what was before still is.
    pub fn serve(&self, pair: Pair<'_>) -> Result<bool, CertificateError> {
        let certified = certified(pair)?;
        let mut current = self.0.write();
        let is_another = current.as_ref().is_none_or(|current| current.cert != certified.cert);
        // A key of the same certificate is the same key.
        if is_another {
            *current = Some(Arc::new(certified));
        }
        Ok(is_another)
    }

    /// It, and what it takes to trust it.
    #[must_use]
    pub fn served(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.0.read().as_ref().map(|current| current.cert.clone())
    }

    /// When it expires; `None` where there is none.
    #[must_use]
    pub fn expires(&self) -> Option<Moment> {
        self.0.read().as_ref().and_then(|current| expires(current.cert.first()?))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// When `certificate` expires; `None` where it is none.
#[must_use]
pub fn expires(certificate: &CertificateDer<'_>) -> Option<Moment> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(Moment(parsed.validity().not_after.timestamp() * 1000))
}

/// What can be served of `pair`.
///
/// # Errors
///
/// Where that is nothing.
pub fn certified(pair: Pair<'_>) -> Result<CertifiedKey, CertificateError> {
    let unread = |name: &str| {
        let name = name.to_owned();
        move |error| CertificateError::Pem(name, error)
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pair.certificate).collect();
    let certificates = certificates.map_err(unread(pair.certificate_name))?;
    if certificates.is_empty() {
        return Err(CertificateError::Empty(pair.certificate_name.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(pair.key).map_err(unread(pair.key_name))?;
    let no_key = |source| CertificateError::Key {
        certificate: pair.certificate_name.to_owned(),
        key: pair.key_name.to_owned(),
        source,
    };
    let certified = CertifiedKey::new(certificates, any_supported_type(&key).map_err(no_key)?);
    match certified.keys_match() {
        // Some keys do not say.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(error) => Err(no_key(error)),
    }
}
