//! What there is to say of an object: of each cluster how it is there, and why.

use std::collections::BTreeMap;

use policy_sync_api::moment::Moment;
use policy_sync_api::names::ClusterName;
use policy_sync_api::policy_state::PolicyState;

/// When a reason began, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// It began then.
    Since(Moment),
    /// It ends then.
    Until(Moment),
}

/// Why something is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// A stable word for programs.
    pub code: &'static str,
    /// A sentence, without its first capital and its full stop.
    pub text: String,
    /// Since when, or until when.
    pub when: Option<When>,
    /// The objects, any of which to change for it to be otherwise, each with the place in it.
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

    pub(super) fn when(self, when: When) -> Self {
        Self { when: Some(when), ..self }
    }
}

/// A step of the decision that is the same for all clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whether it lets the object go to any cluster.
    pub passes: bool,
    /// Why.
    pub reason: Reason,
}

impl Step {
    pub(super) fn passes(reason: Reason) -> Self {
        Self { passes: true, reason }
    }

    pub(super) fn stops(reason: Reason) -> Self {
        Self { passes: false, reason }
    }
}

/// How an object is on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Its copy is there as it is planned, and in force.
    InSync,
    /// Its copy is there, and not as it is planned, or not in force.
    OutOfSync,
    /// It is to be there, and is not.
    Missing,
    /// Its copy is there, and is not to be.
    Leaving,
    /// It is not there, nor to be.
    Absent,
}

impl State {
    pub(super) fn new(desired: bool, present: bool, in_sync: bool) -> Self {
        match (desired, present) {
            (true, true) if in_sync => Self::InSync,
            (true, true) => Self::OutOfSync,
            (true, false) => Self::Missing,
            (false, true) => Self::Leaving,
            (false, false) => Self::Absent,
        }
    }

    /// Whether it is to be there.
    #[must_use]
    pub fn is_desired(self) -> bool {
        matches!(self, Self::InSync | Self::OutOfSync | Self::Missing)
    }

    /// Whether a copy is there.
    #[must_use]
    pub fn is_present(self) -> bool {
        matches!(self, Self::InSync | Self::OutOfSync | Self::Leaving)
    }
}

/// How it is on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How.
    pub state: State,
    /// Of a policy or a resource that is there, or is to be: its state there.
    pub policy_state: Option<PolicyState>,
    /// The same by the last report of the cluster, also while the cluster is not available. `None` if no copy is planned there, or the work
    /// is left unchanged.
    pub reported: Option<PolicyState>,
    /// Why, the first before all others; never empty.
    pub reasons: Vec<Reason>,
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What is the same for all clusters, in the order in which it is decided.
    pub steps: Vec<Step>,
    /// All clusters of the hub, and those where there is a work for it.
    pub clusters: BTreeMap<ClusterName, Verdict>,
}
