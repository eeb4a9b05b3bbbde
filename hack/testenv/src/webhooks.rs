//! What an API server needs to ask a controller's webhooks: a certificate, a port, and a configuration that names both.

use std::fs;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::certificates::{Authority, Identity};
use crate::ports::Port;

/// The certificate and the port of a controller's webhooks.
#[derive(Debug)]
pub struct Webhooks {
    authority: Authority,
    folder: TempDir,
    port: Port,
}

impl Webhooks {
    /// A certificate of an authority of its own, for 127.0.0.1, and a free port.
    ///
    /// # Errors
    ///
    /// Where one cannot be had.
    pub fn new() -> Result<Self> {
        let (authority, folder, port) = (Authority::new("webhooks")?, TempDir::new()?, Port::reserve()?);
        let webhooks = Self { authority, folder, port };
        webhooks.renew()?;
        Ok(webhooks)
    }

    /// Puts another certificate in the place of the one that is there.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn renew(&self) -> Result<()> {
        let Identity { certificate, key } = self.authority.server("webhooks")?;
        for (name, text) in [("tls.crt", certificate), ("tls.key", key)] {
            fs::write(self.folder.path().join(name), text).with_context(|| format!("writing {name}"))?;
        }
        Ok(())
    }

    /// The arguments of the controller that serves them.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            format!("--webhook-cert-dir={}", self.folder.path().display()),
            format!("--webhook-bind-address=127.0.0.1:{}", self.port.number()),
        ]
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The authority's certificate as PEM.
    pub fn authority(&self) -> String {
        self.authority.certificate()
    }

    /// A MutatingWebhookConfiguration that has `/placement` asked of Deployments in `namespace`.
    pub fn placement_of_deployments(&self, namespace: &str) -> Value {
        let name = format!("{namespace}.example.com");
        let url = format!("https://127.0.0.1:{}/placement", self.port());
        let rule = json!({"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["deployments"],
            "operations": ["CREATE", "UPDATE"]});
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": name, "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail", "timeoutSeconds": 5, "rules": [rule],
                "clientConfig": {"url": url, "caBundle": ByteString(self.authority().into_bytes())},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            }],
        })
    }
}
