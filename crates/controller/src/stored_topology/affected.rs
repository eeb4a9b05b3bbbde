//! Decides whether a change requires a rebuild of the topology.

use super::index::Index;
use super::kinds::CONFIG_MAPS;
use super::pending::PendingStatuses;
use super::rows::StoredConfigMap;
use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::Changes;

/// Whether the topology must be rebuilt after `changes`. Changes that only show this process's own writes do not count;
/// these writes are removed from `pending`.
pub fn is_affected(
    changes: &Changes<'_, Index>,
    pending: &mut PendingStatuses,
    config_map: &ObjectKey,
) -> bool {
    let view = changes.view();
    // No short-circuit: each own write must be removed from `pending`.
    let others = changes.iter().filter(|changed| match view.changed_status(changed) {
        Some((key, digest)) => !pending.status_delivered(&key, digest, view.version_of(&key)),
        None if changed.object_of(&CONFIG_MAPS).is_some() => {
            let mut is_it = |StoredConfigMap { is_ours, text, detail, .. }: &StoredConfigMap| {
                *is_ours && pending.text_delivered(*text, detail)
            };
            !view.stored(config_map).is_some_and(&mut is_it)
        }
        None => true,
    });
    others.count() > 0
}
