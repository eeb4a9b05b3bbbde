//! What an API server needs to ask a controller's webhooks: a port, configurations without entries, and where the controller does not
//! make one, a certificate.

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

/// The port of a controller's webhooks, and the name under which they are registered.
#[derive(Debug)]
pub struct Webhooks {
    name: String,
    port: Port,
    files: Option<Files>,
}

/// A certificate that somebody else makes.
#[derive(Debug)]
struct Files {
    authority: Authority,
    folder: TempDir,
}

/// What a controller whose webhooks are at `port` answers to who shows `token` and asks for its audit, where `authority`, as PEM, signs
/// its certificate.
///
/// # Errors
///
/// Where it refuses.
pub async fn audit(port: u16, authority: &str, token: &str) -> Result<Value> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
    config.root_cert = Some(vec![CertificateDer::from_pem_slice(authority.as_bytes())?.to_vec()]);
    config.auth_info.token = Some(token.to_owned().into());
    let request = http::Request::get("/audit").body(Vec::new())?;
    Ok(Client::try_from(config)?.request(request).await?)
}

impl Webhooks {
    /// A free port, where the controller serves with a certificate of its own.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self { name: name.to_owned(), port: Port::reserve()?, files: None })
    }

    /// The same with a certificate of another authority, for 127.0.0.1, in files.
    ///
    /// # Errors
    ///
    /// Where one cannot be had.
    pub fn with_files(name: &str) -> Result<Self> {
        let files = Files { authority: Authority::new("webhooks")?, folder: TempDir::new()? };
        let webhooks = Self { files: Some(files), ..Self::new(name)? };
        webhooks.write("ca.crt", &webhooks.authority()?)?;
        webhooks.renew()?;
        Ok(webhooks)
    }

    fn files(&self) -> Result<&Files> {
        self.files.as_ref().context("the controller makes its certificate itself")
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.files()?.folder.path().join(name), text).with_context(|| format!("writing {name}"))
    }

    /// Puts another certificate in the place of the one that is there.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn renew(&self) -> Result<()> {
        self.serve_with(&self.files()?.authority.server("webhooks")?)
    }

    /// The same with one that has expired.
    ///
    /// # Errors
    ///
    /// Where it cannot be written.
    pub fn expire(&self) -> Result<()> {
        self.serve_with(&self.files()?.authority.expired_server("webhooks")?)
    }

    fn serve_with(&self, Identity { certificate, key }: &Identity) -> Result<()> {
        self.write("tls.crt", certificate)?;
        self.write("tls.key", key)
    }

    /// Lets the controller no longer know who signs its certificate: then another writes `caBundle`.
    ///
    /// # Errors
    ///
    /// Where the file cannot be removed.
    pub fn forget_authority(&self) -> Result<()> {
        fs::remove_file(self.files()?.folder.path().join("ca.crt")).context("removing ca.crt")
    }

    /// The arguments of the controller that serves them.
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

    /// The folder of the certificate that somebody else makes.
    ///
    /// # Errors
    ///
    /// Where the controller makes its certificate itself.
    pub fn folder(&self) -> Result<&Path> {
        Ok(self.files()?.folder.path())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The certificate of the other authority, as PEM.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn authority(&self) -> Result<String> {
        Ok(self.files()?.authority.certificate())
    }

    /// The configurations without entries, as manifests bring them.
    #[must_use]
    pub fn configurations(&self) -> [Value; 2] {
        ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"].map(|kind| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": self.name}})
        })
    }

    /// Brings the configurations.
    ///
    /// # Errors
    ///
    /// Where they cannot be written.
    pub async fn install(&self, hub: &Client) -> Result<()> {
        for configuration in self.configurations() {
            apply(hub, &configuration).await?;
        }
        Ok(())
    }

    /// Takes them away: the API server asks no more.
    ///
    /// # Errors
    ///
    /// Where they cannot be deleted.
    pub async fn uninstall(&self, hub: &Client) -> Result<()> {
        for configuration in self.configurations() {
            delete(hub, &configuration).await?;
        }
        Ok(())
    }

    /// A MutatingWebhookConfiguration that has `/placement` asked of Deployments in `namespace`, written by hand.
    ///
    /// # Errors
    ///
    /// Where the controller makes its certificate itself.
    pub fn placement_of_deployments(&self, namespace: &str) -> Result<Value> {
        self.asked_about("MutatingWebhookConfiguration", ("apps", "deployments"), namespace)
    }

    /// A configuration of this kind that has `/placement` asked about what is written of a group and plural in `namespace`.
    ///
    /// # Errors
    ///
    /// Where the controller makes its certificate itself.
    pub fn asked_about(
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
