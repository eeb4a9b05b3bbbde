//! The fields of a hub Gateway that this controller writes about its clusters: an annotation, labels and the status.
//!
//! The status is kept whole, because an unchanged condition must keep the time of its last transition.

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

/// The current values of the fields of a Gateway that this controller writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayFields {
    /// The hash of the annotation [`GATEWAY_CLUSTERS`].
    pub clusters: Option<Hash>,
    /// The labels with the prefix [`CLUSTER_LABELS`].
    pub labels: Strings,
    /// The size of the keys and values of all annotations that this controller does not write, in bytes.
    pub other_bytes: usize,
    /// The field managers that own the annotation and the labels.
    pub owners: Owners,
    /// The status, without parts that other writers own.
    pub status: GatewayStatus,
    /// The parts of the status that this controller owns: types of conditions, and names of other fields.
    pub owned_status: BTreeSet<&'static str>,
}

impl GatewayFields {
    /// Whether this controller writes the label or annotation with this key.
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

/// The part of the status that this controller writes: its conditions, all addresses, and the `owned` fields of
/// listeners. This controller cannot remove parts that other writers added, so these parts must not count as a
/// difference.
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

/// The key under which `managedFields` refers to the list item whose `key` field is `value`.
fn item_step(key: &str, value: &Value) -> String {
    format!("k:{}", json!({ key: value }))
}

/// The valid items of a list. Items are read one by one, so that an invalid item does not affect the others.
fn items<T: DeserializeOwned>(list: &Value, wanted: impl Fn(&Value) -> bool) -> Vec<T> {
    let items = list.as_array().into_iter().flatten().filter(|item| wanted(item));
    items.filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}
