//! The difference between the plan and the mirror: what has to be written.

use std::sync::Arc;
use std::time::Duration;

use super::Problem;
use super::desired::{PlannedWork, WorksPlan};
use crate::View;
use crate::rows::work::{Purpose, Work};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, Origin, WorkName};

/// Within this time a moment that its spoke rewrites is put right once.
const SELDOM: Duration = Duration::from_secs(60);

/// Something to write about one work.
#[derive(Clone, Debug)]
pub enum WorkAction {
    /// It is missing.
    Create {
        /// Where.
        cluster: ClusterName,
        /// What.
        work: Arc<PlannedWork>,
    },
    /// It holds something else.
    Update {
        /// Where.
        cluster: ClusterName,
        /// What it should hold.
        work: Arc<PlannedWork>,
        /// The work that was seen.
        uid: Arc<str>,
        /// The generation that was seen.
        generation: i64,
    },
    /// Its cluster is no longer chosen, or chosen again.
    Mark {
        /// Where.
        cluster: ClusterName,
        /// Its name.
        name: WorkName,
        /// The work that was seen.
        uid: Arc<str>,
        /// Since when its cluster is not chosen, `None` where it is.
        unplaced: Option<Moment>,
    },
    /// It should not be there.
    Delete {
        /// Where.
        cluster: ClusterName,
        /// Its name.
        name: WorkName,
        /// The work that was seen.
        uid: Arc<str>,
    },
}

impl WorkAction {
    /// The cluster of the work.
    #[must_use]
    pub fn cluster(&self) -> &ClusterName {
        match self {
            Self::Create { cluster, .. }
            | Self::Update { cluster, .. }
            | Self::Mark { cluster, .. }
            | Self::Delete { cluster, .. } => cluster,
        }
    }

    /// The name of the work.
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

    /// The uid of the work that it deletes.
    #[must_use]
    pub fn deletes(&self) -> Option<&Arc<str>> {
        match self {
            Self::Delete { uid, .. } => Some(uid),
            Self::Create { .. } | Self::Update { .. } | Self::Mark { .. } => None,
        }
    }

    /// How many bytes the manifests have that it sends.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.work().map_or(0, |work| work.bytes)
    }

    /// Whether what it sends is held, so that it takes no time to make.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.work().is_none_or(|work| work.is_held())
    }

    fn work(&self) -> Option<&PlannedWork> {
        match self {
            Self::Create { work, .. } | Self::Update { work, .. } => Some(work),
            Self::Mark { .. } | Self::Delete { .. } => None,
        }
    }

    /// `create`, `update`, `mark` or `delete`.
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

/// What has to be written for a plan to hold.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The writes.
    pub actions: Vec<WorkAction>,
    /// Works of the planned name that are not ours, and so are left alone.
    pub problems: Vec<Problem>,
    /// When there is more to write, whatever happens.
    pub recheck: Option<Moment>,
}

/// Compares the plan for `origin` with the works that are there.
#[must_use]
pub fn works(view: View<'_>, origin: &Origin, plan: &WorksPlan) -> Diff {
    let mut diff = planned(view, plan, |work| work.origin().is_some_and(|found| **found == *origin));
    for (name, cluster, work) in view.works_of(origin) {
        let wanted =
            plan.outcomes.contains_key(cluster) && plan.name.as_ref().is_none_or(|planned| planned == name);
        if !wanted {
            diff.withdraw(cluster, name, work);
        } else if work.unplaced != plan.unplaced.get(cluster).copied() {
            match view.displacement(name, cluster).put_right.map(|last| last.after(SELDOM)) {
                Some(again) if again > view.now => diff.recheck = Moment::earliest(diff.recheck, Some(again)),
                _ => diff.mark(cluster, name, work, plan.unplaced.get(cluster).copied()),
            }
        }
    }
    diff
}

/// Compares the plan for the access work of `cluster` with the one that is there.
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
            // One that is being deleted is created anew once it is gone.
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
    /// What is to be updated as well is marked once that is seen: each tests what it has read.
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
