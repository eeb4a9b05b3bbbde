//! The explanation of an object: its state on each cluster, with reasons.

use std::collections::BTreeMap;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::ClusterName;
use policy_sync_api::policy_state::PolicyState;

/// The time at which a reason began or will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeBound {
    /// The reason began at this time.
    Since(Moment),
    /// The reason ends at this time.
    Until(Moment),
}

/// Why an object is in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A stable identifier.
    pub code: &'static str,
    /// A sentence without capital and full stop.
    pub text: String,
    /// When the reason began or will end.
    pub when: Option<TimeBound>,
    /// The objects and fields to change. A change of any of these fields may change the state.
    pub change: Vec<String>,
}

impl Reason {
    pub(super) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), when: None, change: Vec::new() }
    }

    pub(super) fn change(mut self, object: impl Into<String>) -> Self {
        self.change.push(object.into());
        self
    }

    pub(super) fn changes(mut self, objects: impl IntoIterator<Item = String>) -> Self {
        self.change.extend(objects);
        self
    }

    pub(super) fn when(self, when: TimeBound) -> Self {
        Self { when: Some(when), ..self }
    }
}

/// A step of the decision that applies to all clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionStep {
    /// Whether the step allows the object on any cluster.
    pub passes: bool,
    /// The reason why the step passes or does not pass.
    pub reason: Reason,
}

impl DecisionStep {
    pub(super) fn passes(reason: Reason) -> Self {
        Self { passes: true, reason }
    }

    pub(super) fn stops(reason: Reason) -> Self {
        Self { passes: false, reason }
    }
}

/// The state of an object on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyState {
    /// The planned copy exists and is in force.
    InSync,
    /// A copy exists that differs from the plan or is not in force.
    OutOfSync,
    /// A copy is planned and does not exist.
    Missing,
    /// A copy exists and is not planned.
    Leaving,
    /// No copy exists or is planned.
    Absent,
}

impl CopyState {
    pub(super) fn new(desired: bool, present: bool, in_sync: bool) -> Self {
        match (desired, present) {
            (true, true) if in_sync => Self::InSync,
            (true, true) => Self::OutOfSync,
            (true, false) => Self::Missing,
            (false, true) => Self::Leaving,
            (false, false) => Self::Absent,
        }
    }

    /// Whether a copy is planned.
    #[must_use]
    pub fn is_desired(self) -> bool {
        matches!(self, Self::InSync | Self::OutOfSync | Self::Missing)
    }

    /// Whether a copy exists.
    #[must_use]
    pub fn is_present(self) -> bool {
        matches!(self, Self::InSync | Self::OutOfSync | Self::Leaving)
    }
}

/// The explanation for one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterVerdict {
    /// The state of the copy.
    pub state: CopyState,
    /// The state of a policy or resource that exists on the cluster or is planned for it.
    pub policy_state: Option<PolicyState>,
    /// The state in the last report of the cluster, even if the cluster is unavailable now. `None` if no copy is
    /// planned for the cluster, or if the work is left unchanged.
    pub reported: Option<PolicyState>,
    /// The reasons, the most important first. Never empty.
    pub reasons: Vec<Reason>,
}

/// The explanation of an object on all clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The steps that apply to all clusters, in the order of the decision.
    pub steps: Vec<DecisionStep>,
    /// All clusters of the hub, and those that have a work for the object.
    pub clusters: BTreeMap<ClusterName, ClusterVerdict>,
}
