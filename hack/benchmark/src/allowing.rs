//! The baseline of reviews: a webhook that allows every object, unchanged or with a constant patch. It uses the
//! controller's TLS server.

use std::sync::Arc;

use anyhow::{Context, Result};
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::ByteString;
use kube::Client;
use policy_sync_connections::{Descriptors, Limits, listen, serve_tls};
use policy_sync_controller::server::certificate_files::CertificateFiles;
use policy_sync_hub::certificates::CertificateResolver;
use policy_sync_testenv::apply::{apply, apply_all, delete};
use policy_sync_testenv::fixtures;
use policy_sync_testenv::webhooks::Webhooks;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::documents::Kind;

/// Maximum size of a request body in bytes, as in the controller.
const BODY: usize = 8 << 20;
/// The kind of configuration for mutating webhooks.
pub(super) const MUTATING: &str = "MutatingWebhookConfiguration";
/// The kind of configuration for validating webhooks.
pub(super) const VALIDATING: &str = "ValidatingWebhookConfiguration";

/// A running webhook. Dropping it stops the server.
pub(super) struct AllowWebhook {
    _webhooks: Webhooks,
    configurations: Vec<Value>,
    _stop: DropGuard,
}

impl AllowWebhook {
    /// Starts the webhook, and registers it for writes of `kind` in a namespace. `registered` has the kinds of
    /// webhook configurations to create. The webhook applies `patch` to each object.
    pub(super) async fn start(
        hub: &Client,
        namespace: &str,
        kind: Kind,
        registered: &[&str],
        patch: Option<&Value>,
    ) -> Result<Self> {
        apply(hub, &fixtures::namespace(namespace)).await?;
        let webhooks = Webhooks::with_files(namespace)?;
        let certificates = Arc::new(CertificateResolver::default());
        CertificateFiles::read(webhooks.folder()?, certificates.clone())
            .context("reading the certificate")?;
        let listener = listen(([127, 0, 0, 1], webhooks.port()).into()).context("listening")?;
        let patch = patch.map(|patch| ByteString(patch.to_string().into_bytes()));
        let allow = async move |Json(review): Json<Value>| allow(&review, patch.as_ref());
        let router = Router::new().route("/placement", post(allow)).layer(DefaultBodyLimit::max(BODY));
        let stop = CancellationToken::new();
        let limits = Limits::webhooks(Descriptors::raise());
        tokio::spawn(serve_tls(listener, certificates, router, limits, stop.clone()));
        let configurations = registered
            .iter()
            .map(|configuration| webhooks.configuration_for(configuration, kind.parts(), namespace))
            .collect::<Result<Vec<_>>>()?;
        apply_all(hub, &configurations).await?;
        Ok(Self { _webhooks: webhooks, configurations, _stop: stop.drop_guard() })
    }

    /// Deletes the webhook configurations and stops the server.
    pub(super) async fn stop(self, hub: &Client) -> Result<()> {
        for configurations in &self.configurations {
            delete(hub, configurations).await?;
        }
        Ok(())
    }
}

fn allow(review: &Value, patch: Option<&ByteString>) -> Json<Value> {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    if let Some(patch) = patch {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = json!(patch);
    }
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}
