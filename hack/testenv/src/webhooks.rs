//! Connects an API server with a controller's webhooks: a port, empty webhook configurations and, unless the
//! controller creates its own, a certificate.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::Client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::apply::{apply, delete};
use crate::certificates::{Authority, Identity};
use crate::ports::Port;

/// The port of a controller's webhooks, and the name of the webhook configurations.
#[derive(Debug)]
pub struct Webhooks {
    name: String,
    port: Port,
    files: Option<Files>,
}

/// An externally managed certificate.
#[derive(Debug)]
struct Files {
    authority: Authority,
    folder: TempDir,
}

/// Requests the audit from a controller at `port` with `token`. `authority` is the CA certificate of the controller's
/// server, as PEM.
///
/// # Errors
///
/// Returns an error if the request fails.
pub async fn audit(port: u16, authority: &str, token: &str) -> Result<Value> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.root_cert = Some(vec![CertificateDer::from_pem_slice(authority.as_bytes())?.to_vec()]);
    config.auth_info.token = Some(token.to_owned().into());
    let request = http::Request::get("/audit").body(Vec::new())?;
    Ok(Client::try_from(config)?.request(request).await?)
}

impl Webhooks {
    /// Reserves a port. The controller creates its own certificate.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is free.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), port: Port::reserve()?, files: None })
    }

    /// Like [`Webhooks::new`], with a certificate for 127.0.0.1 from another authority, in files.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be created.
    pub fn with_files(name: &str) -> Result<Self> {
        let files = Files { authority: Authority::new("webhooks")?, folder: TempDir::new()? };
        let webhooks = Self { files: Some(files), ..Self::new(name)? };
        webhooks.write("ca.crt", &webhooks.authority()?)?;
        webhooks.renew()?;
        Ok(webhooks)
    }

    fn files(&self) -> Result<&Files> {
        self.files.as_ref().context("the controller creates its own certificate")
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.files()?.folder.path().join(name), text).with_context(|| format!("writing {name}"))
    }

    /// Replaces the certificate with a new one.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be written.
    pub fn renew(&self) -> Result<()> {
        self.serve_with(&self.files()?.authority.server("webhooks")?)
    }

    /// Replaces the certificate with an expired one.
    ///
    /// # Errors
    ///
    /// Returns an error if the certificate cannot be written.
    pub fn expire(&self) -> Result<()> {
        self.serve_with(&self.files()?.authority.expired_server("webhooks")?)
    }

    fn serve_with(&self, Identity { certificate, key }: &Identity) -> Result<()> {
        self.write("tls.crt", certificate)?;
        self.write("tls.key", key)
    }

    /// Removes the CA certificate, so that the controller cannot write `caBundle`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be removed.
    pub fn forget_authority(&self) -> Result<()> {
        fs::remove_file(self.files()?.folder.path().join("ca.crt")).context("removing ca.crt")
    }

    /// The controller's arguments for its webhooks.
    pub fn arguments(&self) -> Vec<String> {
        let address = format!("127.0.0.1:{}", self.port());
        let mut arguments = vec![
            format!("--webhook-bind-address={address}"),
            format!("--webhook-url=https://{address}"),
            format!("--webhook-name={}", self.name),
        ];
        let files = self.files.iter();
        arguments.extend(files.map(|files| format!("--webhook-cert-dir={}", files.folder.path().display())));
        arguments
    }

    /// The directory of the externally managed certificate.
    ///
    /// # Errors
    ///
    /// Returns an error if the controller creates its own certificate.
    pub fn folder(&self) -> Result<&Path> {
        Ok(self.files()?.folder.path())
    }

    /// The name of the webhook configurations.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port of the webhooks.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The CA certificate of the externally managed certificate, as PEM.
    ///
    /// # Errors
    ///
    /// Returns an error if the controller creates its own certificate.
    pub fn authority(&self) -> Result<String> {
        Ok(self.files()?.authority.certificate())
    }

    /// The empty webhook configurations, as in the manifests.
    #[must_use]
    pub fn configurations(&self) -> [Value; 2] {
        ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"].map(|kind| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": self.name}})
        })
    }

    /// Creates the webhook configurations.
    ///
    /// # Errors
    ///
    /// Returns an error if the webhook configurations cannot be written.
    pub async fn install(&self, hub: &Client) -> Result<()> {
        for configuration in self.configurations() {
            apply(hub, &configuration).await?;
        }
        Ok(())
    }

    /// Deletes the webhook configurations, so that the API server stops calling the webhooks.
    ///
    /// # Errors
    ///
    /// Returns an error if the webhook configurations cannot be deleted.
    pub async fn uninstall(&self, hub: &Client) -> Result<()> {
        for configuration in self.configurations() {
            delete(hub, &configuration).await?;
        }
        Ok(())
    }

    /// A MutatingWebhookConfiguration that sends Deployments in `namespace` to `/placement`.
    ///
    /// # Errors
    ///
    /// Returns an error if the controller creates its own certificate.
    pub fn placement_of_deployments(&self, namespace: &str) -> Result<Value> {
        self.configuration_for("MutatingWebhookConfiguration", ("apps", "deployments"), namespace)
    }

    /// A configuration of this kind that sends writes of a resource in `namespace` to `/placement`.
    ///
    /// # Errors
    ///
    /// Returns an error if the controller creates its own certificate.
    pub fn configuration_for(
        &self,
        configuration: &str,
        (group, plural): (&str, &str),
        namespace: &str,
    ) -> Result<Value> {
        let name = format!("{namespace}.example.com");
        let url = format!("https://127.0.0.1:{}/placement", self.port());
        let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [plural],
            "operations": ["CREATE", "UPDATE"]});
        Ok(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": configuration,
            "metadata": {"name": name},
            "webhooks": [{
                "name": name, "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1"],
                "failurePolicy": "Fail", "timeoutSeconds": 5, "rules": [rule],
                "clientConfig": {"url": url, "caBundle": ByteString(self.authority()?.into_bytes())},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            }],
        }))
    }
}
