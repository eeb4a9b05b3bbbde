//! The page of the fleet: a table of policies and clusters.

use form_urlencoded::parse;
use maud::{Markup, html};

use super::address::{FLEET, cluster, policy, with_query};
use super::cells::{cell, legend};
use super::layout::{Notices, page, plain, range, table};
use policy_sync_api::selector::{self, SelectorError};
use policy_sync_api::text::printable;
use policy_sync_report::fleet::{Column, Matrix, MatrixQuery, MatrixRow};

/// The maximum number of policies and of clusters on a page.
const PAGE_LIMIT: (usize, usize) = (100, 50);

/// The query string of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetQuery {
    namespace: String,
    kind: String,
    /// A label selector for clusters.
    clusters: String,
    not_synced: bool,
    skip: (usize, usize),
}

impl FleetQuery {
    /// Parses the query string. Unknown keys are ignored.
    #[must_use]
    pub fn read(query: &str) -> Self {
        let mut read = Self::default();
        for (key, value) in parse(query.as_bytes()) {
            // The value is displayed in the form.
            let value = printable(&value);
            let number = || value.parse().unwrap_or_default();
            match &*key {
                "namespace" => read.namespace = value.trim().to_owned(),
                "kind" => read.kind = value.trim().to_owned(),
                "clusters" => read.clusters = value.trim().to_owned(),
                "not-synced" => read.not_synced = !value.is_empty(),
                "policy" => read.skip.0 = number(),
                "cluster" => read.skip.1 = number(),
                _ => {}
            }
        }
        read
    }

    /// The query for the matrix.
    ///
    /// # Errors
    ///
    /// If the label selector is invalid.
    pub fn matrix(&self) -> Result<MatrixQuery, SelectorError> {
        let word = |text: &String| (!text.is_empty()).then(|| text.clone());
        Ok(MatrixQuery {
            namespace: word(&self.namespace),
            kind: word(&self.kind),
            clusters: selector::parse(&self.clusters)?,
            not_synced: self.not_synced,
            skip: self.skip,
            limit: PAGE_LIMIT,
        })
    }

    fn has_filters(&self) -> bool {
        *self != Self { skip: self.skip, ..Self::default() }
    }

    /// The path of the fleet page with the filters of this query. `policies` and `clusters` are the numbers to skip.
    fn after(&self, (policies, clusters): (usize, usize)) -> String {
        let number = |number: usize| if number == 0 { String::new() } else { number.to_string() };
        let query = [
            ("namespace", &*self.namespace),
            ("kind", &self.kind),
            ("clusters", &self.clusters),
            ("not-synced", if self.not_synced { "1" } else { "" }),
            ("policy", &number(policies)),
            ("cluster", &number(clusters)),
        ];
        with_query(FLEET, &query)
    }
}

/// The content of the page.
#[derive(Clone, Debug)]
pub struct FleetPage {
    /// The name of the source in the page header.
    pub hub: String,
    /// The controllerName of the GatewayClasses that are considered.
    pub controller: String,
    /// The selected namespace; `None` for all namespaces.
    pub namespace: Option<String>,
    /// The notices at the top.
    pub notices: Notices,
    /// The kinds of policies.
    pub kinds: Vec<String>,
    /// The kinds that have not been listed yet.
    pub unlisted: Vec<String>,
    /// Whether a GatewayClass of the controller exists.
    pub has_classes: bool,
    /// The parsed query string.
    pub query: FleetQuery,
    /// The matrix, or why the query is invalid.
    pub matrix: Result<Matrix, String>,
}

/// Renders the page.
#[must_use]
pub fn fleet(shown: &FleetPage) -> Markup {
    let body = html! {
        (form(shown))
        @match &shown.matrix {
            Err(fault) => p.fault role="alert" { "Clusters with labels: " (plain(fault)) },
            Ok(matrix) => {
                (summary(shown, matrix))
                @if !matrix.rows.is_empty() {
                    (pages(&shown.query, matrix))
                    (rows(&shown.query, matrix))
                }
                (legend())
            }
        }
    };
    page("Policies on clusters", &shown.hub, &shown.notices, body)
}

fn form(shown: &FleetPage) -> Markup {
    let query = &shown.query;
    html! {
        form.filters action=(FLEET) method="get" {
            @if shown.namespace.is_none() {
                label { "Namespace " input name="namespace" value=(query.namespace) autocomplete="off"; }
            }
            label {
                "Kind "
                select name="kind" {
                    option value="" { "any" }
                    @for kind in &shown.kinds {
                        option value=(plain(kind)) selected[query.kind.eq_ignore_ascii_case(kind)] { (plain(kind)) }
                    }
                    @if !query.kind.is_empty() && !shown.kinds.iter().any(|kind| kind.eq_ignore_ascii_case(&query.kind)) {
                        option value=(query.kind) selected { (plain(&query.kind)) }
                    }
                }
            }
            label {
                "Clusters with labels "
                input name="clusters" value=(query.clusters) placeholder="region=eu" autocomplete="off";
            }
            label { input type="checkbox" name="not-synced" value="1" checked[query.not_synced]; " Only policies out of sync" }
            button { "Show" }
            @if query.has_filters() { " " a href=(FLEET) { "Show all" } }
        }
    }
}

/// A sentence with the totals, or with the reason why the table is empty.
fn summary(shown: &FleetPage, matrix: &Matrix) -> Markup {
    let clusters =
        matrix.clusters.map(|count| format!(" on {}", counted(count, "cluster"))).unwrap_or_default();
    let place =
        shown.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
    let is_read = shown.unlisted.is_empty();
    html! {
        @if !is_read {
            p.note { "Still being read: " (plain(&shown.unlisted.join(", "))) "." }
        }
        @if !shown.has_classes && shown.notices.unread.is_empty() {
            p {
                "No GatewayClass has the controllerName " code { (plain(&shown.controller)) } ": create \
                 one, and "
                "list the policy kinds to sync in its parameters."
            }
        } @else if shown.kinds.is_empty() && shown.notices.unread.is_empty() {
            p { "The parameters of the controller's GatewayClasses list no policy kind that this hub serves: list some in " code { "policiesToSync" } "." }
        } @else if matrix.policies == 0 && is_read && shown.notices.unread.is_empty() {
            p { "There is no policy of the kinds " (plain(&shown.kinds.join(", "))) (place) " yet." }
        } @else if matrix.policies > 0 {
            p {
                (counted(matrix.policies, "policy")) (place) (clusters) ". "
                @match matrix.not_synced {
                    0 if is_read && shown.notices.unread.is_empty() => "All are in sync.",
                    0 => "All of these are in sync. It is unknown whether there are more: some kinds are not read yet.",
                    1 => "1 is out of sync.",
                    more => { (more) " are out of sync." }
                }
            }
            @if matrix.rows.is_empty() && matrix.of.0 > 0 {
                p { "There are only " (matrix.of.0) " policies: " a href=(shown.query.after((0, 0))) { "show the first ones" } "." }
            } @else if matrix.rows.is_empty() {
                p { "No policy matches: " a href=(FLEET) { "show all" } "." }
            }
        }
    }
}

fn rows(query: &FleetQuery, matrix: &Matrix) -> Markup {
    let clusters = match matrix.columns.len() {
        0 => "no clusters".to_owned(),
        shown => format!("clusters: {}", range(query.skip.1, shown, matrix.of.1)),
    };
    let policies = range(query.skip.0, matrix.rows.len(), matrix.of.0);
    let caption = format!("Policies: {policies} and {clusters}, worst first");
    let head = html! {
        tr {
            th scope="col" { "Policy" }
            th scope="col" { "Clusters" }
            @for column in &matrix.columns { (column_head(column)) }
        }
    };
    let rows = html! { @for row in &matrix.rows { (table_row(row)) } };
    table("matrix", &caption, &head, &rows)
}

fn column_head(column: &Column) -> Markup {
    let silent = column.unavailable_since.map(|since| format!("no contact with its agent since {since}"));
    html! {
        th scope="col" title=[&silent] {
            a href=(cluster(&column.cluster)) { (plain(&column.cluster.0)) }
            @if silent.is_some() { " " span.silent { "silent" } }
        }
    }
}

fn table_row(row: &MatrixRow) -> Markup {
    let numbers = match &row.summary {
        Some(summary) => format!("{} of {}", summary.applied, summary.clusters),
        None if row.is_annotated => "?".to_owned(),
        None => "–".to_owned(),
    };
    let silent = (!row.is_annotated).then_some("not yet reported by the controller");
    html! {
        tr {
            th scope="row" {
                a href=(policy(&row.kind, &row.resource.group, &row.key)) { (plain(&row.key.to_string())) }
                " " span.kind { (plain(&row.kind)) }
                @if let Some(message) = row.message.as_deref().or(silent) { p.message { (plain(message)) } }
            }
            td.numbers { (numbers) }
            @for of in &row.cells { (cell(of.as_ref())) }
        }
    }
}

/// Links to the previous and the next rows and columns.
fn pages(query: &FleetQuery, matrix: &Matrix) -> Markup {
    let (policies, clusters) = query.skip;
    let back = |skip: usize, limit: usize| skip.saturating_sub(limit);
    let more = |skip: usize, shown: usize, of: usize| (skip + shown < of).then_some(skip + shown);
    let links = [
        (policies > 0).then(|| ("Previous policies", (back(policies, PAGE_LIMIT.0), clusters))),
        more(policies, matrix.rows.len(), matrix.of.0).map(|next| ("More policies", (next, clusters))),
        (clusters > 0).then(|| ("Previous clusters", (policies, back(clusters, PAGE_LIMIT.1)))),
        more(clusters, matrix.columns.len(), matrix.of.1).map(|next| ("More clusters", (policies, next))),
    ];
    let links: Vec<_> = links.into_iter().flatten().collect();
    html! {
        @if !links.is_empty() {
            nav.pages aria-label="Parts of the table" {
                @for (words, skip) in links { a href=(query.after(skip)) { (words) } " " }
            }
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests;
