//! What conditions, and messages for people, have in common.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::moment::Moment;

/// How many things a message names.
pub(super) const NAMED: usize = 10;

/// The first of them, and how many more.
pub(super) fn named(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(NAMED);
    let mut parts: Vec<String> = texts.take(NAMED).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

/// When a condition got this status: what is there knows, or it is now.
pub(super) fn transition(found: &[Condition], name: &str, status: &str, now: Moment) -> Time {
    let same = found.iter().find(|found| found.type_ == name && found.status == status);
    same.map_or_else(|| Time(now.whole_seconds()), |found| found.last_transition_time.clone())
}
