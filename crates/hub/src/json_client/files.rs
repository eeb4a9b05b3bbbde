//! The credential files of a client: a bearer token, a CA bundle, a client certificate.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::certificates::{CertificateAndKey, CertificateError, certified_key};

/// Where the credentials of a client are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialFiles {
    /// The bearer token.
    pub token: Option<Token>,
    /// A PEM bundle of trusted CAs; `None` for the trust store of the operating system.
    pub authority: Option<PathBuf>,
    /// The client certificate and its key, both PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A bearer token, one line.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// The path of a file with the token.
    File(PathBuf),
    /// The token, given directly.
    Text(Arc<str>),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why the credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A file cannot be read.
    #[error("cannot read {0}")]
    ReadFile(PathBuf, #[source] io::Error),
    /// A token file is empty, or has more than one line or unprintable characters.
    #[error("{0} has no token: expected one line of printable characters")]
    Token(PathBuf),
    /// A token that is given directly is empty, or has more than one line or unprintable characters.
    #[error("invalid token: expected one line of printable characters")]
    Text,
    /// A CA bundle has no certificate.
    #[error("{0} has no certificate")]
    Authority(PathBuf),
    /// The client certificate is invalid, or the key does not match.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The TLS configuration is not supported, or the operating system has no trust store.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
}

/// The contents of the credential files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileContents {
    pub(super) token: Option<HeaderValue>,
    authority: Option<(PathBuf, Vec<u8>)>,
    identity: Option<[(PathBuf, Vec<u8>); 2]>,
}

impl CredentialFiles {
    pub(super) fn read(&self) -> Result<FileContents, CredentialError> {
        let read = |path: &Path| match fs::read(path) {
            Ok(bytes) => Ok((path.to_owned(), bytes)),
            Err(error) => Err(CredentialError::ReadFile(path.to_owned(), error)),
        };
        let identity = match &self.identity {
            Some((certificate, key)) => Some([read(certificate)?, read(key)?]),
            None => None,
        };
        let read = FileContents {
            token: match &self.token {
                Some(Token::File(path)) => Some(token(path, &read(path)?.1)?),
                Some(Token::Text(text)) => Some(bearer(text).ok_or(CredentialError::Text)?),
                None => None,
            },
            authority: self.authority.as_deref().map(read).transpose()?,
            identity,
        };
        // Reports unusable contents now, not at the first request.
        read.tls()?;
        Ok(read)
    }
}

fn token(path: &Path, bytes: &[u8]) -> Result<HeaderValue, CredentialError> {
    let invalid = || CredentialError::Token(path.to_owned());
    let text = std::str::from_utf8(bytes).map_err(|_| invalid())?.trim();
    if text.is_empty() {
        return Err(invalid());
    }
    bearer(text).ok_or_else(invalid)
}

/// The `Authorization` header for `token`; `None` if it has characters that headers do not allow.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

impl FileContents {
    pub(super) fn tls(&self) -> Result<ClientConfig, CredentialError> {
        let builder = ClientConfig::builder();
        let builder = match &self.authority {
            None => builder.with_platform_verifier()?,
            Some((path, bytes)) => {
                let mut roots = RootCertStore::empty();
                let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
                let (added, _) = roots.add_parsable_certificates(certificates.unwrap_or_default());
                if added == 0 {
                    return Err(CredentialError::Authority(path.clone()));
                }
                builder.with_root_certificates(roots)
            }
        };
        let Some([(certificate_path, certificate), (key_path, key)]) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let (certificate_name, key_name) =
            (certificate_path.display().to_string(), key_path.display().to_string());
        let pair =
            CertificateAndKey { certificate_name: &certificate_name, certificate, key_name: &key_name, key };
        Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified_key(pair)?))))
    }
}
