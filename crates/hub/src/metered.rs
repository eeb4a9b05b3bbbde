//! Counts and times all requests of a client, including watches, Lease updates and Events.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::telemetry::metrics::Metrics;

/// Adds the metrics to a client.
#[derive(Clone)]
pub(super) struct MetricsLayer {
    metrics: Metrics,
    /// The host and port of the API server, for the label `host`.
    host: Arc<str>,
}

impl MetricsLayer {
    pub(super) fn new(metrics: Metrics, host: &str) -> Self {
        Self { metrics, host: host.into() }
    }
}

impl<S> Layer<S> for MetricsLayer {
    type Service = MetricsService<S>;

    fn layer(&self, inner: S) -> MetricsService<S> {
        MetricsService { inner, metering: self.clone() }
    }
}

/// A client's service with metrics.
#[derive(Clone)]
pub(super) struct MetricsService<S> {
    inner: S,
    metering: MetricsLayer,
}

impl<S, B> Service<Request<Body>> for MetricsService<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let in_flight = InFlightRequest {
            metering: self.metering.clone(),
            method: request.method().to_string(),
            resource: resource(request.uri().path()).to_owned(),
            began: Instant::now(),
            code: None,
        };
        let response = self.inner.call(request);
        async move {
            let response = response.await;
            in_flight.complete(response.as_ref().ok().map(Response::status));
            response
        }
        .boxed()
    }
}

/// A request in flight. It is recorded when dropped: after its response, or when it is cancelled.
struct InFlightRequest {
    metering: MetricsLayer,
    method: String,
    resource: String,
    began: Instant,
    /// The status of the response; `None` without a response. For a watch, the response arrives when the watch begins.
    code: Option<StatusCode>,
}

impl InFlightRequest {
    fn complete(mut self, code: Option<StatusCode>) {
        self.code = code;
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let code = self.code.as_ref().map_or("<error>", StatusCode::as_str);
        let MetricsLayer { metrics, host } = &self.metering;
        metrics.count_request(&self.method, code, host, &self.resource);
        metrics.observe_request(&self.method, self.began.elapsed().as_secs_f64());
    }
}

/// The plural of the requested resource, for the label `resource`; empty for other paths.
fn resource(path: &str) -> &str {
    let mut parts = path.split('/').skip(1);
    let kind = match parts.next() {
        Some("api") => parts.nth(1),
        Some("apis") => parts.nth(2),
        _ => None,
    };
    match kind {
        Some("namespaces") => parts.nth(1).unwrap_or("namespaces"),
        kind => kind.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
