//! Converts an explanation to English sentences, for the command line and the web page.

use super::{ObjectExplanation, VerdictGroup};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ClusterName;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_api::text::named;
use policy_sync_sync::explain::{CLUSTER_PLACEHOLDER, CopyState, Reason, TimeBound};

/// A reason in English.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The reason, with a full stop.
    pub text: String,
    /// The change that would lead to another result; empty if there is none.
    pub change: String,
}

impl ObjectExplanation {
    /// The object, the number of clusters that it is planned for, and the number of clusters on which it is in force.
    #[must_use]
    pub fn title(&self) -> String {
        let object = format!("{} {}", self.kind, self.origin.object());
        if self.is_one_cluster {
            return object + ":";
        }
        let (all, desired) = (self.count(|_| true), self.count(CopyState::is_desired));
        let in_force = self.count(|state| state == CopyState::InSync);
        format!("{object} is for {desired} of {all} clusters, and in force on {in_force}.")
    }

    /// The reasons that apply to all clusters.
    pub fn step_sentences(&self) -> impl Iterator<Item = Sentence> {
        self.steps.iter().map(|step| sentence(&step.reason, None))
    }
}

impl VerdictGroup {
    /// The state and the names of the clusters.
    #[must_use]
    pub fn title(&self) -> String {
        let clusters: Vec<&str> = self.clusters.iter().map(|cluster| &*cluster.0).collect();
        let how = match (self.verdict.state, self.verdict.policy_state) {
            (CopyState::Absent, _) => "Not",
            (CopyState::Leaving, state) if state != Some(PolicyState::Removing) => "Still",
            (_, Some(state)) => state.as_str(),
            (CopyState::InSync, None) => "Programmed",
            (CopyState::OutOfSync | CopyState::Leaving, None) => "Not programmed",
            (CopyState::Missing, None) => "Not",
        };
        format!("{how} on {}:", named(&clusters))
    }

    /// The reasons for the state.
    pub fn sentences(&self) -> impl Iterator<Item = Sentence> {
        let only_cluster = self.clusters.first().filter(|_| self.clusters.len() == 1);
        self.verdict.reasons.iter().map(move |reason| sentence(reason, only_cluster))
    }
}

fn sentence(reason: &Reason, cluster: Option<&ClusterName>) -> Sentence {
    let of_cluster = |text: &str| {
        cluster.map_or_else(|| text.to_owned(), |cluster| text.replace(CLUSTER_PLACEHOLDER, &cluster.0))
    };
    let mut letters = reason.text.chars();
    let begin: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let when = match reason.when {
        None => String::new(),
        Some(TimeBound::Since(moment)) => format!(" (since {})", at(moment, cluster)),
        Some(TimeBound::Until(moment)) => format!(" (until {})", at(moment, cluster)),
    };
    Sentence {
        text: of_cluster(&format!("{begin}{}{when}.", letters.as_str())),
        change: of_cluster(&reason.change.join(", or ")),
    }
}

/// Formats a moment. Without a cluster, the moment is the earliest of several, and the text contains "at the earliest".
fn at(moment: Moment, cluster: Option<&ClusterName>) -> String {
    let earliest = if cluster.is_none() { " at the earliest" } else { "" };
    format!("{}{earliest}", moment.rfc3339())
}
