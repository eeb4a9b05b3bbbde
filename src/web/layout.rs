//! What all pages have in common.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::address;

/// How all pages look.
pub const STYLE: &str = include_str!("style.css");
/// What keeps them up to date.
pub const SCRIPT: &str = include_str!("script.js");

/// What is said above a page's own: it is true whatever is shown below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// Why the hub cannot be watched for a while: what is shown is of before.
    pub away: Vec<String>,
    /// What may not be read.
    pub unread: Vec<String>,
    /// What is wrong with parameters, or in files.
    pub faults: Vec<String>,
    /// Whether it is read where the page is opened, and not followed.
    pub is_read_once: bool,
}

impl Notices {
    fn markup(&self) -> Markup {
        let group = |class: &str, title: &str, lines: &[String]| {
            html! {
                @if !lines.is_empty() {
                    section.notice.(class) {
                        h2 { (title) }
                        ul { @for line in lines { li { (plain(line)) } } }
                    }
                }
            }
        };
        html! {
            (group("away", "The hub cannot be watched: what is shown is what was last known", &self.away))
            (group("unread", "Not all can be read", &self.unread))
            (group("faults", "Wrong, and not used", &self.faults))
            @if self.is_read_once { p.note { "This was read when the page was opened, and does not follow the hub." } }
        }
    }
}

/// A page of this title; `hub` is what it is of, as people name it.
pub(super) fn page(title: &str, hub: &str, notices: &Notices, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (plain(title)) " – Policy Sync" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(address::STYLE);
                script src=(address::SCRIPT) defer {}
                @if !notices.is_read_once { noscript { meta http-equiv="refresh" content="30"; } }
            }
            body {
                a.skip href="#main" { "Skip to what is shown" }
                header {
                    nav aria-label="Pages" {
                        a href=(address::FLEET) { "Policies on clusters" }
                        " "
                        a href=(address::EFFECTIVE) { "What is in force" }
                    }
                    span.hub { (plain(hub)) }
                    p #live role="status" aria-live="polite" {}
                }
                main #main tabindex="-1" data-once[notices.is_read_once] {
                    h1 { (plain(title)) }
                    (notices.markup())
                    (body)
                }
            }
        }
    }
}

/// A table that scrolls by itself where it is wide, and can be scrolled by keys; `name` tells it from others of the page.
pub(super) fn table(name: &str, caption: &str, head: &Markup, rows: &Markup) -> Markup {
    let id = format!("{name}-caption");
    html! {
        div.scroll #(name) role="region" tabindex="0" aria-labelledby=(id) {
            table {
                caption #(id) { (plain(caption)) }
                thead { (head) }
                tbody { (rows) }
            }
        }
    }
}

/// `text`, with what changes the order of reading written out: a name must not make another of what stands beside it.
pub(super) fn plain(text: &str) -> PreEscaped<String> {
    html! { (policy_sync_api::text::printable(text)) }
}

/// Which `shown` of all are shown after so many.
pub(super) fn range(skip: usize, shown: usize, of: usize) -> String {
    if shown == of { format!("all {of}") } else { format!("{} to {} of {of}", skip + 1, skip + shown) }
}
