//! Records the states of policies and Gateways as their folds report them, and counts them for the metrics.

use std::collections::{HashMap, HashSet};

use dashmap::{DashMap, Entry};

use super::Counted;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_api::shrink::take;
use policy_sync_sync::counts::of_origin;
use policy_sync_sync::kinds::WORKS;
use policy_sync_sync::rows::work::Work;
use policy_sync_sync::status::sync_state::{SyncPhase, SyncState};
use policy_sync_sync::{Changes, PolicyKind, View};

pub(super) use policy_sync_sync::status::STUCK;

/// The last known state of each policy and Gateway.
#[derive(Debug, Default)]
pub(super) struct Tally {
    states: DashMap<Origin, ObjectState>,
    /// For each object, the time of the first report that is not written to the hub yet.
    reported: DashMap<Origin, Moment>,
}

/// The last known state of one object.
#[derive(Debug)]
struct ObjectState {
    state: SyncPhase,
    /// The clusters that have not yet applied or removed the object, sorted by name.
    awaited: Vec<PendingCluster>,
    /// The number of clusters in each state; only for policies.
    clusters: Box<[(PolicyState, usize)]>,
    /// Whether the object's own annotation pauses it.
    paused: bool,
    /// The time of the fold that determined this state. `None` if the state is only assumed.
    at: Option<Moment>,
}

/// A cluster that has not yet applied or removed an object.
#[derive(Debug)]
struct PendingCluster {
    cluster: ClusterName,
    since: Moment,
    /// Whether the cluster's work for the object exists.
    sent: bool,
}

impl Tally {
    pub(super) fn begin(&self, view: View<'_>) {
        self.states.clear();
        self.reported.clear();
        for origin in view.origins() {
            self.note(view, origin, Some(SyncState::UNKNOWN));
        }
    }

    pub(super) fn note(&self, view: View<'_>, origin: &Origin, sync_state: Option<SyncState>) {
        let Some(sync_state) = sync_state else {
            take(&self.states, origin);
            return;
        };
        let at = (sync_state != SyncState::UNKNOWN).then_some(view.now);
        let SyncState { state, awaited, clusters, paused } = sync_state;
        let mut place = self.states.entry(origin.clone());
        let before = match &mut place {
            Entry::Occupied(before) => Some(before.get_mut()),
            Entry::Vacant(_) => None,
        };
        let mut known = before.as_ref().map(|before| before.awaited.iter().peekable());
        let noted = before.as_ref().and_then(|before| before.at);
        let awaited = awaited.into_iter().map(|cluster| {
            let known = known.as_mut().and_then(|known| {
                while known.next_if(|known| known.cluster < cluster).is_some() {}
                known.next_if(|known| known.cluster == cluster)
            });
            let work = view.work_of(origin, &cluster);
            let began = || began(view, origin, work, noted).min(view.now);
            PendingCluster {
                since: known.map_or_else(began, |known| known.since),
                sent: work.is_some(),
                cluster,
            }
        });
        let clusters = clusters.into_iter().collect();
        let noted = ObjectState { state, awaited: awaited.collect(), clusters, paused, at };
        place.insert(noted);
    }

    pub(super) fn reported(&self, changes: &Changes<'_>) {
        let view = changes.view();
        for (key, before) in changes.iter().filter_map(|changed| changed.object_of(&WORKS)) {
            let (name, cluster) = policy_sync_sync::work_key(key);
            let after = view.work(&name, &cluster);
            let answers = [before, after].map(|work| work.and_then(|work| work.report.as_ref()));
            if answers[0] != answers[1]
                && let Some(origin) = after.and_then(|work| work.origin())
            {
                self.reported.entry((**origin).clone()).or_insert(view.now);
            }
        }
    }

    pub(super) fn take_reported(&self, origin: &Origin) -> Option<Moment> {
        take(&self.reported, origin)
    }

    pub(super) fn count(&self, view: View<'_>, counted: &mut Counted) {
        let mut oldest = view.now;
        let available = view.clusters().filter(|(_, cluster)| cluster.available);
        let available: HashSet<ClusterName> = available.map(|(name, _)| name).collect();
        let mut roles: HashMap<PolicyKind, Role> = HashMap::new();
        for entry in &self.states {
            let (origin, noted) = entry.pair();
            let role = *roles
                .entry(origin.kind().clone())
                .or_insert_with_key(|kind| view.role(kind).unwrap_or(Role::Policy));
            let (kind, states) = match (origin, role) {
                (Origin::Gateway(_), _) => ("gateway", &mut counted.gateways),
                (Origin::Object(..), Role::Policy) => ("policy", &mut counted.policies),
                (Origin::Object(..), Role::Resource) => ("resource", &mut counted.resources),
            };
            *counted.paused.entry(kind).or_default() += usize::from(noted.paused);
            *states.entry(noted.state.as_str()).or_default() += 1;
            if role == Role::Policy {
                for (state, count) in &noted.clusters {
                    *counted.policy_clusters.entry(state.as_str()).or_default() += count;
                }
            }
            let is_change = noted.state != SyncPhase::Frozen && origin.as_gateway().is_none();
            let mut stuck = 0;
            for PendingCluster { cluster, since, sent } in &noted.awaited {
                let (is_older, is_stuck) =
                    (is_change && *since < oldest, *sent && since.after(STUCK) <= view.now);
                if (is_older || is_stuck) && available.contains(cluster) {
                    oldest = if is_older { *since } else { oldest };
                    stuck += usize::from(is_stuck);
                }
            }
            *counted.stuck.entry(of_origin(origin, role)).or_default() += stuck;
        }
        counted.oldest = view.now.since(oldest).as_secs_f64();
    }
}

/// The time since which a cluster has been expected to apply or remove `origin`. `work` is the cluster's work for
/// `origin`, and `noted` is the time of the last fold.
fn began(view: View<'_>, origin: &Origin, work: Option<&Work>, noted: Option<Moment>) -> Moment {
    if let Some(deleting) = work.and_then(|work| work.deleting) {
        return deleting;
    }
    let changed = view.policy_changed(origin).filter(|changed| noted.is_none_or(|noted| *changed > noted));
    // If the work was never changed, the wait began when the work was created.
    let made = work.filter(|work| noted.is_none() && work.generation == 1).map(|work| work.created);
    changed.or(made).unwrap_or(view.now)
}
