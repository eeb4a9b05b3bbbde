//! Decides from a view of the mirror which objects should exist on the hub.
//!
//! ```text
//! view, key ──▶ watches           the kinds to watch
//!           ──▶ covered           the kinds that are copied to spokes
//!           ──▶ gateway, policy   the works of a Gateway, policy or resource on each cluster ──▶ order, age: waits
//!           ──▶ access            the access work of a cluster
//! ```
//!
//! The class, the kind, the Gateway and the Placement determine the clusters of an object. If an input is invalid or
//! unknown, works on some of these clusters cannot be planned. The existing works there are left unchanged: they are
//! *frozen*.

pub mod access;
pub(crate) mod age;
pub mod ahead;
mod copy;
pub mod covered;
pub mod eligibility;
pub mod gateway;
pub mod order;
pub mod overrides;
pub(crate) mod placement;
pub mod policy;
pub mod replicas;
pub(crate) mod resource;
pub mod watches;
pub mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::problem::PausedObject;
use crate::rows::Strings;
use crate::waits::Wait;
use crate::{Problem, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin, WorkName};
use policy_sync_api::pause::Pause;

pub use order::{PendingPolicies, WaitReason};
pub use replicas::Shares;
pub use work::PlannedWork;

/// The settings of the controller that plans depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The prefix of namespaces on spokes, before the name of the namespace on the hub; never empty.
    pub downstream_namespace_prefix: String,
    /// Namespaces of spokes that copies never go to; `*` matches any text.
    pub reserved_namespaces: Vec<String>,
}

/// The default of [`Settings::reserved_namespaces`], joined by commas: namespaces of Kubernetes, Open Cluster
/// Management, Kuadrant and common gateways. Hub namespaces such as `system` would map to Kuadrant's, because these
/// begin with the default prefix.
pub const RESERVED_NAMESPACES: &str = "kuadrant-system,kuadrant-operator,kuadrant-operator-system,istio-system,default,\
                                       kube-*,open-cluster-management*";

impl Default for Settings {
    fn default() -> Self {
        Self {
            downstream_namespace_prefix: "kuadrant-".into(),
            reserved_namespaces: RESERVED_NAMESPACES.split(',').map(str::to_owned).collect(),
        }
    }
}

/// The plan for the works of one origin.
#[derive(Clone, Debug, Default)]
pub struct WorksPlan {
    /// The name of the works, if the kind of the origin is known.
    pub name: Option<WorkName>,
    /// The outcomes, by cluster. On clusters without an outcome, works of the origin are deleted.
    pub outcomes: BTreeMap<ClusterName, Outcome>,
    /// The clusters that the object's own selector excludes, although its Placement or the Placement of a targeted
    /// Gateway selects them.
    pub deselected: BTreeSet<ClusterName>,
    /// The clusters that a Gateway's Placement no longer selects and where the Gateway's grace period is running, each
    /// with the start of that period.
    pub unplaced: BTreeMap<ClusterName, Moment>,
    /// The problems that prevent the plan, and other problems that are reported to the owner.
    pub problems: Vec<Problem>,
    /// Whether the object is a Gateway of this controller, a policy that targets such a Gateway, or a resource that
    /// requests placement.
    pub targeted: bool,
    /// The Gateways that must be removed from a cluster before the policy.
    followed_gateways: FollowedGateways,
    /// The clusters that the Placement and the selector select, but that the replica preferences do not include.
    pub not_in_preferences: BTreeSet<ClusterName>,
    /// The number of replicas for each cluster, if replicas are split among clusters.
    pub shares: Option<Shares>,
    /// The waits of missing works for copies of older policies, including waits that have ended.
    pub waits: BTreeMap<ClusterName, Wait>,
    /// When the plan may change because time has passed.
    pub recheck: Option<Moment>,
}

/// The reason why an object does not belong on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// The object belongs on no cluster: it is a policy that targets no Gateway of this controller, or a resource
    /// without a Placement.
    Untargeted,
    /// The object's own selector excludes the cluster.
    NotSelected,
    /// The replica preferences do not include the cluster.
    NotInPreferences,
    /// For a policy: no targeted Gateway of this controller is placed on the cluster. For a Gateway or resource: its
    /// own Placement does not select the cluster.
    NotPlaced,
}

/// The Gateways that must be removed from a cluster before the policy. Without such Gateways, the policy is removed at
/// once.
#[derive(Clone, Debug, Default)]
struct FollowedGateways {
    /// The targeted Gateways.
    gateways: BTreeSet<ObjectKey>,
    /// The clusters from which the policy is removed, except those that its own selector excludes.
    clusters: BTreeSet<ClusterName>,
}

impl WorksPlan {
    /// The reason why the object does not belong on `cluster`, where the plan has no outcome or only
    /// [`KeepReason::Following`].
    #[must_use]
    pub fn absence(&self, cluster: &ClusterName) -> Absence {
        if !self.targeted {
            Absence::Untargeted
        } else if self.deselected.contains(cluster) {
            Absence::NotSelected
        } else if self.not_in_preferences.contains(cluster) {
            Absence::NotInPreferences
        } else {
            Absence::NotPlaced
        }
    }
}

/// The planned state on one cluster.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// This work should exist.
    Work(Arc<PlannedWork>),
    /// This work should exist. If it does not exist yet, its creation waits for other works.
    Deferred(Arc<PlannedWork>, WaitReason),
    /// The existing work is left unchanged. If no work exists, none is created.
    Kept(KeepReason),
}

impl Outcome {
    /// The planned work, unless the existing work is left unchanged.
    #[must_use]
    pub fn work(&self) -> Option<&Arc<PlannedWork>> {
        match self {
            Self::Work(work) | Self::Deferred(work, _) => Some(work),
            Self::Kept(_) => None,
        }
    }

    /// The category of the first problem that freezes the work, if any.
    #[must_use]
    pub fn frozen(&self) -> Option<&'static str> {
        match self {
            Self::Kept(KeepReason::Frozen(problems)) => problems.first().map(Problem::category),
            Self::Work(_) | Self::Deferred(..) | Self::Kept(_) => None,
        }
    }

    /// The reason for which the creation of the work waits, if any.
    #[must_use]
    pub fn waiting(&self) -> Option<&WaitReason> {
        match self {
            Self::Deferred(_, waiting) => Some(waiting),
            Self::Work(_) | Self::Kept(_) => None,
        }
    }
}

/// The reason why the state on a cluster is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// The work cannot be planned because of these problems.
    Frozen(Arc<[Problem]>),
    /// The Placement has changed recently or its decisions are incomplete, so it may still select the cluster.
    Unsettled,
    /// The policy selects clusters by label, but the ManagedCluster was deleted and its labels are unknown.
    UnknownLabels,
    /// The policy is removed only after one of its Gateways has been removed from the cluster.
    Following,
}

impl KeepReason {
    /// [`Self::Frozen`] with the `problems` that freeze works.
    fn by<'p>(problems: impl IntoIterator<Item = &'p Problem>) -> Self {
        Self::Frozen(problems.into_iter().filter(|problem| problem.freezes()).cloned().collect())
    }
}

/// The problems that an object with these `annotations` is paused, and that its `class` is paused.
fn pauses(view: View<'_>, annotations: &Strings, class: Option<&str>) -> Vec<Problem> {
    let own = Problem::of_pause(&Pause::read(annotations), PausedObject::Itself);
    own.into_iter().chain(class.and_then(|class| view.class_pause(class))).collect()
}

/// Keeps the works on clusters whose ManagedCluster is paused. The pause is not among the problems of the object. An
/// agent may pause its own cluster, and that must not cause an Event for each object.
fn keep_on_paused_clusters(view: View<'_>, outcomes: &mut BTreeMap<ClusterName, Outcome>) {
    for (cluster, outcome) in outcomes {
        let Some(row) = view.cluster(cluster) else { continue };
        if let Some(problem) = Problem::of_pause(&row.paused, PausedObject::Cluster(cluster.clone())) {
            *outcome = Outcome::Kept(KeepReason::by([&problem]));
        }
    }
}

impl WorksPlan {
    /// The clusters where the creation of a work waits, each with the reason.
    pub fn waiting(&self) -> impl Iterator<Item = (&ClusterName, &WaitReason)> {
        self.outcomes.iter().filter_map(|(cluster, outcome)| Some((cluster, outcome.waiting()?)))
    }

    /// Whether the Gateway has waited for its policies on any cluster for as long as its class allows.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.waiting().any(|(_, waiting)| waiting.is_overdue())
    }
}

/// Plans the works of a Gateway, a policy or a resource, whether or not the object still exists. Decides first which
/// works should exist, then which creations and deletions must wait for others.
#[must_use]
pub fn plan_works(view: View<'_>, settings: &Settings, origin: &Origin) -> WorksPlan {
    match origin {
        Origin::Gateway(key) => {
            let mut plan = gateway::desired(view, settings, key);
            order::wait(view, settings, key, &mut plan);
            plan
        }
        Origin::Object(..) => {
            let mut plan = policy::desired(view, settings, origin);
            order::wait_for_gateways(view, origin, &mut plan);
            age::wait(view, origin, &mut plan);
            plan.problems.extend(age::out_of_order(view, origin));
            plan
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
