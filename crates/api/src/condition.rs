//! Conditions in a status, as the [API
//! conventions](https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#typical-status-properties)
//! define them. Checks and builds conditions, and reads from a status why a controller rejects an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Deserialize;

use super::moment::Moment;
use super::object::HubObject;
use super::text::{one_line, truncate_bytes};

/// The statuses of a condition.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
/// The maximum size of a rejection's reason and message, in bytes.
const REJECTION_LIMIT: usize = 1024;
/// The maximum length of a condition's reason, in characters.
const REASON_LIMIT: usize = 1024;

/// Parses `text` as a condition status.
#[must_use]
pub fn parse_status(text: &str) -> Option<&'static str> {
    STATUSES.into_iter().find(|known| *known == text)
}

/// Whether `text` is a valid reason of a condition.
#[must_use]
pub fn is_reason(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    text.len() <= REASON_LIMIT
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(inner)
}

/// The condition `name` for an object of this `generation`. If `found` has the condition with an equal status, its
/// transition time is kept. Otherwise the transition time is `now`.
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

/// The transition time of the condition `name` in `found`, if it has this `status`; otherwise `now`.
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

/// The reason and message of `Accepted=False` in the status of `object` for its current generation, on one line of at
/// most 1 KiB. If the status has ancestors, all of them must have `Accepted=False`, and the first ancestor's reason and
/// message are returned.
#[must_use]
pub fn rejection(object: &HubObject) -> Option<Box<str>> {
    let status: Status = object.status_as();
    let rejection = |conditions: &[Condition]| {
        let condition = conditions.iter().find(|condition| condition.type_ == "Accepted")?;
        let generation = condition.observed_generation.or(status.observed_generation);
        let is_rejected =
            condition.status == "False" && generation.is_none_or(|seen| seen == object.metadata.generation);
        is_rejected.then(|| {
            let Condition { reason, message, .. } = condition;
            let (reason, message) =
                (truncate_bytes(reason, REJECTION_LIMIT), truncate_bytes(message, REJECTION_LIMIT));
            let text = if message.is_empty() { reason.into_owned() } else { format!("{reason}: {message}") };
            truncate_bytes(&one_line(&text), REJECTION_LIMIT).into()
        })
    };
    rejection(&status.conditions).or_else(|| {
        let of_ancestors: Option<Vec<Box<str>>> =
            status.ancestors.iter().map(|ancestor| rejection(&ancestor.conditions)).collect();
        of_ancestors?.into_iter().next()
    })
}
