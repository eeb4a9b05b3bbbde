//! Several controllers of this make want to write the same fields of one object: one of them does.
//!
//! The one that has a work for the object comes before one that has none, and of those alike the one whose manager's name
//! sorts first. Each of them finds the same, whoever writes first, and one that is gone with its works holds nothing up.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{Problem, View};
use policy_sync_api::names::Origin;

/// Who wants to write an object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contest {
    /// The managers of the other controllers that own some of them.
    pub others: BTreeSet<Arc<str>>,
    /// Whether this controller has a work for the object.
    pub stands: bool,
}

impl Contest {
    /// The contest with `others` for the object `origin`.
    pub(super) fn new(view: View<'_>, origin: &Origin, others: &BTreeSet<Arc<str>>) -> Self {
        Self { others: others.clone(), stands: view.works_of(origin).next().is_some() }
    }

    /// Whether `manager`, this controller's, is to write, where the others in `standing` have works for the object.
    #[must_use]
    pub fn is_won(&self, manager: &str, standing: &BTreeSet<Arc<str>>) -> bool {
        let ours = (self.stands, Reverse(manager));
        self.others.iter().all(|other| ours > (standing.contains(other), Reverse(&**other)))
    }

    /// Whether it is to write, whoever has works.
    #[must_use]
    pub fn is_won_anyway(&self, manager: &str) -> bool {
        self.is_won(manager, &self.others)
    }

    /// What the object's owner should know where it is not.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let others: Vec<&str> = self.others.iter().map(|other| &**other).collect();
        Problem::OtherController(others.join(", "))
    }
}

#[cfg(test)]
mod tests;
