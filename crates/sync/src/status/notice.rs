//! What people should hear of: changes of how a policy or a Gateway fares, in the words of an Event.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::NoticeReason;
use super::overriding::Overriding;
use crate::View;
use policy_sync_api::annotations::Synced;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::text::itemized;

/// The time after which a work that is neither applied nor deleted counts as stuck.
pub const STUCK: Duration = Duration::from_secs(300);
/// Something that is so. It is told when it becomes so, and when it becomes so for more clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// A word for programs.
    pub reason: NoticeReason,
    /// The clusters that it is about, where it is about some of many.
    pub clusters: BTreeSet<ClusterName>,
    /// A sentence for people; it names ten clusters at most.
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
    itemized(clusters.iter().map(ToString::to_string))
}

/// What is said of clusters that have not let go of something for [`STUCK`].
pub(super) fn not_deleted(clusters: &BTreeSet<ClusterName>) -> String {
    format!("not deleted on {} after 5 minutes", names(clusters))
}

/// What is to be said of a policy, of which `entries` say how it fares, and when time alone changes that.
pub(super) fn of_policy(
    view: View<'_>,
    origin: &Origin,
    entries: &[Synced],
) -> (Vec<Notice>, Option<Moment>) {
    let what = match view.role(origin.kind()) {
        // Its generation counts what is said of it as well.
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

/// Reports the clusters where other policies override the policy `origin`: those of the clusters, and those of the hub by name.
fn overridden(view: View<'_>, origin: &Origin, entries: &[Synced]) -> Option<Notice> {
    let (mut all, mut of_cluster) = (BTreeSet::new(), BTreeSet::new());
    let mut of_hub: BTreeMap<String, BTreeSet<ClusterName>> = BTreeMap::new();
    for entry in entries {
        let Some(overriding) = Overriding::read(view, origin, entry) else { continue };
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
        itemized(of_cluster.into_iter().chain(of_hub).collect::<Vec<_>>().into_iter())
    })
}

/// The clusters that have not let go of what they have of the Gateway `origin` for long, and when there may be more.
pub(super) fn left_behind(view: View<'_>, origin: &Origin) -> (BTreeSet<ClusterName>, Option<Moment>) {
    let leaving = view.works_of(origin).filter(|(_, _, work)| work.deleting.is_some());
    overdue(view, origin, leaving.map(|(_, cluster, _)| cluster), Moment::default())
}

/// What is to be said of clusters that have not let go of a Gateway.
pub(super) fn of_left_behind(clusters: BTreeSet<ClusterName>) -> Option<Notice> {
    Notice::about(NoticeReason::Stuck, clusters, not_deleted)
}

/// Those of the clusters `awaited` that say nothing for long of their works of `origin`, whose content was `changed` last,
/// and when there may be more.
fn overdue<'c>(
    view: View<'_>,
    origin: &Origin,
    awaited: impl Iterator<Item = &'c ClusterName>,
    changed: Moment,
) -> (BTreeSet<ClusterName>, Option<Moment>) {
    let (mut overdue, mut next) = (BTreeSet::new(), None);
    for cluster in awaited {
        let Some(work) = view.work_of(origin, cluster) else { continue };
        // The spoke's agent may have written any moment.
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
