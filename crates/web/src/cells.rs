//! The markup of a state on a cluster: a word, a sign that does not depend on color, and the cluster's message.

use maud::{Markup, html};

use super::layout::plain;
use policy_sync_api::annotations::SyncedCondition;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_api::text::printable;
use policy_sync_report::fleet::Cell;

/// The sign and the CSS class of a state.
fn sign(state: PolicyState) -> (&'static str, &'static str) {
    match state {
        PolicyState::Rejected | PolicyState::NotApplied => ("✕", "bad"),
        PolicyState::NotEnforced => ("⊘", "bad"),
        PolicyState::Frozen => ("❄", "warn"),
        PolicyState::PartiallyEnforced => ("◐", "warn"),
        PolicyState::Pending => ("…", "warn"),
        PolicyState::Unreachable => ("⚡", "warn"),
        PolicyState::Unknown => ("?", "warn"),
        PolicyState::Removing => ("←", "warn"),
        PolicyState::Overridden => ("⇄", "other"),
        PolicyState::Accepted | PolicyState::Applied => ("✓", "other"),
        PolicyState::Enforced => ("●", "good"),
    }
}

/// The word of a state with its sign, in a styled element.
pub(super) fn word(state: PolicyState) -> Markup {
    html! { span.state.(sign(state).1) { (plain_word(state)) } }
}

/// The word of a state with its sign, without a styled element. This keeps a page with thousands of cells small.
fn plain_word(state: PolicyState) -> Markup {
    after(sign(state).0, state.as_str())
}

/// `words` after a sign, in a styled element.
pub(super) fn with_sign(sign: &str, class: &str, words: &str) -> Markup {
    html! { span.state.(class) { (after(sign, words)) } }
}

fn after(sign: &str, words: &str) -> Markup {
    html! { i aria-hidden="true" { (sign) } " " (words) }
}

/// The conditions of a copy, one line each.
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
        return html! { td.none { span aria-hidden="true" { "–" } span.unseen { "not planned for this cluster" } } };
    };
    let title = cell.message.as_deref().map(printable);
    html! { td.state.(sign(cell.state).1) title=[title] { (plain_word(cell.state)) } }
}

/// The explanation of all states.
pub(super) fn legend() -> Markup {
    html! {
        details #legend {
            summary { "Meaning of the states" }
            dl {
                @for state in PolicyState::ALL {
                    div { dt { (word(state)) } dd { (plain(state.meaning())) } }
                }
            }
        }
    }
}
