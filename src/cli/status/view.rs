//! [`View`]: selects the items, rows and columns of the output of `status`.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::gateways;
use super::table::{self, Row};
use crate::cli::columns::fitted_table;
use policy_sync_api::annotations::Synced;
use policy_sync_report::{
    AnnotationValue, Check, Differences, DifferingPaths, FailOn, GatewayReport, Item, OutOfSyncTimes,
    PolicyReport, Table,
};

/// The column with the fields that overrides change.
const DIFFERS: &str = "DIFFERS";
/// The columns that `--not-synced` and `--not-enforced` add before the column [`MESSAGE`].
const WAITS: [&str; 2] = ["MISSING", "SINCE"];
const MESSAGE: &str = "MESSAGE";

/// The subject of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// A Gateway or a policy.
    Policies,
    /// A cluster of the policy, if the output shows one policy.
    Clusters,
    /// A Gateway or a policy on this cluster. Items that are not planned for the cluster are left out.
    OnCluster(String),
}

/// The selection and the layout of the output.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) rows: Rows,
    /// Whether there is a column with the namespace.
    pub(super) namespaces: bool,
    /// Whether the output format is `wide`: it has more columns, and cells are never truncated.
    pub(super) wide: bool,
    /// The source of the column DIFFERS; `None` without that column.
    pub(super) differences: Option<Differences>,
    /// The filter of items, if there is one.
    pub(super) item_filter: Option<ItemFilter>,
    /// Since when the items are out of sync; `None` without a filter.
    pub(super) out_of_sync_times: Option<OutOfSyncTimes>,
}

/// A filter of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemFilter {
    /// The filter `--not-synced`.
    NotSynced,
    /// The filter `--not-enforced`.
    NotEnforced,
}

impl ItemFilter {
    /// The check of this filter. Items that do not pass the check pass the filter.
    fn fail_on(self) -> FailOn {
        match self {
            Self::NotSynced => FailOn::OutOfSync,
            Self::NotEnforced => FailOn::Overridden,
        }
    }

    /// The message if no item passes the filter.
    pub(super) fn none(self) -> &'static str {
        match self {
            Self::NotSynced => "everything is in sync",
            Self::NotEnforced => "everything is enforced",
        }
    }
}

impl Rows {
    /// The cluster that rows are restricted to.
    pub(super) fn cluster(&self) -> Option<&str> {
        match self {
            Self::OnCluster(cluster) => Some(cluster),
            Self::Policies | Self::Clusters => None,
        }
    }
}

impl View {
    /// Whether the table of `items` has the column DIFFERS.
    pub(super) fn shows_differences(&self, items: &[&Item]) -> bool {
        let mut policies = items.iter().filter_map(|item| item.policy());
        self.wide
            && self.rows != Rows::Policies
            && policies.any(|report| !matches!(report.overrides, AnnotationValue::Missing))
    }

    /// Whether `item` belongs to the output, regardless of the filter.
    pub(super) fn shows(&self, item: &Item) -> bool {
        self.rows.cluster().is_none_or(|cluster| item.on(cluster).is_some())
    }

    /// Whether `item` passes the filter.
    pub(super) fn passes_filter(&self, item: &Item) -> bool {
        let check = |item_filter: ItemFilter| item.check(self.rows.cluster(), item_filter.fail_on());
        self.item_filter.is_none_or(|item_filter| check(item_filter) != Check::Passed)
    }

    /// The output of `item` as JSON.
    pub(super) fn json(&self, item: &Item) -> Value {
        let mut json = match self.rows.cluster() {
            None => item.json(),
            Some(cluster) => item.on(cluster).map_or(Value::Null, |on| on.json()),
        };
        if let Some(out_of_sync_times) = &self.out_of_sync_times {
            json["notSyncedSince"] = out_of_sync_times.since(item).map(|since| since.to_string()).into();
        }
        json
    }

    /// Messages about `item` for standard error: annotations that cannot be parsed, the policy's own message if the rows
    /// are its clusters, and what its list of clusters omits.
    pub(super) fn diagnostics(&self, item: &Item) -> Vec<String> {
        let about = |of: &str, texts: Vec<&String>| {
            texts.into_iter().map(|text| format!("{of}: {text}")).collect::<Vec<_>>()
        };
        match item {
            Item::Copy(_) => Vec::new(),
            Item::Gateway(report) => {
                about(&format!("Gateway {}", report.key), report.row.faults.iter().collect())
            }
            Item::Policy(report) => {
                let clusters = self.rows != Rows::Policies;
                let message = report.message.clone().filter(|_| self.rows == Rows::Clusters);
                let left_out = report.detail.explanation().filter(|_| clusters);
                let policy = format!("{} {}", report.kind, report.origin.object());
                about(&policy, report.faults.iter().chain(&message).chain(&left_out).collect())
            }
        }
    }

    /// The columns that a filter adds to `table`.
    fn wait_headers(&self, table: Table) -> &'static [&'static str] {
        match (&self.out_of_sync_times, table, &self.rows) {
            // The table of copies always has the column SINCE. For single clusters of a policy, this time is unknown.
            (None, ..) | (_, Table::Copies, _) | (_, Table::Policies, Rows::Clusters) => &[],
            // The column MISSING would name only the selected cluster.
            (Some(_), _, Rows::OnCluster(_)) => &WAITS[1..],
            (Some(_), ..) => &WAITS,
        }
    }

    /// The cells of the columns that a filter adds.
    fn wait_cells(&self, item: &Item) -> Vec<String> {
        let missing = match item {
            Item::Gateway(report) => gateways::missing(report, self.wide),
            Item::Policy(report) => table::missing(report, self.wide),
            Item::Copy(_) => "-".to_owned(),
        };
        let since =
            self.out_of_sync_times.as_ref().and_then(|out_of_sync_times| out_of_sync_times.since(item));
        let cells = [missing, since.map_or_else(|| "-".to_owned(), |since| since.to_string())];
        let headers = self.wait_headers(item.key().table);
        cells
            .into_iter()
            .zip(WAITS)
            .filter(|(_, header)| headers.contains(header))
            .map(|(cell, _)| cell)
            .collect()
    }

    /// The header line of `table`.
    pub(super) fn headers(&self, table: Table) -> Vec<String> {
        let mut headers = self.own_headers(table);
        let place = headers.iter().position(|header| *header == MESSAGE).unwrap_or(headers.len());
        headers.splice(place..place, self.wait_headers(table).iter().copied());
        headers.into_iter().map(str::to_owned).collect()
    }

    fn own_headers(&self, table: Table) -> Vec<&'static str> {
        let (of, state): (&[&str], &[&str]) = match (table, &self.rows) {
            (Table::Copies, _) => (&["KIND", "NAMESPACE", "NAME"], &table::COPY),
            (Table::Gateways, Rows::OnCluster(_)) if self.wide => (&["NAME"], &gateways::ON_CLUSTER_WIDE),
            (Table::Gateways, Rows::OnCluster(_)) => (&["NAME"], &gateways::ON_CLUSTER),
            (Table::Gateways, _) if self.wide => (&["NAME"], &gateways::ROW_WIDE),
            (Table::Gateways, _) => (&["NAME"], &gateways::ROW),
            (Table::Policies, Rows::Policies) => (&["KIND", "NAME"], &table::POLICY),
            (Table::Policies, Rows::Clusters) => (&[], &table::CLUSTER),
            (Table::Policies, Rows::OnCluster(_)) if self.wide => {
                (&["KIND", "NAME"], &table::ON_CLUSTER_WIDE)
            }
            (Table::Policies, Rows::OnCluster(_)) => (&["KIND", "NAME"], &table::ON_CLUSTER),
        };
        let namespace =
            Some("NAMESPACE").filter(|_| self.namespaces && !of.is_empty() && table != Table::Copies);
        let mut headers: Vec<&str> = namespace.iter().chain(of).chain(state).copied().collect();
        if self.differences.is_some() && table == Table::Policies {
            headers.insert(headers.len() - usize::from(headers.last() == Some(&"AGE")), DIFFERS);
        }
        headers
    }

    /// The number of columns of `table` that identify a row.
    fn names(&self, table: Table) -> usize {
        match (table, &self.rows) {
            (Table::Copies, _) => 3,
            (Table::Policies, Rows::Clusters) => 1,
            (Table::Policies, _) => 2 + usize::from(self.namespaces),
            (Table::Gateways, _) => 1 + usize::from(self.namespaces),
        }
    }

    /// The rows of `item`.
    pub(super) fn rows(&self, item: &Item) -> Vec<Row> {
        let mut rows = match item {
            Item::Copy(report) => {
                let since = self
                    .out_of_sync_times
                    .as_ref()
                    .map_or(report.since, |out_of_sync_times| out_of_sync_times.since(item));
                vec![table::copy(report, since)]
            }
            Item::Gateway(report) => self.gateway_rows(report),
            Item::Policy(report) => self.policy_rows(report),
        };
        let table = item.key().table;
        let headers = self.own_headers(table);
        let place = headers.iter().position(|header| *header == MESSAGE).unwrap_or(headers.len());
        for row in &mut rows {
            let place = place.saturating_sub(row.of.len()).min(row.state.len());
            row.state.splice(place..place, self.wait_cells(item));
        }
        rows
    }

    fn gateway_rows(&self, report: &GatewayReport) -> Vec<Row> {
        let state = match &self.rows {
            Rows::Policies | Rows::Clusters => Some(gateways::row(report, self.wide)),
            Rows::OnCluster(cluster) => report.on(cluster).map(|on| gateways::on_cluster(&on, self.wide)),
        };
        let namespace = Some(&*report.key.namespace).filter(|_| self.namespaces);
        let of = namespace.into_iter().chain([&*report.key.name]).map(str::to_owned).collect();
        state.map(|state| Row { of, state }).into_iter().collect()
    }

    fn policy_rows(&self, report: &PolicyReport) -> Vec<Row> {
        let row = |state| {
            let namespace = Some(&*report.origin.object().namespace).filter(|_| self.namespaces);
            let of = namespace.into_iter().chain([&*report.kind, &*report.origin.object().name]);
            Row { of: of.map(str::to_owned).collect(), state }
        };
        match &self.rows {
            Rows::Policies => vec![row(table::policy(report, self.wide))],
            Rows::Clusters => {
                let mut rows = table::clusters(report, |entry| self.shows_entry(report, entry));
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

    /// Whether the row of `entry` passes the filter. With `--not-enforced`, a row with an unknown state passes. With
    /// `--not-synced`, no row passes if the list of clusters contains only names.
    fn shows_entry(&self, report: &PolicyReport, entry: &Synced) -> bool {
        match self.item_filter {
            None => true,
            Some(ItemFilter::NotSynced) => report.detail.shows_states() && !entry.applied,
            Some(item_filter) => report
                .state_of(entry)
                .is_none_or(|state| item_filter.fail_on().check_state(state) != Check::Passed),
        }
    }

    /// The cell of the column DIFFERS for `cluster`; empty without that column.
    fn differs(&self, report: &PolicyReport, cluster: &str) -> Vec<String> {
        let differences = self.differences.iter().map(|differences| differences.of_policy(report, cluster));
        differences
            .map(|differs| match differs {
                DifferingPaths::Unknown => "?".to_owned(),
                DifferingPaths::Known(places) if places.is_empty() => "-".to_owned(),
                DifferingPaths::Known(places) => places.into_iter().collect::<Vec<_>>().join(","),
            })
            .collect()
    }

    /// The cells of `row` of `table`, with the age since `created`.
    pub(super) fn cells(
        &self,
        table: Table,
        row: &Row,
        created: Option<Timestamp>,
        now: Timestamp,
    ) -> Vec<String> {
        let age = match (table, &self.rows) {
            (Table::Copies, _) | (Table::Policies, Rows::Clusters) => None,
            _ => Some(created.map_or_else(|| "-".to_owned(), |created| table::age(created, now))),
        };
        row.of.iter().chain(&row.state).cloned().chain(age).collect()
    }

    /// Formats all tables, separated by empty lines, in lines of at most `width` characters.
    pub(super) fn tables<'i>(
        &self,
        items: impl IntoIterator<Item = &'i Item>,
        now: Timestamp,
        width: Option<usize>,
    ) -> String {
        let width = width.filter(|_| !self.wide);
        let mut rows: BTreeMap<Table, Vec<Vec<String>>> = BTreeMap::new();
        for item in items {
            let table = item.key().table;
            let cells = self.rows(item).into_iter().map(|row| self.cells(table, &row, item.created(), now));
            rows.entry(table).or_insert_with(|| vec![self.headers(table)]).extend(cells);
        }
        let tables = rows.into_iter().map(|(table, rows)| fitted_table(rows, self.names(table), width));
        tables.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests;
