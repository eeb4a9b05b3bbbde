//! Pages that say why there is no other.

use maud::{Markup, html};

use super::layout::{Notices, page, plain};

/// Why there is nothing to show, and what to do.
#[must_use]
pub fn error(hub: &str, title: &str, why: &str) -> Markup {
    page(title, hub, &Notices::default(), html! { p { (plain(why)) } })
}
