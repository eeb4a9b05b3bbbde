//! Decides which of several Policy Sync controllers writes the same fields of an object.
//!
//! A controller that has a work for the object wins over a controller that has none. If this does not decide, the
//! controller whose field manager sorts first wins. All controllers reach the same result. A controller that was
//! removed with its works does not block the others.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{Problem, View};
use policy_sync_api::names::Origin;

/// The controllers that compete for fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contest {
    /// The field managers of the other controllers that own some of the fields.
    pub others: BTreeSet<Arc<str>>,
    /// Whether this controller has a work for the object.
    pub has_work: bool,
}

impl Contest {
    /// The contest with `others` for the object `origin`.
    pub(super) fn new(view: View<'_>, origin: &Origin, others: &BTreeSet<Arc<str>>) -> Self {
        Self { others: others.clone(), has_work: view.works_of(origin).next().is_some() }
    }

    /// Whether this controller wins. `manager` is the field manager of this controller. `with_works` contains the field
    /// managers of the other controllers that have works.
    #[must_use]
    pub fn is_won(&self, manager: &str, with_works: &BTreeSet<Arc<str>>) -> bool {
        let ours = (self.has_work, Reverse(manager));
        self.others.iter().all(|other| ours > (with_works.contains(other), Reverse(&**other)))
    }

    /// Whether this controller wins even if all other controllers have works for the object.
    #[must_use]
    pub fn is_won_anyway(&self, manager: &str) -> bool {
        self.is_won(manager, &self.others)
    }

    /// The problem to report if this controller loses.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let others: Vec<&str> = self.others.iter().map(|other| &**other).collect();
        Problem::OtherController(others.join(", "))
    }
}

#[cfg(test)]
mod tests;
