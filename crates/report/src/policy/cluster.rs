//! [`PolicyOnCluster`]: the state of a policy on one cluster, if its annotations contain it.

use serde_json::{Value, json};

use super::{AnnotationValue, PolicyReport};
use policy_sync_api::annotations::Synced;
use policy_sync_api::policy_state::PolicyState;

/// A policy on a cluster.
#[derive(Clone, Copy, Debug)]
pub struct PolicyOnCluster<'r> {
    /// The policy on the hub.
    pub report: &'r PolicyReport,
    /// The entry of the cluster; `None` if the list is truncated or cannot be parsed.
    pub entry: Option<&'r Synced>,
    cluster: &'r str,
    index: Option<usize>,
}

impl PolicyReport {
    /// The policy on `cluster`; `None` if it is not planned for that cluster.
    #[must_use]
    pub fn on<'r>(&'r self, cluster: &'r str) -> Option<PolicyOnCluster<'r>> {
        let found = |clusters: &Vec<Synced>| clusters.iter().position(|entry| *entry.cluster.0 == *cluster);
        let index = self.clusters.value().and_then(found);
        let entry = self.clusters.value().zip(index).and_then(|(clusters, index)| clusters.get(index));
        (index.is_some() || !self.lists_all_clusters()).then_some(PolicyOnCluster {
            report: self,
            entry,
            cluster,
            index,
        })
    }

    /// Whether a cluster has applied the current policy, and no fault prevents a plan. `state` is the cluster's entry
    /// in the list, if any.
    pub(crate) fn has_current_revision(&self, state: Option<&Synced>) -> bool {
        let all = self.summary.value().is_some_and(|summary| summary.synced);
        let applied = all || state.is_some_and(|entry| entry.applied || entry.is_being_removed());
        applied && self.message.is_none() && self.faults.is_empty()
    }

    /// Whether the list names all clusters of the policy. Then the policy is not planned for any other cluster.
    pub(crate) fn lists_all_clusters(&self) -> bool {
        match (&self.clusters, &self.summary) {
            (AnnotationValue::Value(clusters), AnnotationValue::Value(summary)) => {
                clusters.len() == summary.clusters
                    && self.detail.names(summary.clusters) == Some(clusters.len())
            }
            // A missing list and a message may mean that the list was too large.
            (AnnotationValue::Missing, AnnotationValue::Missing) => self.message.is_none(),
            _ => false,
        }
    }
}

impl PolicyOnCluster<'_> {
    /// The entry of the cluster, if the list shows states.
    #[must_use]
    pub fn state(&self) -> Option<&Synced> {
        self.entry.filter(|_| self.report.detail.shows_states())
    }

    /// The state of the policy on the cluster; `None` if the annotations do not show it.
    #[must_use]
    pub fn policy_state(&self) -> Option<PolicyState> {
        self.report.state_of(self.entry?)
    }

    /// Whether the cluster has the current revision, and the policy has neither a message nor a fault.
    #[must_use]
    pub fn in_sync(&self) -> bool {
        self.report.has_current_revision(self.state())
    }

    /// The report as JSON, reduced to this cluster. Unknown values are null.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut json = self.report.json();
        let entry = self.index.map(|index| json["clusters"][index].take());
        json["clusters"] = entry.map_or(Value::Null, |entry| json!([entry]));
        let mut missing = self.report.missing();
        missing.iter_mut().for_each(|missing| missing.retain(|cluster| *cluster == self.cluster));
        json["missing"] = missing.into();
        json["states"] = self.entry.map_or(Value::Null, |_| json!({ self.cluster: self.policy_state() }));
        json["inSync"] = self.in_sync().into();
        json
    }
}

#[cfg(test)]
mod tests;
