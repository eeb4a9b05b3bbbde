//! Prometheus metrics about the hub. Only the leader exports real values. Followers export 0, so a sum over all
//! replicas is correct.
//!
//! [`HubMetrics::measure`] counts objects of the mirror at each scrape. The states of policies and Gateways are known
//! only when their status is computed (*folded*). Folds record them in a tally.

mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{Gauge, Histogram, IntGaugeVec};

use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, GroupVersionResource, Origin, WorkName};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_hub::telemetry::metrics::{Metrics, gauge_value};
use policy_sync_sync::desired::eligibility::{conflict, not_in_role};
use policy_sync_sync::rows::kind::KindReason;
use policy_sync_sync::rows::work::Work;
use policy_sync_sync::status::sync_state::{SyncPhase, SyncState};
use policy_sync_sync::{Changes, ClassParams, Problem, View, counts};

use tally::{STUCK, Tally};

/// Buckets of the propagation time, in seconds.
const PROPAGATION: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0];
/// Buckets of the time until a report of a spoke is written to the hub, in seconds.
const STATUS_DELAY: [f64; 11] = [0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// The `state` labels of GatewayClasses.
const CLASSES: [&str; 3] = ["accepted", "invalid", "unread"];
/// The `state` labels of clusters that have works.
const CLUSTERS: [&str; 2] = ["available", "silent"];

/// The `kind` labels of objects that can be paused.
const PAUSABLE: [&str; 5] = ["class", "cluster", "gateway", "policy", "resource"];

/// The states of a policy on a cluster that the metrics export. States that only commands and web pages derive are
/// omitted.
const POLICY_STATES: [PolicyState; 11] = [
    PolicyState::Rejected,
    PolicyState::NotEnforced,
    PolicyState::NotApplied,
    PolicyState::Frozen,
    PolicyState::PartiallyEnforced,
    PolicyState::Pending,
    PolicyState::Unknown,
    PolicyState::Removing,
    PolicyState::Overridden,
    PolicyState::Accepted,
    PolicyState::Enforced,
];

/// The metrics about the hub. Clones share their values.
#[derive(Clone, Debug)]
pub struct HubMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    classes: IntGaugeVec,
    kinds: IntGaugeVec,
    policies: IntGaugeVec,
    policy_clusters: IntGaugeVec,
    resources: IntGaugeVec,
    gateways: IntGaugeVec,
    works: IntGaugeVec,
    works_stuck: IntGaugeVec,
    clusters: IntGaugeVec,
    problems: IntGaugeVec,
    paused: IntGaugeVec,
    propagation: Histogram,
    oldest: Gauge,
    status_delay: Histogram,
    tally: Tally,
    /// The number of problems, by category and by whether they freeze the object.
    counted: Mutex<BTreeMap<(&'static str, bool), i64>>,
}

impl HubMetrics {
    /// Registers the metrics in the registry of `metrics`.
    ///
    /// # Errors
    ///
    /// If a metric of the same name is registered already.
    pub fn new(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let factory = metrics.factory();
        Ok(Self(Arc::new(Inner {
            classes: factory.gauges(
                "policy_sync_classes",
                "GatewayClasses of this controller, by whether their parameters are valid, invalid or unreadable.",
                &["state"],
            )?,
            kinds: factory.gauges(
                "policy_sync_kinds",
                "Kinds in the parameters of GatewayClasses, by whether they can be synced, or the reason why not.",
                &["state"],
            )?,
            policies: factory.gauges(
                "policy_sync_policies",
                "Policies that target Gateways of this controller, by state.",
                &["state"],
            )?,
            policy_clusters: factory.gauges(
                "policy_sync_policy_clusters",
                "Pairs of a policy and a cluster, by the state of the policy on the cluster.",
                &["state"],
            )?,
            resources: factory.gauges(
                "policy_sync_resources",
                "Resources that Placements select for spokes, by state.",
                &["state"],
            )?,
            gateways: factory.gauges(
                "policy_sync_gateways",
                "Gateways of this controller, by state.",
                &["state"],
            )?,
            works: factory.gauges(
                "policy_sync_works",
                "ManifestWorks by purpose and state.",
                &["for", "state"],
            )?,
            works_stuck: factory.gauges(
                "policy_sync_works_stuck",
                "ManifestWorks on available clusters that are neither applied nor removed after five minutes.",
                &["for"],
            )?,
            clusters: factory.gauges(
                "policy_sync_clusters",
                "Clusters with works, by whether their agents are available.",
                &["state"],
            )?,
            problems: factory.gauges(
                "policy_sync_problems",
                "Problems of policies and Gateways, by category and by whether they prevent planning.",
                &["category", "freezes"],
            )?,
            paused: factory.gauges(
                "policy_sync_paused",
                "Objects with annotation kuadrant.io/paused, by kind.",
                &["kind"],
            )?,
            propagation: factory.histogram(
                "policy_sync_propagation_seconds",
                "Time from a change of a policy until its last cluster has applied it, as seen by the watches.",
                &PROPAGATION,
            )?,
            oldest: factory.seconds(
                "policy_sync_propagation_oldest_seconds",
                "Longest time that a change of a policy has been waiting for an available cluster.",
            )?,
            status_delay: factory.histogram(
                "policy_sync_status_delay_seconds",
                "Time from a cluster's report until it is written to the hub.",
                &STATUS_DELAY,
            )?,
            tally: Tally::default(),
            counted: Mutex::default(),
        })))
    }

    /// Resets the tally when leadership is gained or lost. Objects with works count as pending until their folds have
    /// run.
    pub(super) fn begin(&self, view: View<'_>) {
        self.0.tally.begin(view);
    }

    /// Records the state of `origin` that its fold found in `view`. With `None`, removes the object, because this
    /// controller no longer handles it.
    pub(super) fn record_state(&self, view: View<'_>, origin: &Origin, sync_state: Option<SyncState>) {
        self.0.tally.note(view, origin, sync_state);
    }

    /// Adds `more` to the number of problems of the category of `problem`. A negative number subtracts.
    pub(super) fn problem(&self, problem: &Problem, more: i64) {
        *self.0.counted.lock().entry((problem.category(), problem.freezes())).or_default() += more;
    }

    /// Records that the last cluster applied a policy change `seconds` after the change.
    pub(super) fn propagated(&self, seconds: f64) {
        self.0.propagation.observe(seconds);
    }

    /// Records which Gateways and policies have new reports from spokes among `changes`. From now on, the status of
    /// these Gateways and policies on the hub is outdated.
    pub fn reported(&self, changes: &Changes<'_>) {
        self.0.tally.reported(changes);
    }

    /// Records that the hub shows all spoke reports of `origin`. If this required a write, which finished at `written`,
    /// observes the time from the first unwritten report to `written`.
    pub(super) fn status_written(&self, origin: &Origin, written: Option<Moment>) {
        if let (Some(reported), Some(written)) = (self.0.tally.take_reported(origin), written) {
            self.0.status_delay.observe(written.since(reported).as_secs_f64());
        }
    }

    /// Sets all gauges from `view`. If this process is not the leader, sets them to 0.
    pub fn measure(&self, view: View<'_>, leads: bool) {
        let counts = if leads { Counted::new(self, view) } else { Counted::default() };
        let by_state =
            |gauges: &IntGaugeVec, states: &[&'static str], counts: &BTreeMap<&'static str, usize>| {
                for state in states {
                    let count = counts.get(state).copied().unwrap_or_default();
                    gauges.with_label_values(&[state]).set(gauge_value(count));
                }
            };
        by_state(&self.0.classes, &CLASSES, &counts.classes);
        by_state(&self.0.kinds, &KindReason::ALL.map(KindReason::as_str), &counts.kinds);
        by_state(&self.0.clusters, &CLUSTERS, &counts.clusters);
        by_state(&self.0.paused, &PAUSABLE, &counts.paused);
        by_state(&self.0.policies, &SyncPhase::OF_POLICIES.map(SyncPhase::as_str), &counts.policies);
        by_state(&self.0.policy_clusters, &POLICY_STATES.map(PolicyState::as_str), &counts.policy_clusters);
        by_state(&self.0.resources, &SyncPhase::OF_POLICIES.map(SyncPhase::as_str), &counts.resources);
        by_state(&self.0.gateways, &SyncPhase::OF_GATEWAYS.map(SyncPhase::as_str), &counts.gateways);
        for (purpose, states) in counts::GROUPS {
            for state in states {
                let count = counts.works.get(&(purpose, *state)).copied().unwrap_or_default();
                self.0.works.with_label_values(&[purpose, state]).set(gauge_value(count));
            }
            if purpose != "foreign" {
                let count = counts.stuck.get(purpose).copied().unwrap_or_default();
                self.0.works_stuck.with_label_values(&[purpose]).set(gauge_value(count));
            }
        }
        for (category, freezes) in Problem::CATEGORIES {
            let count = counts.problems.get(&(category, freezes)).copied().unwrap_or_default();
            self.0.problems.with_label_values(&[category, if freezes { "true" } else { "false" }]).set(count);
        }
        self.0.oldest.set(counts.oldest);
    }
}

/// The values of the gauges, by label value.
#[derive(Debug, Default)]
struct Counted {
    classes: BTreeMap<&'static str, usize>,
    kinds: BTreeMap<&'static str, usize>,
    clusters: BTreeMap<&'static str, usize>,
    policies: BTreeMap<&'static str, usize>,
    policy_clusters: BTreeMap<&'static str, usize>,
    resources: BTreeMap<&'static str, usize>,
    gateways: BTreeMap<&'static str, usize>,
    works: BTreeMap<(&'static str, &'static str), usize>,
    stuck: BTreeMap<&'static str, usize>,
    problems: BTreeMap<(&'static str, bool), i64>,
    paused: BTreeMap<&'static str, usize>,
    oldest: f64,
}

impl Counted {
    fn new(metrics: &HubMetrics, view: View<'_>) -> Self {
        let mut counted =
            Self { works: view.work_counts(), problems: metrics.0.counted.lock().clone(), ..Self::default() };
        let mut kinds: BTreeSet<(Role, GroupVersionResource)> = BTreeSet::new();
        let paused_clusters = view.clusters().filter(|(_, cluster)| cluster.paused.is_paused());
        counted.paused.insert("cluster", paused_clusters.count());
        for (key, class) in view.our_classes() {
            *counted.paused.entry("class").or_default() += usize::from(class.paused.is_paused());
            let Some(params) = view.class_params(&key.name) else { continue };
            let state = match &params {
                ClassParams::Valid(_) => "accepted",
                ClassParams::Invalid { .. } => "invalid",
                ClassParams::Unread { .. } => "unread",
            };
            *counted.classes.entry(state).or_default() += 1;
            let known = params.known();
            kinds.extend(known.iter().flat_map(|params| params.all_listed()));
        }
        for state in kinds.iter().filter_map(|(role, gvr)| resolved(view, *role, gvr)) {
            *counted.kinds.entry(state).or_default() += 1;
        }
        for cluster in view.clusters_with_works() {
            *counted
                .clusters
                .entry(if is_silent(view, cluster) { "silent" } else { "available" })
                .or_default() += 1;
        }
        metrics.0.tally.count(view, &mut counted);
        *counted.stuck.entry("access").or_default() += stuck_access(view);
        counted
    }
}

/// The `state` label of `gvr`, which a class lists in the parameters for `role`. It equals the reason in the condition
/// of the class. `None` if the hub has not been queried yet.
fn resolved(view: View<'_>, role: Role, gvr: &GroupVersionResource) -> Option<&'static str> {
    if not_in_role(view, role, &gvr.kind).is_some() {
        return Some(KindReason::NotSyncable.as_str());
    }
    let state = view.kind(gvr)?;
    let conflict = conflict(view, gvr).filter(|problem| matches!(problem, Problem::VersionConflict { .. }));
    Some(conflict.map_or_else(|| state.resolution.reason().as_str(), |problem| problem.category()))
}

/// Whether the agent of `cluster` is unavailable.
fn is_silent(view: View<'_>, cluster: &ClusterName) -> bool {
    !view.cluster(cluster).is_some_and(|cluster| cluster.available)
}

/// The number of access works on available clusters that have been stuck for [`STUCK`].
fn stuck_access(view: View<'_>) -> usize {
    let name = WorkName::access(view.controller());
    let is_stuck =
        |work: &Work| !work.is_applied() && work.deleting.unwrap_or(work.created).after(STUCK) <= view.now;
    let clusters =
        view.clusters_with_works().filter(|cluster| view.work(&name, cluster).is_some_and(is_stuck));
    clusters.filter(|cluster| !is_silent(view, cluster)).count()
}

/// All metrics of `world` as text, once the status of `origin`, a policy or resource, is planned. For the tests of
/// other crates.
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub fn measured(world: &policy_sync_sync::testing::world::World, origin: &Origin) -> String {
    let metrics = Metrics::new().unwrap();
    let hub = HubMetrics::new(&metrics).unwrap();
    world.see(|view| {
        let plan = policy_sync_sync::status::policy::plan(view, &world.settings, origin);
        hub.record_state(view, origin, plan.sync_state)
    });
    metrics.gather(|| world.see(|view| hub.measure(view, true)))
}

#[cfg(test)]
mod tests;
