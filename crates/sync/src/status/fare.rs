//! How policies and Gateways fare, as metrics count them.

use std::collections::BTreeMap;

use crate::desired::{Kept, Outcome, WorksPlan};
use crate::{Problem, View};
use policy_sync_api::annotations::Synced;
use policy_sync_api::gateway::GatewayStatus;
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_api::policy_state::PolicyState;

/// How a policy or a Gateway fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fare {
    /// In a word.
    pub state: State,
    /// The clusters that have yet to apply it as it is, or to let go of it.
    pub awaited: Vec<ClusterName>,
    /// Of a policy: the number of clusters in each state.
    pub clusters: BTreeMap<PolicyState, usize>,
}

/// The first of these that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// A problem keeps it from being planned.
    Frozen,
    /// It is on no cluster, or is to be on none.
    Unplaced,
    /// On some cluster it waits for something else to come or go first.
    Held,
    /// Some cluster has yet to apply it, or to let go of it, or to say how it fares.
    Pending,
    /// Of a policy: all of its clusters have applied it.
    Synced,
    /// Of a Gateway: all of its clusters have programmed it.
    Programmed,
    /// Of a Gateway: some cluster says that it is not programmed.
    NotProgrammed,
}

impl State {
    /// Those of policies.
    pub const OF_POLICIES: [Self; 5] =
        [Self::Frozen, Self::Unplaced, Self::Held, Self::Pending, Self::Synced];
    /// Those of Gateways.
    pub const OF_GATEWAYS: [Self; 6] =
        [Self::Frozen, Self::Unplaced, Self::Held, Self::Pending, Self::Programmed, Self::NotProgrammed];

    /// As metrics label it.
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

impl Fare {
    /// That of something of which it is not known yet what should become of it.
    pub const UNKNOWN: Self = Self { state: State::Pending, awaited: Vec::new(), clusters: BTreeMap::new() };

    /// That of a policy whose works are planned so, and whose clusters say this of it.
    pub(super) fn of_policy(works: &WorksPlan, entries: &[Synced]) -> Option<Self> {
        let is_frozen = works.problems.iter().any(Problem::freezes);
        if !works.targeted && entries.is_empty() && !is_frozen {
            return None;
        }
        let awaited = entries.iter().filter(|entry| !entry.applied);
        let awaited: Vec<ClusterName> = awaited.map(|entry| entry.cluster.clone()).collect();
        let state = planned(works).unwrap_or(if awaited.is_empty() { State::Synced } else { State::Pending });
        let mut clusters = BTreeMap::new();
        for state in entries.iter().map(PolicyState::of) {
            *clusters.entry(state).or_default() += 1;
        }
        Some(Self { state, awaited, clusters })
    }

    /// That of the Gateway `origin` whose works are planned so, and whose status is to be `status`.
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
            Some(programmed) if programmed.status == "True" => State::Programmed,
            Some(programmed) if programmed.reason == "NotProgrammed" => State::NotProgrammed,
            _ => State::Pending,
        });
        Self { state, awaited, clusters: BTreeMap::new() }
    }
}

/// What the plan alone says.
fn planned(works: &WorksPlan) -> Option<State> {
    if works.problems.iter().any(Problem::freezes) {
        return Some(State::Frozen);
    }
    if works.outcomes.is_empty() {
        return Some(State::Unplaced);
    }
    let is_held = |outcome: &Outcome| match outcome {
        Outcome::Held(..) => true,
        Outcome::Kept(kept) => !matches!(kept, Kept::Frozen(_)),
        Outcome::Work(_) => false,
    };
    works.outcomes.values().any(is_held).then_some(State::Held)
}
