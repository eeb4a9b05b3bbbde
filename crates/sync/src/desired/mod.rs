//! What should exist: decided from a view of the mirror.
//!
//! ```text
//! view, key ──▶ watches   which kinds to watch
//!           ──▶ covered   which kinds are taken to the spokes at all
//!           ──▶ works     what is desired of a Gateway or a policy on each cluster ──▶ in order
//!           ──▶ access    the access work of a cluster
//! ```
//!
//! Rights come first, mistakes freeze: class, kind, gateway and placement, where they are known, decide which
//! clusters an object may be on; there, what cannot be planned is left as it is.

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

use crate::waits::Wait;
use crate::{Problem, View};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ObjectKey, Origin, WorkName};

pub use order::{Awaited, Waiting};
pub use replicas::Shares;
pub use work::PlannedWork;

/// How this controller is set up, as far as plans depend on it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What a hub namespace's name is prefixed with on the spokes; never empty.
    pub downstream_namespace_prefix: String,
    /// Namespaces of the spokes that are never written to; `*` stands for any text.
    pub reserved_namespaces: Vec<String>,
}

/// The namespaces of the spokes that are never written to where nobody says otherwise, joined by commas: those of
/// Kubernetes, Open Cluster Management and the usual gateways, among them those of Kuadrant, which begin as ours do.
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

/// What should become of the works of one origin.
#[derive(Clone, Debug, Default)]
pub struct WorksPlan {
    /// The name of its works, where its kind is known.
    pub name: Option<WorkName>,
    /// What should be on each cluster. A work of the origin on any other cluster is withdrawn.
    pub outcomes: BTreeMap<ClusterName, Outcome>,
    /// The clusters where a Gateway of the policy is placed, or that are chosen for the Gateway, and that its own selector
    /// leaves out.
    pub deselected: BTreeSet<ClusterName>,
    /// The clusters of a Gateway that are no longer chosen, where it serves on for a while, and since when.
    pub unplaced: BTreeMap<ClusterName, Moment>,
    /// What keeps it from being planned, or what its owner should know.
    pub problems: Vec<Problem>,
    /// Whether it targets a Gateway of ours, or asks to be placed itself.
    pub targeted: bool,
    /// How a policy leaves the clusters where it is not to be.
    leaving: Leaving,
    /// The clusters that were chosen and selected, and that the preferences of its replicas do not name.
    pub unnamed: BTreeSet<ClusterName>,
    /// How many of its replicas each cluster gets, where they are split.
    pub shares: Option<Shares>,
    /// The waits of its missing works for older copies, also those that have ended.
    pub waits: BTreeMap<ClusterName, Wait>,
    /// When time alone changes this plan.
    pub recheck: Option<Moment>,
}

/// Why something is not to be on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It is to be on none: a policy that targets no Gateway of ours, a resource that nothing places.
    Untargeted,
    /// Its own selector leaves the cluster out.
    NotSelected,
    /// The preferences of its replicas do not name the cluster.
    NotNamed,
    /// No Gateway of ours that it targets is placed there, or it is not itself.
    NotPlaced,
}

/// After what a policy leaves the clusters where it is not to be: at once, where that is nothing.
#[derive(Clone, Debug, Default)]
struct Leaving {
    /// After these Gateways.
    gateways: BTreeSet<ObjectKey>,
    /// Where it leaves because they do, and not by itself.
    clusters: BTreeSet<ClusterName>,
}

impl WorksPlan {
    /// Why nothing is to be on `cluster`, which has no outcome, or one that only follows another.
    #[must_use]
    pub fn absence(&self, cluster: &ClusterName) -> Absence {
        if !self.targeted {
            Absence::Untargeted
        } else if self.deselected.contains(cluster) {
            Absence::NotSelected
        } else if self.unnamed.contains(cluster) {
            Absence::NotNamed
        } else {
            Absence::NotPlaced
        }
    }
}

/// What should be on one cluster, and why.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// This work.
    Work(Arc<PlannedWork>),
    /// This work, if it exists already; otherwise it is created after others.
    Held(Arc<PlannedWork>, Waiting),
    /// What is there now, be it nothing.
    Kept(Kept),
}

impl Outcome {
    /// The work that is planned.
    #[must_use]
    pub fn work(&self) -> Option<&Arc<PlannedWork>> {
        match self {
            Self::Work(work) | Self::Held(work, _) => Some(work),
            Self::Kept(_) => None,
        }
    }

    /// The category of the problem that freezes it.
    #[must_use]
    pub fn frozen(&self) -> Option<&'static str> {
        match self {
            Self::Kept(Kept::Frozen(problems)) => problems.first().map(Problem::category),
            Self::Work(_) | Self::Held(..) | Self::Kept(_) => None,
        }
    }

    /// What it waits for.
    #[must_use]
    pub fn waiting(&self) -> Option<&Waiting> {
        match self {
            Self::Held(_, waiting) => Some(waiting),
            Self::Work(_) | Self::Kept(_) => None,
        }
    }
}

/// Why what is on a cluster is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It cannot be planned: these problems freeze it.
    Frozen(Arc<[Problem]>),
    /// That no Gateway of the policy is placed there may only seem so.
    Unsettled,
    /// The policy chooses clusters by their labels, and nobody knows those of this one: it has no ManagedCluster any more.
    UnknownLabels,
    /// The policy leaves the cluster, and a Gateway of it goes first.
    Following,
}

impl Kept {
    /// It is frozen by those of `problems` that freeze.
    fn by<'p>(problems: impl IntoIterator<Item = &'p Problem>) -> Self {
        Self::Frozen(problems.into_iter().filter(|problem| problem.freezes()).cloned().collect())
    }
}

impl WorksPlan {
    /// The clusters where something is waited for, and what.
    pub fn waiting(&self) -> impl Iterator<Item = (&ClusterName, &Waiting)> {
        self.outcomes.iter().filter_map(|(cluster, outcome)| Some((cluster, outcome.waiting()?)))
    }

    /// Whether the Gateway has waited somewhere for as long as its class lets it.
    #[must_use]
    pub fn is_overdue(&self) -> bool {
        self.waiting().any(|(_, waiting)| waiting.is_overdue())
    }
}

/// Plans the works of a Gateway or a policy, whether or not it still exists: what should be there, and then what of that
/// comes or goes only after something else.
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
            order::follow(view, origin, &mut plan);
            age::wait(view, origin, &mut plan);
            plan.problems.extend(age::out_of_order(view, origin));
            plan
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
