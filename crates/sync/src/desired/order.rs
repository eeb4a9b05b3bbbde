//! Orders creations and deletions so that no Gateway serves without its policies. On a cluster, a Gateway is created
//! after its policies and deleted before them.
//!
//! ```text
//! create: policies' works ─┬▶ all applied ─────────────────────────────▶ Gateway's work
//!                          ╰▶ no progress for policyWaitSeconds ──▶ hold: wait on │ serve: Gateway's work
//! delete: Gateway's work ──▶ deleted, or terminating for policyWaitSeconds ──▶ policies' works
//! ```
//!
//! The policies make progress when one of their works is created, applied or rejected. If there is no progress for
//! `policyWaitSeconds`, the class decides between `hold` and `serve` (`policyWaitAction`).
//!
//! Only creations and deletions of works wait. Changes of works never wait. Waits are measured from times in the works,
//! so that a restart neither shortens nor extends them. If the hub rejects a creation, the wait is measured from the
//! first rejection in this process. Each wait is limited, except the wait for a work that is about to be created. If a
//! policy waits for copies of older policies (`age`), its Gateway waits at least until that wait ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::age::{OlderPolicyCache, Unfinished};
use super::eligibility::{GatewayEligibility, of_gateway, of_target};
use super::placement::placed;
use super::policy::ahead::{self, LOCKED_BUILD_LIMIT};
use super::{FollowedGateways, KeepReason, Outcome, WorksPlan, policy};
use crate::kinds::{POLICIES, WORKS};
use crate::rows::kind::Resolution;
use crate::rows::policy::Policy;
use crate::rows::work::Content;
use crate::{Problem, Settings, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey, Origin, WorkName};
use policy_sync_api::params::{Params, PolicyWaitAction, Role};
use policy_sync_api::text::join_limited;

/// The reason why a work is not created on a cluster yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// A Gateway waits for its policies.
    Policies(PendingPolicies),
    /// A policy waits for the copy of another policy, which has the same target and is older on the hub.
    Older(ObjectKey),
}

/// The policies that a Gateway waits for on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPolicies {
    /// The policies that are not applied on the cluster.
    pub policies: BTreeSet<Origin>,
    /// Kinds that cannot be listed. Policies of these kinds may target the Gateway.
    pub unlisted: BTreeSet<GroupResource>,
    /// Whether the policies have made no progress for the maximum time that the class allows.
    pub overdue: bool,
}

impl WaitReason {
    /// The reason as text, for messages.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Policies(awaited) => awaited.text(),
            Self::Older(policy) => {
                format!("waits for the copy of policy {policy}, which has the same target and is older")
            }
        }
    }

    /// Whether a Gateway has waited for its policies for as long as its class allows.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        matches!(self, Self::Policies(PendingPolicies { overdue: true, .. }))
    }
}

impl PendingPolicies {
    fn text(&self) -> String {
        let name = |policy: &Origin| format!("{}/{}", policy.kind().resource, policy.object().name);
        let policies = self.policies.iter().map(name);
        let lists = self.unlisted.iter().map(|kind| format!("the list of {kind}"));
        let all: Vec<String> = lists.chain(policies).collect();
        format!("waits for its policies: {}", join_limited(all.into_iter()))
    }
}

/// Delays the creation of works of the Gateway `key` on clusters where it must wait for its policies.
pub(super) fn wait(view: View<'_>, settings: &Settings, key: &ObjectKey, plan: &mut WorksPlan) {
    let GatewayEligibility::Ours(params) = of_gateway(view, key) else { return };
    let missing = missing(view, plan);
    if missing.is_empty() {
        return;
    }
    let wait = Duration::from_secs(params.policy_wait_seconds.into());
    let (policies, unlisted) = policies(view, settings, key, &params);
    // Shortly after a start, the Gateway waits until the kinds of its policies are listed. A kind whose list fails is
    // handled below, like a policy that is not applied.
    let started = view.synced(&WORKS.all()).unwrap_or_default().after(wait);
    let unread = unlisted.iter().find(|kind| !is_failing(view, kind) && started > view.now);
    if let Some(kind) = unread {
        plan.problems.push(Problem::Unread(kind.to_string()));
        plan.recheck = Moment::earliest(plan.recheck, Some(started));
        missing
            .iter()
            .for_each(|cluster| defer(plan, cluster, WaitReason::Policies(PendingPolicies::default())));
        return;
    }
    let mut ages = OlderPolicyCache::new(view);
    for cluster in missing {
        let UnappliedPolicies { policies, creating, latest, older_wait_end } =
            UnappliedPolicies::on(view, &mut ages, &cluster, &policies);
        if policies.is_empty() && unlisted.is_empty() {
            continue;
        }
        let ends = (!creating).then(|| latest.after(wait).max(older_wait_end));
        let overdue = ends.is_some_and(|ends| ends <= view.now);
        if overdue && params.policy_wait_action == PolicyWaitAction::Serve {
            continue;
        }
        if !overdue {
            plan.recheck = Moment::earliest(plan.recheck, ends);
        }
        let awaited = PendingPolicies { policies, unlisted: unlisted.clone(), overdue };
        defer(plan, &cluster, WaitReason::Policies(awaited));
    }
    if plan.is_overdue() {
        plan.problems.push(Problem::PoliciesPending);
    }
}

/// The clusters where a planned work does not exist, or is being deleted.
pub(super) fn missing(view: View<'_>, plan: &WorksPlan) -> Vec<ClusterName> {
    let comes = |(cluster, outcome): (&ClusterName, &Outcome)| {
        let existing = view.work(&outcome.work()?.name, cluster).filter(|work| work.deleting.is_none());
        existing.is_none().then(|| cluster.clone())
    };
    plan.outcomes.iter().filter_map(comes).collect()
}

pub(super) fn defer(plan: &mut WorksPlan, cluster: &ClusterName, waiting: WaitReason) {
    if let Some(outcome) = plan.outcomes.get_mut(cluster)
        && let Some(work) = outcome.work().cloned()
    {
        *outcome = Outcome::Deferred(work, waiting);
    }
}

/// The policies of a Gateway that one cluster has not applied.
#[derive(Default)]
struct UnappliedPolicies {
    policies: BTreeSet<Origin>,
    /// Whether a work of one of these policies is about to be created.
    creating: bool,
    /// When a policy of the Gateway was last created, applied or rejected on the cluster.
    latest: Moment,
    /// The end of the last wait of a policy for copies of older policies. Then the policy's work is created.
    older_wait_end: Moment,
}

impl UnappliedPolicies {
    fn on(
        view: View<'_>,
        ages: &mut OlderPolicyCache<'_>,
        cluster: &ClusterName,
        policies: &BTreeMap<Origin, ExpectedWorks>,
    ) -> Self {
        let mut found = Self::default();
        for (origin, expected) in policies {
            let Some(outcome) = expected.get(cluster) else { continue };
            if !found.is_applied(view, ages, cluster, origin, outcome) {
                found.policies.insert(origin.clone());
            }
        }
        found
    }

    /// Whether `cluster` has applied the policy `origin` in its planned form.
    fn is_applied(
        &mut self,
        view: View<'_>,
        ages: &mut OlderPolicyCache<'_>,
        cluster: &ClusterName,
        origin: &Origin,
        planned: &Option<(WorkName, Content)>,
    ) -> bool {
        let work = match planned {
            Some((name, _)) => view.work(name, cluster),
            None => view.work_of(origin, cluster),
        };
        if let Some(since) = work.and_then(|work| work.deleting) {
            // A new work is created once the agent has finished deleting the old one.
            self.start_wait(view, since);
            return false;
        }
        match work {
            // The work belongs to another owner. Waiting cannot change that.
            Some(work) if work.origin().is_none_or(|found| **found != *origin) => false,
            Some(work) => {
                [Some(work.created), work.applied_since]
                    .into_iter()
                    .flatten()
                    .for_each(|moment| self.start_wait(view, moment));
                let as_planned =
                    planned.as_ref().is_none_or(|(_, content)| content.spec == work.content.spec);
                work.applied_since.is_some() && as_planned
            }
            None => {
                match (planned, view.rejected_since(origin, cluster)) {
                    (Some(_), Some(since)) => self.start_wait(view, since),
                    (Some(_), None) if self.creating => {}
                    (Some(_), None) => match ages.unfinished(origin, cluster) {
                        Some(Unfinished { limit, .. }) if limit > view.now => {
                            self.older_wait_end = self.older_wait_end.max(limit)
                        }
                        _ => self.creating = true,
                    },
                    // No work of a frozen policy is about to be created, so the limit of the wait applies.
                    (None, _) => {}
                }
                false
            }
        }
    }

    /// Starts the wait at `moment` if this is later than the present start. A moment in the future counts as now,
    /// because the spoke's agent may have forged it.
    fn start_wait(&mut self, view: View<'_>, moment: Moment) {
        self.latest = self.latest.max(moment.min(view.now));
    }
}

fn is_failing(view: View<'_>, kind: &GroupResource) -> bool {
    view.failure(&POLICIES.resource(kind.clone())).is_some()
}

/// The planned state of a policy on each cluster: the name and content of a work, or `None` if the existing work is
/// left unchanged. The works, which can be large, are not kept in memory for all policies at once.
type ExpectedWorks = BTreeMap<ClusterName, Option<(WorkName, Content)>>;

fn expected(plan: &WorksPlan) -> ExpectedWorks {
    let expected = |outcome: &Outcome| outcome.work().map(|work| (work.name.clone(), work.content));
    plan.outcomes.iter().map(|(cluster, outcome)| (cluster.clone(), expected(outcome))).collect()
}

/// The copies of the Gateway's policies whose hashes are not cached. Empty if the Gateway need not wait for its
/// policies, or if a plan can build all their copies fast.
pub(super) fn unbuilt_copies(
    view: View<'_>,
    settings: &Settings,
    key: &ObjectKey,
) -> Vec<ahead::PolicyCopies> {
    let GatewayEligibility::Ours(params) = of_gateway(view, key) else { return Vec::new() };
    let gateway = Origin::Gateway(key.clone());
    let has_work =
        |cluster: &ClusterName| view.work_of(&gateway, cluster).is_some_and(|work| work.deleting.is_none());
    if placed(view, key).clusters.iter().all(has_work) {
        return Vec::new();
    }
    let kinds = params.listed(Role::Policy).map(|gvr| gvr.kind);
    let here: Vec<(Origin, &Policy)> =
        kinds.flat_map(|kind| policies_in_namespace(view, key, &kind)).collect();
    let clusters = view.clusters().count();
    if here.iter().map(|(_, policy)| ahead::estimate_bytes(policy, clusters)).sum::<usize>()
        <= LOCKED_BUILD_LIMIT
    {
        return Vec::new();
    }
    let targets = |origin: &Origin| policy::gateways(view, origin).contains(key);
    let here = here.into_iter().filter(|(origin, _)| targets(origin));
    here.filter_map(|(origin, _)| ahead::unbuilt_copies(view, settings, &origin)).collect()
}

/// The policies of `kind` in the namespace of the Gateway `key`.
fn policies_in_namespace<'v>(
    view: View<'v>,
    key: &ObjectKey,
    kind: &GroupResource,
) -> Vec<(Origin, &'v Policy)> {
    let beside = view.policies_of(kind).filter(|(object, _)| object.namespace == key.namespace);
    let origin = |object: &ObjectKey| Origin::new(kind.clone(), object.clone());
    beside.map(|(object, policy)| (origin(object), policy)).collect()
}

/// The policies of the Gateway `key` with their planned states, and the kinds that are not listed. Kinds that cannot be
/// synced are left out, because the Gateway does not wait for their policies.
fn policies(
    view: View<'_>,
    settings: &Settings,
    key: &ObjectKey,
    params: &Params,
) -> (BTreeMap<Origin, ExpectedWorks>, BTreeSet<GroupResource>) {
    let (mut policies, mut unlisted) = (BTreeMap::new(), BTreeSet::new());
    for gvr in params.listed(Role::Policy) {
        let kind = &gvr.kind;
        let resolution = view.kind(&gvr).map(|state| &state.resolution);
        if resolution.is_some_and(|resolution| !matches!(resolution, Resolution::Resolved(_))) {
            continue;
        }
        if resolution.is_none() || !view.policies_synced(kind) {
            unlisted.insert(kind.clone());
        }
        for (origin, _) in policies_in_namespace(view, key, kind) {
            if policy::gateways(view, &origin).contains(key) {
                let desired = policy::desired(view, settings, &origin);
                policies.insert(origin, expected(&desired));
            }
        }
    }
    (policies, unlisted)
}

/// The Gateways that may wait for the policy `origin`.
pub fn waiting_gateways(view: View<'_>, origin: &Origin) -> impl Iterator<Item = Origin> {
    let gateways = match origin {
        Origin::Gateway(_) => BTreeSet::new(),
        Origin::Object(..) => policy::gateways(view, origin),
    };
    gateways.into_iter().map(Origin::Gateway)
}

/// Keeps the work of the policy `origin` on a cluster that the policy's Gateway leaves, until the Gateway's work is
/// deleted.
pub(super) fn wait_for_gateways(view: View<'_>, origin: &Origin, plan: &mut WorksPlan) {
    let leads = |key: &&ObjectKey| !is_delisted(view, key, origin);
    let FollowedGateways { gateways, clusters } = &plan.followed_gateways;
    let targets: Vec<&ObjectKey> = gateways.iter().filter(leads).collect();
    for (_, cluster, work) in view.works_of(origin) {
        if plan.outcomes.contains_key(cluster) || work.deleting.is_some() || !clusters.contains(cluster) {
            continue;
        }
        let served = targets.iter().filter(|key| work.gateways.contains(&key.name));
        for ends in served.filter_map(|key| blocks_policies(view, key, cluster)) {
            plan.outcomes.insert(cluster.clone(), Outcome::Kept(KeepReason::Following));
            plan.recheck = Moment::earliest(plan.recheck, ends);
        }
    }
}

/// When policies stop waiting for the deletion of the work of the Gateway `key` in `cluster`. `Some(None)` if the work
/// is not terminating yet. `None` if policies do not wait, because the work does not exist or the wait is over.
pub(crate) fn blocks_policies(
    view: View<'_>,
    key: &ObjectKey,
    cluster: &ClusterName,
) -> Option<Option<Moment>> {
    let work = view.work_of(&Origin::Gateway(key.clone()), cluster)?;
    let ends = work.deleting.map(|since| since.min(view.now).after(longest_wait(view, key)));
    ends.is_none_or(|ends| ends > view.now).then_some(ends)
}

/// Whether the Gateway `key` belongs to this controller and its class no longer lists the kind of the policy
/// `origin`.
fn is_delisted(view: View<'_>, key: &ObjectKey, origin: &Origin) -> bool {
    of_gateway(view, key).is_ours() && !of_target(view, key, origin.kind()).is_ours()
}

/// The maximum time for which policies wait for the deletion of the Gateway `key`. The Gateway's class sets it. If the
/// Gateway or its class was deleted, the longest of all classes applies.
fn longest_wait(view: View<'_>, key: &ObjectKey) -> Duration {
    let of_class = |name: &str| Some(view.class_params(name)?.known()?.policy_wait_seconds);
    let deleted_classes =
        || view.deleted_classes().filter_map(|(.., params)| Some(params?.policy_wait_seconds));
    let seconds = view.gateway(key).and_then(|gateway| of_class(&gateway.class)).or_else(|| {
        view.our_classes().keys().filter_map(|class| of_class(&class.name)).chain(deleted_classes()).max()
    });
    Duration::from_secs(seconds.unwrap_or_else(|| Params::default().policy_wait_seconds).into())
}
