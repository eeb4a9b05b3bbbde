//! Reads from `managedFields` which managers own the labels and annotations that this controller writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use policy_sync_api::object::ManagedFields;

/// The prefix of the field managers of all Policy Sync controllers.
const MANAGER_PREFIX: &str = "policy-sync-";

/// The owners of the keys that this controller writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// The keys that this controller owns.
    pub ours: BTreeSet<Arc<str>>,
    /// The keys that other managers own. Omitting such a key from an apply does not remove it.
    pub shared: BTreeSet<Arc<str>>,
    /// Other Policy Sync controllers that own at least one key.
    pub others: BTreeSet<Arc<str>>,
}

impl Owners {
    /// Reads the owners of the `wanted` keys from `entries`, for the controller that writes as `field_manager`. Each of
    /// these keys contains the text `about`.
    pub(super) fn read(
        entries: &[ManagedFields],
        field_manager: &str,
        about: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let mut owners = Self::default();
        for entry in entries.iter().filter(|entry| entry.subresource != "status") {
            let mut metadata = fields(entry, about)["f:metadata"].take();
            let keys = ["f:annotations", "f:labels"].map(|field| metadata[field].take());
            let keys = keys.iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
            let keys = keys.filter_map(|key| key.strip_prefix("f:")).filter(|key| wanted(key));
            let keys: BTreeSet<Arc<str>> = keys.map(Into::into).collect();
            if entry.are_applied_by(field_manager) {
                owners.ours.extend(keys);
            } else if !keys.is_empty() {
                // An entry with this controller's own field manager does not belong to another controller.
                if entry.manager.starts_with(MANAGER_PREFIX) && entry.manager != field_manager {
                    owners.others.insert(entry.manager.as_str().into());
                }
                owners.shared.extend(keys);
            }
        }
        owners
    }
}

/// The fields that an entry of `managedFields` owns; null if its text does not contain `about`. This check avoids
/// parsing long texts, since most entries own no relevant key.
pub(super) fn fields(entry: &ManagedFields, about: &str) -> Value {
    let fields = entry.fields_v1.as_deref().map(RawValue::get).filter(|fields| fields.contains(about));
    fields.and_then(|fields| serde_json::from_str(fields).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
