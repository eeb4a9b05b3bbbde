//! What was written and is not in the mirror yet.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::mirror::{Key, Source, View, WorkKey};
use crate::plan::diff::WorkAction;

/// A write that the watch has not brought yet.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// The object is now at this resource version.
    At(u64),
    /// The object of this uid was asked to go.
    Deleted(Arc<str>),
}

/// The writes of all keys that the watch has not brought yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    works: Mutex<HashMap<Key, HashMap<WorkKey, Written>>>,
    objects: Mutex<HashMap<Key, u64>>,
}

impl Pending {
    /// Those of `actions` whose work the mirror shows as the key's last write left it.
    pub(super) fn visible(&self, view: View<'_>, key: &Key, actions: Vec<WorkAction>) -> Vec<WorkAction> {
        let mut all = self.works.lock();
        let Some(written) = all.get_mut(key) else { return actions };
        written.retain(|(name, cluster), write| match write {
            Written::At(version) => view.version(&Source::Works) < *version,
            Written::Deleted(uid) => {
                view.work(name, cluster).is_some_and(|work| work.uid == *uid && work.deleting.is_none())
            }
        });
        let visible =
            |action: &WorkAction| !written.contains_key(&(action.name().clone(), action.cluster().clone()));
        let actions = actions.into_iter().filter(visible).collect();
        if written.is_empty() {
            all.remove(key);
        }
        actions
    }

    /// Notes a write of a work.
    pub(super) fn wrote(&self, key: &Key, work: WorkKey, written: Written) {
        self.works.lock().entry(key.clone()).or_default().insert(work, written);
    }

    /// Whether the mirror shows the object of `key` as our last write left it.
    pub(super) fn is_visible(&self, key: &Key, version: u64) -> bool {
        let mut objects = self.objects.lock();
        match objects.get(key) {
            Some(written) if version < *written => false,
            Some(_) => {
                objects.remove(key);
                true
            }
            None => true,
        }
    }

    /// Notes a write of the object of `key`.
    pub(super) fn wrote_object(&self, key: &Key, version: u64) {
        self.objects.lock().insert(key.clone(), version);
    }
}

#[cfg(test)]
mod tests;
