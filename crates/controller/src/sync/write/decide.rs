//! Decides which requests a key requires, from one view of the mirror and the key's own writes that the mirror does not
//! show yet.
//!
//! These are pure functions without client, queue or clock. The worker carries out their decisions, and the model tests
//! check the decisions in many states.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::own_writes::{OwnWrites, Transition, observed_version};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey, Origin};
use policy_sync_mirror::WatchedSources;
use policy_sync_sync::Wait;
use policy_sync_sync::delete_guard::{DeleteGuard, Precondition};
use policy_sync_sync::desired::{Shares, access, plan_works, watches};
use policy_sync_sync::diff::{Diff, WorkAction};
use policy_sync_sync::kinds::{CLASSES, GATEWAYS};
use policy_sync_sync::status::class::ClassStatus;
use policy_sync_sync::status::gateway::GatewayFold;
use policy_sync_sync::status::policy::FoldPlan;
use policy_sync_sync::{Key, Problem, Settings, View, diff, status};

/// The delay before a key is tried again, if a create or delete by another key blocks its write.
const YIELD_DELAY: Duration = Duration::from_secs(1);

/// The writes of works that a key requires, and other results of the decision.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// Creates and patches, to send at once.
    pub writes: Vec<WorkAction>,
    /// Deletes, each to send after the hub has confirmed its cause.
    pub deletes: Vec<Delete>,
    /// The time at which to decide again even without a change.
    pub recheck: Option<Moment>,
    /// Problems to report to the owner of the object.
    pub problems: BTreeSet<Problem>,
    /// The number of replicas on each cluster, if the object's replicas are split among clusters.
    pub shares: Option<Shares>,
    /// For each cluster, the wait for older copies that delays the creation of a missing work.
    pub(in crate::sync) waits: BTreeMap<ClusterName, Wait>,
}

/// A work to delete.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The delete action.
    pub action: WorkAction,
    /// The reads that must confirm the cause before the delete is sent.
    pub reads: BTreeSet<Precondition>,
}

impl Decision {
    /// Omits each action on a work if the mirror does not yet show this key's last write of that work.
    fn new(view: View<'_>, own: &mut OwnWrites, diff: Diff) -> Self {
        let recheck = diff.recheck;
        let visible = own.visible(view, diff.actions);
        let (deletes, writes): (Vec<_>, _) =
            visible.into_iter().partition(|action| matches!(action, WorkAction::Delete { .. }));
        let deletes = deletes.into_iter().map(|action| Delete { action, reads: BTreeSet::new() }).collect();
        let problems = diff.problems.into_iter().collect();
        Self { writes, deletes, recheck, problems, ..Self::default() }
    }
}

/// Decides which kinds to watch. A kind for which `annotated` returns true also stays watched: its watch has not yet
/// delivered annotations that may have to be removed.
#[must_use]
pub fn watches(view: View<'_>, annotated: impl Fn(&GroupResource) -> bool) -> WatchedSources {
    let mut wanted = watches::plan(view);
    for (gvr, _) in view.resolved_kinds() {
        let source = view.source_of(&gvr.kind);
        if !wanted.contains_key(&source) && annotated(&gvr.kind) {
            wanted.insert(source, gvr.clone());
        }
    }
    wanted
}

/// Decides which works of a Gateway or policy to write. `conflicting_clusters` returns the clusters on which a related
/// work is being created or deleted. On these clusters, the create or delete of this key waits. `conflicting_clusters`
/// is called only if needed.
#[must_use]
pub fn works(
    view: View<'_>,
    settings: &Settings,
    own: &mut OwnWrites,
    origin: &Origin,
    conflicting_clusters: impl FnOnce() -> BTreeSet<ClusterName>,
) -> Decision {
    let plan = plan_works(view, settings, origin);
    let mut decision = Decision::new(view, own, diff::works(view, origin, &plan));
    decision.problems.extend(plan.problems);
    decision.shares = plan.shares;
    decision.waits = plan.waits;
    decision.problems.retain(|problem| !problem.passes());
    decision.recheck = Moment::earliest(decision.recheck, plan.recheck);
    decision.yield_to_conflicts(view, origin, conflicting_clusters);
    if !decision.deletes.is_empty() {
        let mut guard = DeleteGuard::new(view, origin);
        for delete in &mut decision.deletes {
            let (reads, less) = guard.on(delete.action.cluster());
            delete.reads = reads;
            decision.recheck = Moment::earliest(decision.recheck, less);
        }
    }
    own.record_in_flight(decision.writes.iter().chain(decision.deletes.iter().map(|delete| &delete.action)));
    decision
}

/// Filters `deletes`, which were decided earlier for `key`, to those that the current view still requires.
#[must_use]
pub fn still_required(
    view: View<'_>,
    settings: &Settings,
    key: &Key,
    deletes: Vec<WorkAction>,
) -> Vec<WorkAction> {
    let diff = match key {
        Key::Works(origin) => diff::works(view, origin, &plan_works(view, settings, origin)),
        Key::Access(cluster) => diff::access(view, cluster, &access::plan(view, cluster)),
        Key::Watches | Key::Class(_) | Key::Fold(_) => return deletes,
    };
    let wanted = diff.actions.iter().filter_map(|action| Some((action.place(), action.deletes()?)));
    let wanted: BTreeMap<_, _> = wanted.collect();
    deletes.into_iter().filter(|action| wanted.get(&action.place()).copied() == action.deletes()).collect()
}

impl Decision {
    fn yield_to_conflicts(
        &mut self,
        view: View<'_>,
        origin: &Origin,
        conflicting_clusters: impl FnOnce() -> BTreeSet<ClusterName>,
    ) {
        let awaited = match origin {
            Origin::Gateway(_) => Transition::Creating,
            Origin::Object(..) => Transition::Deleting,
        };
        let passes = |action: &WorkAction| Transition::by(action) == Some(awaited);
        let deletes = self.deletes.iter().map(|delete| &delete.action);
        if !self.writes.iter().chain(deletes).any(passes) {
            return;
        }
        let conflicting_clusters = conflicting_clusters();
        let is_unblocked =
            |action: &WorkAction| !passes(action) || !conflicting_clusters.contains(action.cluster());
        let count = self.writes.len() + self.deletes.len();
        self.writes.retain(is_unblocked);
        self.deletes.retain(|delete| is_unblocked(&delete.action));
        if self.writes.len() + self.deletes.len() < count {
            self.recheck = Moment::earliest(self.recheck, Some(view.now.after(YIELD_DELAY)));
        }
    }
}

/// Decides how to write the access work of a cluster.
#[must_use]
pub fn access(view: View<'_>, own: &mut OwnWrites, cluster: &ClusterName) -> Decision {
    Decision::new(view, own, diff::access(view, cluster, &access::plan(view, cluster)))
}

/// Decides which annotations of a policy to write. `None` while the mirror does not show this controller's last write.
#[must_use]
pub fn fold(view: View<'_>, settings: &Settings, own: &mut OwnWrites, origin: &Origin) -> Option<FoldPlan> {
    own.is_visible(observed_version(view, origin.kind()))
        .then(|| status::policy::plan(view, settings, origin))
}

/// Decides which metadata and status of a Gateway to write. `None` while the mirror does not show this controller's
/// last write.
#[must_use]
pub fn gateway(
    view: View<'_>,
    settings: &Settings,
    own: &mut OwnWrites,
    gateway: &ObjectKey,
) -> Option<GatewayFold> {
    let visible = own.is_visible(view.version(&GATEWAYS.all()));
    visible.then(|| status::gateway::plan(view, settings, gateway))
}

/// Decides which status of a GatewayClass to write. `None` if the status is up to date, or the mirror does not show the
/// last write.
#[must_use]
pub fn class(view: View<'_>, own: &mut OwnWrites, class: &ObjectKey) -> Option<ClassStatus> {
    let visible = own.is_visible(view.version(&CLASSES.all()));
    visible.then(|| status::class::plan(view, class)).flatten()
}
