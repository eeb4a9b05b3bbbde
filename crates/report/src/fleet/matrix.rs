//! The matrix of policies and clusters for one page. Policies and clusters in the worst states come first.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::core::{Selector, SelectorExt};

use super::live::FleetView;
use super::rows::FleetRow;
use super::state::Cell;
use crate::ServedKind;
use policy_sync_api::annotations::Summary;
use policy_sync_api::names::{ClusterName, GroupResource, ObjectKey};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;

/// The parameters of [`Matrix::new`].
#[derive(Clone, Debug, Default)]
pub struct MatrixQuery {
    /// Restricts the matrix to policies in this namespace.
    pub namespace: Option<String>,
    /// Restricts the matrix to policies of the kind with this name.
    pub kind: Option<String>,
    /// Restricts the matrix to clusters whose labels match.
    pub clusters: Selector,
    /// Restricts the matrix to policies that are out of sync, and to clusters on which at least one of these policies
    /// is out of sync.
    pub not_synced: bool,
    /// The number of policies and of clusters to skip.
    pub skip: (usize, usize),
    /// The maximum number of policies and of clusters.
    pub limit: (usize, usize),
}

/// Policies by clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The policies of this page.
    pub rows: Vec<MatrixRow>,
    /// The clusters of this page.
    pub columns: Vec<Column>,
    /// The number of policies and of clusters that match the query.
    pub of: (usize, usize),
    /// The number of all policies.
    pub policies: usize,
    /// The number of all policies that are out of sync.
    pub not_synced: usize,
    /// The number of clusters of the hub; `None` if the user may not read them.
    pub clusters: Option<usize>,
}

/// A policy of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixRow {
    /// The object's `kind`.
    pub kind: String,
    /// The kind as a resource with its group.
    pub resource: GroupResource,
    /// The policy's namespace and name.
    pub key: ObjectKey,
    /// Whether all clusters that the policy is planned for have the current revision, and the policy has neither a
    /// message nor a fault.
    pub in_sync: bool,
    /// Whether the controller has written annotations on the policy.
    pub is_annotated: bool,
    /// The counts over all clusters of the policy.
    pub summary: Option<Summary>,
    /// The controller's message for the owner of the policy, or else the first fault of the policy's annotations.
    pub message: Option<Arc<str>>,
    /// The state on the cluster of each column; `None` if the policy is not planned for that cluster.
    pub cells: Vec<Option<Cell>>,
}

/// A cluster of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The cluster's name.
    pub cluster: ClusterName,
    /// Since when the hub has received no heartbeat of the cluster's agent; `None` if the cluster is available, or if
    /// the user may not read ManagedClusters.
    pub unavailable_since: Option<Timestamp>,
    /// The number of policies that match the query and are out of sync on the cluster.
    pub out_of_sync: usize,
}

/// A policy that matches the query, with its sort key.
struct Candidate<'l> {
    kind: &'l ServedKind,
    key: &'l ObjectKey,
    row: &'l FleetRow,
    worst: PolicyState,
    /// The number of clusters on which the policy has its worst state.
    times: usize,
}

impl Matrix {
    /// Builds the matrix of the snapshot `view` for `query`.
    #[must_use]
    pub fn new(view: &FleetView<'_>, query: &MatrixQuery) -> Self {
        let mut columns = columns(view, query);
        let places: HashMap<ClusterName, usize> =
            columns.iter().enumerate().map(|(place, column)| (column.cluster.clone(), place)).collect();
        let mut matrix = Self { clusters: view.clusters().map(Iterator::count), ..Self::default() };
        let selects = query.clusters != Selector::default();
        let mut rows: Vec<Candidate<'_>> = Vec::new();
        for (kind, key, row) in view.policies() {
            matrix.policies += 1;
            matrix.not_synced += usize::from(!row.in_sync);
            let is_asked = query.namespace.as_ref().is_none_or(|namespace| **namespace == *key.namespace)
                && query.kind.as_ref().is_none_or(|word| kind.matches_name(word))
                && !(query.not_synced && row.in_sync);
            if !is_asked {
                continue;
            }
            let named: Vec<(usize, &Cell)> =
                row.cells().filter_map(|(cluster, cell)| Some((*places.get(cluster)?, cell))).collect();
            let others = row.others.as_ref().map(|cell| (cell, columns.len() - named.len()));
            if selects && named.is_empty() && others.is_none_or(|(_, count)| count == 0) {
                continue;
            }
            let states = named.iter().map(|(place, cell)| (state(cell, kind.role, &columns[*place]), 1));
            let states = states.chain(others.map(|(cell, count)| (cell.state, count)));
            let (worst, times) = worst(row, states.filter(|(_, count)| *count > 0));
            let all_others = others.is_some().then(|| {
                let named: BTreeSet<usize> = named.iter().map(|(place, _)| *place).collect();
                (0..columns.len()).filter(move |place| !named.contains(place))
            });
            for (place, cell) in &named {
                columns[*place].out_of_sync += usize::from(!cell.in_sync);
            }
            all_others.into_iter().flatten().for_each(|place| columns[place].out_of_sync += 1);
            rows.push(Candidate { kind, key, row, worst, times });
        }
        if query.not_synced {
            columns.retain(|column| column.out_of_sync > 0);
        }
        columns.sort_by(|a, b| {
            (Reverse(a.out_of_sync), a.unavailable_since.is_none(), &a.cluster).cmp(&(
                Reverse(b.out_of_sync),
                b.unavailable_since.is_none(),
                &b.cluster,
            ))
        });
        rows.sort_by(|a, b| {
            let rank = |row: &Candidate<'_>| (row.row.in_sync, row.worst, Reverse(row.times));
            rank(a).cmp(&rank(b)).then_with(|| (a.key, &a.kind.gvr.kind).cmp(&(b.key, &b.kind.gvr.kind)))
        });
        matrix.of = (rows.len(), columns.len());
        matrix.columns = columns.into_iter().skip(query.skip.1).take(query.limit.1).collect();
        let rows = rows.into_iter().skip(query.skip.0).take(query.limit.0);
        matrix.rows = rows.map(|candidate| candidate.on(&matrix.columns)).collect();
        matrix
    }
}

impl Candidate<'_> {
    fn on(&self, columns: &[Column]) -> MatrixRow {
        let row = self.row;
        let cell = |column: &Column| {
            let cell = row.on(&column.cluster)?;
            Some(Cell { state: state(cell, self.kind.role, column), ..cell.clone() })
        };
        MatrixRow {
            kind: self.kind.kind.clone(),
            resource: self.kind.gvr.kind.clone(),
            key: self.key.clone(),
            in_sync: row.in_sync,
            is_annotated: row.is_annotated,
            summary: row.summary.clone(),
            message: row.message.clone().or_else(|| row.fault.clone()),
            cells: columns.iter().map(cell).collect(),
        }
    }
}

/// The clusters that match the query. If the user may not read ManagedClusters, returns the clusters that annotations
/// name.
fn columns(view: &FleetView<'_>, query: &MatrixQuery) -> Vec<Column> {
    if let Some(clusters) = view.clusters() {
        let selected = clusters.filter(|(_, row)| query.clusters.matches(&row.labels));
        let column = |(name, unavailable_since): (&Arc<str>, _)| Column {
            cluster: ClusterName(name.clone()),
            unavailable_since,
            out_of_sync: 0,
        };
        return selected.map(|(name, row)| column((name, row.unavailable_since))).collect();
    }
    let named: BTreeSet<&ClusterName> =
        view.policies().flat_map(|(_, _, row)| row.cells().map(|(cluster, _)| cluster)).collect();
    named
        .into_iter()
        .map(|name| Column { cluster: name.clone(), unavailable_since: None, out_of_sync: 0 })
        .collect()
}

/// The state on the cluster of `column`, for a policy whose kind is listed under `role`.
fn state(cell: &Cell, role: Role, column: &Column) -> PolicyState {
    let state = match cell.state {
        PolicyState::Unknown if role == Role::Resource && cell.in_sync => PolicyState::Applied,
        state => state,
    };
    if column.unavailable_since.is_some() { state.on_unavailable_cluster() } else { state }
}

/// The worst of the `states` of a policy, and the number of clusters with this state.
fn worst(row: &FleetRow, states: impl Iterator<Item = (PolicyState, usize)>) -> (PolicyState, usize) {
    let frozen = (row.message.is_some() || row.fault.is_some()).then_some((PolicyState::Frozen, 0));
    let mut all: Vec<(PolicyState, usize)> = states.chain(frozen).collect();
    let Some(worst) = all.iter().map(|(state, _)| *state).min() else { return (PolicyState::Enforced, 0) };
    all.retain(|(state, _)| *state == worst);
    (worst, all.into_iter().map(|(_, times)| times).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_unavailable_clusters_are_unreachable() {
        let cell = |state, in_sync| Cell { state, in_sync, message: None };
        let column = |unavailable_since| Column {
            cluster: ClusterName::from("eu-1"),
            unavailable_since,
            out_of_sync: 0,
        };
        let (available, silent) = (column(None), column(Some(Timestamp::UNIX_EPOCH)));
        for (written, expected) in [
            (PolicyState::Enforced, PolicyState::Unreachable),
            (PolicyState::Pending, PolicyState::Unreachable),
            (PolicyState::Frozen, PolicyState::Frozen),
        ] {
            assert_eq!(state(&cell(written, true), Role::Policy, &available), written);
            assert_eq!(state(&cell(written, true), Role::Policy, &silent), expected);
        }
        // No controller reports `Enforced` for a resource.
        let unknown = cell(PolicyState::Unknown, true);
        assert_eq!(state(&unknown, Role::Policy, &available), PolicyState::Unknown);
        assert_eq!(state(&unknown, Role::Resource, &available), PolicyState::Applied);
        let unreadable = cell(PolicyState::Unknown, false);
        assert_eq!(state(&unreadable, Role::Resource, &available), PolicyState::Unknown);
    }
}
