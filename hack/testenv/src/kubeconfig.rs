//! Self-contained kubeconfigs, with embedded certificates and key.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use crate::certificates::Identity;

/// A user's access to an API server.
#[derive(Debug)]
pub struct Access {
    /// Name of the cluster and of the context.
    pub cluster: String,
    /// The user's name.
    pub user: String,
    /// The API server's URL.
    pub server: String,
    /// The CA certificate as PEM.
    pub authority: String,
    /// The user's certificate and key.
    pub identity: Identity,
}

impl Access {
    /// Writes the kubeconfig, readable only by the current user of the machine.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_saphyr::to_string(&self.kubeconfig()?).context("serializing the kubeconfig")?;
        if path.exists() {
            fs::remove_file(path).with_context(|| format!("replacing {}", path.display()))?;
        }
        File::options()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))
    }

    /// The client configuration.
    pub async fn config(&self) -> Result<kube::Config> {
        let kubeconfig: Kubeconfig =
            serde_json::from_value(self.kubeconfig()?).context("parsing the generated kubeconfig")?;
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("creating a client for {}", self.cluster))
    }

    fn kubeconfig(&self) -> Result<serde_json::Value> {
        let mut context = json!({"cluster": self.cluster, "user": self.user});
        // In a pod, the default namespace is the namespace of the service account.
        let account =
            self.user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        if let Some((namespace, _)) = account {
            context["namespace"] = namespace.into();
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.cluster,
            "clusters": [{
                "name": self.cluster,
                "cluster": { "server": self.server, "certificate-authority-data": base64(&self.authority)? },
            }],
            "users": [{
                "name": self.user,
                "user": {
                    "client-certificate-data": base64(&self.identity.certificate)?,
                    "client-key-data": base64(&self.identity.key)?,
                },
            }],
            "contexts": [{ "name": self.cluster, "context": context }],
        }))
    }
}

fn base64(text: &str) -> Result<serde_json::Value> {
    serde_json::to_value(ByteString(text.as_bytes().to_vec())).context("encoding a certificate")
}
