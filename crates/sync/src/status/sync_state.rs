//! The states of policies and Gateways as the metrics count them.

use std::collections::BTreeMap;

use crate::desired::{KeepReason, Outcome, WorksPlan};
use crate::{Problem, View};
use policy_sync_api::annotations::Synced;
use policy_sync_api::gateway::GatewayStatus;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::policy_state::PolicyState;

/// The state of a policy or Gateway for the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncState {
    /// The overall state.
    pub state: SyncPhase,
    /// The clusters that have not yet applied the current revision or deleted the copy.
    pub awaited: Vec<ClusterName>,
    /// The number of clusters in each state, for a policy.
    pub clusters: BTreeMap<PolicyState, usize>,
    /// Whether an annotation of the object itself pauses the object.
    pub paused: bool,
}

/// The overall state of a policy or Gateway. If several states apply, the first one in the order of this enum is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncPhase {
    /// A problem prevents planning.
    Frozen,
    /// The object is planned for no cluster.
    Unplaced,
    /// On a cluster, the creation or deletion of the copy waits for other objects, or its deletion waits for missing
    /// data.
    Held,
    /// A cluster has not yet applied the copy, deleted the copy or reported on the copy.
    Pending,
    /// All clusters have applied the policy. Gateways do not have this state.
    Synced,
    /// All clusters have programmed the Gateway. Policies do not have this state.
    Programmed,
    /// A cluster reports that the Gateway is not programmed. Policies do not have this state.
    NotProgrammed,
}

impl SyncPhase {
    /// The states of policies.
    pub const OF_POLICIES: [Self; 5] =
        [Self::Frozen, Self::Unplaced, Self::Held, Self::Pending, Self::Synced];
    /// The states of Gateways.
    pub const OF_GATEWAYS: [Self; 6] =
        [Self::Frozen, Self::Unplaced, Self::Held, Self::Pending, Self::Programmed, Self::NotProgrammed];

    /// The value of the metric label `state`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Unplaced => "unplaced",
            Self::Held => "held",
            Self::Pending => "pending",
            Self::Synced => "synced",
            Self::Programmed => "programmed",
            Self::NotProgrammed => "not_programmed",
        }
    }
}

impl SyncState {
    /// The state of an object that has not been planned yet.
    pub const UNKNOWN: Self =
        Self { state: SyncPhase::Pending, awaited: Vec::new(), clusters: BTreeMap::new(), paused: false };

    /// The state of a policy with these planned works and entries. `None` if the policy has no works and no problem,
    /// and targets no Gateway of this controller.
    pub(super) fn of_policy(works: &WorksPlan, entries: &[Synced]) -> Option<Self> {
        let is_frozen = works.problems.iter().any(Problem::freezes);
        if !works.targeted && entries.is_empty() && !is_frozen {
            return None;
        }
        let awaited = entries.iter().filter(|entry| !entry.applied);
        let awaited: Vec<ClusterName> = awaited.map(|entry| entry.cluster.clone()).collect();
        let state =
            planned(works).unwrap_or(if awaited.is_empty() { SyncPhase::Synced } else { SyncPhase::Pending });
        let mut clusters = BTreeMap::new();
        for state in entries.iter().map(PolicyState::of) {
            *clusters.entry(state).or_default() += 1;
        }
        Some(Self { state, awaited, clusters, paused: is_paused(works) })
    }

    /// The state of the Gateway `origin` with these planned works and this planned status.
    pub(super) fn of_gateway(
        view: View<'_>,
        origin: &Origin,
        works: &WorksPlan,
        status: &GatewayStatus,
    ) -> Self {
        let awaited = view.works_of(origin).filter(|(_, _, work)| !work.is_applied());
        let awaited = awaited.map(|(_, cluster, _)| cluster.clone()).collect();
        let programmed = status.conditions.iter().find(|condition| condition.type_ == "Programmed");
        let state = planned(works).unwrap_or(match programmed {
            Some(programmed) if programmed.status == "True" => SyncPhase::Programmed,
            Some(programmed) if programmed.reason == "NotProgrammed" => SyncPhase::NotProgrammed,
            _ => SyncPhase::Pending,
        });
        Self { state, awaited, clusters: BTreeMap::new(), paused: is_paused(works) }
    }
}

/// Whether an annotation of the planned object itself pauses it.
fn is_paused(works: &WorksPlan) -> bool {
    works.problems.iter().any(Problem::is_own_pause)
}

/// The state that the plan alone determines, if any.
fn planned(works: &WorksPlan) -> Option<SyncPhase> {
    if works.problems.iter().any(Problem::freezes) {
        return Some(SyncPhase::Frozen);
    }
    if works.outcomes.is_empty() {
        return Some(SyncPhase::Unplaced);
    }
    let is_held = |outcome: &Outcome| match outcome {
        Outcome::Deferred(..) => true,
        Outcome::Kept(kept) => !matches!(kept, KeepReason::Frozen(_)),
        Outcome::Work(_) => false,
    };
    works.outcomes.values().any(is_held).then_some(SyncPhase::Held)
}
