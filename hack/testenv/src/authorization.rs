//! The files with which an API server asks a controller about every request, made of the manifests that users apply.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::webhooks::Webhooks;

/// What users apply.
const AUTHORIZATION: &str = include_str!("../../../ocm-manifests/authorize/authorization.yaml");
const KUBECONFIG: &str = include_str!("../../../ocm-manifests/authorize/kubeconfig.yaml");
/// Where these have all files.
const FOLDER: &str = "/etc/kubernetes/policy-sync/";
/// Where they have the controller.
const ADDRESS: &str = "https://10.96.0.99/";
/// What they say where that is not in its certificate.
const SERVER_NAME: &str = "tls-server-name:";

/// The controller that they exempt.
pub const CONTROLLER: &str = "system:serviceaccount:policy-sync:policy-sync";

/// The token that it takes.
pub const TOKEN: &str = "a-token-that-nobody-guesses";

/// The files, in a folder of their own.
#[derive(Debug)]
pub struct Authorization(TempDir);

impl Authorization {
    /// Those for the controller that serves `webhooks`, with a certificate that is in files.
    ///
    /// # Errors
    ///
    /// Where they cannot be written.
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

    /// The file `name`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes the file `name`.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.path(name), text).with_context(|| format!("writing {name}"))
    }

    /// The argument of the controller.
    #[must_use]
    pub fn argument(&self) -> String {
        format!("--authorize-token-file={}", self.path("token").display())
    }

    /// What the API server is started with.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.path("authorization.yaml")
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.0.path()
    }
}
