//! Exit-code checks: whether policies are in the states that a caller requires.

use super::item::Item;
use super::policy::{AnnotationValue, PolicyReport};
use policy_sync_api::annotations::{Summary, Synced};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;

/// The states that fail a check. Each level also fails all states of the level before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailOn {
    /// A cluster lacks the current revision.
    OutOfSync,
    /// A policy is rejected, not enforced, partially enforced, not applied, frozen or pending on a cluster,
    /// or the cluster is not available.
    #[default]
    NotEnforced,
    /// On a cluster, another policy takes precedence over the policy.
    Overridden,
}

/// The result of a check. The derived order puts the worst result last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// No state fails the check.
    Passed,
    /// No known state fails the check, but the state on a cluster is unknown.
    Unknown,
    /// A state fails the check.
    Failed,
}

impl FailOn {
    /// Checks one state.
    #[must_use]
    pub fn check_state(self, state: PolicyState) -> Check {
        let fails = match state {
            PolicyState::Rejected
            | PolicyState::NotEnforced
            | PolicyState::PartiallyEnforced
            | PolicyState::NotApplied
            | PolicyState::Frozen
            | PolicyState::Pending
            | PolicyState::Unreachable => self >= Self::NotEnforced,
            PolicyState::Overridden => self >= Self::Overridden,
            PolicyState::Unknown if self >= Self::NotEnforced => return Check::Unknown,
            _ => false,
        };
        if fails { Check::Failed } else { Check::Passed }
    }

    /// Checks the counts of a summary. Used if the list of clusters does not show states.
    fn check_summary(self, summary: &Summary) -> Check {
        summary.states().map(|(state, _)| self.check_state(state)).max().unwrap_or(Check::Passed)
    }
}

impl PolicyReport {
    fn depends_on_availability(&self, cluster: Option<&str>) -> bool {
        let is_shown = |entry: &&Synced| cluster.is_none_or(|cluster| *entry.cluster.0 == *cluster);
        let would_differ =
            |entry: &Synced| self.state_of(entry).is_none_or(|state| state.on_unavailable_cluster() != state);
        let clusters = self.clusters.value().map(Vec::as_slice).unwrap_or_default();
        let is_truncated = self.summary.value().is_some_and(|summary| summary.clusters > clusters.len());
        is_truncated || clusters.iter().filter(is_shown).any(would_differ)
    }

    fn check(&self, cluster: Option<&str>, fail_on: FailOn) -> Check {
        let is_shown = |entry: &&Synced| cluster.is_none_or(|cluster| *entry.cluster.0 == *cluster);
        let summary = self.summary.value().filter(|_| self.role == Role::Policy);
        let counted = || summary.map_or(Check::Passed, |summary| fail_on.check_summary(summary));
        match &self.clusters {
            AnnotationValue::Value(clusters) if self.detail.shows_states() => {
                let shown = clusters.iter().filter(is_shown).map(|entry| self.state_of(entry));
                let checks =
                    shown.map(|state| state.map_or_else(counted, |state| fail_on.check_state(state)));
                checks.max().unwrap_or(Check::Passed)
            }
            // A list of names suffices to find clusters that are not available.
            AnnotationValue::Value(clusters) => {
                let is_unavailable = |entry: &Synced| self.unavailable.contains(&entry.cluster);
                let unreachable = clusters.iter().filter(is_shown).any(is_unavailable);
                let check = unreachable.then(|| fail_on.check_state(PolicyState::Unreachable));
                check.unwrap_or(Check::Passed).max(counted())
            }
            _ => counted(),
        }
    }
}

impl Item {
    /// Whether the item is a policy whose state on `cluster` depends on whether this cluster is available. If `cluster`
    /// is `None`, checks whether that is the case on any cluster.
    #[must_use]
    pub fn depends_on_availability(&self, cluster: Option<&str>) -> bool {
        self.policy().is_some_and(|report| report.depends_on_availability(cluster))
    }

    /// Checks the item on `cluster`, or on all of its clusters.
    #[must_use]
    pub fn check(&self, cluster: Option<&str>, fail_on: FailOn) -> Check {
        let in_sync = match cluster {
            None => self.in_sync(),
            Some(cluster) => self.on(cluster).is_none_or(|on| on.in_sync()),
        };
        match self {
            _ if !in_sync => Check::Failed,
            Self::Policy(report) => report.check(cluster, fail_on),
            Self::Copy(report) => report.state().map_or(Check::Passed, |state| fail_on.check_state(state)),
            Self::Gateway(_) => Check::Passed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::report;
    use policy_sync_api::annotations::{POLICIES_SYNCED, POLICIES_SYNCED_SUMMARY};

    #[test]
    fn each_level_fails_more_states() {
        for state in PolicyState::ALL {
            let levels = [FailOn::OutOfSync, FailOn::NotEnforced, FailOn::Overridden];
            let checks = levels.map(|level| level.check_state(state));
            let expected = match state {
                PolicyState::Overridden => [Check::Passed, Check::Passed, Check::Failed],
                PolicyState::Unknown => [Check::Passed, Check::Unknown, Check::Unknown],
                PolicyState::Enforced
                | PolicyState::Accepted
                | PolicyState::Applied
                | PolicyState::Removing => [Check::Passed; 3],
                _ => [Check::Passed, Check::Failed, Check::Failed],
            };
            assert_eq!(checks, expected, "{state:?}");
        }
    }

    #[test]
    fn every_state_except_frozen_depends_on_cluster_availability() {
        let depends = |clusters: &str, count: usize, cluster: Option<&str>| {
            let summary = format!(
                r#"{{"clusters":{count},"applied":1,"enforced":0,"overridden":0,"pending":0,"synced":true}}"#
            );
            let report = report(&[(POLICIES_SYNCED_SUMMARY, &summary), (POLICIES_SYNCED, clusters)]);
            Item::from(report).depends_on_availability(cluster)
        };
        let (eu, us) = (Some("eu-1"), Some("us-1"));
        let frozen = r#"[{"cluster":"eu-1","name":"l","namespace":"n","applied":true,"frozen":"BadSelector"},
            {"cluster":"us-1","name":"l","namespace":"n","deleting":true}]"#;
        assert_eq!([None, eu, us].map(|cluster| depends(frozen, 2, cluster)), [true, false, true]);
        assert_eq!([None, eu].map(|cluster| depends("[]", 0, cluster)), [false, false]);
        // A truncated list leaves out other clusters, which may be unavailable.
        assert_eq!([None, eu].map(|cluster| depends("[]", 2, cluster)), [true, true]);
        assert!(!Item::from(report(&[])).depends_on_availability(None));
    }

    #[test]
    fn list_without_states_is_checked_by_its_summary_counts() {
        let summary = Summary { clusters: 9, applied: 9, synced: true, ..Summary::default() };
        assert_eq!(FailOn::NotEnforced.check_summary(&summary), Check::Passed);
        let overridden = Summary { overridden: 1, unknown: 1, ..summary.clone() };
        assert_eq!(FailOn::NotEnforced.check_summary(&overridden), Check::Unknown);
        assert_eq!(FailOn::Overridden.check_summary(&overridden), Check::Failed);
        let rejected = Summary { rejected: 1, ..summary };
        assert_eq!(FailOn::OutOfSync.check_summary(&rejected), Check::Passed);
        assert_eq!(FailOn::NotEnforced.check_summary(&rejected), Check::Failed);
    }
}
