//! How a policy is on one cluster, in a word.

use std::sync::Arc;

use crate::api::annotations::{ENFORCED, Synced, SyncedCondition};
use crate::api::text::capped;
use crate::report::PolicyReport;

/// The condition of a copy that says whether its cluster takes it.
const ACCEPTED: &str = "Accepted";
/// The most bytes of a message that a cell keeps: clusters write it, and the policy's own page has all of it.
const MESSAGE: usize = 240;

/// How a policy is on a cluster, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// The cluster does not take it.
    Refused,
    /// It is there, and has no effect.
    NotEnforced,
    /// Something keeps the hub from planning it: what is there is of before.
    Frozen,
    /// The cluster has yet to answer.
    Pending,
    /// What the annotations hold does not say it.
    Unknown,
    /// The cluster is asked to remove it.
    Leaving,
    /// A policy of the cluster's own wins.
    Overridden,
    /// It is there; whether it is enforced, the cluster does not say.
    Applied,
    /// It is in force.
    Enforced,
}

impl State {
    /// All, the worst first.
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::NotEnforced,
        Self::Frozen,
        Self::Pending,
        Self::Unknown,
        Self::Leaving,
        Self::Overridden,
        Self::Applied,
        Self::Enforced,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::NotEnforced => "not enforced",
            Self::Frozen => "frozen",
            Self::Pending => "pending",
            Self::Unknown => "?",
            Self::Leaving => "leaving",
            Self::Overridden => "overridden",
            Self::Applied => "applied",
            Self::Enforced => "enforced",
        }
    }

    /// What the word means, as a sentence goes on after it.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Refused => "the cluster does not take it",
            Self::NotEnforced => "it is there, and has no effect",
            Self::Frozen => "something keeps the hub from planning it: what is there is of before",
            Self::Pending => "the cluster has yet to answer",
            Self::Unknown => "what the policy's annotations hold does not say it",
            Self::Leaving => "the cluster is asked to remove it",
            Self::Overridden => "a policy of the cluster's own wins",
            Self::Applied => "it is there; whether it is enforced, the cluster does not say",
            Self::Enforced => "it is in force",
        }
    }
}

/// How a policy is on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// In a word.
    pub state: State,
    /// Whether `status` counts it as it should be.
    pub in_sync: bool,
    /// In the cluster's words, or in the hub's, as far as there is room.
    pub message: Option<Arc<str>>,
}

impl Cell {
    /// How the policy of `report` is on the cluster of `entry`, which is one of its list.
    #[must_use]
    pub fn of_entry(report: &PolicyReport, entry: &Synced) -> Self {
        if !report.detail.shows_states() {
            return if report.is_held(None) {
                Self { state: State::Applied, in_sync: true, message: None }
            } else {
                Self::unknown(report.detail.explanation().as_deref())
            };
        }
        let condition = |name: &str| entry.conditions.iter().find(|c| c.condition_type == name);
        let is_false = |name| condition(name).filter(|condition| condition.status == "False");
        let words = |condition: &SyncedCondition| {
            let word = condition.reason.clone().unwrap_or_default();
            match &condition.message {
                Some(message) if word.is_empty() => message.clone(),
                Some(message) => format!("{word}: {message}"),
                None => word,
            }
        };
        let (state, message) = if entry.deleting {
            (State::Leaving, entry.message.clone())
        } else if !entry.applied && !entry.pending {
            (State::Refused, entry.message.clone())
        } else if let Some(refused) = is_false(ACCEPTED) {
            (State::Refused, Some(words(refused)))
        } else if let Some(message) = &report.message {
            (State::Frozen, Some(message.clone()))
        } else if !entry.applied || entry.pending {
            (State::Pending, entry.message.clone())
        } else if let Some(overridden) = entry.conditions.iter().find(|c| c.is_overridden()) {
            (State::Overridden, Some(words(overridden)))
        } else if let Some(without) = is_false(ENFORCED) {
            (State::NotEnforced, Some(words(without)))
        } else if condition(ENFORCED).is_some_and(|condition| condition.status == "True") {
            (State::Enforced, None)
        } else {
            (State::Applied, entry.message.clone())
        };
        let in_sync = report.is_held(Some(entry));
        Self { state, in_sync, message: message.as_deref().filter(|text| !text.is_empty()).map(kept) }
    }

    /// One of which it is not known, for this reason.
    pub(super) fn unknown(why: Option<&str>) -> Self {
        Self { state: State::Unknown, in_sync: false, message: why.map(kept) }
    }
}

/// As much of `text` as is kept.
pub(super) fn kept(text: &str) -> Arc<str> {
    capped(text, MESSAGE).into()
}
