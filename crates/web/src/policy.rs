//! The page of one policy: its annotations, and its state on each cluster.

use maud::{Markup, html};

use super::address;
use super::cells::{conditions, legend, word};
use super::layout::{Notices, page, plain, range, table};
use super::links::linked;
use policy_sync_report::fleet::Cell;
use policy_sync_report::{ObjectExplanation, PolicyReport, Sentence};
use policy_sync_topology::show::{self, NodeLabel};

/// The maximum number of clusters on a page.
const PAGE_LIMIT: usize = 500;

/// The content of the page.
#[derive(Clone, Debug)]
pub struct PolicyPage {
    /// The name of the source in the page header.
    pub hub: String,
    /// The notices at the top.
    pub notices: Notices,
    /// The policy with the state in its annotations.
    pub report: PolicyReport,
    /// The policy's targets and effect on the hub's own routes; `None` if unknown.
    pub on_hub: Option<PolicyOnHub>,
    /// Whether explanations are available.
    pub is_explained: bool,
    /// The explanation for the requested cluster.
    pub why: Option<ClusterExplanation>,
    /// The number of clusters to skip.
    pub skip: usize,
}

/// The explanation why a policy is on a cluster, or why not.
#[derive(Clone, Debug)]
pub struct ClusterExplanation {
    /// The name of the cluster, as requested.
    pub cluster: String,
    /// The result of `explain`, or why it failed.
    pub result: Result<ObjectExplanation, String>,
}

/// A policy on the hub's own routes.
#[derive(Clone, Debug, Default)]
pub struct PolicyOnHub {
    /// The objects that the policy targets.
    pub targets: Vec<NodeLabel>,
    /// The policy's effect on the hub's own routes.
    pub report: show::PolicyReport,
}

/// Renders the page.
#[must_use]
pub fn policy(shown: &PolicyPage) -> Markup {
    let report = &shown.report;
    let key = report.origin.object();
    let body = html! {
        dl.facts {
            div { dt { "Namespace" } dd { (plain(&key.namespace)) } }
            div { dt { "Name" } dd { (plain(&key.name)) } }
            @for target in shown.on_hub.iter().flat_map(|on_hub| &on_hub.targets) {
                div { dt { "Target" } dd { (linked(target)) } }
            }
            @if let Some(created) = report.created { div { dt { "Created" } dd { (created) } } }
            @if let Some(summary) = report.summary.value() {
                div { dt { "Applied" } dd { (summary.applied) " of " (summary.clusters) " clusters" } }
                div { dt { "Enforced" } dd { (summary.enforced) } }
                div { dt { "Overridden" } dd { (summary.overridden) } }
            }
        }
        @if let Some(message) = &report.message { p.message { (plain(message)) } }
        @for fault in &report.faults { p.fault { (plain(fault)) } }
        @if !report.is_annotated() { p { "Not yet reported by the controller." } }
        @if let Some(left_out) = report.detail.explanation() { p.note { (plain(&left_out)) } }
        (clusters(shown))
        @if let Some(on_hub) = &shown.on_hub {
            h2 { "Effect on routes of the hub, which are not synced" }
            ul { @for sentence in on_hub.report.sentences() { li { (plain(&sentence)) "." } } }
        }
        @if shown.is_explained { (why(shown)) }
    };
    page(&format!("{} {key}", report.kind), &shown.hub, &shown.notices, body)
}

/// A form for the name of a cluster, and the explanation for that cluster.
fn why(shown: &PolicyPage) -> Markup {
    let report = &shown.report;
    let key = report.origin.object();
    let requested = shown.why.as_ref();
    html! {
        h2 #why { "Why it is on a cluster, or is missing" }
        form.filters action={ (page_of(report)) "#why" } method="get" {
            label { "Cluster " input name="why" value=(plain(requested.map(|why| why.cluster.as_str()).unwrap_or_default())) autocomplete="off"; }
            button { "Explain" }
        }
        @match requested.map(|why| &why.result) {
            None => {},
            Some(Err(fault)) => p.fault role="alert" { (plain(fault)) },
            Some(Ok(explanation)) => {
                (sentences(explanation.step_sentences()))
                @for group in &explanation.groups {
                    h3 { (plain(&group.title())) }
                    (sentences(group.sentences()))
                }
            }
        }
        p.note {
            "On all clusters: "
            code { "policy-sync explain " (plain(&report.kind.to_lowercase())) " " (plain(&key.name)) " -n " (plain(&key.namespace)) }
        }
    }
}

fn sentences(sentences: impl Iterator<Item = Sentence>) -> Markup {
    html! {
        ul {
            @for Sentence { text, change } in sentences {
                li { (plain(&text)) @if !change.is_empty() { br; "To change: " (plain(&change)) } }
            }
        }
    }
}

fn page_of(report: &PolicyReport) -> String {
    address::policy(&report.kind, &report.origin.kind().group, report.origin.object())
}

fn clusters(shown: &PolicyPage) -> Markup {
    let report = &shown.report;
    let address = page_of(report);
    let mut entries: Vec<_> = report.clusters.value().into_iter().flatten().collect();
    if entries.is_empty() {
        return html! {};
    }
    let of = entries.len();
    entries.sort_by_cached_key(|entry| (Cell::from_entry(report, entry).state, entry.cluster.clone()));
    let entries: Vec<_> = entries.into_iter().skip(shown.skip).take(PAGE_LIMIT).collect();
    let head = html! {
        tr { th scope="col" { "Cluster" } th scope="col" { "State" } th scope="col" { "Conditions" } th scope="col" { "Message" } }
    };
    let rows = html! {
        @for entry in &entries {
            @let cell = Cell::from_entry(report, entry);
            tr {
                th scope="row" { a href=(address::cluster(&entry.cluster)) { (plain(&entry.cluster.0)) } }
                td {
                    (word(cell.state))
                    @if shown.is_explained {
                        " " a href={ (address::with_query(&address, &[("why", &entry.cluster.0)])) "#why" } aria-label={ "Why, on " (plain(&entry.cluster.0)) } { "Why" }
                    }
                }
                td { (conditions(&entry.conditions)) }
                td { (plain(entry.message.as_deref().or(cell.message.as_deref()).unwrap_or_default())) }
            }
        }
    };
    let caption = format!("Its clusters: {}, worst first", range(shown.skip, entries.len(), of));
    let next = shown.skip + entries.len();
    html! {
        @if next < of { p { a href=(address::with_query(&address, &[("cluster", &next.to_string())])) { "More clusters" } } }
        (table("clusters", &caption, &head, &rows))
        (legend())
    }
}
