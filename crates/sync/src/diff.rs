//! The difference between a plan and the works in the mirror: the writes that remain.

use std::sync::Arc;
use std::time::Duration;

use super::Problem;
use super::desired::{PlannedWork, WorksPlan};
use crate::View;
use crate::rows::work::{Purpose, Work};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin, WorkName};

/// The minimum time between two corrections of the annotation with the start of a grace period. A spoke may change this
/// annotation repeatedly.
const CORRECTION_INTERVAL: Duration = Duration::from_secs(60);

/// A write to one work.
#[derive(Clone, Debug)]
pub enum WorkAction {
    /// Creates a missing work.
    Create {
        /// The cluster of the work.
        cluster: ClusterName,
        /// The planned work.
        work: Arc<PlannedWork>,
    },
    /// Replaces the content of a work.
    Update {
        /// The cluster of the work.
        cluster: ClusterName,
        /// The planned work, whose content replaces the present content.
        work: Arc<PlannedWork>,
        /// The uid of the work in the mirror. The write fails if the work was replaced.
        uid: Arc<str>,
        /// The generation of the work in the mirror.
        generation: i64,
    },
    /// Records in an annotation of a work that its cluster is no longer selected, or is selected again.
    Mark {
        /// The cluster of the work.
        cluster: ClusterName,
        /// The name of the work.
        name: WorkName,
        /// The uid of the work in the mirror.
        uid: Arc<str>,
        /// Since when the cluster is not selected; `None` if the cluster is selected.
        unplaced: Option<Moment>,
    },
    /// Deletes a work that is no longer planned.
    Delete {
        /// The cluster of the work.
        cluster: ClusterName,
        /// The name of the work.
        name: WorkName,
        /// The uid of the work in the mirror.
        uid: Arc<str>,
    },
}

impl WorkAction {
    /// The cluster that the action concerns.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        match self {
            Self::Create { cluster, .. }
            | Self::Update { cluster, .. }
            | Self::Mark { cluster, .. }
            | Self::Delete { cluster, .. } => cluster,
        }
    }

    /// The name of the work, which is the same in every cluster.
    #[must_use]
    pub fn name(&self) -> &WorkName {
        match self {
            Self::Create { work, .. } | Self::Update { work, .. } => &work.name,
            Self::Mark { name, .. } | Self::Delete { name, .. } => name,
        }
    }

    /// The name and the cluster of the work.
    #[must_use]
    pub fn place(&self) -> (&WorkName, &ClusterName) {
        (self.name(), self.cluster())
    }

    /// The uid of the work, if the action deletes it.
    #[must_use]
    pub fn deletes(&self) -> Option<&Arc<str>> {
        match self {
            Self::Delete { uid, .. } => Some(uid),
            Self::Create { .. } | Self::Update { .. } | Self::Mark { .. } => None,
        }
    }

    /// The size of the manifests that the action sends, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.work().map_or(0, |work| work.bytes)
    }

    /// Whether the manifests to send are already in memory, so that they need not be built.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.work().is_none_or(|work| work.is_in_memory())
    }

    fn work(&self) -> Option<&PlannedWork> {
        match self {
            Self::Create { work, .. } | Self::Update { work, .. } => Some(work),
            Self::Mark { .. } | Self::Delete { .. } => None,
        }
    }

    /// `create`, `update`, `mark` or `delete`, for metrics and logs.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Update { .. } => "update",
            Self::Mark { .. } => "mark",
            Self::Delete { .. } => "delete",
        }
    }
}

/// The writes that bring the works in line with a plan.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The writes, in no particular order.
    pub actions: Vec<WorkAction>,
    /// Works that have the planned name but do not belong to this controller. They are left unchanged.
    pub problems: Vec<Problem>,
    /// When to compare again even if nothing changes until then.
    pub recheck: Option<Moment>,
}

/// Compares the plan for `origin` with its works in the mirror.
#[must_use]
pub fn works(view: View<'_>, origin: &Origin, plan: &WorksPlan) -> Diff {
    let mut diff = planned(view, plan, |work| work.origin().is_some_and(|found| **found == *origin));
    for (name, cluster, work) in view.works_of(origin) {
        let wanted =
            plan.outcomes.contains_key(cluster) && plan.name.as_ref().is_none_or(|planned| planned == name);
        if !wanted {
            diff.withdraw(cluster, name, work);
        } else if work.unplaced != plan.unplaced.get(cluster).copied() {
            match view.unplaced_record(name, cluster).corrected.map(|last| last.after(CORRECTION_INTERVAL)) {
                Some(recheck_at) if recheck_at > view.now => {
                    diff.recheck = Moment::earliest(diff.recheck, Some(recheck_at));
                }
                _ => diff.mark(cluster, name, work, plan.unplaced.get(cluster).copied()),
            }
        }
    }
    diff
}

/// Compares the plan for the access work of `cluster` with the work in the mirror.
#[must_use]
pub fn access(view: View<'_>, cluster: &ClusterName, plan: &WorksPlan) -> Diff {
    let mut diff = planned(view, plan, |work| matches!(work.purpose, Purpose::Access(_)));
    if let Some(name) = plan.name.as_ref().filter(|_| plan.outcomes.is_empty())
        && let Some(work) = view.work(name, cluster)
    {
        diff.withdraw(cluster, name, work);
    }
    diff
}

fn planned(view: View<'_>, plan: &WorksPlan, is_ours: impl Fn(&Work) -> bool) -> Diff {
    let mut diff = Diff::default();
    for (cluster, outcome) in &plan.outcomes {
        let Some(work) = outcome.work() else { continue };
        match view.work(&work.name, cluster) {
            None if outcome.waiting().is_some() => {}
            None => diff.actions.push(WorkAction::Create { cluster: cluster.clone(), work: work.clone() }),
            Some(found) if !is_ours(found) => diff
                .problems
                .push(Problem::ForeignWork { cluster: cluster.to_string(), name: work.name.to_string() }),
            // A work that is being deleted is created again once it is gone.
            Some(found) if found.deleting.is_some() || found.content == work.content => {}
            Some(found) => diff.actions.push(WorkAction::Update {
                cluster: cluster.clone(),
                work: work.clone(),
                uid: found.uid.clone(),
                generation: found.generation,
            }),
        }
    }
    diff
}

impl Diff {
    /// Marks a work, unless the work is also updated. The mark and the update each test the version of the work that
    /// was read. So the mark is written after the mirror shows the update.
    fn mark(&mut self, cluster: &ClusterName, name: &WorkName, work: &Work, unplaced: Option<Moment>) {
        let updated = self.actions.iter().any(|action| action.cluster() == cluster && action.name() == name);
        if !updated && work.deleting.is_none() {
            let (cluster, name, uid) = (cluster.clone(), name.clone(), work.uid.clone());
            self.actions.push(WorkAction::Mark { cluster, name, uid, unplaced });
        }
    }

    fn withdraw(&mut self, cluster: &ClusterName, name: &WorkName, work: &Work) {
        if work.deleting.is_none() {
            let (cluster, name, uid) = (cluster.clone(), name.clone(), work.uid.clone());
            self.actions.push(WorkAction::Delete { cluster, name, uid });
        }
    }
}

#[cfg(test)]
mod tests;
