//! Metrics that come into being in a registry.

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

type Made<M> = Result<M, prometheus::Error>;

/// Makes metrics and puts each into the same registry.
#[derive(Clone, Copy)]
pub struct Registering<'r>(pub(super) &'r Registry);

impl Registering<'_> {
    fn put<M: Collector + Clone + 'static>(self, metric: M) -> Made<M> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// A counter.
    ///
    /// # Errors
    ///
    /// As all of these: where the name is taken, or none.
    pub fn counter(self, name: &str, help: &str) -> Made<IntCounter> {
        self.put(IntCounter::new(name, help)?)
    }

    /// Counters by `labels`.
    ///
    /// # Errors
    ///
    /// As those of [`Registering::counter`].
    pub fn counters(self, name: &str, help: &str, labels: &[&str]) -> Made<IntCounterVec> {
        self.put(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge of a whole number.
    ///
    /// # Errors
    ///
    /// As those of [`Registering::counter`].
    pub fn gauge(self, name: &str, help: &str) -> Made<IntGauge> {
        self.put(IntGauge::new(name, help)?)
    }

    /// Gauges of whole numbers by `labels`.
    ///
    /// # Errors
    ///
    /// As those of [`Registering::counter`].
    pub fn gauges(self, name: &str, help: &str, labels: &[&str]) -> Made<IntGaugeVec> {
        self.put(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge of seconds.
    ///
    /// # Errors
    ///
    /// As those of [`Registering::counter`].
    pub fn seconds(self, name: &str, help: &str) -> Made<Gauge> {
        self.put(Gauge::new(name, help)?)
    }

    /// Gauges of seconds by `labels`.
    ///
    /// # Errors
    ///
    /// As those of [`Registering::counter`].
    pub fn seconds_by(self, name: &str, help: &str, labels: &[&str]) -> Made<GaugeVec> {
        self.put(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A histogram of seconds.
    ///
    /// # Errors
    ///
    /// As those of [`Registering::counter`].
    pub fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Made<Histogram> {
        self.put(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.into()))?)
    }

    /// Histograms of seconds by `labels`.
    ///
    /// # Errors
    ///
    /// As those of [`Registering::counter`].
    pub fn histograms(self, name: &str, help: &str, labels: &[&str], buckets: &[f64]) -> Made<HistogramVec> {
        self.put(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.into()), labels)?)
    }
}
