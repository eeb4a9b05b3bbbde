//! Maps changes of the mirror to work queue keys.

use std::collections::BTreeSet;

use super::index::Index;
use super::key::{CarrierKey, Key};
use super::kinds::{CONFIG_MAPS, DOCUMENTS, REGO_POLICIES, RESOLVED_PLURALS};
use super::rows::Carrier;
use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::{Changes, MirrorChange};

pub(super) fn affected(changes: &Changes<'_, Index>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for changed in changes.iter() {
        let carrier = changed.object_of(&CONFIG_MAPS).or_else(|| changed.object_of(&REGO_POLICIES));
        if let Some((key, before)) = carrier {
            of_carrier(changes, key, before, &mut keys);
            continue;
        }
        match changed {
            MirrorChange::Object { source, .. } if source.is(&DOCUMENTS) => {
                keys.insert(Key::Documents);
            }
            MirrorChange::Object { source, .. } if source.is(&RESOLVED_PLURALS) => {
                keys.extend([Key::Watches, Key::Bundle]);
            }
            MirrorChange::Listed(_) | MirrorChange::FailureChanged { .. } | MirrorChange::Unwatched(_) => {
                keys.insert(Key::Bundle);
            }
            MirrorChange::Object { .. } | MirrorChange::Everything => {}
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
