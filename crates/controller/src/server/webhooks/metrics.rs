//! Metrics of the webhooks.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};

use crate::webhook_config::{ADMIT, ADMIT_VALIDATING};
use policy_sync_hub::telemetry::metrics::Metrics;

/// Histogram buckets in seconds. The API server waits for at most five seconds.
const SECONDS: [f64; 13] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// The verdicts of admission reviews.
const VERDICTS: [&str; 8] =
    ["allowed", "changed", "denied", "dryrun", "failed", "invalid", "too_many", "warned"];
/// The paths of the admission webhooks.
const PATHS: [&str; 4] = [ADMIT, ADMIT_VALIDATING, "/placement", "/policies"];
/// The verdicts of authorization reviews.
const OPINIONS: [&str; 7] =
    ["denied", "dryrun", "failed", "invalid", "no_opinion", "too_many", "unauthorized"];
/// The path of the authorization webhook.
pub(in crate::server) const AUTHORIZE: &str = "/authorize";

/// Metrics of the webhooks. Clones share the values.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
}

impl WebhookMetrics {
    /// Registers the metrics with `metrics`. `authorizes`: whether to include `/authorize`.
    ///
    /// # Errors
    ///
    /// If a metric of the same name is registered already.
    pub fn new(metrics: &Metrics, authorizes: bool) -> Result<Self, prometheus::Error> {
        let factory = metrics.factory();
        let authorize = authorizes.then_some((AUTHORIZE, &OPINIONS[..]));
        let requests = factory.counters(
            "policy_sync_webhook_requests_total",
            "Reviews by result.",
            &["path", "verdict"],
        )?;
        let seconds = factory.histograms(
            "policy_sync_webhook_seconds",
            "Duration of a review until its response.",
            &["path"],
            &SECONDS,
        )?;
        for (path, verdicts) in PATHS.map(|path| (path, &VERDICTS[..])).into_iter().chain(authorize) {
            seconds.with_label_values(&[path]);
            for verdict in verdicts {
                requests.with_label_values(&[path, verdict]);
            }
        }
        Ok(Self { requests, seconds })
    }

    pub(in crate::server) fn record_response(&self, path: &str, verdict: &str, took: Duration) {
        self.requests.with_label_values(&[path, verdict]).inc();
        self.seconds.with_label_values(&[path]).observe(took.as_secs_f64());
    }
}
