//! What is kept of each policy and of each cluster for the matrix: words and short messages, not annotations.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::state::{Cell, kept};
use crate::report::PolicyReport;
use crate::report::policy::is_told;
use policy_sync_api::annotations::Summary;
use policy_sync_api::cluster::{self, ManagedClusterStatus};
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_api::object::HubObject;
use policy_sync_mirror::{Family, Kind, Pruned, Row};

/// Policies and resources, of which annotations say all that is shown.
pub(super) static POLICIES: Family<FleetRow> = Family::new("policies").of_metadata();
/// The clusters.
pub(super) static CLUSTERS: Kind<ClusterRow> = Kind::new(cluster::GROUP, "v1", "managedclusters");

/// A policy, and how it is on its clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetRow {
    /// Whether every placed cluster holds it as it is, and nothing keeps it from being planned.
    pub in_sync: bool,
    /// Whether the controller has said anything on it.
    pub is_told: bool,
    /// Its clusters in numbers.
    pub summary: Option<Summary>,
    /// What its owner should know, as far as there is room.
    pub message: Option<Arc<str>>,
    /// What cannot be read of it.
    pub fault: Option<Arc<str>>,
    /// Sorted by cluster.
    pub(super) cells: Box<[(ClusterName, Cell)]>,
    /// How it is on clusters that its list does not name: not there, or not known.
    pub(super) others: Option<Cell>,
}

impl Row for FleetRow {}

impl Pruned for FleetRow {
    fn prune(object: &HubObject, _controller: &ControllerName) -> Self {
        let annotations = &object.metadata.annotations;
        let is_told = is_told(annotations);
        let report = PolicyReport::of_annotations(object.key(), annotations);
        let entries = report.clusters.value().into_iter().flatten();
        let mut cells: Vec<(ClusterName, Cell)> =
            entries.map(|entry| (entry.cluster.clone(), Cell::of_entry(&report, entry))).collect();
        cells.sort_by(|(a, _), (b, _)| a.cmp(b));
        // A list that somebody has edited may name one twice: the first counts, as in `PolicyReport::on`.
        cells.dedup_by(|(later, _), (first, _)| later == first);
        let fault = report.faults.first().map(|fault| kept(fault));
        let why = || {
            let told = report.faults.first().or(report.message.as_ref()).cloned();
            told.or_else(|| report.detail.explanation())
        };
        let others = (!report.names_all()).then(|| Cell::unknown(why().as_deref()));
        Self {
            in_sync: report.in_sync(),
            is_told,
            summary: report.summary.value().cloned(),
            message: report.message.as_deref().map(kept),
            fault,
            cells: cells.into(),
            others,
        }
    }
}

impl FleetRow {
    /// How it is on `cluster`; `None` where it is not for that cluster.
    #[must_use]
    pub fn on(&self, cluster: &ClusterName) -> Option<&Cell> {
        match self.cells.binary_search_by(|(name, _)| name.cmp(cluster)) {
            Ok(place) => Some(&self.cells[place].1),
            Err(_) => self.others.as_ref(),
        }
    }

    /// The clusters that its list names, each with how it is there.
    pub fn cells(&self) -> impl Iterator<Item = (&ClusterName, &Cell)> {
        self.cells.iter().map(|(cluster, cell)| (cluster, cell))
    }

    /// Lets `share` put texts and names in the place of equal ones.
    pub(super) fn share(&mut self, mut share: impl FnMut(Arc<str>) -> Arc<str>) {
        for (cluster, cell) in &mut self.cells {
            cluster.0 = share(cluster.0.clone());
            cell.message = cell.message.take().map(&mut share);
        }
    }
}

/// A cluster of the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterRow {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Since when the hub has not heard of its agent; `None` where it does.
    pub silent_since: Option<Timestamp>,
}

impl Row for ClusterRow {}

impl Pruned for ClusterRow {
    fn prune(object: &HubObject, _controller: &ControllerName) -> Self {
        let status: ManagedClusterStatus = object.status_as();
        Self { labels: object.metadata.labels.clone(), silent_since: status.unavailable_since() }
    }
}
