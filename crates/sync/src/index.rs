//! What the sync derives from rows as they come and go.

mod params;
mod policies;
pub(super) mod same_target;
mod unplaced;
mod upkeep;
mod works;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::PolicyKind;
use super::counts::Counts;
use super::feedback::Answer;
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

/// How long the number of clusters that a Placement selects, and its decisions, must not change before a cluster that
/// left them counts as gone.
pub const PLACEMENT_SETTLES: Duration = Duration::from_secs(5);

/// The resolution of creation times.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// How long after a class went nothing is withdrawn on its account: `kubectl replace --force` and a reinstall make it anew.
pub const CLASS_RETURNS: Duration = Duration::from_secs(60);

/// A class of ours that was deleted. Within [`CLASS_RETURNS`] it may be made anew.
#[derive(Clone, Debug)]
pub(super) struct Departed {
    pub(super) class: Class,
    /// Its last valid parameters.
    pub(super) params: Option<Arc<Params>>,
    pub(super) since: Moment,
}

/// What is known of the hub beside its rows.
#[derive(Clone, Debug)]
pub struct Index {
    pub(super) controller: ControllerName,
    /// Classes of ours that were deleted a moment ago.
    pub(super) departed: HashMap<ObjectKey, Departed>,
    /// The last valid parameters of each class of ours.
    pub(super) known_params: HashMap<ObjectKey, Arc<Params>>,
    /// The labels last seen of ManagedClusters that are gone, as long as a work of ours is there.
    pub(super) last_labels: HashMap<ClusterName, Strings>,
    /// When the number of clusters that a Placement selects, or a decision of it, last changed.
    pub(super) placement_changed: Recent<ObjectKey>,
    /// Since when this process has seen a policy's generation; none where it was there at the start.
    pub(super) policies_changed: HashMap<Origin, Moment>,
    pub(super) same_target: SameTarget,
    /// When the watch brought the creation time of the copy in a work.
    pub(super) copied: Recent<WorkKey>,
    pub(super) works_of: HashMap<Arc<Origin>, BTreeSet<WorkKey>>,
    /// When the watch last brought that a work of an origin is applied as it is now.
    pub(super) applied: HashMap<Arc<Origin>, Moment>,
    /// How many works of each kind a cluster has, those that are being deleted included.
    pub(super) carried: HashMap<ClusterName, HashMap<PolicyKind, usize>>,
    pub(super) unplaced: UnplacedWorks,
    pub(super) counts: Counts,
    pub(super) strings: Interned<str>,
    pub(super) gateway_names: Interned<[Arc<str>]>,
    pub(super) answers: Interned<Answer>,
}

impl Index {
    fn empty(controller: ControllerName) -> Self {
        Self {
            controller,
            departed: HashMap::new(),
            known_params: HashMap::new(),
            last_labels: HashMap::new(),
            placement_changed: Recent::within(PLACEMENT_SETTLES),
            policies_changed: HashMap::new(),
            same_target: SameTarget::default(),
            copied: Recent::within(SECOND),
            works_of: HashMap::new(),
            applied: HashMap::new(),
            carried: HashMap::new(),
            unplaced: UnplacedWorks::default(),
            counts: Counts::default(),
            strings: Interned::default(),
            gateway_names: Interned::default(),
            answers: Interned::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn text_bytes(&self) -> usize {
        self.strings.held() + self.gateway_names.held() + self.answers.held()
    }
}
