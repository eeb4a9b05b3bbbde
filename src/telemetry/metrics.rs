//! Metrics, by the conventions of controller-runtime where there is one; our own start with `policy_sync_`.
//!
//! Labels are bounded: kinds of keys, verbs and states, never names of objects or clusters.

use std::sync::Arc;

use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// Seconds from a millisecond to a minute.
const SECONDS: [f64; 14] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// All metrics of a process.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    reconciles: IntCounterVec,
    reconcile_seconds: HistogramVec,
    active: IntGauge,
    queue_depth: IntGauge,
    queue_adds: IntCounterVec,
    queue_retries: IntCounterVec,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    leader: IntGauge,
    panics: IntCounterVec,
    works: IntGaugeVec,
    problems: IntGaugeVec,
    watch_failing: IntGaugeVec,
    applied_seconds: HistogramVec,
}

impl Metrics {
    /// A registry with every metric in it.
    ///
    /// # Errors
    ///
    /// Never in practice: only where two metrics had one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let gauge = |name: &str, help: &str| {
            let metric = IntGauge::new(name, help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let metric = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let seconds = |name: &str, help: &str, labels: &[&str]| {
            let metric = HistogramVec::new(HistogramOpts::new(name, help).buckets(SECONDS.into()), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        Ok(Self(Arc::new(Inner {
            reconciles: counter(
                "controller_runtime_reconcile_total",
                "Plans made and carried out, by kind of key and result.",
                &["controller", "result"],
            )?,
            reconcile_seconds: seconds(
                "controller_runtime_reconcile_time_seconds",
                "Time to plan a key and to carry the plan out.",
                &["controller"],
            )?,
            active: gauge("controller_runtime_active_workers", "Keys that are worked on now.")?,
            queue_depth: gauge("workqueue_depth", "Keys that wait to be worked on.")?,
            queue_adds: counter("workqueue_adds_total", "Keys added to the queue.", &["name"])?,
            queue_retries: counter(
                "workqueue_retries_total",
                "Keys added again after a failure.",
                &["name"],
            )?,
            requests: counter(
                "rest_client_requests_total",
                "Requests to the API server, by method, status code, host and resource; code <error> had no answer.",
                &["method", "code", "host", "resource"],
            )?,
            request_seconds: seconds(
                "rest_client_request_duration_seconds",
                "Time until a request to the API server was answered, or given up; of a watch, until it began.",
                &["verb"],
            )?,
            leader: gauge("policy_sync_leader", "1 while this process leads: the others write nothing.")?,
            panics: counter(
                "policy_sync_panics_total",
                "Tasks that panicked, by what they do: the process ends then, and starts anew.",
                &["task"],
            )?,
            works: gauges(
                "policy_sync_works",
                "ManifestWorks, by what they are for and by state.",
                &["for", "state"],
            )?,
            problems: gauges("policy_sync_problems", "Objects with a problem, by category.", &["category"])?,
            watch_failing: gauges(
                "policy_sync_watch_failing",
                "1 for a kind that cannot be listed or watched.",
                &["source"],
            )?,
            applied_seconds: seconds(
                "policy_sync_applied_seconds",
                "Time from a policy's change until its last cluster has applied it.",
                &[],
            )?,
            registry,
        })))
    }

    /// A key was planned and carried out.
    pub fn reconciled(&self, category: &str, result: &str, seconds: f64) {
        self.0.reconciles.with_label_values(&[category, result]).inc();
        self.0.reconcile_seconds.with_label_values(&[category]).observe(seconds);
    }

    /// So many keys are worked on, and so many wait.
    pub fn queue(&self, active: usize, waiting: usize) {
        self.0.active.set(gauge_value(active));
        self.0.queue_depth.set(gauge_value(waiting));
    }

    /// A key was added to the queue.
    pub fn added(&self, category: &str) {
        self.0.queue_adds.with_label_values(&[category]).inc();
    }

    /// A key was added again after a failure.
    pub fn retried(&self, category: &str) {
        self.0.queue_retries.with_label_values(&[category]).inc();
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

    /// A task panicked.
    pub fn panicked(&self, task: &str) {
        self.0.panics.with_label_values(&[task]).inc();
    }

    /// So many works there are, by what they are for and by state.
    pub fn works<'w>(&self, counts: impl IntoIterator<Item = ((&'w str, &'w str), usize)>) {
        self.0.works.reset();
        for ((purpose, state), count) in counts {
            self.0.works.with_label_values(&[purpose, state]).set(gauge_value(count));
        }
    }

    /// So many `more` problems of a category there are, less where that is negative.
    pub fn problem(&self, category: &str, more: i64) {
        self.0.problems.with_label_values(&[category]).add(more);
    }

    /// These sources cannot be listed or watched.
    pub fn failing<'s>(&self, sources: impl IntoIterator<Item = &'s str>) {
        self.0.watch_failing.reset();
        for source in sources {
            self.0.watch_failing.with_label_values(&[source]).set(1);
        }
    }

    /// A policy's change was applied by its last cluster after so long.
    pub fn applied(&self, seconds: f64) {
        self.0.applied_seconds.with_label_values(&[] as &[&str]).observe(seconds);
    }

    /// All metrics in the text format of Prometheus.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = Vec::new();
        // Encoding fails only where the writer does, and a Vec does not.
        let _ = TextEncoder::new().encode(&self.0.registry.gather(), &mut text);
        String::from_utf8(text).unwrap_or_default()
    }
}

fn gauge_value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
