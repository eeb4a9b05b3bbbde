//! Maps changes of the mirror to work queue keys.

use std::collections::BTreeSet;

use super::index::Index;
use super::key::{CarrierKey, Key};
use super::kinds::{CONFIG_MAPS, DOCUMENTS, REGO_POLICIES, SERVED};
use super::rows::Carrier;
use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::{Changed, Changes};

pub(super) fn affected(changes: &Changes<'_, Index>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for changed in changes.iter() {
        let carrier = changed.object_of(&CONFIG_MAPS).or_else(|| changed.object_of(&REGO_POLICIES));
        if let Some((key, before)) = carrier {
            of_carrier(changes, key, before, &mut keys);
            continue;
        }
        match changed {
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
    let counts_the_same = match (changes.view().carrier(&key), before) {
        (Some(now), Some(before)) => now.created == before.created && now.carried == before.carried,
        (now, before) => now.is_none() && before.is_none(),
    };
    if !counts_the_same {
        keys.insert(Key::Bundle);
    }
    keys.insert(Key::Status(key));
}
