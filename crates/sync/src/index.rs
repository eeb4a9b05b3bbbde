//! The index: state that is derived from the rows of the mirror and updated with each change.

mod params;
pub(super) mod same_target;
mod unplaced;
mod upkeep;
mod works;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::PolicyKind;
use super::counts::Counts;
use super::feedback::AgentReport;
use super::key::WorkKey;
use super::recent::Recent;
use super::rows::Strings;
use super::rows::class::Class;
use super::unplaced::UnplacedWorks;
use policy_sync_api::interned::Interned;
use policy_sync_api::moment::Moment;
use policy_sync_api::names::{ClusterName, ControllerName, ObjectKey, Origin};
use policy_sync_api::params::Params;

use same_target::SameTarget;
pub(super) use unplaced::decisions_of;

/// A cluster counts as removed from a Placement only after the number of selected clusters and the decisions have not
/// changed for this long.
pub const PLACEMENT_SETTLE_TIME: Duration = Duration::from_secs(5);

/// The resolution of creation timestamps.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// After a class is deleted, nothing is removed from spokes for this long, because `kubectl replace --force` and
/// reinstallations create the class again.
pub const CLASS_DELETION_DELAY: Duration = Duration::from_secs(60);

/// A deleted class of this controller. Within [`CLASS_DELETION_DELAY`] it may be created again.
#[derive(Clone, Debug)]
pub(super) struct DeletedClass {
    pub(super) class: Class,
    /// The last valid parameters of the class.
    pub(super) params: Option<Arc<Params>>,
    pub(super) since: Moment,
}

/// State that is derived from the rows of the hub and their changes.
#[derive(Clone, Debug)]
pub struct Index {
    pub(super) controller: ControllerName,
    /// Classes of this controller that were deleted less than [`CLASS_DELETION_DELAY`] ago.
    pub(super) deleted_classes: HashMap<ObjectKey, DeletedClass>,
    /// The last valid parameters of each class of this controller.
    pub(super) known_params: HashMap<ObjectKey, Arc<Params>>,
    /// The last known labels of deleted ManagedClusters, kept while a work of this controller remains in their
    /// namespace.
    pub(super) last_labels: HashMap<ClusterName, Strings>,
    /// When the number of clusters that a Placement selects, or one of its decisions, last changed.
    pub(super) placement_changed: Recent<ObjectKey>,
    /// When this process first saw the current generation of a policy. Missing if that generation existed when the
    /// process first listed the kind.
    pub(super) policies_changed: HashMap<Origin, Moment>,
    pub(super) same_target: SameTarget,
    /// When this process first saw a work that contains the creation time of its copy on the spoke.
    pub(super) copied: Recent<WorkKey>,
    pub(super) works_of: HashMap<Arc<Origin>, BTreeSet<WorkKey>>,
    /// When the watch last reported that a work of an origin has been applied in its current generation.
    pub(super) applied: HashMap<Arc<Origin>, Moment>,
    /// The number of works of each kind in a cluster, including works that are being deleted.
    pub(super) kinds_in_works: HashMap<ClusterName, HashMap<PolicyKind, usize>>,
    pub(super) unplaced: UnplacedWorks,
    pub(super) counts: Counts,
    pub(super) strings: Interned<str>,
    pub(super) gateway_names: Interned<[Arc<str>]>,
    pub(super) reports: Interned<AgentReport>,
}

impl Index {
    fn empty(controller: ControllerName) -> Self {
        Self {
            controller,
            deleted_classes: HashMap::new(),
            known_params: HashMap::new(),
            last_labels: HashMap::new(),
            placement_changed: Recent::within(PLACEMENT_SETTLE_TIME),
            policies_changed: HashMap::new(),
            same_target: SameTarget::default(),
            copied: Recent::within(SECOND),
            works_of: HashMap::new(),
            applied: HashMap::new(),
            kinds_in_works: HashMap::new(),
            unplaced: UnplacedWorks::default(),
            counts: Counts::default(),
            strings: Interned::default(),
            gateway_names: Interned::default(),
            reports: Interned::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        self.strings.size_in_bytes() + self.gateway_names.size_in_bytes() + self.reports.size_in_bytes()
    }
}
