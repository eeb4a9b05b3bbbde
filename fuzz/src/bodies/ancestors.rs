//! Encodes the message in which the work agent reports the status of a policy for each of its ancestors. In the
//! input, the message is a list, so that the mutator can change its parts: `[revision, generation, [[gateway,
//! section, controller, [[type, status, observedGeneration, reason, message], …]], …]]`.
//!
//! The encoding follows the specification and is independent of the product's code.

use serde_json::Value;

const CONDITIONS: [&str; 4] = ["Accepted", "Enforced", "Programmed", "Ready"];

/// The type and the status of a condition.
pub(super) type ConditionStatus = (String, String);

/// Replaces the list in the condition `PolicySyncAncestors` of the copy by its encoded text. Returns the conditions in
/// the list, or `None` if the list is not well formed.
pub(super) fn write(status: &mut Value) -> Option<Vec<ConditionStatus>> {
    let manifests = status.get_mut("resourceStatus")?.get_mut("manifests")?.as_array_mut()?;
    let carries = |manifest: &&mut Value| {
        let meta = &manifest["resourceMeta"];
        meta["resource"] == "ratelimitpolicies" && meta["group"] == "kuadrant.io"
    };
    let conditions = manifests.iter_mut().find(carries)?.get_mut("conditions")?.as_array_mut()?;
    let condition = conditions.iter_mut().find(|condition| condition["type"] == "PolicySyncAncestors")?;
    let statuses = statuses(&condition["message"]);
    if let Some(text) = text(&condition["message"]) {
        condition["message"] = text.into();
    }
    statuses
}

fn text(list: &Value) -> Option<String> {
    let ancestors = list[2].as_array()?;
    let conditions = |ancestor: &Value| ancestor[3].as_array().cloned().unwrap_or_default();
    let mut encoded = String::new();
    let mut messages = String::new();
    for ancestor in ancestors {
        let mut of_all = String::new();
        for condition in conditions(ancestor) {
            of_all += &sized(&(0..4).map(|part| sized(&plain(&condition[part]))).collect::<String>());
            messages += &sized(&plain(&condition[4]));
        }
        let names: String = (0..3).map(|part| sized(&plain(&ancestor[part]))).collect();
        encoded += &sized(&(names + &sized(&of_all)));
    }
    let parts = [plain(&list[0]), plain(&list[1]), encoded, messages];
    let whole: String = parts.iter().map(|part| sized(part)).collect();
    Some(format!("policy-sync/1 {whole}").chars().take(16_384).collect())
}

fn statuses(list: &Value) -> Option<Vec<ConditionStatus>> {
    let mut all = Vec::new();
    for ancestor in list[2].as_array()? {
        for condition in ancestor[3].as_array().into_iter().flatten() {
            let status = (plain(&condition[0]), plain(&condition[1]));
            if CONDITIONS.contains(&status.0.as_str()) {
                all.push(status);
            }
        }
    }
    Some(all)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn sized(text: &str) -> String {
    format!("{}:{text}", text.chars().count())
}

/// Orders the statuses of conditions. A lower number is a worse status.
pub(super) fn rank(status: &str) -> u8 {
    match status {
        "False" => 0,
        "True" => 2,
        _ => 1,
    }
}
