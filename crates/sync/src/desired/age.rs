//! Orders the creation of copies of policies. On each cluster, copies with the same target are created in the order of
//! the policies on the hub.
//!
//! If several policies of one kind have the same target, Kuadrant decides by creation time, then by name, which policy
//! takes precedence. On a cluster, Kuadrant compares the creation times of the copies, in whole seconds. Therefore
//! policies are divided into runs, in which the names ascend. The copies of a run are created in a later second than
//! the copies of all previous runs:
//!
//! ```text
//! policies, the oldest first:   b d │ a c │ b2      │ separates runs, in which names ascend
//! copies are created:           (1)   (2)   (3)     a run is created a second after the copies of the previous run
//! ```
//!
//! The copies of a run may be created in the same second, because the order of their names is that of the hub.
//!
//! Only the creation of a work waits, never an update. The creation waits for the oldest *unfinished* copy: a copy that
//! will be created, or that was created within the present second. The wait ends if this process has observed no
//! progress for `policyWaitSeconds` ([`Waits`]). The runs of all younger policies wait for the same copy, so that their
//! waits end together. [`Problem::OutOfOrder`] reports copies that were created in another order.
//!
//! [`Waits`]: crate::Waits

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::WorksPlan;
use super::eligibility::{GatewayEligibility, of_target};
use super::order::{WaitReason, defer, missing};
use super::placement::placed;
use crate::index::SECOND;
use crate::index::same_target::{AgeKey, age_key};
use crate::rows::policy::{Policy, Target};
use crate::waits::Wait;
use crate::{Problem, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::selector::ClusterSelector;
use policy_sync_api::text::join_limited;

/// The maximum number of older policies that a policy waits for. Also the maximum number of neighbors that are checked
/// for [`Problem::OutOfOrder`]. Each maximum is for all targets of the policy together.
const OLDER_LIMIT: usize = 32;
/// How many neighbors of a policy are checked for a copy on a cluster, in each direction. Neighbors have the same
/// target, and are sorted by age.
const NEIGHBOR_SEARCH_LIMIT: usize = 16;
/// The maximum number of younger policies that are checked, to find those that may wait for a policy.
const SEARCH_LIMIT: usize = 1024;

/// The older policies that one policy waits for because of one target.
struct Older {
    gateway: ObjectKey,
    /// The clusters of the Gateway.
    clusters: BTreeSet<ClusterName>,
    /// The runs before the policy's own run, the nearest run first. In each run, the nearest policy comes first.
    runs: Vec<Vec<OlderPolicy>>,
    /// The maximum wait.
    wait: Duration,
}

struct OlderPolicy {
    origin: Origin,
    age_key: AgeKey,
    selector: Option<ClusterSelector>,
}

/// The copy of an older policy on a cluster.
enum Copy {
    /// The copy does not exist. Its creation is not expected, or is overdue.
    Absent,
    /// The copy has existed since an earlier second.
    Older,
    /// The copy will be created, or was created in the present second.
    Unfinished {
        /// When the copy may count as finished or as absent because time has passed.
        until: Option<Moment>,
    },
}

/// The oldest unfinished copy that a policy waits for on a cluster, or has waited for.
pub(super) struct Unfinished {
    policy: ObjectKey,
    wait: Wait,
    /// The end of the maximum wait.
    pub(super) limit: Moment,
    /// When to check again.
    recheck_at: Moment,
}

/// Delays the creation of works of the policy `origin` on clusters where copies of older policies with the same target
/// must be created first.
pub(super) fn wait(view: View<'_>, origin: &Origin, plan: &mut WorksPlan) {
    let mut ages = OlderPolicyCache::new(view);
    for cluster in missing(view, plan) {
        // If a work is being deleted, the new work is created only after the old work is gone.
        if view.work_of(origin, &cluster).is_some() {
            continue;
        }
        let Some(found) = ages.unfinished(origin, &cluster) else { continue };
        let Unfinished { policy, wait, limit, recheck_at } = found;
        if limit > view.now {
            plan.recheck = Moment::earliest(plan.recheck, Some(recheck_at));
            defer(plan, &cluster, WaitReason::Older(policy));
        }
        plan.waits.insert(cluster, wait);
    }
}

/// Finds the copies that policies wait for, and reads each policy only once.
pub(super) struct OlderPolicyCache<'v> {
    view: View<'v>,
    older: BTreeMap<Origin, Vec<Older>>,
}

impl<'v> OlderPolicyCache<'v> {
    pub(super) fn new(view: View<'v>) -> Self {
        Self { view, older: BTreeMap::new() }
    }

    /// The oldest unfinished copy that the work of `origin` on `cluster` waits for, or has waited for.
    pub(super) fn unfinished(&mut self, origin: &Origin, cluster: &ClusterName) -> Option<Unfinished> {
        let view = self.view;
        let older = self.older.entry(origin.clone()).or_insert_with(|| Older::of(view, origin));
        let older = older.iter().filter(|older| older.clusters.contains(cluster));
        let found: Vec<_> =
            older.filter_map(|older| Some((older.unfinished(view, cluster)?, older.wait))).collect();
        let longest = found.iter().map(|(_, wait)| *wait).max()?;
        let (age_key, until) = found.into_iter().map(|(oldest, _)| oldest).min()?;
        let policy = beside(origin, age_key.1.clone());
        let wait = next_wait(view, origin, cluster, age_key, &policy);
        let policy = policy.object().clone();
        // The copy may be created in the last second of the wait, and must then exist for another second.
        let limit = wait.since.after(longest).after(SECOND);
        let recheck_at = Moment::earliest(until, Some(limit)).unwrap_or(limit);
        Some(Unfinished { policy, wait, limit, recheck_at })
    }
}

/// The wait of the work of `origin` on `cluster` for the policy `older`, which has the position `age_key`. A new wait
/// begins only after progress: the work of `older` was created, or the cluster created the copy that the previous wait
/// was for. If each missing copy began a new wait, the waits would add up.
fn next_wait(
    view: View<'_>,
    origin: &Origin,
    cluster: &ClusterName,
    age_key: AgeKey,
    older: &Origin,
) -> Wait {
    let exists = view.work_of(older, cluster).is_some();
    let is_copied = |age_key: &AgeKey| {
        let copy = view.work_of(&beside(origin, age_key.1.clone()), cluster);
        copy.is_some_and(|work| work.copied.is_some())
    };
    // An older policy without a work also waits, possibly for a policy that is too far back to be checked here.
    let earlier = view.last_wait(older, cluster);
    let earlier =
        earlier.filter(|earlier| !exists && earlier.age_key < age_key && !is_copied(&earlier.age_key));
    let (age_key, exists) = earlier.map_or((age_key, exists), |earlier| (earlier.age_key, earlier.exists));
    let Some(last) = view.last_wait(origin, cluster) else {
        return Wait { age_key, exists, since: view.now };
    };
    let (exists, progress) = match age_key.cmp(&last.age_key) {
        Ordering::Less => return last,
        Ordering::Equal => (exists || last.exists, exists && !last.exists),
        Ordering::Greater => (exists, is_copied(&last.age_key)),
    };
    Wait { age_key, exists, since: if progress { view.now } else { last.since } }
}

impl Older {
    /// For each target of the policy `origin`, the older policies that it may wait for.
    fn of(view: View<'_>, origin: &Origin) -> Vec<Self> {
        let Some(policy) = view.policy(origin) else { return Vec::new() };
        let own = age_key(origin.object(), policy);
        let (mut all, mut left) = (Vec::new(), OLDER_LIMIT);
        for (target, order) in view.same_target(origin.kind(), &origin.object().namespace, &policy.targets) {
            if order.end_of_run_before(&own).is_none() {
                continue;
            }
            let gateway =
                ObjectKey { namespace: origin.object().namespace.clone(), name: target.gateway.clone() };
            let GatewayEligibility::Ours(params) = of_target(view, &gateway, origin.kind()) else { continue };
            if params.policy_wait_seconds == 0 {
                continue;
            }
            let (mut runs, mut cursor) = (Vec::new(), &own);
            while let Some(last) = order.end_of_run_before(cursor).filter(|_| left > 0) {
                let run: Vec<&AgeKey> = order.run_to(last).take(left).collect();
                left -= run.len();
                let run = run.into_iter().filter_map(|age_key| OlderPolicy::read(view, origin, age_key));
                runs.push(run.collect());
                cursor = last;
            }
            if !runs.is_empty() {
                let clusters = placed(view, &gateway).clusters;
                let wait = Duration::from_secs(params.policy_wait_seconds.into());
                all.push(Self { gateway, clusters, runs, wait });
            }
        }
        all
    }

    /// The position of the oldest policy whose copy on `cluster` must be created first, and when that may change
    /// because time has passed.
    fn unfinished(&self, view: View<'_>, cluster: &ClusterName) -> Option<(AgeKey, Option<Moment>)> {
        let (mut oldest, mut earliest) = (None, None);
        for run in &self.runs {
            let mut exists = false;
            for policy in run {
                match self.copy(view, policy, cluster) {
                    Copy::Absent => {}
                    Copy::Older => exists = true,
                    Copy::Unfinished { until } => {
                        oldest = Some(&policy.age_key);
                        earliest = Moment::earliest(earliest, until);
                    }
                }
            }
            // The copies of this run have waited for the copies of all older runs. If a policy of an older run was
            // placed on the cluster afterwards, the order is already wrong.
            if exists {
                break;
            }
        }
        oldest.map(|age_key| (age_key.clone(), earliest))
    }

    fn copy(&self, view: View<'_>, policy: &OlderPolicy, cluster: &ClusterName) -> Copy {
        let OlderPolicy { origin, selector, .. } = policy;
        if selector.as_ref().is_some_and(|selector| !view.selects(selector, origin, cluster)) {
            return Copy::Absent;
        }
        let Some((name, work)) = view.named_work_of(origin, cluster) else {
            return Copy::Unfinished { until: None };
        };
        if !work.gateways.contains(&self.gateway.name) {
            return Copy::Absent;
        }
        // The hub rounds times down to whole seconds. Without an extra second, the wait could be up to a second too
        // short.
        let for_a_while = |since: Moment| {
            let until = since.min(view.now).after(self.wait).after(SECOND);
            if until > view.now { Copy::Unfinished { until: Some(until) } } else { Copy::Absent }
        };
        match (work.deleting, work.copied) {
            (Some(since), _) => for_a_while(since),
            (None, Some(_)) => match view.copy_settles(name, cluster) {
                None => Copy::Older,
                until => Copy::Unfinished { until },
            },
            (None, None) => for_a_while(work.created),
        }
    }
}

impl OlderPolicy {
    /// The policy at the position `age_key`, of the same kind and namespace as `younger`. `None` if it is being deleted
    /// or its selector is invalid.
    fn read(view: View<'_>, younger: &Origin, age_key: &AgeKey) -> Option<Self> {
        let origin = beside(younger, age_key.1.clone());
        let policy = view.policy(&origin).filter(|policy| !policy.deleting)?;
        let selector = ClusterSelector::read(&policy.annotations).ok()?;
        Some(Self { origin, age_key: age_key.clone(), selector })
    }
}

fn beside(origin: &Origin, name: Arc<str>) -> Origin {
    Origin::new(origin.kind().clone(), ObjectKey { namespace: origin.object().namespace.clone(), name })
}

/// The clusters where the copies of the policy `origin` and of a neighbor were created in a different order than on
/// the hub.
pub(super) fn out_of_order(view: View<'_>, origin: &Origin) -> Vec<Problem> {
    let Some(policy) = view.policy(origin) else { return Vec::new() };
    let own = age_key(origin.object(), policy);
    let mut found: BTreeMap<(Arc<str>, bool), BTreeSet<&ClusterName>> = BTreeMap::new();
    let mut left = OLDER_LIMIT;
    for (target, order) in view.same_target(origin.kind(), &origin.object().namespace, &policy.targets) {
        if order.is_single() {
            continue;
        }
        let own_copies = copies(view, origin, target);
        let mut search = |neighbors: &mut dyn Iterator<Item = &AgeKey>, wrong: Ordering| {
            let mut own_copies = own_copies.clone();
            for (_, name) in neighbors.take(NEIGHBOR_SEARCH_LIMIT) {
                if own_copies.is_empty() || left == 0 {
                    break;
                }
                left -= 1;
                for (cluster, copied) in copies(view, &beside(origin, name.clone()), target) {
                    let Some(own_copied) = own_copies.remove(cluster) else { continue };
                    if (copied, name).cmp(&(own_copied, &own.1)) == wrong {
                        let is_older = wrong == Ordering::Greater;
                        found.entry((name.clone(), is_older)).or_default().insert(cluster);
                    }
                }
            }
        };
        search(&mut order.older(&own), Ordering::Greater);
        search(&mut order.younger(&own), Ordering::Less);
    }
    let problem = |((name, is_older), clusters): ((Arc<str>, bool), BTreeSet<&ClusterName>)| {
        let other = beside(origin, name).object().clone();
        let clusters = join_limited(clusters.into_iter().map(ToString::to_string));
        Problem::OutOfOrder { other, is_older, clusters }
    };
    found.into_iter().map(problem).collect()
}

/// The clusters where the copy of the policy `origin` has the target `target`, each with the creation time of the copy.
fn copies<'v>(view: View<'v>, origin: &Origin, target: &Target) -> BTreeMap<&'v ClusterName, Moment> {
    let works = view.works_of(origin);
    let works = works.filter(|(.., work)| work.deleting.is_none() && work.gateways.contains(&target.gateway));
    works.filter_map(|(_, cluster, work)| Some((cluster, work.copied?))).collect()
}

/// The nearest policies of younger runs that have no work on `cluster`. They may wait for the copy of the policy
/// `origin` on this cluster.
pub(crate) fn followers(
    view: View<'_>,
    origin: &Origin,
    policy: &Policy,
    cluster: &ClusterName,
) -> BTreeSet<Origin> {
    let own = age_key(origin.object(), policy);
    let is_missing =
        |follower: &Origin| view.work_of(follower, cluster).is_none_or(|work| work.deleting.is_some());
    let orders = view.same_target(origin.kind(), &origin.object().namespace, &policy.targets);
    let later = orders.flat_map(|(_, order)| order.later_runs(&own)).take(SEARCH_LIMIT);
    later.map(|(_, name)| beside(origin, name.clone())).filter(is_missing).collect()
}

/// The policies that share a target with the policy `origin` and whose plans may depend on the position of `origin`.
/// `policy` is the old or new row of `origin`. Younger policies may wait for the copy of `origin`. Neighbors may report
/// that their copies and the copy of `origin` are out of order.
pub(crate) fn affected(view: View<'_>, origin: &Origin, policy: &Policy) -> BTreeSet<Origin> {
    let own = age_key(origin.object(), policy);
    let mut found = BTreeSet::new();
    for (_, order) in view.same_target(origin.kind(), &origin.object().namespace, &policy.targets) {
        let around =
            order.older(&own).take(NEIGHBOR_SEARCH_LIMIT).chain(order.younger(&own).take(SEARCH_LIMIT));
        found.extend(around.map(|(_, name)| beside(origin, name.clone())));
    }
    found
}

/// The nearest policies before and after `origin` that have a copy on `cluster`, for each target.
pub(crate) fn neighbors(
    view: View<'_>,
    origin: &Origin,
    policy: &Policy,
    cluster: &ClusterName,
) -> BTreeSet<Origin> {
    let own = age_key(origin.object(), policy);
    let is_copied =
        |neighbor: &Origin| view.work_of(neighbor, cluster).is_some_and(|work| work.copied.is_some());
    let mut found = BTreeSet::new();
    for (_, order) in view.same_target(origin.kind(), &origin.object().namespace, &policy.targets) {
        let mut search = |neighbors: &mut dyn Iterator<Item = &AgeKey>| {
            let mut neighbors =
                neighbors.take(NEIGHBOR_SEARCH_LIMIT).map(|(_, name)| beside(origin, name.clone()));
            found.extend(neighbors.find(&is_copied));
        };
        search(&mut order.older(&own));
        search(&mut order.younger(&own));
    }
    found
}
