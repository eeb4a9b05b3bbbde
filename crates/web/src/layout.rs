//! The layout that all pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::address;

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("style.css");
/// The script that reloads pages after changes.
pub const SCRIPT: &str = include_str!("script.js");

/// The notices above a page's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    /// The reasons why the hub cannot be watched at present. The page then shows the last known state.
    pub watch_errors: Vec<String>,
    /// Objects that the user may not read, one line each.
    pub unread: Vec<String>,
    /// Errors in parameters or in files.
    pub faults: Vec<String>,
    /// Whether the page was read once and is not updated.
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
            (group("away", "The hub cannot be watched: the page shows the last known state", &self.watch_errors))
            (group("unread", "Some objects cannot be read", &self.unread))
            (group("faults", "Invalid, and ignored", &self.faults))
            @if self.is_read_once { p.note { "This page shows the state when it was opened, and is not updated." } }
        }
    }
}

/// A page with this title. `hub` names the source of the objects.
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
                a.skip href="#main" { "Skip to content" }
                header {
                    nav aria-label="Pages" {
                        a href=(address::FLEET) { "Policies on clusters" }
                        " "
                        a href=(address::EFFECTIVE) { "Effective policies" }
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

/// An error page with a reason and a hint.
#[must_use]
pub fn error(hub: &str, title: &str, why: &str) -> Markup {
    page(title, hub, &Notices::default(), html! { p { (plain(why)) } })
}

/// A table in an element that scrolls separately and can be focused. `name` is the table's unique id on the page.
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

/// Escapes `text`, including characters that change the text direction, so that a name cannot alter its
/// surroundings.
pub(super) fn plain(text: &str) -> PreEscaped<String> {
    html! { (policy_sync_api::text::printable(text)) }
}

/// The range of rows of this page, such as `11 to 20 of 95`.
pub(super) fn range(skip: usize, shown: usize, of: usize) -> String {
    if shown == of { format!("all {of}") } else { format!("{} to {} of {of}", skip + 1, skip + shown) }
}
