//! *Expectations*: writes that the watch has not returned yet. Until the watch returns a write, the mirror shows the
//! state before the write.

use dashmap::{DashMap, Entry};

use policy_sync_api::shrink::shrink_concurrent;
use policy_sync_mirror::Key;

/// The writes of one key that the watch is expected to return.
pub trait Expectation: Default {
    /// Whether the watch has returned all of these writes.
    fn is_met(&self) -> bool;
}

/// The resource version of the last write of one object, until the watch has returned it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LastWrite(Option<u64>);

impl LastWrite {
    /// Records a write that left the object at resource version `version`.
    pub fn wrote(&mut self, version: u64) {
        self.0 = Some(version);
    }

    /// Whether the mirror, which shows the object at `version`, includes the last write. If so, the write is removed.
    #[must_use]
    pub fn is_visible(&mut self, version: u64) -> bool {
        self.0 = self.0.filter(|written| version < *written);
        self.is_met()
    }

    /// Like [`Self::is_visible`], but keeps the record of the write.
    #[must_use]
    pub fn is_visible_at(&self, version: u64) -> bool {
        self.0.is_none_or(|written| written <= version)
    }
}

impl Expectation for LastWrite {
    fn is_met(&self) -> bool {
        self.0.is_none()
    }
}

/// The expectations of each key. Keys whose expectations are met are not stored.
#[derive(Debug)]
pub struct Expectations<K: Key, E>(DashMap<K, E>);

impl<K: Key, E> Default for Expectations<K, E> {
    fn default() -> Self {
        Self(DashMap::new())
    }
}

impl<K: Key, E: Expectation + Clone> Expectations<K, E> {
    /// Runs `decide` with a copy of the expectations of `key`, and stores the changed copy. Meanwhile, other threads
    /// read the previous expectations. No change is lost, because the queue never runs a key twice at the same time.
    pub fn with<T>(&self, key: &K, decide: impl FnOnce(&mut E) -> T) -> T {
        let mut expected = self.0.get(key).map(|expected| expected.clone()).unwrap_or_default();
        let decided = decide(&mut expected);
        self.note(key, |known| *known = expected);
        decided
    }

    /// Changes the expectations of `key`, for example after a write.
    pub fn note(&self, key: &K, note: impl FnOnce(&mut E)) {
        // Keys without pending writes are removed. This is the most common case, and many keys never occur again.
        match self.0.entry(key.clone()) {
            Entry::Occupied(mut expected) => {
                note(expected.get_mut());
                if !expected.get().is_met() {
                    return;
                }
                expected.remove();
            }
            Entry::Vacant(place) => {
                let mut expected = E::default();
                note(&mut expected);
                if !expected.is_met() {
                    place.insert(expected);
                }
                return;
            }
        }
        shrink_concurrent(&self.0);
    }

    /// Whether `is` holds for any key.
    pub fn any(&self, mut is: impl FnMut(&K, &E) -> bool) -> bool {
        self.0.iter().any(|entry| is(entry.key(), entry.value()))
    }

    /// Collects the items that `of` returns for each key.
    pub fn collect<I: IntoIterator, C: FromIterator<I::Item>>(&self, mut of: impl FnMut(&K, &E) -> I) -> C {
        self.0.iter().flat_map(|entry| of(entry.key(), entry.value())).collect()
    }

    /// Updates the expectations of all keys. This includes keys that are never planned again, because their objects
    /// ceased to exist while another process was the leader.
    pub fn update(&self, mut update: impl FnMut(&K, &mut E)) {
        self.0.retain(|key, expected| {
            update(key, expected);
            !expected.is_met()
        });
    }
}
