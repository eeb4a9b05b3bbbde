//! The HTTP servers of the controller: probes, metrics, webhooks and the audit. A handler only decodes the request,
//! calls a service that knows nothing of HTTP, and encodes the result.

pub mod audit;
pub mod authorize;
pub mod bearer;
mod bodies;
pub mod certificate_files;
mod query_runner;
pub mod webhooks;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::health::{self, Health};
use crate::placement_policy::remediation::RemediationStatus;
use crate::rego_loading::{Loaded, RegoMetrics};
use crate::stored_topology::StoredTopology;
use crate::sync::metrics::HubMetrics;
use crate::webhook_config::{WebhookConfigMetrics, WebhookConfigStatus};
use policy_sync_api::text::with_causes;
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::Leadership;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_sync::Mirror;

/// The parts of the controller that the probes and the metrics report.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// The in-memory copy of the hub.
    pub mirror: Arc<Mirror>,
    /// The registry of all metrics.
    pub metrics: Metrics,
    /// Metrics that are computed from the mirror.
    pub hub_metrics: HubMetrics,
    /// Whether this process is the leader.
    pub leadership: Leadership,
    /// The clock of the mirror.
    pub clock: Clock,
    /// The loaded Rego policies, if Rego is enabled.
    pub rego: Option<(Loaded, RegoMetrics)>,
    /// The state of webhook configurations, if webhooks are served.
    pub webhook_config_status: Option<(WebhookConfigStatus, WebhookConfigMetrics)>,
    /// The state of remediation, if Rego is enabled.
    pub remediation_status: Option<RemediationStatus>,
    /// The stored topology, if enabled.
    pub topology: Option<StoredTopology>,
}

impl ServerState {
    /// All metrics in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.metrics.gather(|| {
            let (guard, leads) = (self.mirror.read(), self.leadership.leads());
            let view = guard.view(self.clock.now());
            self.metrics.leader(leads);
            let mut watches = health::watches(view);
            let mut and = |more: BTreeMap<String, bool>| {
                for (resource, is_up) in more {
                    *watches.entry(resource).or_insert(true) &= is_up;
                }
            };
            if let Some((loaded, metrics)) = &self.rego {
                and(loaded.watches());
                loaded.measure(metrics);
            }
            if let Some((webhook_config_status, metrics)) = &self.webhook_config_status {
                and(webhook_config_status.watches());
                webhook_config_status.measure(metrics);
            }
            if let Some(topology) = &self.topology {
                and(topology.watches());
            }
            if let Some(remediation_status) = &self.remediation_status {
                remediation_status.measure();
            }
            self.metrics.watches(watches.iter().map(|(resource, up)| (resource.as_str(), *up)));
            self.hub_metrics.measure(view, leads);
        })
    }
}

/// The routes `/healthz` and `/readyz`.
pub fn probes(server_state: ServerState) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .with_state(server_state)
}

/// The route `/metrics`.
pub fn metrics(server_state: ServerState) -> Router {
    Router::new().route("/metrics", get(gather)).with_state(server_state)
}

async fn ready(State(server_state): State<ServerState>) -> (StatusCode, String) {
    let mut health = health::health(server_state.mirror.read().view(server_state.clock.now()));
    if let Some((loaded, _)) = &server_state.rego {
        health = health.and(loaded.health());
    }
    if let Some((webhook_config_status, _)) = &server_state.webhook_config_status {
        health = health.and(webhook_config_status.health());
    }
    match health {
        Health::Ready(text) => (StatusCode::OK, text),
        Health::Starting(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

async fn gather(State(server_state): State<ServerState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], server_state.metrics())
}

/// Calls `reload` at the interval `every` until `stop`, to read changed files. Passes each new error to `on_error`
/// once. If the files become invalid, their last valid contents stay in use.
async fn follow<E: Error + 'static>(
    every: Duration,
    stop: CancellationToken,
    mut reload: impl FnMut() -> Result<(), E>,
    on_error: impl Fn(&str),
) {
    let mut fault = String::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let found = reload().map_or_else(|error| with_causes(&error), |()| String::new());
        if !found.is_empty() && found != fault {
            on_error(&found);
        }
        fault = found;
    }
}
