//! The files that a client asks with: a token, an authority, a certificate of its own.

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

use crate::certificates::{CertificateError, Pair, certified};

/// What a client asks with, and in which files that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// A token that it shows.
    pub token: Option<Token>,
    /// Whom it trusts, as PEM; otherwise whom the machine trusts.
    pub authority: Option<PathBuf>,
    /// Its own certificate and its key, as PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A token, one line.
#[derive(Clone, PartialEq, Eq)]
pub enum Token {
    /// In a file.
    File(PathBuf),
    /// Itself.
    Text(Arc<str>),
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why they cannot be asked with.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// One cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// A token is none.
    #[error("{0} has no token: expected one line of printable characters")]
    Token(PathBuf),
    /// The same, of one that is in no file of its own.
    #[error("the token is none: expected one line of printable characters")]
    Text,
    /// An authority is none.
    #[error("{0} has no certificate")]
    Authority(PathBuf),
    /// A certificate is none, or not its key's.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Nothing can be trusted.
    #[error("cannot set TLS up")]
    Tls(#[from] rustls::Error),
}

/// What is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) token: Option<HeaderValue>,
    authority: Option<(PathBuf, Vec<u8>)>,
    identity: Option<[(PathBuf, Vec<u8>); 2]>,
}

impl Files {
    pub(super) fn read(&self) -> Result<Read, FileError> {
        let read = |path: &Path| match fs::read(path) {
            Ok(bytes) => Ok((path.to_owned(), bytes)),
            Err(error) => Err(FileError::Read(path.to_owned(), error)),
        };
        let identity = match &self.identity {
            Some((certificate, key)) => Some([read(certificate)?, read(key)?]),
            None => None,
        };
        let read = Read {
            token: match &self.token {
                Some(Token::File(path)) => Some(token(path, &read(path)?.1)?),
                Some(Token::Text(text)) => Some(bearer(text).ok_or(FileError::Text)?),
                None => None,
            },
            authority: self.authority.as_deref().map(read).transpose()?,
            identity,
        };
        // What cannot be used is told now.
        read.tls()?;
        Ok(read)
    }
}

fn token(path: &Path, bytes: &[u8]) -> Result<HeaderValue, FileError> {
    let fault = || FileError::Token(path.to_owned());
    let text = std::str::from_utf8(bytes).map_err(|_| fault())?.trim();
    if text.is_empty() {
        return Err(fault());
    }
    bearer(text).ok_or_else(fault)
}

/// The header that shows `token`; `None` where none can.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

impl Read {
    pub(super) fn tls(&self) -> Result<ClientConfig, FileError> {
        let builder = ClientConfig::builder();
        let builder = match &self.authority {
            None => builder.with_platform_verifier()?,
            Some((path, bytes)) => {
                let mut roots = RootCertStore::empty();
                let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
                let (added, _) = roots.add_parsable_certificates(certificates.unwrap_or_default());
                if added == 0 {
                    return Err(FileError::Authority(path.clone()));
                }
                builder.with_root_certificates(roots)
            }
        };
        let Some([(certificate_path, certificate), (key_path, key)]) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let (certificate_name, key_name) =
            (certificate_path.display().to_string(), key_path.display().to_string());
        let pair = Pair { certificate_name: &certificate_name, certificate, key_name: &key_name, key };
        Ok(builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified(pair)?))))
    }
}
