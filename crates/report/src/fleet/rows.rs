//! The rows that the mirror of the fleet stores for policies and clusters: states and short messages instead
//! of annotations.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::state::{Cell, truncated};
use crate::PolicyReport;
use crate::policy::is_annotated;
use policy_sync_api::annotations::Summary;
use policy_sync_api::cluster::{self, ManagedClusterStatus};
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Family, Kind, ObjectRow, Row};

/// Policies and resources. Only metadata is listed, because annotations contain all information that pages show.
pub(super) static POLICIES: Family<FleetRow> = Family::new("policies").of_metadata();
pub(super) static CLUSTERS: Kind<ClusterRow> = Kind::new(cluster::GROUP, "v1", "managedclusters");

/// A policy with its state on each cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRow {
    /// Whether all placed clusters have the current revision, and the policy has neither a message nor a fault.
    pub in_sync: bool,
    /// Whether the controller has written annotations on the policy.
    pub is_annotated: bool,
    /// The counts over all clusters of the policy.
    pub summary: Option<Summary>,
    /// The controller's message for the owner of the policy, truncated.
    pub message: Option<Arc<str>>,
    /// The first fault of the policy's annotations.
    pub fault: Option<Arc<str>>,
    /// The cell of each cluster in the policy's list, sorted by cluster.
    pub(super) cells: Box<[(ClusterName, Cell)]>,
    /// The cell for every cluster that the policy's list of clusters does not name; `None` if the list is complete.
    pub(super) others: Option<Cell>,
}

impl Row for FleetRow {}

impl ObjectRow for FleetRow {
    fn prune(object: &HubObject, _controller: &ControllerName) -> Self {
        let annotations = &object.metadata.annotations;
        let is_annotated = is_annotated(annotations);
        let report = PolicyReport::from_annotations(object.key(), annotations);
        let entries = report.clusters.value().into_iter().flatten();
        let mut cells: Vec<(ClusterName, Cell)> =
            entries.map(|entry| (entry.cluster.clone(), Cell::from_entry(&report, entry))).collect();
        cells.sort_by(|(a, _), (b, _)| a.cmp(b));
        // A list that a user has edited may contain a cluster twice. The first entry is used, as in
        // `PolicyReport::on`.
        cells.dedup_by(|(later, _), (first, _)| later == first);
        let fault = report.faults.first().map(|fault| truncated(fault));
        let why = || {
            let message = report.faults.first().or(report.message.as_ref()).cloned();
            message.or_else(|| report.detail.explanation())
        };
        let others = (!report.lists_all_clusters()).then(|| Cell::unknown(why().as_deref()));
        Self {
            in_sync: report.in_sync(),
            is_annotated,
            summary: report.summary.value().cloned(),
            message: report.message.as_deref().map(truncated),
            fault,
            cells: cells.into(),
            others,
        }
    }
}

impl FleetRow {
    /// The cell of `cluster`; `None` if the policy is not planned for it.
    #[must_use]
    pub fn on(&self, cluster: &ClusterName) -> Option<&Cell> {
        match self.cells.binary_search_by(|(name, _)| name.cmp(cluster)) {
            Ok(place) => Some(&self.cells[place].1),
            Err(_) => self.others.as_ref(),
        }
    }

    /// The clusters in the policy's list, with their cells.
    pub fn cells(&self) -> impl Iterator<Item = (&ClusterName, &Cell)> {
        self.cells.iter().map(|(cluster, cell)| (cluster, cell))
    }

    /// Replaces each text and name by the equal value that `share` returns.
    pub(super) fn share(&mut self, mut share: impl FnMut(Arc<str>) -> Arc<str>) {
        for (cluster, cell) in &mut self.cells {
            cluster.0 = share(cluster.0.clone());
            cell.message = cell.message.take().map(&mut share);
        }
    }
}

/// A ManagedCluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterRow {
    /// The labels of the ManagedCluster.
    pub labels: BTreeMap<String, String>,
    /// Since when the hub has received no heartbeat of the cluster's agent; `None` if the cluster is available.
    pub unavailable_since: Option<Timestamp>,
}

impl Row for ClusterRow {}

impl ObjectRow for ClusterRow {
    fn prune(object: &HubObject, _controller: &ControllerName) -> Self {
        let status: ManagedClusterStatus = object.status_as();
        Self { labels: object.metadata.labels.clone(), unavailable_since: status.unavailable_since() }
    }
}
