//! What a hub Gateway says of its clusters: an annotation, labels and a status, all of them ours to write.
//!
//! The status is kept whole, because a condition that stays as it is keeps the moment of its last transition.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Strings;
use crate::api::annotations::{CLUSTER_LABELS, GATEWAY_CLUSTERS};
use crate::api::gateway::{self, GatewayStatus, LISTENER_CONDITIONS, ListenerStatus};
use crate::api::json::Hash;
use crate::api::object::{HubObject, ManagedFields};

/// What stands in a Gateway where it is ours to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The hash of the annotation's text.
    pub clusters: Option<Hash>,
    /// The labels.
    pub labels: Strings,
    /// The bytes of all other annotations, keys and values.
    pub other_bytes: usize,
    /// Which of the annotation and the labels we own.
    pub owned: BTreeSet<Arc<str>>,
    /// Which of them anyone else owns: leaving one out of an apply does not remove it then.
    pub shared: BTreeSet<Arc<str>>,
    /// Other controllers of this make that own one of them.
    pub other_owners: BTreeSet<Arc<str>>,
    /// The status, without what others have added to it.
    pub status: GatewayStatus,
    /// What of the status is ours: the types of conditions, and the names of its other fields.
    pub owned_status: BTreeSet<&'static str>,
}

impl Told {
    /// Whether a label or an annotation of this key is ours.
    #[must_use]
    pub fn is_ours(key: &str) -> bool {
        key == GATEWAY_CLUSTERS || key.starts_with(CLUSTER_LABELS)
    }

    /// The hash of an annotation's text.
    #[must_use]
    pub fn hash(text: &str) -> Hash {
        Hash::of_parts(&[text])
    }

    pub(super) fn of(object: &HubObject, field_manager: &str) -> Self {
        let metadata = &object.metadata;
        let others = metadata.annotations.iter().filter(|(key, _)| !Self::is_ours(key));
        let labels = metadata.labels.iter().filter(|(key, _)| Self::is_ours(key));
        let mut told = Self {
            clusters: metadata.annotations.get(GATEWAY_CLUSTERS).map(|text| Self::hash(text)),
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            other_bytes: others.map(|(key, value)| key.len() + value.len()).sum(),
            ..Self::default()
        };
        let mut in_status = Value::Null;
        for entry in &metadata.managed_fields {
            let is_ours = entry.manager == field_manager && entry.operation == "Apply";
            if entry.subresource == "status" {
                if is_ours {
                    in_status = fields(entry, "f:status")["f:status"].take();
                }
                continue;
            }
            let keys = owned(entry);
            if is_ours {
                told.owned.extend(keys);
            } else if !keys.is_empty() {
                if entry.manager.starts_with("policy-sync-") {
                    told.other_owners.insert(entry.manager.as_str().into());
                }
                told.shared.extend(keys);
            }
        }
        told.owned_status = owned_status(&in_status);
        told.status = status(&object.status_as(), &in_status);
        told
    }
}

/// The fields that an entry of `managedFields` owns, null where none of them is called `about`.
fn fields(entry: &ManagedFields, about: &str) -> Value {
    let fields = entry.fields_v1.as_deref().map(RawValue::get).filter(|fields| fields.contains(about));
    fields.and_then(|fields| serde_json::from_str(fields).ok()).unwrap_or_default()
}

/// Which labels and annotations of ours an entry of `managedFields` owns.
fn owned(entry: &ManagedFields) -> BTreeSet<Arc<str>> {
    // Most entries own none, and their text can be long.
    let mut metadata = fields(entry, "kuadrant.io/")["f:metadata"].take();
    let keys = ["f:annotations", "f:labels"].map(|field| metadata[field].take());
    let keys = keys.iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
    keys.filter_map(|key| key.strip_prefix("f:")).filter(|key| Told::is_ours(key)).map(Into::into).collect()
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
