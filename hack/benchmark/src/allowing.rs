//! The baseline of a review: a webhook that reads what it is sent, and allows it, with the controller's own TLS.

use std::sync::Arc;

use anyhow::{Context, Result};
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use axum::{Json, Router};
use kube::Client;
use policy_sync::certificates::Certificates;
use policy_sync::server::{self, tls};
use policy_sync_testenv::apply::{apply, delete};
use policy_sync_testenv::fixtures;
use policy_sync_testenv::webhooks::Webhooks;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The most bytes of a review, as the controller takes.
const BODY: usize = 8 << 20;

/// A running one. Dropping it stops it.
pub(super) struct Allowing {
    _webhooks: Webhooks,
    asking: Value,
    _stop: DropGuard,
}

impl Allowing {
    /// Starts it, and has it asked about the apps of a namespace.
    pub(super) async fn start(hub: &Client, namespace: &str) -> Result<Self> {
        apply(hub, &fixtures::namespace(namespace)).await?;
        let webhooks = Webhooks::with_files(namespace)?;
        let certificates = Arc::new(Certificates::default());
        tls::Files::read(webhooks.folder()?, certificates.clone()).context("reading the certificate")?;
        let listener = server::listen(([127, 0, 0, 1], webhooks.port()).into()).context("listening")?;
        let router = Router::new().route("/placement", post(allow)).layer(DefaultBodyLimit::max(BODY));
        let stop = CancellationToken::new();
        tokio::spawn(tls::serve(listener, certificates, router, stop.clone()));
        let asking = webhooks.placement_of_deployments(namespace)?;
        apply(hub, &asking).await?;
        Ok(Self { _webhooks: webhooks, asking, _stop: stop.drop_guard() })
    }

    /// Has nobody asked any more, and stops it.
    pub(super) async fn stop(self, hub: &Client) -> Result<()> {
        delete(hub, &self.asking).await
    }
}

async fn allow(Json(review): Json<Value>) -> Json<Value> {
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    Json(json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}))
}
