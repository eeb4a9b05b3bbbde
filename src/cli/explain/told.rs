//! An explanation in words, and for programs. Clusters of which the same is to be said stand together.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::moment::Moment;
use crate::api::names::{ClusterName, Parent};
use crate::cli::text::printable;
use crate::plan::explain::{CLUSTER, Explanation, Reason, Step, Verdict, When};

/// How many clusters of a group are named.
const NAMED: usize = 10;

/// What is told.
pub(super) struct Told<'e> {
    parent: &'e Parent,
    kind: &'e str,
    steps: Vec<Step>,
    groups: Vec<Group>,
    /// Whether it is about one cluster that was asked for.
    one: bool,
}

/// Clusters of which the same is to be said.
struct Group {
    verdict: Verdict,
    clusters: Vec<ClusterName>,
}

impl<'e> Told<'e> {
    pub(super) fn new(parent: &'e Parent, kind: &'e str, explanation: Explanation, one: bool) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        // By what is said, without the moments.
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (cluster, verdict) in explanation.clusters {
            let place = *places.entry(words(&verdict)).or_insert_with(|| {
                groups.push(Group { verdict: verdict.clone(), clusters: Vec::new() });
                groups.len() - 1
            });
            groups[place].take(cluster, &verdict);
        }
        // Where it is fine, where it should be, where it should not: each in the order of the names.
        groups.sort_by_key(|group| (!group.verdict.fine, !group.verdict.wanted));
        Self { parent, kind, steps: explanation.steps, groups, one }
    }

    /// Whether it is there and in force: on the cluster that was asked for, or on each that it is for.
    pub(super) fn is_fine(&self) -> bool {
        let mut asked = self.groups.iter().filter(|group| group.verdict.wanted || self.one).peekable();
        asked.peek().is_some() && asked.all(|group| group.verdict.fine)
    }

    fn count(&self, counts: impl Fn(&Verdict) -> bool) -> usize {
        let groups = self.groups.iter().filter(|group| counts(&group.verdict));
        groups.map(|group| group.clusters.len()).sum()
    }

    /// The sentences.
    pub(super) fn text(&self) -> String {
        let object = format!("{} {}", self.kind, self.parent.object);
        let mut text = if self.one {
            printable(&object) + ":\n"
        } else {
            let (all, wanted) = (self.count(|_| true), self.count(|verdict| verdict.wanted));
            let fine = self.count(|verdict| verdict.fine);
            let line = format!("{object} is for {wanted} of {all} clusters, and as it should be on {fine}.");
            printable(&line) + "\n"
        };
        text.push('\n');
        for step in &self.steps {
            text.push_str("- ");
            text.push_str(&sentence(&step.reason, None));
        }
        for group in &self.groups {
            text.push_str(&group.text());
        }
        text
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let step = |step: &Step| {
            let mut value = reason(&step.reason);
            value["passes"] = step.passes.into();
            value
        };
        let group = |group: &Group| {
            let Verdict { wanted, there, fine, reasons } = &group.verdict;
            json!({
                "wanted": wanted, "there": there, "fine": fine,
                "reasons": reasons.iter().map(reason).collect::<Vec<_>>(),
                "clusters": group.clusters,
            })
        };
        json!({
            "kind": self.kind,
            "resource": self.parent.kind.to_string(),
            "namespace": self.parent.object.namespace,
            "name": self.parent.object.name,
            "fine": self.is_fine(),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
        })
    }
}

impl Group {
    /// Takes in a cluster of which the same is to be said, since or until whenever: the earliest moment counts.
    fn take(&mut self, cluster: ClusterName, verdict: &Verdict) {
        for (reason, other) in self.verdict.reasons.iter_mut().zip(&verdict.reasons) {
            reason.when = reason.when.into_iter().chain(other.when).min();
        }
        self.clusters.push(cluster);
    }

    fn text(&self) -> String {
        let named: Vec<&str> = self.clusters.iter().take(NAMED).map(|cluster| &*cluster.0).collect();
        let more = match self.clusters.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let Verdict { wanted, there, fine, reasons } = &self.verdict;
        let how = match (fine, wanted, there) {
            (true, ..) => "On",
            (false, true, true) => "Not as it should be on",
            (false, false, true) => "Still on",
            (false, _, false) => "Not on",
        };
        let one = self.clusters.first().filter(|_| self.clusters.len() == 1);
        let mut text = format!("\n{}\n", printable(&format!("{how} {}{more}:", named.join(", "))));
        for reason in reasons {
            text.push_str("- ");
            text.push_str(&sentence(reason, one));
        }
        text
    }
}

/// All that is said of a cluster, but since when.
fn words(verdict: &Verdict) -> String {
    let mut verdict = verdict.clone();
    verdict.reasons.iter_mut().for_each(|reason| reason.when = None);
    format!("{verdict:?}")
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

fn reason(reason: &Reason) -> Value {
    let moment = |of: fn(When) -> Option<Moment>| reason.when.and_then(of).map(Moment::rfc3339);
    json!({
        "reason": reason.code,
        "text": reason.text,
        "since": moment(|when| if let When::Since(moment) = when { Some(moment) } else { None }),
        "until": moment(|when| if let When::Until(moment) = when { Some(moment) } else { None }),
        "change": reason.change,
    })
}

#[cfg(test)]
mod tests;
