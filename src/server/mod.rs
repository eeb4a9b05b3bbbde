//! What the controller serves: probes and metrics. Routes only; each handler asks something that knows no HTTP.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::health::{self, Health};
use crate::reconcile::Leadership;
use crate::sync::Mirror;
use crate::telemetry::metrics::Metrics;

/// What the handlers ask.
#[derive(Clone, Debug)]
pub struct Served {
    /// For readiness.
    pub mirror: Arc<Mirror>,
    /// For `/metrics`.
    pub metrics: Metrics,
    /// For `/metrics`.
    pub leadership: Leadership,
    /// For readiness.
    pub clock: Clock,
}

/// `/healthz` and `/readyz`.
pub fn probes(served: Served) -> Router {
    Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(ready)).with_state(served)
}

/// `/metrics`.
pub fn metrics(served: Served) -> Router {
    Router::new().route("/metrics", get(gather)).with_state(served)
}

async fn ready(State(served): State<Served>) -> (StatusCode, String) {
    match health::health(served.mirror.read().view(served.clock.now())) {
        Health::Ready(text) => (StatusCode::OK, text),
        Health::Starting(text) => (StatusCode::SERVICE_UNAVAILABLE, text),
    }
}

async fn gather(State(served): State<Served>) -> String {
    health::measure(served.mirror.read().view(served.clock.now()), &served.metrics);
    served.metrics.leader(served.leadership.leads());
    served.metrics.text()
}

/// Serves `router` on `listener` until `stop`.
///
/// # Errors
///
/// Where the listener fails.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}
