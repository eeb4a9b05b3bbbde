//! TLS certificates and keys of servers and clients. A server's certificate can be replaced while the server runs.

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

/// A certificate chain and its private key, both PEM.
#[derive(Clone, Copy, Debug)]
pub struct CertificateAndKey<'p> {
    /// The name of the file or Secret key that contains the certificate, for error messages.
    pub certificate_name: &'p str,
    /// The certificate, followed by its intermediates.
    pub certificate: &'p [u8],
    /// The name of the file or Secret key that contains the private key, for error messages.
    pub key_name: &'p str,
    /// The private key.
    pub key: &'p [u8],
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate or the key is not valid PEM.
    #[error("cannot read {0}")]
    Pem(String, #[source] pem::Error),
    /// The PEM has no certificate.
    #[error("{0} has no certificate")]
    Empty(String),
    /// The key is not supported, or does not belong to the certificate.
    #[error("{key} is not the key of {certificate}")]
    Key {
        /// The name of the certificate.
        certificate: String,
        /// The name of the key.
        key: String,
        /// The error of rustls.
        source: rustls::Error,
    },
}

/// The certificate that a TLS server presents; none at first. It can be replaced without a restart.
#[derive(Debug, Default)]
pub struct CertificateResolver(RwLock<Option<Arc<CertifiedKey>>>);

impl CertificateResolver {
    /// Replaces the served certificate. Returns whether the new certificate differs.
    ///
    /// # Errors
    ///
    /// If the pair cannot be used. The previous certificate stays in use.
    pub fn serve(&self, pair: CertificateAndKey<'_>) -> Result<bool, CertificateError> {
        let certified_key = certified_key(pair)?;
        let mut current = self.0.write();
        let is_different = current.as_ref().is_none_or(|current| current.cert != certified_key.cert);
        // The same certificate implies the same key.
        if is_different {
            *current = Some(Arc::new(certified_key));
        }
        Ok(is_different)
    }

    /// The served certificate, followed by its intermediates.
    #[must_use]
    pub fn served(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.0.read().as_ref().map(|current| current.cert.clone())
    }

    /// The expiry (`notAfter`) of the served certificate; `None` if no certificate is served.
    #[must_use]
    pub fn expires(&self) -> Option<Moment> {
        self.0.read().as_ref().and_then(|current| expires(current.cert.first()?))
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// The expiry (`notAfter`) of `certificate`; `None` if it cannot be parsed.
#[must_use]
pub fn expires(certificate: &CertificateDer<'_>) -> Option<Moment> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(Moment(parsed.validity().not_after.timestamp() * 1000))
}

/// Parses `pair` and checks that the key belongs to the certificate.
///
/// # Errors
///
/// If the PEM is invalid or empty, or if the key does not match.
pub fn certified_key(pair: CertificateAndKey<'_>) -> Result<CertifiedKey, CertificateError> {
    let pem_error = |name: &str| {
        let name = name.to_owned();
        move |error| CertificateError::Pem(name, error)
    };
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pair.certificate).collect();
    let certificates = certificates.map_err(pem_error(pair.certificate_name))?;
    if certificates.is_empty() {
        return Err(CertificateError::Empty(pair.certificate_name.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(pair.key).map_err(pem_error(pair.key_name))?;
    let key_error = |source| CertificateError::Key {
        certificate: pair.certificate_name.to_owned(),
        key: pair.key_name.to_owned(),
        source,
    };
    let certified_key = CertifiedKey::new(certificates, any_supported_type(&key).map_err(key_error)?);
    match certified_key.keys_match() {
        // For some key types, rustls cannot compare the key with the certificate.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified_key),
        Err(error) => Err(key_error(error)),
    }
}
