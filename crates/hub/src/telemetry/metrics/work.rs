//! Metrics of the work queue and of reconciliations.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec};
use tokio::time::Instant;

use super::factory::MetricFactory;
use super::{Metrics, SECONDS};

/// The result of a reconciliation, for the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// The plan was applied.
    Success,
    /// The reconciliation failed and is retried.
    Error,
    /// The state on which the plan was based has changed, or another process leads. The reconciliation is retried.
    Requeue,
}

impl ReconcileResult {
    const ALL: [Self; 3] = [Self::Success, Self::Error, Self::Requeue];

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
        }
    }
}

/// The metrics of queues and workers, named and labelled as in controller-runtime and client-go.
#[derive(Debug)]
pub(super) struct WorkMetrics {
    results: IntCounterVec,
    errors: IntCounterVec,
    reconcile_seconds: HistogramVec,
    active: IntGaugeVec,
    workers: IntGaugeVec,
    depth: IntGaugeVec,
    adds: IntCounterVec,
    retries: IntCounterVec,
    queue_seconds: HistogramVec,
    work_seconds: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    running: Mutex<BTreeMap<&'static str, ActiveKeys>>,
}

/// The start times of the active keys, for one kind of keys.
#[derive(Debug, Default)]
struct ActiveKeys {
    next: u64,
    began: BTreeMap<u64, Instant>,
}

impl WorkMetrics {
    pub(super) fn new(factory: MetricFactory<'_>) -> Result<Self, prometheus::Error> {
        let by_controller = &["controller"];
        let by_name = &["name"];
        Ok(Self {
            results: factory.counters(
                "controller_runtime_reconcile_total",
                "Reconciliations of keys, by kind of key and result.",
                &["controller", "result"],
            )?,
            errors: factory.counters(
                "controller_runtime_reconcile_errors_total",
                "Failed reconciliations of keys, by kind of key.",
                by_controller,
            )?,
            reconcile_seconds: factory.histograms(
                "controller_runtime_reconcile_time_seconds",
                "Duration of a reconciliation, by kind of key.",
                by_controller,
                &SECONDS,
            )?,
            active: factory.gauges(
                "controller_runtime_active_workers",
                "Keys that are being reconciled, by kind of key.",
                by_controller,
            )?,
            workers: factory.gauges(
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of keys that are reconciled at the same time. All kinds of keys share these workers.",
                by_controller,
            )?,
            depth: factory.gauges(
                "workqueue_depth",
                "Keys in the queue, by kind of key.",
                by_name,
            )?,
            adds: factory.counters(
                "workqueue_adds_total",
                "Keys added to the queue, by kind of key.",
                by_name,
            )?,
            retries: factory.counters(
                "workqueue_retries_total",
                "Retries of keys after a failure, by kind of key.",
                by_name,
            )?,
            queue_seconds: factory.histograms(
                "workqueue_queue_duration_seconds",
                "Time that a key waits in the queue, by kind of key.",
                by_name,
                &SECONDS,
            )?,
            work_seconds: factory.histograms(
                "workqueue_work_duration_seconds",
                "Time for which a key is processed, by kind of key.",
                by_name,
                &SECONDS,
            )?,
            unfinished: factory.seconds_by(
                "workqueue_unfinished_work_seconds",
                "Total processing time of the keys that are in progress, by kind of key.",
                by_name,
            )?,
            longest: factory.seconds_by(
                "workqueue_longest_running_processor_seconds",
                "Longest processing time of a key that is in progress, by kind of key.",
                by_name,
            )?,
            running: Mutex::default(),
        })
    }

    /// Updates the gauges of unfinished work.
    pub(super) fn measure(&self) {
        let now = Instant::now();
        for (kind, running) in &*self.running.lock() {
            let times = running.began.values().map(|began| now.duration_since(*began).as_secs_f64());
            self.unfinished.with_label_values(&[kind]).set(times.clone().sum());
            self.longest.with_label_values(&[kind]).set(times.fold(0.0, f64::max));
        }
    }
}

impl Metrics {
    /// Creates the series of these `kinds` of keys with the value 0. `workers` is the limit of concurrent keys.
    pub fn register_kinds(&self, kinds: &[&'static str], workers: usize) {
        let work = &self.0.work;
        for kind in kinds {
            for result in ReconcileResult::ALL {
                work.results.with_label_values(&[kind, result.as_str()]);
            }
            work.workers.with_label_values(&[kind]).set(super::gauge_value(workers));
            for counters in [&work.errors, &work.adds, &work.retries] {
                counters.with_label_values(&[kind]);
            }
            for gauges in [&work.active, &work.depth] {
                gauges.with_label_values(&[kind]);
            }
            for histograms in [&work.reconcile_seconds, &work.queue_seconds, &work.work_seconds] {
                histograms.with_label_values(&[kind]);
            }
            work.running.lock().entry(kind).or_default();
        }
    }

    /// Counts a key that was added to the queue.
    pub fn count_add(&self, kind: &str) {
        self.0.work.adds.with_label_values(&[kind]).inc();
    }

    /// Counts a key as queued.
    pub fn enter_queue(&self, kind: &str) {
        self.0.work.depth.with_label_values(&[kind]).inc();
    }

    /// Counts a key that was queued at `added` as no longer queued.
    pub fn leave_queue(&self, kind: &str, added: Instant) {
        self.0.work.depth.with_label_values(&[kind]).dec();
        self.0.work.queue_seconds.with_label_values(&[kind]).observe(added.elapsed().as_secs_f64());
    }

    /// Counts a retry.
    pub fn count_retry(&self, kind: &str) {
        self.0.work.retries.with_label_values(&[kind]).inc();
    }

    /// Counts a key as active until the returned value is dropped.
    pub fn start_work(&self, kind: &'static str) -> ActiveKey {
        let (work, began) = (&self.0.work, Instant::now());
        work.active.with_label_values(&[kind]).inc();
        let mut all = work.running.lock();
        let running = all.entry(kind).or_default();
        let number = running.next;
        running.next += 1;
        running.began.insert(number, began);
        ActiveKey { metrics: Arc::clone(&self.0), kind, number, began }
    }
}

/// An active key. Dropping it records the time of the work.
#[must_use]
#[derive(Debug)]
pub struct ActiveKey {
    metrics: Arc<super::Inner>,
    kind: &'static str,
    number: u64,
    began: Instant,
}

impl ActiveKey {
    /// Records the result of the reconciliation.
    pub fn finish(self, result: ReconcileResult) {
        let work = &self.metrics.work;
        work.results.with_label_values(&[self.kind, result.as_str()]).inc();
        if result == ReconcileResult::Error {
            work.errors.with_label_values(&[self.kind]).inc();
        }
        work.reconcile_seconds.with_label_values(&[self.kind]).observe(self.began.elapsed().as_secs_f64());
    }
}

impl Drop for ActiveKey {
    fn drop(&mut self) {
        let work = &self.metrics.work;
        work.active.with_label_values(&[self.kind]).dec();
        work.work_seconds.with_label_values(&[self.kind]).observe(self.began.elapsed().as_secs_f64());
        if let Some(running) = work.running.lock().get_mut(self.kind) {
            running.began.remove(&self.number);
        }
    }
}
