//! An explanation in sentences.

use crate::api::moment::Moment;
use crate::api::names::ClusterName;
use crate::api::text::named;
use crate::cli::text::printable;
use crate::report::{Group, ObjectExplanation};
use crate::sync::explain::{CLUSTER, Reason, State, When};
use crate::topology::show::PolicyReport;

/// The sentences.
pub(super) fn text(explanation: &ObjectExplanation) -> String {
    let object = format!("{} {}", explanation.kind, explanation.origin.object());
    let mut text = if explanation.one {
        printable(&object) + ":\n"
    } else {
        let (all, desired) = (explanation.count(|_| true), explanation.count(State::is_desired));
        let in_sync = explanation.count(|state| state == State::InSync);
        let line = format!("{object} is for {desired} of {all} clusters, and as it should be on {in_sync}.");
        printable(&line) + "\n"
    };
    text.push('\n');
    for step in &explanation.steps {
        text.push_str("- ");
        text.push_str(&sentence(&step.reason, None));
    }
    text.extend(explanation.on_hub.as_ref().map(of_hub));
    for group in &explanation.groups {
        text.push_str(&of_group(group));
    }
    text
}

/// Where a policy is in force on the hub's own graph.
fn of_hub(report: &PolicyReport) -> String {
    let lines: Vec<String> =
        report.sentences().iter().map(|sentence| printable(&format!("- {sentence}."))).collect();
    format!("\nAmong the hub's own routes, which stay there:\n{}\n", lines.join("\n"))
}

fn of_group(group: &Group) -> String {
    let clusters: Vec<&str> = group.clusters.iter().map(|cluster| &*cluster.0).collect();
    let how = match group.verdict.state {
        State::InSync => "On",
        State::OutOfSync => "Not as it should be on",
        State::Leaving => "Still on",
        State::Missing | State::Absent => "Not on",
    };
    let one = group.clusters.first().filter(|_| group.clusters.len() == 1);
    let mut text = format!("\n{}\n", printable(&format!("{how} {}:", named(&clusters))));
    for reason in &group.verdict.reasons {
        text.push_str("- ");
        text.push_str(&sentence(reason, one));
    }
    text
}

/// A reason as a sentence, and in a line of its own what to change.
fn sentence(reason: &Reason, cluster: Option<&ClusterName>) -> String {
    let of_cluster =
        |text: &str| cluster.map_or_else(|| text.to_owned(), |cluster| text.replace(CLUSTER, &cluster.0));
    let mut letters = reason.text.chars();
    let begin: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let when = match reason.when {
        None => String::new(),
        Some(When::Since(moment)) => format!(" (since {})", at(moment, cluster)),
        Some(When::Until(moment)) => format!(" (until {})", at(moment, cluster)),
    };
    let line = of_cluster(&format!("{begin}{}{when}.", letters.as_str()));
    let change = of_cluster(&reason.change.join(", or "));
    let change = if change.is_empty() { change } else { format!("  To change: {}\n", printable(&change)) };
    format!("{}\n{change}", printable(&line))
}

/// A moment, of several clusters the earliest.
fn at(moment: Moment, cluster: Option<&ClusterName>) -> String {
    let earliest = if cluster.is_none() { " at the earliest" } else { "" };
    format!("{}{earliest}", moment.rfc3339())
}

#[cfg(test)]
mod tests;
