//! Plans the works of all objects, and compares them with the works of the snapshot.

use std::collections::BTreeSet;

use serde_json::Value;

use super::change::Change;
use super::diagnostic::Diagnostic;
use super::snapshot::HubSnapshot;
use super::{PlanError, keys, regarding};
use crate::desired::{PlannedWork, WaitReason, WorksPlan, access, plan_works};
use crate::diff::{self, WorkAction};
use crate::rows::work::Content;
use crate::{Key, OfflineMirror, PLACEMENT_SETTLE_TIME, Problem, Settings, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin, WorkName};
use policy_sync_api::object::HubObject;

/// An action on a work, with the event that the controller would wait for.
pub(super) struct DelayedAction {
    action: WorkAction,
    waits: Option<String>,
}

/// The actions on the works of all Gateways and policies.
pub(super) fn works(
    hub: &HubSnapshot,
    settings: &Settings,
    now: Moment,
) -> (Vec<DelayedAction>, Vec<Diagnostic>) {
    let (mut actions, mut diagnostics) = (Vec::new(), Vec::new());
    let guard = hub.mirror.read();
    let unsettled = guard.view(OfflineMirror::unsettled());
    keys(hub, now, |view, key| {
        let Key::Works(origin) = key else { return };
        let plan = plan_works(view, settings, origin);
        let diff = diff::works(view, origin, &plan);
        diagnostics.extend(plan_diagnostics(view, origin, &plan, &diff.problems));
        let at_once: Vec<_> = if diff.actions.is_empty() {
            Vec::new()
        } else {
            let plan = plan_works(unsettled, settings, origin);
            let diff = diff::works(unsettled, origin, &plan);
            // In the view `unsettled`, no wait for other works has ended. Creates that wait only for other works count
            // as immediate, because they do not wait for a Placement.
            let deferred = deferred(unsettled, &plan).map(|deferred| result(&deferred.action));
            diff.actions.iter().map(result).chain(deferred).collect()
        };
        actions.extend(diff.actions.into_iter().map(|action| {
            let waits = (!at_once.contains(&result(&action))).then(|| {
                format!("once its Placement has not changed for {} s", PLACEMENT_SETTLE_TIME.as_secs())
            });
            DelayedAction { action, waits }
        }));
        actions.extend(recreated(view, origin, &plan));
        actions.extend(deferred(view, &plan));
    });
    (actions, diagnostics)
}

/// The result of an action, by which two actions are compared: cluster, name and content.
fn result(action: &WorkAction) -> (ClusterName, WorkName, Option<Content>) {
    let content = match action {
        WorkAction::Create { work, .. } | WorkAction::Update { work, .. } => Some(work.content),
        WorkAction::Mark { .. } | WorkAction::Delete { .. } => None,
    };
    (action.cluster().clone(), action.name().clone(), content)
}

/// The creates of planned works whose predecessors are still being deleted.
fn recreated<'p>(
    view: View<'p>,
    origin: &'p Origin,
    plan: &'p WorksPlan,
) -> impl Iterator<Item = DelayedAction> + 'p {
    plan.outcomes.iter().filter_map(move |(cluster, outcome)| {
        let work = outcome.work()?;
        let hub = view.work(&work.name, cluster)?;
        let is_deleting = hub.deleting.is_some() && hub.origin().is_some_and(|hub| **hub == *origin);
        is_deleting.then(|| DelayedAction {
            action: WorkAction::Create { cluster: cluster.clone(), work: work.clone() },
            waits: Some("once the deletion of the existing work completes".to_owned()),
        })
    })
}

/// The creates of works that wait for other works.
fn deferred<'p>(view: View<'p>, plan: &'p WorksPlan) -> impl Iterator<Item = DelayedAction> + 'p {
    plan.outcomes.iter().filter_map(move |(cluster, outcome)| {
        let (work, waiting) = (outcome.work()?, outcome.waiting()?);
        let waits = match waiting {
            WaitReason::Policies(_) => {
                "once its policies are applied there, or the wait times out".to_owned()
            }
            WaitReason::Older(policy) => {
                format!("once the copy of {policy} exists there, or the wait times out")
            }
        };
        view.work(&work.name, cluster).is_none().then(|| DelayedAction {
            action: WorkAction::Create { cluster: cluster.clone(), work: work.clone() },
            waits: Some(waits),
        })
    })
}

/// The diagnostics about `origin`.
fn plan_diagnostics(
    view: View<'_>,
    origin: &Origin,
    plan: &WorksPlan,
    others: &[Problem],
) -> Vec<Diagnostic> {
    let regarding = regarding(view, origin);
    let diagnostic = |problem: &Problem| {
        let text = problem.text();
        if problem.freezes() { regarding.error(text) } else { regarding.warning(text) }
    };
    let problems: BTreeSet<&Problem> = plan.problems.iter().chain(others).collect();
    let waiting =
        origin.as_gateway().filter(|_| plan.targeted).and_then(|key| incomplete(view, key)).map(|text| {
            regarding.warning(format!("{text}: until these are complete, no copies are deleted"))
        });
    problems.into_iter().map(diagnostic).chain(waiting).collect()
}

/// The actions on access works, planned as if all other works had been written.
pub(super) fn access_works(hub: &HubSnapshot, now: Moment) -> Vec<DelayedAction> {
    let mut actions = Vec::new();
    keys(hub, now, |view, key| {
        let Key::Access(cluster) = key else { return };
        let diff = diff::access(view, cluster, &access::plan(view, cluster));
        actions.extend(diff.actions.into_iter().map(|action| {
            let last = matches!(action, WorkAction::Delete { .. });
            DelayedAction {
                action,
                waits: last.then(|| "once all other works of the cluster are deleted".to_owned()),
            }
        }));
    });
    actions
}

impl HubSnapshot {
    /// Applies `actions` to the works of the snapshot, and returns the changes. Works that would be created later are
    /// not added.
    pub(super) fn apply(&mut self, actions: Vec<DelayedAction>) -> Result<Vec<Change>, PlanError> {
        let mut changes = Vec::new();
        for DelayedAction { action, waits } in actions {
            let place = (action.cluster().clone(), action.name().clone());
            let key = ObjectKey { namespace: place.0.0.clone(), name: place.1.0.clone() };
            let before = self.works.get(&place);
            let object = |work: &PlannedWork| work.object(&place.0.0).map_err(PlanError::NotBuilt);
            let change = match &action {
                WorkAction::Create { work, .. } => Change::of_work(key, None, Some(object(work)?)),
                WorkAction::Update { work, .. } => Change::of_work(key, before, Some(object(work)?)),
                WorkAction::Mark { unplaced, .. } => {
                    let work = before.ok_or(PlanError::Missing)?;
                    Change::of_mark(key, work, *unplaced)
                }
                WorkAction::Delete { .. } => Change::of_work(key, before, None),
            };
            let later = before.is_some() && matches!(action, WorkAction::Create { .. });
            if change.after.is_null() {
                self.works.remove(&place);
            } else if !later {
                let work = written(&change.after, before)?;
                self.works.insert(place, work);
            }
            changes.push(change.waiting(waits));
        }
        Ok(changes)
    }
}

/// The work `after` as the hub would return it after it replaced `before`. The report of the agent is then for an
/// earlier generation.
fn written(after: &Value, before: Option<&HubObject>) -> Result<HubObject, PlanError> {
    let mut work: HubObject = serde_json::from_value(after.clone()).map_err(PlanError::Unreadable)?;
    if let Some(before) = before {
        work.metadata.uid.clone_from(&before.metadata.uid);
        work.metadata.creation_timestamp.clone_from(&before.metadata.creation_timestamp);
        work.metadata.generation = before.metadata.generation + 1;
        work.status.clone_from(&before.status);
    }
    Ok(work)
}

/// Describes the Placement of `gateway` if it has selected more clusters than its decisions contain. `None` if the
/// decisions are complete.
#[must_use]
pub fn incomplete(view: View<'_>, gateway: &ObjectKey) -> Option<String> {
    let placement = ObjectKey::new(&gateway.namespace, view.gateway(gateway)?.placement()?);
    let (selected, decided) = (view.placement(&placement)?.selected, view.decided(&placement).len());
    (decided < selected).then(|| {
        format!("Placement {placement} has selected {selected} clusters, but its PlacementDecisions list {decided}")
    })
}
