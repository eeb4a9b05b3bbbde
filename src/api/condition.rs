//! What the API takes as a condition
//! ([API conventions](https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties)).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Deserialize;

use super::moment::Moment;
use super::object::HubObject;

/// The statuses of a condition.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
/// The most characters of a reason.
const REASON_LIMIT: usize = 1024;

/// `text` as the status of a condition, `None` where it is none.
#[must_use]
pub fn status(text: &str) -> Option<&'static str> {
    STATUSES.into_iter().find(|known| *known == text)
}

/// Whether the API takes `text` as the reason of a condition.
#[must_use]
pub fn is_reason(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    text.len() <= REASON_LIMIT
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(inner)
}

/// The condition `name` with this status, reason and message, of an object of this `generation`. Since when it has that status is as
/// `found` knows, or now.
#[must_use]
pub fn condition(
    found: &[Condition],
    name: &str,
    (status, reason): (&str, &str),
    message: String,
    generation: i64,
    now: Moment,
) -> Condition {
    Condition {
        type_: name.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        last_transition_time: transition(found, name, status, now),
    }
}

/// When a condition got this status: what is there knows, or it is now.
fn transition(found: &[Condition], name: &str, status: &str, now: Moment) -> Time {
    let same = found.iter().find(|found| found.type_ == name && found.status == status);
    same.map_or_else(|| Time(now.whole_seconds()), |found| found.last_transition_time.clone())
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: Option<i64>,
    conditions: Vec<Condition>,
    ancestors: Vec<Ancestor>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ancestor {
    conditions: Vec<Condition>,
}

/// Whether the status of `object` says `Accepted=False` of its present generation; where it says so of ancestors, of all of them.
#[must_use]
pub fn is_refused(object: &HubObject) -> bool {
    let status: Status = object.status_as();
    let refuses = |conditions: &[Condition]| {
        let accepted = conditions.iter().find(|condition| condition.type_ == "Accepted");
        accepted.is_some_and(|condition| {
            let generation = condition.observed_generation.or(status.observed_generation);
            condition.status == "False" && generation.is_none_or(|seen| seen == object.metadata.generation)
        })
    };
    refuses(&status.conditions)
        || (!status.ancestors.is_empty()
            && status.ancestors.iter().all(|ancestor| refuses(&ancestor.conditions)))
}
