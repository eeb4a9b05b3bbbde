//! Metrics of any controller, by the conventions of controller-runtime and client-go where there is one; our own start with
//! `policy_sync_`. Capabilities add theirs.
//!
//! Labels are bounded: kinds of keys, verbs and states, never names of objects or clusters. Every series is there from the
//! start, with 0, but for those of requests.

mod registering;
mod work;

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{
    Encoder, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder,
};

use crate::version::{REVISION, VERSION};
use work::WorkMetrics;

pub use registering::Registering;
pub use work::{Ending, Working};

/// Seconds from a millisecond to a minute.
const SECONDS: [f64; 14] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// All metrics of a process.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    /// Held while gauges are brought up to date and read: of two who ask at once neither sees them half done.
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
    /// A registry with every metric in it.
    ///
    /// # Errors
    ///
    /// Never in practice: only where two metrics had one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let made = Registering(&registry);
        made.gauges(
            "policy_sync_build_info",
            "1, with what this process was built from.",
            &["version", "revision"],
        )?
        .with_label_values(&[VERSION, REVISION.unwrap_or("unknown")])
        .set(1);
        Ok(Self(Arc::new(Inner {
            gathering: Mutex::default(),
            work: WorkMetrics::new(made)?,
            requests: made.counters(
                "rest_client_requests_total",
                "Requests to the API server, by method, status code, host and resource; code <error> had no answer.",
                &["method", "code", "host", "resource"],
            )?,
            request_seconds: made.histograms(
                "rest_client_request_duration_seconds",
                "Time until a request to the API server was answered, or given up; of a watch, until it began.",
                &["verb"],
                &SECONDS,
            )?,
            leader: made.gauge("policy_sync_leader", "1 while this process leads: the others write nothing.")?,
            panics: made.counters(
                "policy_sync_panics_total",
                "Tasks that panicked, by what they do: the process ends then, and starts anew.",
                &["task"],
            )?,
            watch_up: made.gauges(
                "policy_sync_watch_up",
                "1 for a resource that is listed and watched, 0 for one that cannot be, or is not yet.",
                &["resource"],
            )?,
            events_dropped: made.counter(
                "policy_sync_events_dropped_total",
                "Events that were not told, because the hub was slow to take others, or did not take them.",
            )?,
            registry,
        })))
    }

    /// Where more metrics are made.
    #[must_use]
    pub fn registering(&self) -> Registering<'_> {
        Registering(&self.0.registry)
    }

    /// A request to `host` about objects of the kind `resource` was answered with `code`, `<error>` where it was not.
    pub fn requested(&self, method: &str, code: &str, host: &str, resource: &str) {
        self.0.requests.with_label_values(&[method, code, host, resource]).inc();
    }

    /// It took so long until a request was answered, or given up.
    pub fn answered(&self, method: &str, seconds: f64) {
        self.0.request_seconds.with_label_values(&[method]).observe(seconds);
    }

    /// Whether this process leads.
    pub fn leader(&self, leads: bool) {
        self.0.leader.set(leads.into());
    }

    /// A task runs that may panic.
    pub fn runs(&self, task: &str) {
        self.0.panics.with_label_values(&[task]);
    }

    /// A task panicked.
    pub fn panicked(&self, task: &str) {
        self.0.panics.with_label_values(&[task]).inc();
    }

    /// An Event was not told.
    pub fn dropped_event(&self) {
        self.0.events_dropped.inc();
    }

    /// These are all resources that should be watched, each with whether it is.
    pub fn watches<'w>(&self, watches: impl IntoIterator<Item = (&'w str, bool)>) {
        self.0.watch_up.reset();
        for (resource, up) in watches {
            self.0.watch_up.with_label_values(&[resource]).set(up.into());
        }
    }

    /// All metrics in the text format of Prometheus, once `measure` has brought up to date what is measured only then.
    #[must_use]
    pub fn gather(&self, measure: impl FnOnce()) -> String {
        let _one_at_a_time = self.0.gathering.lock();
        measure();
        self.0.work.measure();
        let mut text = Vec::new();
        // Encoding fails only where the writer does, and a Vec does not.
        let _ = TextEncoder::new().encode(&self.0.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}

/// `count` as gauges have it.
pub fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
