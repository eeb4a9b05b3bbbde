//! One policy: what it says of itself, and how it is on each of its clusters.

use maud::{Markup, html};

use super::address;
use super::cells::{conditions, legend, word};
use super::layout::{Notices, page, plain, range, table};
use super::named::linked;
use crate::report::fleet::Cell;
use crate::report::{ObjectExplanation, PolicyReport, Sentence};
use policy_sync_topology::show::{self, Named};

/// How many clusters a page has.
const ROOM: usize = 500;

/// What the page shows.
#[derive(Clone, Debug)]
pub struct PolicyPage {
    /// What it is of, as people name it.
    pub hub: String,
    /// What is said above.
    pub notices: Notices,
    /// What the policy's annotations say.
    pub report: PolicyReport,
    /// What is so of it on the hub itself; `None` where nothing is said of that.
    pub on_hub: Option<OnHub>,
    /// Whether it can be said why it is on a cluster, or is not.
    pub is_explained: bool,
    /// Of a cluster that is asked for, why it is there or is not.
    pub why: Option<Why>,
    /// How many clusters come before the first that is shown.
    pub skip: usize,
}

/// Why a policy is on a cluster, or is not.
#[derive(Clone, Debug)]
pub struct Why {
    /// The name of the cluster, as it was asked for.
    pub cluster: String,
    /// What `explain` says, or why that is not known.
    pub answer: Result<ObjectExplanation, String>,
}

/// A policy on the hub itself.
#[derive(Clone, Debug, Default)]
pub struct OnHub {
    /// What it targets.
    pub targets: Vec<Named>,
    /// Where it is in force among the hub's own routes.
    pub report: show::PolicyReport,
}

/// The page.
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
        @if !report.is_told() { p { "The controller has said nothing of it yet." } }
        @if let Some(left_out) = report.detail.explanation() { p.note { (plain(&left_out)) } }
        (clusters(shown))
        @if let Some(on_hub) = &shown.on_hub {
            h2 { "Among the hub's own routes, which stay there" }
            ul { @for sentence in on_hub.report.sentences() { li { (plain(&sentence)) "." } } }
        }
        @if shown.is_explained { (why(shown)) }
    };
    page(&format!("{} {key}", report.kind), &shown.hub, &shown.notices, body)
}

/// Asks for a cluster, and says why the policy is there or is not.
fn why(shown: &PolicyPage) -> Markup {
    let report = &shown.report;
    let key = report.origin.object();
    let asked = shown.why.as_ref();
    html! {
        h2 #why { "Why it is on a cluster, or is not" }
        form.filters action={ (page_of(report)) "#why" } method="get" {
            label { "Cluster " input name="why" value=(plain(asked.map(|why| why.cluster.as_str()).unwrap_or_default())) autocomplete="off"; }
            button { "Explain" }
        }
        @match asked.map(|why| &why.answer) {
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
    entries.sort_by_cached_key(|entry| (Cell::of_entry(report, entry).state, entry.cluster.clone()));
    let entries: Vec<_> = entries.into_iter().skip(shown.skip).take(ROOM).collect();
    let head = html! {
        tr { th scope="col" { "Cluster" } th scope="col" { "State" } th scope="col" { "Conditions" } th scope="col" { "Message" } }
    };
    let rows = html! {
        @for entry in &entries {
            @let cell = Cell::of_entry(report, entry);
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
    let caption = format!("Its clusters: {}, the worst first", range(shown.skip, entries.len(), of));
    let next = shown.skip + entries.len();
    html! {
        @if next < of { p { a href=(address::with_query(&address, &[("cluster", &next.to_string())])) { "More clusters" } } }
        (table("clusters", &caption, &head, &rows))
        (legend())
    }
}
