//! Metrics of any controller. If controller-runtime or client-go has a metric, its name and labels are used. The names
//! of other metrics start with `policy_sync_`. Capabilities register further metrics.
//!
//! Labels are bounded: kinds of keys, verbs and states, never names of objects or clusters. Every series exists from
//! the start with the value 0, except series of requests.

mod factory;
mod work;

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{
    Encoder, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

use work::WorkMetrics;

pub use factory::MetricFactory;
pub use work::{ActiveKey, ReconcileResult};

/// Histogram buckets from a millisecond to a minute.
const SECONDS: [f64; 14] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// All metrics of a process.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    /// Held while gauges are measured and read, so that concurrent scrapes see complete values.
    gathering: Mutex<()>,
    work: WorkMetrics,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    leader: IntGauge,
    panics: IntCounterVec,
    watch_up: IntGaugeVec,
    events_dropped: IntCounter,
}

impl Metrics {
    /// A registry with all metrics.
    ///
    /// # Errors
    ///
    /// If two metrics have the same name, which is a bug.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let factory = MetricFactory(&registry);
        Ok(Self(Arc::new(Inner {
            gathering: Mutex::default(),
            work: WorkMetrics::new(factory)?,
            requests: factory.counters(
                "rest_client_requests_total",
                "Requests to the API server, by method, status code, host and resource; code <error> means no response.",
                &["method", "code", "host", "resource"],
            )?,
            request_seconds: factory.histograms(
                "rest_client_request_duration_seconds",
                "Time until the response of the API server, or until the request was aborted; of a watch, until it started.",
                &["verb"],
                &SECONDS,
            )?,
            leader: factory.gauge("policy_sync_leader", "1 if this process is the leader. Other processes do not write.")?,
            panics: factory.counters(
                "policy_sync_panics_total",
                "Panics by task. A panic ends the process, which then restarts.",
                &["task"],
            )?,
            watch_up: factory.gauges(
                "policy_sync_watch_up",
                "1 if the resource is listed and watched, 0 if it cannot be, or is not yet.",
                &["resource"],
            )?,
            events_dropped: factory.counter(
                "policy_sync_events_dropped_total",
                "Events that were dropped because the hub was slow to accept Events, or rejected them.",
            )?,
            registry,
        })))
    }

    /// A factory that creates and registers further metrics.
    #[must_use]
    pub fn factory(&self) -> MetricFactory<'_> {
        MetricFactory(&self.0.registry)
    }

    /// Counts a request to `host` about `resource`. `code` is the response's status, or `<error>` without a response.
    pub fn count_request(&self, method: &str, code: &str, host: &str, resource: &str) {
        self.0.requests.with_label_values(&[method, code, host, resource]).inc();
    }

    /// Records the time until a request had its response or was cancelled.
    pub fn observe_request(&self, method: &str, seconds: f64) {
        self.0.request_seconds.with_label_values(&[method]).observe(seconds);
    }

    /// Sets whether this process leads.
    pub fn leader(&self, leads: bool) {
        self.0.leader.set(leads.into());
    }

    /// Creates the panic counter of a task, so that it is exported with 0.
    pub fn register_task(&self, task: &str) {
        self.0.panics.with_label_values(&[task]);
    }

    /// Counts a panic of a task.
    pub fn count_panic(&self, task: &str) {
        self.0.panics.with_label_values(&[task]).inc();
    }

    /// Counts an Event that was not sent.
    pub fn count_dropped_event(&self) {
        self.0.events_dropped.inc();
    }

    /// Sets which resources are to be watched, each with whether its watch is running.
    pub fn watches<'w>(&self, watches: impl IntoIterator<Item = (&'w str, bool)>) {
        self.0.watch_up.reset();
        for (resource, up) in watches {
            self.0.watch_up.with_label_values(&[resource]).set(up.into());
        }
    }

    /// Runs `measure`, which updates gauges, and returns all metrics in Prometheus' text format.
    #[must_use]
    pub fn gather(&self, measure: impl FnOnce()) -> String {
        let _one_at_a_time = self.0.gathering.lock();
        measure();
        self.0.work.measure();
        let mut text = Vec::new();
        // Encoding fails only if the writer does, and a Vec does not.
        let _ = TextEncoder::new().encode(&self.0.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Converts a count to the value of a gauge.
pub fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
