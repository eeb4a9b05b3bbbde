//! Explains why a Gateway, a policy or a resource is or is not on a cluster, and names the objects to change.
//!
//! ```text
//! plan ─▶ outcomes ─┬─ none ─▶ which step keeps it away: class, kind, target, placement, selector
//!                   ├─ kept ─▶ why: frozen, unsettled, unknown labels, a Gateway that is removed first
//!                   └─ work ─▶ the report of its cluster
//! ```
//!
//! The plan decides whether the object belongs on a cluster. This module only reports which step of the plan was
//! decisive.

mod change;
mod eligibility;
mod explanation;
mod policy;
mod present;
mod resource;
mod selection;

use std::collections::BTreeMap;

use crate::desired::placement::{NoPlacement, Placed, placed, placement, serves_until};
use crate::desired::{Absence, KeepReason, Outcome, WorksPlan, plan_works};
use crate::rows::work::Work;
use crate::{Problem, Settings, View, desired, diff, status};
use policy_sync_api::annotations::{GRACE_TIMEOUT, Synced};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;

pub use explanation::{ClusterVerdict, CopyState, DecisionStep, Explanation, Reason, TimeBound};
pub use policy_sync_api::names::CLUSTER_PLACEHOLDER;

/// The clusters whose agents no longer report, each with the moment of the last report, if known.
pub type Unavailable = BTreeMap<ClusterName, Moment>;

/// Explains the Gateway or the policy `origin` on all clusters. `kind` is the kind of the object, such as
/// `RateLimitPolicy`.
#[must_use]
pub fn explain(
    view: View<'_>,
    settings: &Settings,
    origin: &Origin,
    kind: &str,
    unavailable: &Unavailable,
) -> Explanation {
    explain_on(view, settings, (origin, kind), unavailable, None)
}

/// Explains the object on the named cluster, or on all clusters if no cluster is named.
#[must_use]
pub fn explain_on(
    view: View<'_>,
    settings: &Settings,
    (origin, kind): (&Origin, &str),
    unavailable: &Unavailable,
    cluster: Option<&ClusterName>,
) -> Explanation {
    let explainer = Explainer::new(view, settings, origin, kind, unavailable);
    let steps = match origin {
        Origin::Gateway(key) => explainer.gateway_steps(key),
        Origin::Object(..) => match explainer.role {
            Role::Policy => explainer.policy_steps(),
            Role::Resource => explainer.resource_steps(),
        },
    };
    let known = view.clusters().map(|(name, _)| name);
    let clusters = known.chain(explainer.entries.keys().cloned());
    let clusters = clusters.filter(|found| cluster.is_none_or(|cluster| cluster == found));
    let clusters = clusters.map(|cluster| (cluster.clone(), explainer.verdict(&cluster, &steps))).collect();
    Explanation { steps, clusters }
}

/// The objects to change so that the problem `problem` of `origin` is solved.
#[cfg(test)]
pub(crate) fn advice(
    view: View<'_>,
    settings: &Settings,
    origin: &Origin,
    kind: &str,
    problem: &Problem,
) -> Vec<String> {
    Explainer::new(view, settings, origin, kind, &Unavailable::new()).changes_to_resolve(problem)
}

/// A Gateway that decides on which clusters the object is: the object itself or a Gateway that it targets.
struct GatewayPlacement {
    placed: Placed,
    /// Why the Gateway is not placed on clusters that its Placement does not select.
    not_selected: Reason,
}

struct Explainer<'v> {
    view: View<'v>,
    origin: &'v Origin,
    /// The role in which classes list the object's kind.
    role: Role,
    gateways: BTreeMap<ObjectKey, GatewayPlacement>,
    /// The object's kind, such as `RateLimitPolicy`.
    kind: &'v str,
    /// Kind and key, such as `RateLimitPolicy shop/limits`.
    regarding: String,
    /// Kind and key of the object's copy on the spokes.
    copy: String,
    plan: WorksPlan,
    /// Works that have the planned name but do not belong to this controller.
    foreign: Vec<Problem>,
    entries: BTreeMap<ClusterName, Synced>,
    works: BTreeMap<&'v ClusterName, &'v Work>,
    unavailable: &'v Unavailable,
}

/// The code of the reason if the Placement of a Gateway does not select the cluster.
const NOT_PLACED: &str = "NotPlaced";

impl GatewayPlacement {
    fn new(view: View<'_>, key: &ObjectKey) -> Self {
        Self { placed: placed(view, key), not_selected: not_selected(view, key) }
    }
}

/// The reason why the Gateway `key` is missing on a cluster that its Placement does not select.
fn not_selected(view: View<'_>, key: &ObjectKey) -> Reason {
    let label = format!("Gateway {key} label {PLACEMENT_LABEL}");
    let placement = match placement(view, key) {
        Ok(placement) => placement,
        Err(unplaced) => {
            let reason = Reason::new("NoPlacement", format!("Gateway {key} {unplaced}"));
            let missing = match unplaced {
                NoPlacement::Missing(placement) => Some(format!("Placement {placement}")),
                NoPlacement::Unlabelled | NoPlacement::Unnamed => None,
            };
            return missing.into_iter().fold(reason, Reason::change).change(label);
        }
    };
    not_selected_by(view, &placement, &format!("Gateway {key}")).change(label)
}

/// The reason that `placement`, which places `what`, has not selected a cluster.
fn not_selected_by(view: View<'_>, placement: &ObjectKey, what: &str) -> Reason {
    let (row, decided) = (view.placement(placement), view.decided(placement).len());
    let mut text = format!("Placement {placement}, which places {what}, has not selected the cluster");
    if let Some(selected) = row.map(|row| row.selected).filter(|selected| *selected > decided) {
        let so_far = format!(
            " so far: it has selected {selected} clusters, but its PlacementDecisions list {decided}"
        );
        text.push_str(&so_far);
    }
    Reason::new(NOT_PLACED, text).change(format!("Placement {placement}"))
}

/// The reason that the hub has no such ManagedCluster.
fn no_cluster() -> Reason {
    let text = "the hub has no ManagedCluster of this name";
    Reason::new("NoCluster", text).change(format!("ManagedCluster {CLUSTER_PLACEHOLDER}"))
}

/// The reason that a Placement has not settled: it may select the cluster again.
fn unsettled() -> Reason {
    let text = "its Placement has changed recently, and may still select the cluster";
    Reason::new("Unsettled", text)
}

/// The reason that the labels of the cluster are unknown, so that no selector can be evaluated.
fn unknown_labels() -> Reason {
    let text = "its copy is left unchanged: the hub has no ManagedCluster of this name, so the labels \
                that select the copy are unknown";
    Reason::new("UnknownLabels", text).change(format!("ManagedCluster {CLUSTER_PLACEHOLDER}"))
}

impl<'v> Explainer<'v> {
    fn new(
        view: View<'v>,
        settings: &Settings,
        origin: &'v Origin,
        kind: &'v str,
        unavailable: &'v Unavailable,
    ) -> Self {
        let plan = plan_works(view, settings, origin);
        let gateways = match origin {
            Origin::Gateway(key) => [key.clone()].into(),
            Origin::Object(..) => desired::policy::gateways(view, origin),
        };
        Self {
            view,
            origin,
            role: view.role(origin.kind()).unwrap_or(Role::Policy),
            gateways: gateways
                .into_iter()
                .map(|key| (key.clone(), GatewayPlacement::new(view, &key)))
                .collect(),
            kind,
            regarding: format!("{kind} {}", origin.object()),
            copy: format!(
                "{kind} {}/{}",
                settings.prefixed(&origin.object().namespace),
                &origin.object().name
            ),
            foreign: diff::works(view, origin, &plan).problems,
            entries: status::policy::entries(view, settings, origin, &plan)
                .into_iter()
                .map(|entry| (entry.cluster.clone(), entry))
                .collect(),
            works: view.works_of(origin).map(|(_, cluster, work)| (cluster, work)).collect(),
            plan,
            unavailable,
        }
    }
}

impl Explainer<'_> {
    fn verdict(&self, cluster: &ClusterName, steps: &[DecisionStep]) -> ClusterVerdict {
        let (desired, mut in_sync, mut reasons) = match self.plan.outcomes.get(cluster) {
            None | Some(Outcome::Kept(KeepReason::Following)) => (false, false, self.absent(cluster, steps)),
            Some(Outcome::Kept(KeepReason::Frozen(problems))) => {
                (true, false, self.frozen(cluster, problems))
            }
            Some(Outcome::Kept(KeepReason::Unsettled)) => (true, false, vec![unsettled()]),
            Some(Outcome::Kept(KeepReason::UnknownLabels)) => (true, false, vec![unknown_labels()]),
            Some(Outcome::Deferred(_, waiting))
                if !self.works.contains_key(cluster) && !self.is_foreign(cluster) =>
            {
                (true, false, vec![self.waits(waiting)])
            }
            Some(Outcome::Work(work) | Outcome::Deferred(work, _)) => {
                let (in_sync, reason) = self.present(cluster, work);
                (true, in_sync, [reason].into_iter().chain(self.share(cluster)).collect())
            }
        };
        let work = self.works.get(cluster);
        reasons.extend(self.in_grace(cluster).filter(|_| desired));
        if let Some(since) = self.unavailable.get(cluster).filter(|_| work.is_some()) {
            let reason = Reason::new(
                "AgentSilent",
                "the last report of its agent may be outdated, because the cluster is not available",
            );
            reasons.push(
                reason
                    .change(format!("the agent of cluster {CLUSTER_PLACEHOLDER}"))
                    .when(TimeBound::Since(*since)),
            );
            in_sync = false;
        }
        let present = work.is_some_and(|work| {
            work.deleting.is_some() || work.report.as_ref().is_some_and(|report| report.applied)
        });
        let state = CopyState::new(desired, present, in_sync);
        let reported = self.reported(cluster).filter(|_| state != CopyState::Absent);
        let is_unavailable = self.unavailable.contains_key(cluster) && work.is_some();
        let policy_state =
            reported.map(|state| if is_unavailable { state.on_unavailable_cluster() } else { state });
        let is_planned = self.plan.outcomes.get(cluster).is_some_and(|outcome| outcome.work().is_some());
        let is_planned = is_planned && !self.is_foreign(cluster);
        ClusterVerdict { state, policy_state, reported: reported.filter(|_| is_planned), reasons }
    }

    /// The state of a policy or a resource on `cluster`, from its latest report.
    fn reported(&self, cluster: &ClusterName) -> Option<PolicyState> {
        let entry = self.entries.get(cluster).filter(|_| matches!(self.origin, Origin::Object(..)))?;
        Some(PolicyState::of_kind(self.role, entry))
    }

    /// The reasons why the object is not planned for `cluster`.
    fn absent(&self, cluster: &ClusterName, steps: &[DecisionStep]) -> Vec<Reason> {
        let stops = || steps.iter().filter(|step| !step.passes).map(|step| step.reason.clone());
        let mut reasons: Vec<Reason> = match self.plan.absence(cluster) {
            Absence::Untargeted => stops().collect(),
            Absence::NotSelected => self.not_selected(cluster),
            Absence::NotInPreferences => self.not_named().into_iter().collect(),
            Absence::NotPlaced => match (self.origin, self.role) {
                (Origin::Gateway(key), _) => self.not_placed(key, cluster),
                (Origin::Object(..), Role::Policy) => self.targets_not_placed(cluster),
                (Origin::Object(..), Role::Resource) => self.resource_not_placed(cluster),
            },
        };
        if reasons.is_empty() {
            reasons.extend(stops());
        }
        if reasons.is_empty() {
            // If no step explains why the object is absent, the only reason is that it is not planned.
            reasons.push(Reason::new("NotPlanned", "it is not planned for this cluster"));
        }
        if let Some(work) = self.works.get(cluster) {
            reasons.push(match work.deleting {
                Some(since) => Reason::new("Leaving", "its agent has not finished removing it")
                    .when(TimeBound::Since(since))
                    .change(format!("the agent of cluster {CLUSTER_PLACEHOLDER}")),
                None if self.plan.outcomes.contains_key(cluster) => {
                    Reason::new("Leaving", "it is deleted once its Gateway is deleted from the cluster")
                        .change(format!("the agent of cluster {CLUSTER_PLACEHOLDER}"))
                }
                None => Reason::new("Leaving", "its copy is going to be deleted"),
            });
        }
        reasons
    }

    /// The reasons why the Gateway `key`, which belongs to this controller, is not placed on `cluster`.
    fn not_placed(&self, key: &ObjectKey, cluster: &ClusterName) -> Vec<Reason> {
        let Some(target) = self.gateways.get(key) else { return Vec::new() };
        if target.placed.deselected.contains(cluster) {
            return self.not_selected_for(key, cluster);
        }
        let reason = &target.not_selected;
        if reason.code == NOT_PLACED && self.view.cluster(cluster).is_none() {
            return vec![no_cluster()];
        }
        vec![reason.clone()]
    }

    /// Whether a work of another owner has the planned name in `cluster`.
    fn is_foreign(&self, cluster: &ClusterName) -> bool {
        self.foreign.iter().any(|problem| problem.is_foreign_work(cluster))
    }

    /// The reasons why the object is frozen.
    fn frozen(&self, cluster: &ClusterName, problems: &[Problem]) -> Vec<Reason> {
        let stays = if self.works.contains_key(cluster) {
            "it is frozen, and its copy is left unchanged"
        } else {
            "it is frozen, and is not copied there"
        };
        let reason = |problem: &Problem| {
            let text = format!("{stays}: {}", problem.text());
            Reason::new("Frozen", text).changes(self.changes_to_resolve(problem))
        };
        problems.iter().map(reason).collect()
    }

    /// The reason that the object is on `cluster` only for the grace period of a Gateway. Names the Gateway whose
    /// period ends last.
    fn in_grace(&self, cluster: &ClusterName) -> Option<Reason> {
        let placing = self.gateways.iter().filter(|(_, target)| target.placed.clusters.contains(cluster));
        let placing = placing.map(|(key, target)| (key, target.placed.unplaced.get(cluster).copied()));
        let mut last: Option<(&ObjectKey, Moment)> = None;
        for (key, since) in placing {
            // If the Placement of a Gateway selects the cluster, the object stays without limit. Then `?` ends the
            // search.
            let until = serves_until(self.view, self.view.gateway(key)?, since?);
            last = last.filter(|(_, other)| *other >= until).or(Some((key, until)));
        }
        let (key, until) = last?;
        let text =
            format!("the cluster is no longer selected: Gateway {key} is kept there for its grace period");
        let reason = Reason::new("InGrace", text).when(TimeBound::Until(until));
        let annotation = format!("Gateway {key} annotation {GRACE_TIMEOUT}");
        let placement =
            self.view.gateway(key)?.placement().map(|name| format!("Placement {}/{name}", key.namespace));
        Some(reason.changes(placement).change(annotation))
    }
}

#[cfg(test)]
mod tests;
