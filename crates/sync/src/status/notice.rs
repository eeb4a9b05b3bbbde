//! The Events about changes in the state of a policy or Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::NoticeReason;
use super::overriding::OverridingPolicies;
use crate::View;
use policy_sync_api::annotations::Synced;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::text::join_limited;

/// The time after which a work that is neither applied nor deleted counts as stuck.
pub const STUCK: Duration = Duration::from_secs(300);
/// A state to report in an Event when it begins, and again when it affects more clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The reason of the Event.
    pub reason: NoticeReason,
    /// The affected clusters. Empty if the Event is about the object as a whole.
    pub clusters: BTreeSet<ClusterName>,
    /// The message of the Event, naming at most ten clusters.
    pub note: String,
}

impl Notice {
    fn about(
        reason: NoticeReason,
        clusters: BTreeSet<ClusterName>,
        note: impl FnOnce(&BTreeSet<ClusterName>) -> String,
    ) -> Option<Self> {
        let note = note(&clusters);
        (!clusters.is_empty()).then_some(Self { reason, clusters, note })
    }
}

fn names(clusters: &BTreeSet<ClusterName>) -> String {
    join_limited(clusters.iter().map(ToString::to_string))
}

/// The message about clusters that have not deleted an object within [`STUCK`].
pub(super) fn not_deleted(clusters: &BTreeSet<ClusterName>) -> String {
    format!("not deleted on {} after 5 minutes", names(clusters))
}

/// The notices about the policy `origin`, whose entries are `entries`, and when the notices change because time has
/// passed.
pub(super) fn of_policy(
    view: View<'_>,
    origin: &Origin,
    entries: &[Synced],
) -> (Vec<Notice>, Option<Moment>) {
    let what = match view.role(origin.kind()) {
        // The generation of a resource also counts status changes, so the note does not name the generation.
        Some(Role::Resource) => "it".to_owned(),
        _ => format!("generation {}", view.policy(origin).map_or(0, |policy| policy.generation)),
    };
    let is_synced = !entries.is_empty() && entries.iter().all(|entry| entry.applied);
    let synced = is_synced.then(|| Notice {
        reason: NoticeReason::Synced,
        clusters: BTreeSet::new(),
        note: format!("{what} is applied on all of its clusters: {}", entries.len()),
    });
    let overridden = overridden(view, origin, entries);

    let changed = view.policy_changed(origin).unwrap_or_default();
    let awaited = entries.iter().filter(|entry| !entry.applied).map(|entry| &entry.cluster);
    let (stuck, next) = overdue(view, origin, awaited, changed);
    let stuck = Notice::about(NoticeReason::Stuck, stuck, |clusters| {
        format!("neither applied nor deleted on {} after 5 minutes", names(clusters))
    });
    (synced.into_iter().chain(overridden).chain(stuck).collect(), next)
}

/// Reports the clusters where other policies override the policy `origin`. Policies of the hub are named, policies of
/// the clusters are not.
fn overridden(view: View<'_>, origin: &Origin, entries: &[Synced]) -> Option<Notice> {
    let (mut all, mut of_cluster) = (BTreeSet::new(), BTreeSet::new());
    let mut of_hub: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
    for entry in entries {
        let Some(overriding) = OverridingPolicies::read(view, origin, entry) else { continue };
        all.insert(entry.cluster.clone());
        if overriding.of_cluster {
            of_cluster.insert(entry.cluster.clone());
        }
        let same_kind = overriding.of_hub.iter().map(|key| format!("policy {key}"));
        let generated = overriding.generated.iter().map(|(kind, key)| format!("{kind} {key}"));
        for policy in same_kind.chain(generated) {
            of_hub.entry(policy).or_default().insert(entry.cluster.clone());
        }
    }
    Notice::about(NoticeReason::Overridden, all, |_| {
        let of_cluster = (!of_cluster.is_empty())
            .then(|| format!("a policy of the cluster takes precedence on: {}", names(&of_cluster)));
        let of_hub = of_hub.iter().map(|(policy, clusters)| {
            format!("{policy} of the hub takes precedence on: {}", names(clusters))
        });
        join_limited(of_cluster.into_iter().chain(of_hub).collect::<Vec<_>>().into_iter())
    })
}

/// The clusters that have not deleted the Gateway `origin` within [`STUCK`], and when the next cluster will be overdue.
pub(super) fn undeleted_clusters(view: View<'_>, origin: &Origin) -> (BTreeSet<ClusterName>, Option<Moment>) {
    let leaving = view.works_of(origin).filter(|(_, _, work)| work.deleting.is_some());
    overdue(view, origin, leaving.map(|(_, cluster, _)| cluster), Moment::default())
}

/// The notice about clusters that have not deleted a Gateway.
pub(super) fn of_undeleted_clusters(clusters: BTreeSet<ClusterName>) -> Option<Notice> {
    Notice::about(NoticeReason::Stuck, clusters, not_deleted)
}

/// The clusters of `awaited` that have neither applied nor deleted their work of `origin` within [`STUCK`], and when
/// the next cluster will be overdue. `changed` is the time of the last change of the works' content.
fn overdue<'c>(
    view: View<'_>,
    origin: &Origin,
    awaited: impl Iterator<Item = &'c ClusterName>,
    changed: Moment,
) -> (BTreeSet<ClusterName>, Option<Moment>) {
    let (mut overdue, mut next) = (BTreeSet::new(), None);
    for cluster in awaited {
        let Some(work) = view.work_of(origin, cluster) else { continue };
        // The agent of the spoke may have written an arbitrary time.
        let since = work.deleting.unwrap_or(work.created.max(changed)).min(view.now);
        let at = since.after(STUCK);
        if at <= view.now {
            overdue.insert(cluster.clone());
        } else {
            next = Moment::earliest(next, Some(at));
        }
    }
    (overdue, next)
}
