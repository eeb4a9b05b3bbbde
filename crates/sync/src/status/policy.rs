//! The *fold* of a policy: aggregates the reports of all clusters in annotations of the hub policy.

mod detail;
mod entry;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::contest::Contest;
use super::sync_state::SyncState;
use super::{Notice, notice, report};
use crate::desired::eligibility::{KindEligibility, of_kind};
use crate::desired::{Outcome, plan_works};
use crate::diff::{self, Diff, WorkAction};
use crate::rows::policy::PolicyFields;
use crate::rows::work::Work;
use crate::waits::Wait;
use crate::{Problem, Settings, View};
use policy_sync_api::annotations::{
    POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY, POLICY_ANNOTATIONS,
    POLICY_SYNC_MESSAGE, Summary, Synced,
};
use policy_sync_api::json::Hash;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, GroupVersionResource, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::text::join_limited;

/// The maximum size of the keys and values of this controller's annotations, in bytes.
pub const OWN_ANNOTATIONS_LIMIT: usize = 128 * 1024;
/// The maximum size of all annotations of a policy, in bytes. The API allows 256 KiB.
pub const ANNOTATIONS_LIMIT: usize = 240 * 1024;

/// The aggregated reports about a policy and the resulting change of its annotations.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldPlan {
    /// The number of clusters in each state. `None` if the policy is gone or not known yet.
    pub summary: Option<Summary>,
    /// The change to make.
    pub fold: Fold,
    /// The Events to record.
    pub notices: Vec<Notice>,
    /// The state for the metrics. `None` if the policy has no works and no problem, and targets no Gateway of this
    /// controller.
    pub sync_state: Option<SyncState>,
    /// When the fold changes because time has passed.
    pub recheck: Option<Moment>,
    /// Whether to plan the policy's works: a work no longer waits for copies of older policies, or waits for a
    /// different copy.
    pub replan_works: bool,
}

impl FoldPlan {
    pub(crate) const NOTHING: Self = Self {
        summary: None,
        fold: Fold::Settled,
        notices: Vec::new(),
        sync_state: None,
        recheck: None,
        replan_works: false,
    };
}

/// The change to make to the annotations of a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Fold {
    /// No change: the annotations are up to date, or this controller may not write them.
    Settled,
    /// Other Policy Sync controllers own some of the annotations.
    Contested {
        /// The competing controllers.
        contest: Contest,
        /// The change if this controller wins.
        ours: Box<Fold>,
        /// The change if this controller loses: it gives up its ownership of the annotations.
        theirs: Box<Fold>,
    },
    /// Set exactly these annotations of this controller.
    Write {
        /// The resource and version of the policy, for the request.
        gvr: GroupVersionResource,
        /// The `kind` of the object.
        kind: Arc<str>,
        /// The uid of the policy for which this change was planned.
        uid: Arc<str>,
        /// The annotations.
        annotations: BTreeMap<&'static str, String>,
    },
}

/// Plans the annotations of the policy `origin`.
#[must_use]
pub fn plan(view: View<'_>, settings: &Settings, origin: &Origin) -> FoldPlan {
    let (gvr, info) = match of_kind(view, origin.kind()) {
        KindEligibility::Listed(gvr, info) => (gvr, info),
        // The annotations of a frozen policy explain the problem. The annotations of a policy whose kind is not listed
        // are removed. The controller can write or remove annotations only while the kind is watched.
        KindEligibility::Frozen(..) | KindEligibility::Unlisted => {
            match view.resolved_kinds().find(|(gvr, _)| gvr.kind == *origin.kind()) {
                Some((gvr, info)) => (gvr.clone(), info.clone()),
                None => return FoldPlan::NOTHING,
            }
        }
    };
    let Some(policy) = view.policy(origin).filter(|policy| !policy.deleting) else {
        return FoldPlan::NOTHING;
    };
    let works = plan_works(view, settings, origin);
    if works.problems.iter().any(Problem::passes) {
        let sync_state = view.works_of(origin).next().is_some().then_some(SyncState::UNKNOWN);
        return FoldPlan { sync_state, recheck: works.recheck, ..FoldPlan::NOTHING };
    }
    let entries = entries(view, settings, origin, &works);
    let summary = Summary::new(&entries, |cluster| works.outcomes.contains_key(cluster));
    // No controller reports whether a resource is enforced, so missing reports are expected.
    let unknown = if view.role(origin.kind()) == Some(Role::Resource) { 0 } else { summary.unknown };
    let summary = Summary { unknown, ..summary };
    let Diff { actions, problems, .. } = diff::works(view, origin, &works);
    let waited = actions.iter().any(|action| match action {
        WorkAction::Create { cluster, .. } => {
            view.last_wait(origin, cluster).is_some() && view.rejected_since(origin, cluster).is_none()
        }
        _ => false,
    });
    let is_noted =
        |(cluster, wait): (&ClusterName, &Wait)| view.last_wait(origin, cluster).as_ref() == Some(wait);
    let replan_works = waited || !works.waits.iter().all(is_noted);
    let problems: BTreeSet<Problem> = works.problems.iter().cloned().chain(problems).collect();
    let annotations = annotations(&problems, &entries, works.targeted, &summary, policy.fields.other_bytes);
    let hashes = POLICY_ANNOTATIONS.map(|key| annotations.get(key).map(|text| Hash::of_text(text)));
    let others = &policy.fields.other_owners;
    let (is_written, is_nothing) = (hashes == policy.fields.hashes, annotations.is_empty());
    let write = |annotations| Fold::Write {
        gvr: gvr.clone(),
        kind: info.kind.clone(),
        uid: policy.uid.clone(),
        annotations,
    };
    let fold = if !info.can_patch || others.is_empty() && is_written {
        Fold::Settled
    } else if others.is_empty() {
        write(taking_over(annotations, &policy.fields))
    } else {
        let theirs = if policy.fields.owned { write(BTreeMap::new()) } else { Fold::Settled };
        if is_nothing {
            // Another controller writes the annotations of a policy that targets no Gateway of this controller.
            theirs
        } else {
            let ours = write(ours_alone(taking_over(annotations, &policy.fields), &policy.fields));
            let contest = Contest::new(view, origin, others);
            Fold::Contested { contest, ours: Box::new(ours), theirs: Box::new(theirs) }
        }
    };
    let (notices, next) = notice::of_policy(view, origin, &entries);
    let sync_state = SyncState::of_policy(&works, &entries);
    FoldPlan {
        summary: Some(summary),
        fold,
        notices,
        sync_state,
        recheck: Moment::earliest(works.recheck, next),
        replan_works,
    }
}

fn annotations(
    problems: &BTreeSet<Problem>,
    entries: &[Synced],
    targeted: bool,
    summary: &Summary,
    other_bytes: usize,
) -> BTreeMap<&'static str, String> {
    let room = OWN_ANNOTATIONS_LIMIT.min(ANNOTATIONS_LIMIT.saturating_sub(other_bytes));
    let mut annotations = BTreeMap::new();
    if !problems.is_empty() {
        annotations.insert(POLICY_SYNC_MESSAGE, join_limited(problems.iter().map(Problem::text)));
    }
    if targeted || !entries.is_empty() {
        let summary = serde_json::to_string(summary).unwrap_or_default();
        let keys = [POLICIES_SYNCED, POLICIES_SYNCED_DETAIL, POLICIES_SYNCED_SUMMARY].map(str::len);
        let taken = bytes(&annotations) + keys.iter().sum::<usize>() + summary.len();
        let entries: Vec<_> = entries.iter().map(detail::cut_to_limit).collect();
        let (detail, text) = detail::fit(&entries, room.saturating_sub(taken));
        annotations.insert(POLICIES_SYNCED, text);
        annotations.insert(POLICIES_SYNCED_DETAIL, detail);
        annotations.insert(POLICIES_SYNCED_SUMMARY, summary);
    }
    // If other annotations leave too little room, omit this controller's annotations. Otherwise the API server would
    // reject every write.
    if bytes(&annotations) > room {
        annotations.retain(|key, _| *key == POLICY_SYNC_MESSAGE);
    }
    if bytes(&annotations) > room {
        annotations.clear();
    }
    annotations
}

/// Prepares the removal of annotations that another owner also owns. Omitting such an annotation from an apply would
/// not remove the annotation. So this write changes the annotation's value, which makes this controller the only owner.
/// The next write omits the annotation.
fn taking_over(
    mut annotations: BTreeMap<&'static str, String>,
    found: &PolicyFields,
) -> BTreeMap<&'static str, String> {
    for ((key, hash), shared) in POLICY_ANNOTATIONS.iter().zip(found.hashes).zip(found.shared) {
        if let Some(hash) = hash.filter(|_| shared && !annotations.contains_key(key)) {
            let text = if hash == Hash::of_text("") { "-" } else { "" };
            annotations.insert(key, text.to_owned());
        }
    }
    annotations
}

/// Takes sole ownership of annotations that another controller owns with the same text. A trailing space makes the text
/// different. The next write removes the space.
fn ours_alone(
    mut annotations: BTreeMap<&'static str, String>,
    found: &PolicyFields,
) -> BTreeMap<&'static str, String> {
    for ((key, hash), shared) in POLICY_ANNOTATIONS.iter().zip(found.hashes).zip(found.shared) {
        if let Some(text) = annotations.get_mut(key).filter(|_| shared)
            && hash == Some(Hash::of_text(text))
        {
            text.push(' ');
        }
    }
    annotations
}

fn bytes(annotations: &BTreeMap<&'static str, String>) -> usize {
    annotations.iter().map(|(key, text)| key.len() + text.len()).sum()
}

/// The entries of all clusters for the policy or Gateway `origin`, sorted by cluster.
pub(crate) fn entries(
    view: View<'_>,
    settings: &Settings,
    origin: &Origin,
    works: &crate::desired::WorksPlan,
) -> Vec<Synced> {
    let mut clusters: BTreeMap<&ClusterName, Option<_>> =
        works.outcomes.keys().map(|cluster| (cluster, None)).collect();
    for (_, cluster, work) in view.works_of(origin) {
        clusters.insert(cluster, Some(work));
    }
    let copy = entry::CopyName {
        name: origin.object().name.to_string(),
        namespace: settings.prefixed(&origin.object().namespace),
    };
    clusters
        .into_iter()
        .map(|(cluster, work)| {
            let outcome = works.outcomes.get(cluster);
            let expected = work.and_then(|work| report::expected(outcome, work));
            let entry = entry::synced(cluster, &copy, expected, work);
            Synced {
                frozen: outcome.and_then(Outcome::frozen).map(str::to_owned),
                // A planned copy is created again once its old work is gone.
                pending: entry.pending || entry.deleting && outcome.is_some(),
                ..entry
            }
        })
        .collect()
}

/// The report of `cluster` on the copy `name` in `work`, whether or not the work is as planned.
#[must_use]
pub fn entry_of_work(cluster: &ClusterName, name: String, work: &Work) -> Synced {
    let copy = entry::CopyName { name, namespace: String::new() };
    entry::synced(cluster, &copy, work.revision.as_deref(), Some(work))
}

#[cfg(test)]
mod tests;
