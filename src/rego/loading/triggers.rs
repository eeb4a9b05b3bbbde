//! Which keys a change affects.

use std::collections::BTreeSet;

use super::index::Index;
use super::key::{CarrierKey, Key};
use super::kinds::{CONFIG_MAPS, DOCUMENTS, REGO_POLICIES, SERVED};
use super::rows::Carrier;
use crate::api::names::ObjectKey;
use crate::hub::{Changed, Changes};

/// The keys that `changes` affect.
pub(super) fn affected(changes: &Changes<'_, Index>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for changed in changes.iter() {
        let carrier = changed.object_of(&CONFIG_MAPS).or_else(|| changed.object_of(&REGO_POLICIES));
        match changed {
            _ if carrier.is_some() => {
                if let Some((key, before)) = carrier {
                    of_carrier(changes, key, before, &mut keys);
                }
            }
            Changed::Object { source, .. } if source.is(&DOCUMENTS) => {
                keys.insert(Key::Documents);
            }
            Changed::Object { source, .. } if source.is(&SERVED) => {
                keys.extend([Key::Watches, Key::Bundle]);
            }
            Changed::Listed(_) | Changed::Failing { .. } | Changed::Forgotten(_) => {
                keys.insert(Key::Bundle);
            }
            Changed::Object { .. } | Changed::Everything => {}
        }
    }
    keys
}

fn of_carrier(
    changes: &Changes<'_, Index>,
    key: &ObjectKey,
    before: Option<&Carrier>,
    keys: &mut BTreeSet<Key>,
) {
    let key = CarrierKey(key.clone());
    let counts = |carrier: &Carrier| (carrier.created, carrier.carried.clone());
    if changes.view().carrier(&key).map(counts) != before.map(counts) {
        keys.insert(Key::Bundle);
    }
    keys.insert(Key::Told(key));
}
