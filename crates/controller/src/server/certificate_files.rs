//! The certificate files in a folder: `tls.crt`, `tls.key` and optionally `ca.crt`, as in a mounted cert-manager
//! Secret. They are read again when they change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::follow;
use policy_sync_hub::certificates::{CertificateAndKey, CertificateError, CertificateResolver};
use policy_sync_hub::tasks::send_if_changed;

/// How often the files are checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The certificate in the folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFileError {
    /// A file cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// The files are not a certificate and its key.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

/// The certificate files in a folder.
#[derive(Debug)]
pub struct CertificateFiles {
    folder: PathBuf,
    certificates: Arc<CertificateResolver>,
    authority: watch::Sender<Option<String>>,
}

impl CertificateFiles {
    /// Reads the files in `folder`, and serves their certificate with `certificates`.
    ///
    /// # Errors
    ///
    /// If the files cannot be served.
    pub fn read(folder: &Path, certificates: Arc<CertificateResolver>) -> Result<Self, CertificateFileError> {
        let files = Self { folder: folder.to_owned(), certificates, authority: watch::channel(None).0 };
        files.reload()?;
        Ok(files)
    }

    /// The CA certificate (PEM) and its changes; `None` without a CA.
    #[must_use]
    pub fn authority(&self) -> watch::Receiver<Option<String>> {
        self.authority.subscribe()
    }

    /// Reads the files again when they change, until `stop`. If they become invalid, the last certificate
    /// stays in use.
    pub async fn follow(self, stop: CancellationToken) {
        let reload = || {
            if self.reload()? {
                info!(folder = %self.folder.display(), "serving another certificate");
            }
            Ok::<_, CertificateFileError>(())
        };
        let on_error = |error: &str| warn!(error, "still serving webhooks with the previous certificate");
        follow(POLL_INTERVAL, stop, reload, on_error).await;
    }

    fn reload(&self) -> Result<bool, CertificateFileError> {
        let path = |name: &str| self.folder.join(name);
        let read =
            |name: &str| fs::read(path(name)).map_err(|error| CertificateFileError::Read(path(name), error));
        let (certificate, key) = (read("tls.crt")?, read("tls.key")?);
        let authority = match fs::read_to_string(path("ca.crt")) {
            // cert-manager leaves `ca.crt` empty for publicly trusted issuers.
            Ok(text) => Some(text).filter(|text| !text.trim().is_empty()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(CertificateFileError::Read(path("ca.crt"), error)),
        };
        let names = ["tls.crt", "tls.key"].map(|name| path(name).display().to_string());
        let [certificate_name, key_name] = &names;
        let pair = CertificateAndKey { certificate_name, certificate: &certificate, key_name, key: &key };
        let is_another = self.certificates.serve(pair)?;
        send_if_changed(&self.authority, authority);
        Ok(is_another)
    }
}

#[cfg(test)]
mod tests;
