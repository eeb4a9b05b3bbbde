//! The HTTP servers of the controller: probes, metrics, webhooks and the audit. Handlers only decode, call a
//! service without HTTP, and encode.

mod asking;
pub mod audit;
pub mod authorize;
pub mod bearer;
mod bodies;
pub mod certificate_files;
mod follow;
pub mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::health::{self, Health};
use crate::placement_policy::remediation::Remediated;
use crate::rego_loading::{Loaded, RegoMetrics};
use crate::stored_topology::Stored;
use crate::sync::metrics::HubMetrics;
use crate::webhook_config::{Registered, RegistrationMetrics};
use policy_sync_hub::clock::Clock;
use policy_sync_hub::reconcile::Leadership;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_sync::Mirror;

/// The parts of the controller that the probes and the metrics report.
#[derive(Clone, Debug)]
pub struct Served {
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
    pub registered: Option<(Registered, RegistrationMetrics)>,
    /// The state of remediation, if Rego is enabled.
    pub remediated: Option<Remediated>,
    /// The stored topology, if enabled.
    pub topology: Option<Stored>,
}

impl Served {
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
            if let Some((registered, metrics)) = &self.registered {
                and(registered.watches());
                registered.measure(metrics);
            }
            if let Some(topology) = &self.topology {
                and(topology.watches());
            }
            if let Some(remediated) = &self.remediated {
                remediated.measure();
            }
            self.metrics.watches(watches.iter().map(|(resource, up)| (resource.as_str(), *up)));
            self.hub_metrics.measure(view, leads);
        })
    }
}

/// The routes `/healthz` and `/readyz`.
pub fn probes(served: Served) -> Router {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(ready)).with_state(served)
}

/// The route `/metrics`.
pub fn metrics(served: Served) -> Router {
    Router::new().route("/metrics", get(gather)).with_state(served)
}

async fn ready(State(served): State<Served>) -> (StatusCode, String) {
    let mut health = health::health(served.mirror.read().view(served.clock.now()));
    if let Some((loaded, _)) = &served.rego {
        health = health.and(loaded.health());
    }
    if let Some((registered, _)) = &served.registered {
        health = health.and(registered.health());
    }
    match health {
        Health::Ready(text) => (StatusCode::OK, text),
        Health::Starting(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

async fn gather(State(served): State<Served>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], served.metrics())
}
