//! Formats an explanation for a terminal.

use crate::cli::text::printable;
use policy_sync_report::{ObjectExplanation, Sentence};
use policy_sync_topology::show::PolicyReport;

pub(super) fn text(explanation: &ObjectExplanation) -> String {
    let mut text = format!("{}\n\n", printable(&explanation.title()));
    text.extend(explanation.step_sentences().map(lines));
    text.extend(explanation.on_hub.as_ref().map(of_hub));
    for group in &explanation.groups {
        text.push_str(&format!("\n{}\n", printable(&group.title())));
        text.extend(group.sentences().map(lines));
    }
    text
}

/// The effect of a policy on the hub's own routes.
fn of_hub(report: &PolicyReport) -> String {
    let lines: Vec<String> =
        report.sentences().iter().map(|sentence| printable(&format!("- {sentence}."))).collect();
    format!("\nEffect on routes of the hub, which are not synced:\n{}\n", lines.join("\n"))
}

/// Formats a sentence, with the change that would lead to another result on a separate line.
fn lines(Sentence { text, change }: Sentence) -> String {
    let change = if change.is_empty() { change } else { format!("  To change: {}\n", printable(&change)) };
    format!("- {}\n{change}", printable(&text))
}

#[cfg(test)]
mod tests;
