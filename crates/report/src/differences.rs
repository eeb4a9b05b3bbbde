//! The fields in which a policy differs between clusters, computed from the policy's overrides and the current labels
//! of clusters. The result is the controller's plan. The policy's annotations show whether a cluster has applied this
//! plan.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::{AnnotationValue, PolicyReport};
use super::query::cluster;
use policy_sync_api::annotations::CLUSTER_OVERRIDES;
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::kinds::CLUSTERS;
use policy_sync_sync::rows::Strings;

/// The labels of clusters; `None` if the user may not read them.
#[derive(Clone, Debug)]
pub struct Differences(Option<BTreeMap<ClusterName, Strings>>);

/// The fields of a policy that overrides change on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferingPaths {
    /// The paths in the policy's spec that overrides change. Empty if no override applies to the cluster.
    Known(BTreeSet<String>),
    /// The overrides or the cluster's labels are unknown.
    Unknown,
}

impl Differences {
    /// Stores the labels of each cluster. `labels` is `None` if the user may not read them.
    #[must_use]
    pub fn new(labels: Option<BTreeMap<ClusterName, Strings>>) -> Self {
        Self(labels)
    }

    /// Reads the labels of cluster `name`, or of all clusters. If the user may not read them, also returns the error.
    ///
    /// # Errors
    ///
    /// If the hub cannot be reached.
    pub async fn read(
        hub: &HubClient,
        controller: &ControllerName,
        name: Option<&str>,
    ) -> Result<(Self, Option<HubError>), HubError> {
        let found = match name {
            Some(name) => cluster(hub, &name.into()).await.map(|found| found.into_iter().collect()),
            None => hub.list(&CLUSTERS.all(), &CLUSTERS.gvr(), controller, "list ManagedClusters").await,
        };
        match found {
            Ok(found) => {
                let found = found.into_iter().map(|cluster| cluster.metadata);
                let labels = found.map(|cluster| (ClusterName::from(&*cluster.name), cluster.labels));
                Ok((Self(Some(labels.collect())), None))
            }
            Err(error) if error.is_response() => Ok((Self(None), Some(error))),
            Err(error) => Err(error),
        }
    }

    /// The paths in the policy's spec that overrides change on `cluster`.
    #[must_use]
    pub fn of_policy(&self, report: &PolicyReport, cluster: &str) -> DifferingPaths {
        // Rejected overrides freeze the policy, so they do not determine the spec of its copy on the cluster.
        let refused = report.message.as_ref().is_some_and(|message| message.contains(CLUSTER_OVERRIDES));
        // If the policy's list of clusters is truncated, `on` also returns a value for clusters that the list does not
        // name.
        let named = report.on(cluster).is_some_and(|on| on.entry.is_some());
        let (overrides, labels) = match (&report.overrides, &self.0) {
            (AnnotationValue::Missing, _) => return DifferingPaths::Known(BTreeSet::new()),
            (AnnotationValue::Value(overrides), Some(labels)) if named && !refused => (overrides, labels),
            _ => return DifferingPaths::Unknown,
        };
        // The ManagedCluster may have been deleted.
        let Some(labels) = labels.get(cluster) else { return DifferingPaths::Unknown };
        let selected = overrides.override_selectors().selected(labels);
        DifferingPaths::Known(overrides.places(&selected))
    }
}
