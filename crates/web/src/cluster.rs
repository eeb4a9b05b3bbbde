//! The page of one cluster: the copies on the cluster or planned for it, from their works.

use k8s_openapi::jiff::Timestamp;
use maud::{Markup, html};

use super::address;
use super::cells::{conditions, with_sign, word};
use super::layout::{Notices, page, plain, range, table};
use policy_sync_api::names::{ClusterName, Origin};
use policy_sync_report::CopyReport;

/// The maximum number of copies on a page.
const PAGE_LIMIT: usize = 500;

/// The content of the page.
#[derive(Clone, Debug)]
pub struct ClusterPage {
    /// The name of the source in the page header.
    pub hub: String,
    /// The notices at the top.
    pub notices: Notices,
    /// The cluster's name.
    pub cluster: ClusterName,
    /// Since when the hub has had no heartbeat of the cluster's agent; `None` if the agent is available.
    pub unavailable_since: Option<Timestamp>,
    /// The copies on the cluster or planned for it; `None` if the user may not read them.
    pub copies: Option<Vec<CopyReport>>,
    /// The number of copies to skip.
    pub skip: usize,
}

/// Renders the page.
#[must_use]
pub fn cluster(shown: &ClusterPage) -> Markup {
    let body = html! {
        @if let Some(since) = shown.unavailable_since {
            p.fault { "No contact with its agent since " (since) ": the page shows its last report." }
        }
        @match shown.copies.as_deref() {
            None => {},
            Some([]) if !shown.notices.unread.is_empty() => p {
                "This cluster has no synced objects. It is unknown whether any are planned: some objects \
                 cannot be read."
            },
            Some([]) => p { "This cluster has no synced objects, and none are planned." },
            Some(copies) => (copies_section(shown, copies)),
        }
    };
    page(&format!("Cluster {}", shown.cluster), &shown.hub, &shown.notices, body)
}

fn copies_section(shown: &ClusterPage, copies: &[CopyReport]) -> Markup {
    let mut sorted: Vec<&CopyReport> = copies.iter().collect();
    // Copies that are out of sync come first. The sort is stable, so both groups keep the order of `status cluster`.
    sorted.sort_by_key(|copy| copy.in_sync());
    let lacking = sorted.iter().filter(|copy| !copy.in_sync()).count();
    let (of, rest) = (sorted.len(), sorted.into_iter().skip(shown.skip).take(PAGE_LIMIT).collect::<Vec<_>>());
    let head = html! {
        tr {
            th scope="col" { "Object" }
            th scope="col" { "State" }
            th scope="col" { "Conditions" }
            th scope="col" { "Since" }
            th scope="col" { "Message" }
        }
    };
    let rows = html! { @for copy in &rest { (row(copy)) } };
    let caption = format!("Synced and planned objects: {}", range(shown.skip, rest.len(), of));
    let next = shown.skip + rest.len();
    let address = address::cluster(&shown.cluster);
    html! {
        p {
            @match lacking {
                0 if !shown.notices.unread.is_empty() => {
                    "All readable objects are in sync. It is unknown whether more are planned: some objects \
                     cannot be read."
                }
                0 => "All are in sync.",
                1 => { "1 of " (of) " is out of sync." }
                more => { (more) " of " (of) " are out of sync." }
            }
        }
        @if next < of { p { a href=(address::with_query(&address, &[("copy", &next.to_string())])) { "More objects" } } }
        (table("copies", &caption, &head, &rows))
    }
}

fn page_of(copy: &CopyReport, origin: &Origin) -> String {
    match origin.as_gateway() {
        Some(key) => address::gateway(key),
        None => address::policy(&copy.kind, &origin.kind().group, origin.object()),
    }
}

fn row(copy: &CopyReport) -> Markup {
    html! {
        tr {
            th scope="row" {
                @match &copy.origin {
                    None => "access of the agent",
                    Some(origin) => a href=(page_of(copy, origin)) { (plain(&origin.object().to_string())) },
                }
                @if copy.origin.is_some() { " " span.kind { (plain(&copy.kind)) } }
            }
            td {
                @match copy.shown_state() {
                    Some(state) => (word(state)),
                    None if copy.in_sync() => (with_sign("✓", "good", copy.state_name())),
                    None => (with_sign("✕", "bad", copy.state_name())),
                }
            }
            td { @if let Some(work) = &copy.work { (conditions(&work.conditions)) } }
            td { @if let Some(since) = copy.since { (since) } }
            td { (plain(copy.message().unwrap_or_default())) }
        }
    }
}
