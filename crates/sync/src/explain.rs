//! Why a Gateway, a policy or a resource is on a cluster or is not, in sentences, each with the objects to change.
//!
//! ```text
//! plan ─▶ outcomes ─┬─ none ─▶ which step keeps it away: class, kind, target, placement, selector
//!                   ├─ kept ─▶ why: frozen, unsettled, labels that nobody knows, a Gateway that goes first
//!                   └─ work ─▶ what its cluster says of it
//! ```
//!
//! Whether it is to be there, the plan decides; here is only told which of the plan's steps it was.

mod change;
mod eligibility;
mod explanation;
mod policy;
mod present;
mod resource;
mod selection;

use std::collections::BTreeMap;

use crate::desired::placement::{NoPlacement, Placed, placed, placement, serves_until};
use crate::desired::{Absence, Kept, Outcome, WorksPlan, plan_works};
use crate::rows::work::Work;
use crate::{Problem, Settings, View, desired, diff, status};
use policy_sync_api::annotations::{GRACE_TIMEOUT, Synced};
use policy_sync_api::cluster::PLACEMENT_LABEL;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;

pub use explanation::{Explanation, Reason, State, Step, Verdict, When};
pub use policy_sync_api::names::CLUSTER;

/// Since when the agents of which clusters are not heard of, as far as that is known.
pub type Unavailable = BTreeMap<ClusterName, Moment>;

/// Explains the Gateway or the policy `origin`, an object of the kind `kind` (`RateLimitPolicy`).
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

/// The same on `cluster` alone, where one is named.
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

/// Which objects to change for `problem` of the Gateway or the policy `origin` to end.
#[cfg(test)]
pub(crate) fn advice(
    view: View<'_>,
    settings: &Settings,
    origin: &Origin,
    kind: &str,
    problem: &Problem,
) -> Vec<String> {
    Explainer::new(view, settings, origin, kind, &Unavailable::new()).to_mend(problem)
}

/// A Gateway that decides where the object is: itself, or one that it targets.
struct Target {
    placed: Placed,
    /// Why it is not placed on a cluster where it is not.
    elsewhere: Reason,
}

struct Explainer<'v> {
    view: View<'v>,
    origin: &'v Origin,
    /// As what classes list its kind.
    role: Role,
    gateways: BTreeMap<ObjectKey, Target>,
    /// `RateLimitPolicy`.
    kind: &'v str,
    /// `RateLimitPolicy shop/limits`.
    regarding: String,
    /// The same of its copy.
    copy: String,
    plan: WorksPlan,
    /// Works of the planned name that are not ours.
    foreign: Vec<Problem>,
    entries: BTreeMap<ClusterName, Synced>,
    works: BTreeMap<&'v ClusterName, &'v Work>,
    unavailable: &'v Unavailable,
}

/// The code of a Gateway whose Placement chooses other clusters.
const NOT_PLACED: &str = "NotPlaced";

impl Target {
    fn new(view: View<'_>, key: &ObjectKey) -> Self {
        Self { placed: placed(view, key), elsewhere: elsewhere(view, key) }
    }
}

/// Why the Gateway `key` is not where it is not placed.
fn elsewhere(view: View<'_>, key: &ObjectKey) -> Reason {
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
    not_chosen(view, &placement, &format!("Gateway {key}")).change(label)
}

/// That `placement`, which places `what`, has not chosen a cluster.
fn not_chosen(view: View<'_>, placement: &ObjectKey, what: &str) -> Reason {
    let (row, decided) = (view.placement(placement), view.decided(placement).len());
    let mut text = format!("Placement {placement}, which places {what}, has not chosen it");
    if let Some(selected) = row.map(|row| row.selected).filter(|selected| *selected > decided) {
        let so_far =
            format!(" so far: it has chosen {selected} clusters, and its PlacementDecisions name {decided}");
        text.push_str(&so_far);
    }
    Reason::new(NOT_PLACED, text).change(format!("Placement {placement}"))
}

/// That there is no such cluster.
fn no_cluster() -> Reason {
    let text = "the hub has no ManagedCluster of this name";
    Reason::new("NoCluster", text).change(format!("ManagedCluster {CLUSTER}"))
}

/// That it may only seem to be placed there no longer.
fn unsettled() -> Reason {
    let text = "its Placement is being decided: that the cluster is not chosen may only seem so";
    Reason::new("Unsettled", text)
}

/// That nobody knows whether it is for the cluster.
fn unknown_labels() -> Reason {
    let text = "what is there stays as it is: the hub has no ManagedCluster of this name, and the labels that decide what \
                is there are not known";
    Reason::new("UnknownLabels", text).change(format!("ManagedCluster {CLUSTER}"))
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
            gateways: gateways.into_iter().map(|key| (key.clone(), Target::new(view, &key))).collect(),
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
    fn verdict(&self, cluster: &ClusterName, steps: &[Step]) -> Verdict {
        let (desired, mut in_sync, mut reasons) = match self.plan.outcomes.get(cluster) {
            None | Some(Outcome::Kept(Kept::Following)) => (false, false, self.absent(cluster, steps)),
            Some(Outcome::Kept(Kept::Frozen(problems))) => (true, false, self.frozen(cluster, problems)),
            Some(Outcome::Kept(Kept::Unsettled)) => (true, false, vec![unsettled()]),
            Some(Outcome::Kept(Kept::UnknownLabels)) => (true, false, vec![unknown_labels()]),
            Some(Outcome::Held(_, waiting))
                if !self.works.contains_key(cluster) && !self.is_foreign(cluster) =>
            {
                (true, false, vec![self.waits(waiting)])
            }
            Some(Outcome::Work(work) | Outcome::Held(work, _)) => {
                let (in_sync, reason) = self.present(cluster, work);
                (true, in_sync, [reason].into_iter().chain(self.share(cluster)).collect())
            }
        };
        let work = self.works.get(cluster);
        reasons.extend(self.in_grace(cluster).filter(|_| desired));
        if let Some(since) = self.unavailable.get(cluster).filter(|_| work.is_some()) {
            let reason = Reason::new("AgentSilent", "what its agent said may be over, because it is silent");
            reasons.push(reason.change(format!("the agent of cluster {CLUSTER}")).when(When::Since(*since)));
            in_sync = false;
        }
        let present = work.is_some_and(|work| {
            work.deleting.is_some() || work.answer.as_ref().is_some_and(|answer| answer.applied)
        });
        let state = State::new(desired, present, in_sync);
        let reported = self.reported(cluster).filter(|_| state != State::Absent);
        let is_unavailable = self.unavailable.contains_key(cluster) && work.is_some();
        let policy_state =
            reported.map(|state| if is_unavailable { state.on_unavailable_cluster() } else { state });
        let is_planned = self.plan.outcomes.get(cluster).is_some_and(|outcome| outcome.work().is_some());
        let is_planned = is_planned && !self.is_foreign(cluster);
        Verdict { state, policy_state, reported: reported.filter(|_| is_planned), reasons }
    }

    /// The state of a policy or a resource on `cluster`, by its last report.
    fn reported(&self, cluster: &ClusterName) -> Option<PolicyState> {
        let entry = self.entries.get(cluster).filter(|_| matches!(self.origin, Origin::Object(..)))?;
        Some(PolicyState::of_kind(self.role, entry))
    }

    /// Why it is not to be there.
    fn absent(&self, cluster: &ClusterName, steps: &[Step]) -> Vec<Reason> {
        let stops = || steps.iter().filter(|step| !step.passes).map(|step| step.reason.clone());
        let mut reasons: Vec<Reason> = match self.plan.absence(cluster) {
            Absence::Untargeted => stops().collect(),
            Absence::NotSelected => self.not_selected(cluster),
            Absence::NotNamed => self.not_named().into_iter().collect(),
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
            // Should a step be missing here, that is no reason to claim anything.
            reasons.push(Reason::new("NotPlanned", "it is not planned to be there"));
        }
        if let Some(work) = self.works.get(cluster) {
            reasons.push(match work.deleting {
                Some(since) => Reason::new("Leaving", "its agent has not finished removing it")
                    .when(When::Since(since))
                    .change(format!("the agent of cluster {CLUSTER}")),
                None if self.plan.outcomes.contains_key(cluster) => {
                    Reason::new("Leaving", "it leaves once its Gateway has left the cluster")
                        .change(format!("the agent of cluster {CLUSTER}"))
                }
                None => Reason::new("Leaving", "what is there is going to be removed"),
            });
        }
        reasons
    }

    /// Why the Gateway `key`, which is ours, is not placed on `cluster`.
    fn not_placed(&self, key: &ObjectKey, cluster: &ClusterName) -> Vec<Reason> {
        let Some(target) = self.gateways.get(key) else { return Vec::new() };
        if target.placed.deselected.contains(cluster) {
            return self.not_selected_for(key, cluster);
        }
        let reason = &target.elsewhere;
        if reason.code == NOT_PLACED && self.view.cluster(cluster).is_none() {
            return vec![no_cluster()];
        }
        vec![reason.clone()]
    }

    /// Whether a work of the planned name is there that is not ours.
    fn is_foreign(&self, cluster: &ClusterName) -> bool {
        self.foreign.iter().any(|problem| problem.is_foreign_work(cluster))
    }

    /// What freezes it.
    fn frozen(&self, cluster: &ClusterName, problems: &[Problem]) -> Vec<Reason> {
        let stays = if self.works.contains_key(cluster) {
            "it is frozen, so that what is there stays as it is"
        } else {
            "it is frozen, so that it does not get there"
        };
        let reason = |problem: &Problem| {
            let text = format!("{stays}: {}", problem.text());
            Reason::new("Frozen", text).changes(self.to_mend(problem))
        };
        problems.iter().map(reason).collect()
    }

    /// That a Gateway only serves on.
    fn in_grace(&self, cluster: &ClusterName) -> Option<Reason> {
        let placing = self.gateways.iter().filter(|(_, target)| target.placed.clusters.contains(cluster));
        let placing = placing.map(|(key, target)| (key, target.placed.unplaced.get(cluster).copied()));
        let mut last: Option<(&ObjectKey, Moment)> = None;
        for (key, since) in placing {
            // One that is chosen keeps all there.
            let until = serves_until(self.view, self.view.gateway(key)?, since?);
            last = last.filter(|(_, other)| *other >= until).or(Some((key, until)));
        }
        let (key, until) = last?;
        let text =
            format!("the cluster is no longer chosen for it: Gateway {key} only serves on there, in grace");
        let reason = Reason::new("InGrace", text).when(When::Until(until));
        let annotation = format!("Gateway {key} annotation {GRACE_TIMEOUT}");
        let placement =
            self.view.gateway(key)?.placement().map(|name| format!("Placement {}/{name}", key.namespace));
        Some(reason.changes(placement).change(annotation))
    }
}

#[cfg(test)]
mod tests;
