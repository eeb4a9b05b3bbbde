//! How something is on a cluster: a word, a sign for those who see no colour, and what the cluster says.

use maud::{Markup, html};

use super::layout::plain;
use crate::api::annotations::SyncedCondition;
use crate::api::text::printable;
use crate::report::fleet::{Cell, State};

/// The sign and the class of a state.
fn sign(state: State) -> (&'static str, &'static str) {
    match state {
        State::Refused => ("✕", "bad"),
        State::NotEnforced => ("⊘", "bad"),
        State::Frozen => ("❄", "warn"),
        State::Pending => ("…", "warn"),
        State::Unknown => ("?", "warn"),
        State::Leaving => ("←", "warn"),
        State::Overridden => ("⇄", "other"),
        State::Applied => ("✓", "good"),
        State::Enforced => ("●", "good"),
    }
}

/// A word with its sign.
pub(super) fn word(state: State) -> Markup {
    html! { span.state.(sign(state).1) { (said(state)) } }
}

/// The same without what says how it looks: a page of the matrix has thousands.
fn said(state: State) -> Markup {
    match state {
        State::Unknown => html! { abbr title="not known" { "?" } },
        state => after(sign(state).0, state.word()),
    }
}

/// These words with a sign before them.
pub(super) fn signed(sign: &str, class: &str, words: &str) -> Markup {
    html! { span.state.(class) { (after(sign, words)) } }
}

fn after(sign: &str, words: &str) -> Markup {
    html! { i aria-hidden="true" { (sign) } " " (words) }
}

/// The conditions of a copy, a line each.
pub(super) fn conditions(of: &[SyncedCondition]) -> Markup {
    html! {
        @for condition in of {
            div {
                (plain(&condition.condition_type)) ": " (plain(&condition.status))
                @if let Some(reason) = &condition.reason { " (" (plain(reason)) ")" }
            }
        }
    }
}

/// A cell of the matrix.
pub(super) fn cell(cell: Option<&Cell>) -> Markup {
    let Some(cell) = cell else {
        return html! { td.none { span aria-hidden="true" { "–" } span.unseen { "not for this cluster" } } };
    };
    let title = cell.message.as_deref().map(printable);
    html! { td.state.(sign(cell.state).1) title=[title] { (said(cell.state)) } }
}

/// What each word means.
pub(super) fn legend() -> Markup {
    html! {
        details #legend {
            summary { "What the words mean" }
            dl {
                @for state in State::ALL {
                    div { dt { (word(state)) } dd { (plain(state.meaning())) } }
                }
            }
        }
    }
}
