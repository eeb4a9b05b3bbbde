//! Where policies differ from cluster to cluster: their overrides, held against the labels that the clusters have now.
//!
//! It is what the controller plans; whether a cluster has applied it, the policy's annotations say.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::{PolicyReport, Reading};
use super::query::cluster;
use policy_sync_api::annotations::CLUSTER_OVERRIDES;
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_hub::{HubClient, HubError};
use policy_sync_sync::kinds::CLUSTERS;
use policy_sync_sync::rows::Strings;

/// The labels of clusters, `None` where they may not be read.
#[derive(Clone, Debug)]
pub struct Differences(Option<BTreeMap<ClusterName, Strings>>);

/// What of a policy is different on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Differs {
    /// These places in its spec, be it none.
    At(BTreeSet<String>),
    /// It is not known.
    Unknown,
}

impl Differences {
    /// What is known of these labels.
    #[must_use]
    pub fn new(labels: Option<BTreeMap<ClusterName, Strings>>) -> Self {
        Self(labels)
    }

    /// Reads the labels of `name`, or of all clusters; where they may not be read, returns why beside it.
    ///
    /// # Errors
    ///
    /// Where the hub cannot be reached.
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
            Err(error) if error.is_answer() => Ok((Self(None), Some(error))),
            Err(error) => Err(error),
        }
    }

    /// What is different on `cluster`: the places in the spec that overrides change there.
    #[must_use]
    pub fn of_policy(&self, report: &PolicyReport, cluster: &str) -> Differs {
        // Overrides that are refused are not what the cluster has.
        let refused = report.message.as_ref().is_some_and(|message| message.contains(CLUSTER_OVERRIDES));
        // A list that is cut ends with a row of no cluster.
        let named = report.on(cluster).is_some_and(|on| on.entry.is_some());
        let (overrides, labels) = match (&report.overrides, &self.0) {
            (Reading::Missing, _) => return Differs::At(BTreeSet::new()),
            (Reading::Value(overrides), Some(labels)) if named && !refused => (overrides, labels),
            _ => return Differs::Unknown,
        };
        // The ManagedCluster may be gone.
        let Some(labels) = labels.get(cluster) else { return Differs::Unknown };
        let chosen = overrides.choice().chosen(labels);
        Differs::At(overrides.places(&chosen))
    }
}
