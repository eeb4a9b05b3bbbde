//! Metrics of the topology. Only the leader sets them.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::{Histogram, IntGauge, IntGaugeVec};

use policy_sync_hub::telemetry::metrics::{Metrics, gauge_value};
use policy_sync_topology::Graph;

/// Histogram buckets for the duration of a build, in seconds.
const BUCKETS: [f64; 9] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];

/// Metrics of the topology. Clones share the values.
#[derive(Clone, Debug)]
pub struct TopologyMetrics {
    nodes: IntGaugeVec,
    unattached: IntGaugeVec,
    without_effect: IntGaugeVec,
    unknown: IntGauge,
    unreadable: IntGauge,
    stored: IntGauge,
    pending: IntGauge,
    build: Histogram,
}

impl TopologyMetrics {
    /// Registers the metrics with `metrics`.
    ///
    /// # Errors
    ///
    /// If a metric of the same name is registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let factory = metrics.factory();
        Ok(Self {
            nodes: factory.gauges(
                "policy_sync_topology_nodes",
                "Objects of the topology and their sections, by kind.",
                &["kind"],
            )?,
            unattached: factory.gauges(
                "policy_sync_topology_unattached",
                "References that are not attached, by reason.",
                &["reason"],
            )?,
            without_effect: factory.gauges(
                "policy_sync_topology_policies_without_effect",
                "Policies that none of their targets accepts, by kind.",
                &["kind"],
            )?,
            unknown: factory.gauge(
                "policy_sync_topology_unknown_kinds",
                "Kinds that an object refers to, and that are not served or cannot be listed.",
            )?,
            unreadable: factory.gauge(
                "policy_sync_topology_unreadable_objects",
                "Objects that are left out because their spec is invalid.",
            )?,
            stored: factory.gauge(
                "policy_sync_topology_stored",
                "1 if the ConfigMap of the topology is current, 0 if another owner has a ConfigMap of this name.",
            )?,
            pending: factory.gauge(
                "policy_sync_topology_status_writes_pending",
                "Gateways and routes whose status is not yet updated with their attachment and policies.",
            )?,
            build: factory.histogram(
                "policy_sync_topology_build_seconds",
                "Duration of a build of the topology after a change.",
                &BUCKETS,
            )?,
        })
    }

    /// Resets the gauges when leadership changes, because another process sets them then.
    pub(super) fn forget(&self) {
        self.nodes.reset();
        self.unattached.reset();
        self.without_effect.reset();
        self.unknown.set(0);
        self.unreadable.set(0);
        self.stored.set(0);
    }

    pub(super) fn built(&self, counts: &Counts, took: Duration) {
        let set = |gauges: &IntGaugeVec, counts: &BTreeMap<String, usize>| {
            gauges.reset();
            for (label, count) in counts {
                gauges.with_label_values(&[label]).set(gauge_value(*count));
            }
        };
        set(&self.nodes, &counts.nodes);
        set(&self.unattached, &counts.unattached);
        set(&self.without_effect, &counts.without_effect);
        self.unknown.set(gauge_value(counts.unknown));
        self.unreadable.set(gauge_value(counts.unreadable));
        self.build.observe(took.as_secs_f64());
    }

    pub(super) fn pending(&self, count: usize) {
        self.pending.set(gauge_value(count));
    }

    pub(super) fn stored(&self, is_stored: bool) {
        self.stored.set(is_stored.into());
    }
}

/// The counts of a graph's objects, by label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    nodes: BTreeMap<String, usize>,
    unattached: BTreeMap<String, usize>,
    without_effect: BTreeMap<String, usize>,
    unknown: usize,
    unreadable: usize,
}

impl Counts {
    /// Counts `graph`; `unreadable` is the number of objects that could not be parsed.
    pub(super) fn of(graph: &Graph<'_>, unreadable: usize) -> Self {
        fn count(labels: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
            let mut counts = BTreeMap::new();
            for label in labels {
                *counts.entry(label).or_default() += 1;
            }
            counts
        }
        // Policies can refer to objects of any kind. Counting nodes by type and not by kind keeps the number of label
        // values small.
        let nodes = graph.nodes().map(|node| graph.node_type(node));
        let without_effect = graph.policies().iter().filter(|policy| policy.without_effect().is_some());
        Self {
            nodes: count(nodes.map(str::to_owned)),
            unattached: count(graph.unattached().iter().map(|item| item.reason.to_string())),
            without_effect: count(without_effect.map(|policy| policy.locator.kind.to_string())),
            unknown: graph.unknown().len(),
            unreadable,
        }
    }
}
