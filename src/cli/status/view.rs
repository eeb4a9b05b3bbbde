//! What is shown of reports, and in which shape.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::differences::Differences;
use super::report::Report;
use super::table::{self, Row};
use crate::cli::columns::Columns;

/// The column of differences.
const DIFFERS: &str = "DIFFERS";

/// What a row of the table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// A policy.
    Policies,
    /// A cluster of the only policy.
    Clusters,
    /// A policy, as this cluster has it; only policies that are for the cluster are shown.
    OnCluster(String),
}

/// What is shown.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) rows: Rows,
    /// Whether the namespace is shown.
    pub(super) namespaces: bool,
    /// Whether cells are shown whole.
    pub(super) wide: bool,
    /// What shows where the policy differs, where it does.
    pub(super) differences: Option<Differences>,
}

impl View {
    /// Whether `report` is shown at all.
    pub(super) fn shows(&self, report: &Report) -> bool {
        match &self.rows {
            Rows::Policies | Rows::Clusters => true,
            Rows::OnCluster(cluster) => report.on(cluster).is_some(),
        }
    }

    /// Whether what is shown of `report` is in sync.
    pub(super) fn in_sync(&self, report: &Report) -> bool {
        match &self.rows {
            Rows::Policies | Rows::Clusters => report.in_sync(),
            Rows::OnCluster(cluster) => report.on(cluster).is_none_or(|on| on.in_sync()),
        }
    }

    /// What is shown of `report`, for programs.
    pub(super) fn json(&self, report: &Report) -> Value {
        match &self.rows {
            Rows::Policies | Rows::Clusters => report.json(),
            Rows::OnCluster(cluster) => report.on(cluster).map_or(Value::Null, |on| on.json()),
        }
    }

    /// What people should know beside that: what cannot be read, and what is left out of that which is shown.
    pub(super) fn remarks(&self, report: &Report) -> Vec<String> {
        let clusters = self.rows != Rows::Policies;
        let message = report.message.clone().filter(|_| self.rows == Rows::Clusters);
        let left_out = report.detail.explanation().filter(|_| clusters);
        let policy = format!("{} {}/{}", report.kind, report.namespace, report.name);
        let texts = report.faults.iter().chain(&message).chain(&left_out);
        texts.map(|text| format!("{policy}: {text}")).collect()
    }

    /// The first line of the table.
    pub(super) fn headers(&self) -> Vec<String> {
        let (of, state): (&[&str], &[&str]) = match &self.rows {
            Rows::Policies => (&["KIND", "NAME"], &table::POLICY),
            Rows::Clusters => (&[], &table::CLUSTER),
            Rows::OnCluster(_) if self.wide => (&["KIND", "NAME"], &table::ON_CLUSTER_WIDE),
            Rows::OnCluster(_) => (&["KIND", "NAME"], &table::ON_CLUSTER),
        };
        let namespace = Some("NAMESPACE").filter(|_| self.namespaces && !of.is_empty());
        let mut headers: Vec<&str> = namespace.iter().chain(of).chain(state).copied().collect();
        if self.differences.is_some() {
            headers.insert(headers.len() - usize::from(headers.last() == Some(&"AGE")), DIFFERS);
        }
        headers.into_iter().map(str::to_owned).collect()
    }

    /// The rows of `report`.
    pub(super) fn rows(&self, report: &Report) -> Vec<Row> {
        let row = |state| {
            let namespace = Some(&report.namespace).filter(|_| self.namespaces);
            Row { of: namespace.into_iter().chain([&report.kind, &report.name]).cloned().collect(), state }
        };
        match &self.rows {
            Rows::Policies => vec![row(table::policy(report, self.wide))],
            Rows::Clusters => {
                let mut rows = table::clusters(report);
                rows.iter_mut().for_each(|row| row.state.extend(self.differs(report, &row.of[0])));
                rows
            }
            Rows::OnCluster(cluster) => {
                let state = |on| table::on_cluster(on, self.wide);
                let rows = report.on(cluster).map(|on| [state(on), self.differs(report, cluster)].concat());
                rows.map(row).into_iter().collect()
            }
        }
    }

    /// The cell that says what is different on `cluster`, where there is one.
    fn differs(&self, report: &Report, cluster: &str) -> Vec<String> {
        self.differences.iter().map(|differences| differences.of(report, cluster)).collect()
    }

    /// The cells of `row`, of a policy created then.
    pub(super) fn cells(&self, row: &Row, created: Option<Timestamp>, now: Timestamp) -> Vec<String> {
        let age = match self.rows {
            Rows::Clusters => None,
            _ => Some(created.map_or_else(|| "-".to_owned(), |created| table::age(created, now))),
        };
        row.of.iter().chain(&row.state).cloned().chain(age).collect()
    }

    /// The whole table.
    pub(super) fn table(&self, reports: &[Report], now: Timestamp) -> String {
        let rows = reports.iter().flat_map(|report| {
            self.rows(report).into_iter().map(|row| self.cells(&row, report.created, now))
        });
        Columns::default().text([self.headers()].into_iter().chain(rows))
    }
}
