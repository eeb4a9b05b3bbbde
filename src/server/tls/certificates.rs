//! The certificate of a folder, as cert-manager mounts it: `tls.crt` and `tls.key`, read again when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::InconsistentKeys;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// How often it is looked whether they have changed.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The files.
const FILES: [&str; 2] = ["tls.crt", "tls.key"];

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {0}")]
    File(PathBuf, #[source] io::Error),
    /// A file has something else.
    #[error("cannot read {0}")]
    Pem(PathBuf, #[source] pem::Error),
    /// There is no certificate in the file.
    #[error("{0} has no certificate")]
    Empty(PathBuf),
    /// The key is none, or not the certificate's.
    #[error("{key} is not the key of {certificate}")]
    Key {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's.
        key: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
}

/// The certificate that is served.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    /// What it was read from.
    files: [Vec<u8>; 2],
}

impl Certificates {
    /// Those of `folder`.
    ///
    /// # Errors
    ///
    /// Where there are none that can be served.
    pub fn read(folder: &Path) -> Result<Self, CertificateError> {
        let files = files(folder)?;
        let key = certified(folder, &files)?;
        Ok(Self { folder: folder.to_owned(), current: RwLock::new(Current { key: Arc::new(key), files }) })
    }

    /// Serves what is in the folder as it changes, until `stop`. What cannot be served leaves the last good one.
    pub async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut fault = String::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let found =
                self.look().map_err(|error| crate::api::text::with_causes(&error)).err().unwrap_or_default();
            if !found.is_empty() && found != fault {
                warn!(error = found, "the certificate of webhooks stays as it was");
            }
            fault = found;
        }
    }

    fn look(&self) -> Result<(), CertificateError> {
        let files = files(&self.folder)?;
        if files == self.current.read().files {
            return Ok(());
        }
        let key = certified(&self.folder, &files)?;
        *self.current.write() = Current { key: Arc::new(key), files };
        info!(folder = %self.folder.display(), "serving another certificate");
        Ok(())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().key.clone())
    }
}

fn files(folder: &Path) -> Result<[Vec<u8>; 2], CertificateError> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(|error| CertificateError::File(path, error))
    };
    Ok([read(FILES[0])?, read(FILES[1])?])
}

fn certified(folder: &Path, [certificate, key]: &[Vec<u8>; 2]) -> Result<CertifiedKey, CertificateError> {
    let [certificate_path, key_path] = FILES.map(|name| folder.join(name));
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let certificates =
        certificates.map_err(|error| CertificateError::Pem(certificate_path.clone(), error))?;
    if certificates.is_empty() {
        return Err(CertificateError::Empty(certificate_path));
    }
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| CertificateError::Pem(key_path.clone(), error))?;
    let no_key = |source| CertificateError::Key {
        certificate: certificate_path.clone(),
        key: key_path.clone(),
        source,
    };
    let certified = CertifiedKey::new(certificates, any_supported_type(&key).map_err(no_key)?);
    match certified.keys_match() {
        // Some keys do not say.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(error) => Err(no_key(error)),
    }
}

#[cfg(test)]
mod tests;
