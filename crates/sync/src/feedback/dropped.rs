//! Detects values that the agent found but could not send.
//!
//! A path without a match yields no value, which is not an error. A value that the agent cannot send is missing in
//! the same way. Such a value is a list, an object or a fraction without the raw JSON feature, or JSON of more than
//! 1,024 bytes. Only the message of one condition distinguishes the two cases. The patterns below match the messages
//! of all known agent versions; if a later version words them differently, the value counts as absent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use policy_sync_api::text::truncate_bytes;

/// The maximum number of bytes of the message that are searched: the API's limit for the message of a condition.
const MESSAGE_LIMIT: usize = 32 * 1024;

/// Whether the manifest's `StatusFeedbackSynced` condition reports `value` as dropped.
pub(super) fn by_agent(conditions: &[Condition], value: &str) -> bool {
    let Some(condition) = conditions.iter().find(|condition| condition.type_ == "StatusFeedbackSynced")
    else {
        return false;
    };
    let message = truncate_bytes(&condition.message, MESSAGE_LIMIT);
    // A cheap test first, since the message names only few values.
    condition.status == "False"
        && message.contains(value)
        && [
            format!("of the value for {value} is not found"),
            format!("json raw string for name {value} is larger than"),
            format!("to json string for name {value}: "),
            format!("failed to find value for {value} with error: "),
            format!(" of {value} with error: "),
        ]
        .iter()
        .any(|words| message.contains(words))
}

#[cfg(test)]
mod tests;
