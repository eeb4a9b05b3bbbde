//! Values that an agent found and did not send, by its own word.
//!
//! A path that reaches nothing gives no value, and that is no fault. What an agent cannot send, because it is a list, an
//! object or a fraction where JSON is not turned on, or JSON of more than 1,024 bytes, is missing in the same way; that it
//! was dropped stands only in the message of one condition, in the agent's words. These are the words of all versions
//! that are known; where a later one says it otherwise, the value shows as absent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use policy_sync_api::text::capped;

/// The most bytes of the message that are searched: as many as the API lets the message of a condition have.
const MESSAGE_LIMIT: usize = 32 * 1024;

/// Whether the manifest's condition reports `value` as dropped. Agents write one condition of a type.
pub(super) fn by_agent(conditions: &[Condition], value: &str) -> bool {
    let Some(condition) = conditions.iter().find(|condition| condition.type_ == "StatusFeedbackSynced")
    else {
        return false;
    };
    let message = capped(&condition.message, MESSAGE_LIMIT);
    // Cheap check first: most values are not named.
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
