//! The entries of implementations in `status.parents` of a route.
//!
//! Controllers other than this project's write these entries, including controllers on a spoke. Only bounded parts are
//! read, and invalid entries are skipped.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::ParentReference;
use policy_sync_api::object::HubObject;
use policy_sync_api::text::excerpt;

/// The maximum number of entries of a status that the API accepts.
const ENTRIES_LIMIT: usize = 32;
/// The maximum number of conditions of an entry that the API accepts.
const CONDITIONS_LIMIT: usize = 8;
/// The maximum size of an entry in bytes: eight conditions with the longest messages that the API accepts.
const BYTES_LIMIT: usize = 256 * 1024;
/// The maximum length in bytes of a controller name that the API accepts.
const CONTROLLER_LIMIT: usize = 253;

/// The status entry of one implementation for a parent reference of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentStatus {
    /// The parent reference.
    pub parent: ParentReference,
    /// The `controllerName` of the implementation.
    pub controller: Arc<str>,
    /// The condition `Accepted`.
    pub accepted: Option<ConditionStatus>,
    /// The condition `ResolvedRefs`.
    pub resolved: Option<ConditionStatus>,
}

/// A condition that is `True` or `False`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionStatus {
    /// Whether the condition is `True`.
    pub holds: bool,
    /// The condition's reason, shortened to 64 characters.
    pub reason: Arc<str>,
}

impl ParentStatus {
    /// Reads the entries of `route` for its current generation.
    pub fn read(route: &HubObject) -> Box<[Self]> {
        #[derive(Default, Deserialize)]
        struct Status<'s> {
            #[serde(borrow, default)]
            parents: Vec<&'s RawValue>,
        }
        let status = route.status.as_deref().map(|status| serde_json::from_str::<Status<'_>>(status.get()));
        let entries = status.and_then(Result::ok).unwrap_or_default().parents.into_iter().take(ENTRIES_LIMIT);
        let entries = entries.filter(|entry| entry.get().len() <= BYTES_LIMIT);
        entries.filter_map(|entry| Self::of_entry(entry.get(), route.metadata.generation)).collect()
    }

    fn of_entry(entry: &str, generation: i64) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Entry {
            parent_ref: ParentReference,
            controller_name: String,
            #[serde(default)]
            conditions: Vec<Condition>,
        }
        // Messages are not read.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Condition {
            #[serde(rename = "type")]
            name: String,
            status: String,
            #[serde(default)]
            reason: String,
            observed_generation: Option<i64>,
        }
        let Entry { parent_ref, controller_name, conditions } = serde_json::from_str(entry).ok()?;
        if controller_name.is_empty() || controller_name.len() > CONTROLLER_LIMIT {
            return None;
        }
        let verdict = |name: &str| {
            let mut conditions = conditions.iter().take(CONDITIONS_LIMIT);
            let condition = conditions.find(|condition| condition.name == name)?;
            let is_current = condition.observed_generation.is_none_or(|observed| observed == generation);
            let holds = match condition.status.as_str() {
                "True" => true,
                "False" => false,
                _ => return None,
            };
            is_current.then(|| ConditionStatus { holds, reason: excerpt(&condition.reason).into() })
        };
        let (accepted, resolved) = (verdict("Accepted"), verdict("ResolvedRefs"));
        // An entry without these conditions comes from a controller that implements no Gateways.
        (accepted.is_some() || resolved.is_some()).then(|| Self {
            parent: parent_ref,
            controller: controller_name.into(),
            accepted,
            resolved,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(parents: Vec<Value>) -> Box<[ParentStatus]> {
        let route = json!({"metadata": {"generation": 1}, "status": {"parents": parents}});
        ParentStatus::read(&serde_json::from_str(&route.to_string()).unwrap())
    }

    fn entry(controller: &str, conditions: Vec<Value>) -> Value {
        json!({"parentRef": {"name": "web"}, "controllerName": controller, "conditions": conditions})
    }

    fn accepted(reason: &str) -> Value {
        json!({"type": "Accepted", "status": "False", "reason": reason})
    }

    #[test]
    fn status_entries_conditions_and_texts_are_bounded() {
        let plain = || entry("a.io/b", vec![accepted("No")]);
        assert_eq!(read(vec![plain(); ENTRIES_LIMIT + 1]).len(), ENTRIES_LIMIT);
        let other = json!({"type": "Other", "status": "True"});
        let after = |others: usize| [vec![other.clone(); others], vec![accepted("No")]].concat();
        assert_eq!(read(vec![entry("a.io/b", after(CONDITIONS_LIMIT - 1))]).len(), 1);
        assert_eq!(read(vec![entry("a.io/b", after(CONDITIONS_LIMIT))]).len(), 0);
        assert_eq!(read(vec![entry(&"a".repeat(CONTROLLER_LIMIT), vec![accepted("No")])]).len(), 1);
        assert_eq!(read(vec![entry(&"a".repeat(CONTROLLER_LIMIT + 1), vec![accepted("No")])]).len(), 0);
        let mut long = plain();
        long["padding"] = "x".repeat(BYTES_LIMIT).into();
        assert_eq!(read(vec![long, plain()]).len(), 1);
        let reason = &read(vec![entry("a.io/b", vec![accepted(&"x".repeat(1000))])])[0];
        assert!(reason.accepted.as_ref().unwrap().reason.len() < 80);
    }
}
