//! Creates and registers metrics.

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

type MetricResult<M> = Result<M, prometheus::Error>;

/// Creates metrics and adds each to the same registry.
#[derive(Clone, Copy)]
pub struct MetricFactory<'r>(pub(super) &'r Registry);

impl MetricFactory<'_> {
    fn put<M: Collector + Clone + 'static>(self, metric: M) -> MetricResult<M> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// A counter.
    ///
    /// # Errors
    ///
    /// If the name is invalid or already registered.
    pub fn counter(self, name: &str, help: &str) -> MetricResult<IntCounter> {
        self.put(IntCounter::new(name, help)?)
    }

    /// Counters by `labels`.
    ///
    /// # Errors
    ///
    /// See [`MetricFactory::counter`].
    pub fn counters(self, name: &str, help: &str, labels: &[&str]) -> MetricResult<IntCounterVec> {
        self.put(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// An integer gauge.
    ///
    /// # Errors
    ///
    /// See [`MetricFactory::counter`].
    pub fn gauge(self, name: &str, help: &str) -> MetricResult<IntGauge> {
        self.put(IntGauge::new(name, help)?)
    }

    /// Integer gauges by `labels`.
    ///
    /// # Errors
    ///
    /// See [`MetricFactory::counter`].
    pub fn gauges(self, name: &str, help: &str, labels: &[&str]) -> MetricResult<IntGaugeVec> {
        self.put(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge in seconds.
    ///
    /// # Errors
    ///
    /// See [`MetricFactory::counter`].
    pub fn seconds(self, name: &str, help: &str) -> MetricResult<Gauge> {
        self.put(Gauge::new(name, help)?)
    }

    /// Gauges in seconds by `labels`.
    ///
    /// # Errors
    ///
    /// See [`MetricFactory::counter`].
    pub fn seconds_by(self, name: &str, help: &str, labels: &[&str]) -> MetricResult<GaugeVec> {
        self.put(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A histogram in seconds.
    ///
    /// # Errors
    ///
    /// See [`MetricFactory::counter`].
    pub fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> MetricResult<Histogram> {
        self.put(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.into()))?)
    }

    /// Histograms in seconds by `labels`.
    ///
    /// # Errors
    ///
    /// See [`MetricFactory::counter`].
    pub fn histograms(
        self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> MetricResult<HistogramVec> {
        self.put(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.into()), labels)?)
    }
}
