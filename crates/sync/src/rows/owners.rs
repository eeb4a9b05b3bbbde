//! Who owns the labels and annotations of an object that are ours to write, by its `managedFields`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use policy_sync_api::object::ManagedFields;

/// How the field managers of all controllers of this make begin.
const OF_THIS_MAKE: &str = "policy-sync-";

/// Who owns which of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    /// Which this controller owns.
    pub ours: BTreeSet<Arc<str>>,
    /// Which anyone else owns: leaving one out of an apply does not remove it then.
    pub shared: BTreeSet<Arc<str>>,
    /// Other controllers of this make that own one of them.
    pub others: BTreeSet<Arc<str>>,
}

impl Owners {
    /// The owners, by `entries`, of those keys that are `wanted`, all of which contain `about`, for the controller that writes
    /// as `field_manager`.
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
                // Whoever updates under this controller's name is no other controller.
                if entry.manager.starts_with(OF_THIS_MAKE) && entry.manager != field_manager {
                    owners.others.insert(entry.manager.as_str().into());
                }
                owners.shared.extend(keys);
            }
        }
        owners
    }
}

/// The fields that an entry of `managedFields` owns, null where its text does not contain `about`: most entries own none of
/// what is looked for, and their text can be long.
pub(super) fn fields(entry: &ManagedFields, about: &str) -> Value {
    let fields = entry.fields_v1.as_deref().map(RawValue::get).filter(|fields| fields.contains(about));
    fields.and_then(|fields| serde_json::from_str(fields).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
