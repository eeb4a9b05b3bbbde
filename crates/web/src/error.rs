//! Error pages.

use maud::{Markup, html};

use super::layout::{Notices, page, plain};

/// An error page with a reason and a hint.
#[must_use]
pub fn error(hub: &str, title: &str, why: &str) -> Markup {
    page(title, hub, &Notices::default(), html! { p { (plain(why)) } })
}
