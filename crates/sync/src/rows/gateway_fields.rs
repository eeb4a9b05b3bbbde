//! What a hub Gateway says of its clusters: an annotation, labels and a status, all of them ours to write.
//!
//! The status is kept whole, because a condition that stays as it is keeps the moment of its last transition.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Strings;
use super::owners::{self, Owners};
use policy_sync_api::annotations::{CLUSTER_LABELS, GATEWAY_CLUSTERS};
use policy_sync_api::gateway::{self, GatewayStatus, LISTENER_CONDITIONS, ListenerStatus};
use policy_sync_api::json::Hash;
use policy_sync_api::object::HubObject;

/// What stands in a Gateway where it is ours to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayFields {
    /// The hash of the annotation's text.
    pub clusters: Option<Hash>,
    /// The labels.
    pub labels: Strings,
    /// The bytes of all other annotations, keys and values.
    pub other_bytes: usize,
    /// Who owns the annotation and the labels.
    pub owners: Owners,
    /// The status, without what others have added to it.
    pub status: GatewayStatus,
    /// What of the status is ours: the types of conditions, and the names of its other fields.
    pub owned_status: BTreeSet<&'static str>,
}

impl GatewayFields {
    /// Whether a label or an annotation of this key is ours.
    #[must_use]
    pub fn is_ours(key: &str) -> bool {
        key == GATEWAY_CLUSTERS || key.starts_with(CLUSTER_LABELS)
    }

    pub(super) fn read(object: &HubObject, field_manager: &str) -> Self {
        let metadata = &object.metadata;
        let others = metadata.annotations.iter().filter(|(key, _)| !Self::is_ours(key));
        let labels = metadata.labels.iter().filter(|(key, _)| Self::is_ours(key));
        let applied = metadata
            .managed_fields
            .iter()
            .rfind(|entry| entry.subresource == "status" && entry.are_applied_by(field_manager));
        let in_status =
            applied.map_or(Value::Null, |entry| owners::fields(entry, "f:status")["f:status"].take());
        Self {
            clusters: metadata.annotations.get(GATEWAY_CLUSTERS).map(|text| Hash::of_text(text)),
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            other_bytes: others.map(|(key, value)| key.len() + value.len()).sum(),
            owners: Owners::read(&metadata.managed_fields, field_manager, "kuadrant.io/", Self::is_ours),
            status: status(&object.status_as(), &in_status),
            owned_status: owned_status(&in_status),
        }
    }
}

/// The status that we have written: conditions of ours, all addresses, and what is `owned` of the listeners. What others
/// have added could not be taken away, and must not look like a difference.
fn status(found: &Value, owned: &Value) -> GatewayStatus {
    let is_owned = |owned: &Value, key: &str, item: &Value| !owned[item_step(key, &item[key])].is_null();
    let mut conditions = items(&found["conditions"], |item| names(&gateway::CONDITIONS, item));
    conditions.sort_by(|left: &Condition, right| left.type_.cmp(&right.type_));
    let mut listeners: Vec<ListenerStatus> = Vec::new();
    for item in found["listeners"].as_array().into_iter().flatten() {
        let ours = &owned["f:listeners"][item_step("name", &item["name"])];
        if ours.is_null() {
            continue;
        }
        let mut item = item.clone();
        if let Some(conditions) = item["conditions"].as_array_mut() {
            conditions.retain(|condition| {
                names(&LISTENER_CONDITIONS, condition) && is_owned(&ours["f:conditions"], "type", condition)
            });
        }
        if let Ok(mut listener) = serde_json::from_value::<ListenerStatus>(item) {
            listener.conditions.sort_by(|left, right| left.type_.cmp(&right.type_));
            listeners.push(listener);
        }
    }
    listeners.sort_by(|left, right| left.name.cmp(&right.name));
    GatewayStatus { conditions, addresses: items(&found["addresses"], |_| true), listeners }
}

fn owned_status(owned: &Value) -> BTreeSet<&'static str> {
    let has = |name: &&str| !owned["f:conditions"][item_step("type", &json!(name))].is_null();
    let fields = [("f:addresses", "addresses"), ("f:listeners", "listeners")];
    let fields = fields.into_iter().filter(|(field, _)| !owned[field].is_null()).map(|(_, name)| name);
    gateway::CONDITIONS.into_iter().filter(has).chain(fields).collect()
}

fn names(types: &[&str], condition: &Value) -> bool {
    condition["type"].as_str().is_some_and(|found| types.contains(&found))
}

/// How `managedFields` writes the item of a list that has `value` as its key.
fn item_step(key: &str, value: &Value) -> String {
    format!("k:{}", json!({ key: value }))
}

/// The items of a list that can be read, one by one: an odd one must not take the others along.
fn items<T: DeserializeOwned>(list: &Value, wanted: impl Fn(&Value) -> bool) -> Vec<T> {
    let items = list.as_array().into_iter().flatten().filter(|item| wanted(item));
    items.filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}
