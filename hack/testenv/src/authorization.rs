//! Files that configure an API server to use the controller as authorizer, derived from
//! `ocm-manifests/authorize`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::webhooks::Webhooks;

/// The manifest that users apply.
const AUTHORIZATION: &str = include_str!("../../../ocm-manifests/authorize/authorization.yaml");
const KUBECONFIG: &str = include_str!("../../../ocm-manifests/authorize/kubeconfig.yaml");
/// The directory of all files in the manifests.
const FOLDER: &str = "/etc/kubernetes/policy-sync/";
/// The controller's address in the manifests.
const ADDRESS: &str = "https://10.96.0.99/";
/// The field for the certificate's name in the manifests. For 127.0.0.1, the field is not needed.
const SERVER_NAME: &str = "tls-server-name:";

/// The user that the manifests exempt.
pub const CONTROLLER: &str = "system:serviceaccount:policy-sync:policy-sync";

/// The token that the controller accepts.
pub const TOKEN: &str = "a-token-that-nobody-guesses";

/// A temporary directory with the files.
#[derive(Debug)]
pub struct Authorization(TempDir);

impl Authorization {
    /// Writes the files for the controller at `webhooks`. The webhooks must use a certificate in files.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be written.
    pub fn new(webhooks: &Webhooks) -> Result<Self> {
        let files = Self(TempDir::new()?);
        let here = format!("{}/", files.0.path().display());
        let address = format!("https://127.0.0.1:{}/", webhooks.port());
        let kubeconfig: Vec<&str> = KUBECONFIG.lines().filter(|line| !line.contains(SERVER_NAME)).collect();
        let kubeconfig = kubeconfig.join("\n").replace(ADDRESS, &address).replace(FOLDER, &here);
        files.write("authorization.yaml", &AUTHORIZATION.replace(FOLDER, &here))?;
        files.write("kubeconfig.yaml", &kubeconfig)?;
        files.write("ca.crt", &webhooks.authority()?)?;
        files.write("token", &format!("{TOKEN}\n"))?;
        Ok(files)
    }

    /// The path of the file `name`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the file `name`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.path(name), text).with_context(|| format!("writing {name}"))
    }

    /// The controller's argument for the token file.
    #[must_use]
    pub fn argument(&self) -> String {
        format!("--authorize-token-file={}", self.path("token").display())
    }

    /// The path of the AuthorizationConfiguration for the API server.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.path("authorization.yaml")
    }

    /// The directory of the files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}
