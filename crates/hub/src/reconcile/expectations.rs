//! What keys have written and the watch has not brought yet: until it does, what is decided of them is decided from what they
//! have overtaken.

use dashmap::{DashMap, Entry};

use super::Key;
use policy_sync_api::shrink::give_back_shared;

/// What one key expects the watch to bring.
pub trait Expected: Default {
    /// Whether it has brought all of it.
    fn is_met(&self) -> bool;
}

/// The last write of one object, until the watch has brought it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LastWrite(Option<u64>);

impl LastWrite {
    /// Notes a write that left the object at `version`.
    pub fn wrote(&mut self, version: u64) {
        self.0 = Some(version);
    }

    /// Whether the mirror, which has seen `version`, shows the object as the last write left it. Then that is forgotten.
    #[must_use]
    pub fn is_visible(&mut self, version: u64) -> bool {
        self.0 = self.0.filter(|written| version < *written);
        self.is_met()
    }

    /// The same, without forgetting anything.
    #[must_use]
    pub fn is_visible_at(&self, version: u64) -> bool {
        self.0.is_none_or(|written| written <= version)
    }
}

impl Expected for LastWrite {
    fn is_met(&self) -> bool {
        self.0.is_none()
    }
}

/// What each key expects. Of one whose expectations are met nothing is kept.
#[derive(Debug)]
pub struct Expectations<K: Key, E>(DashMap<K, E>);

impl<K: Key, E> Default for Expectations<K, E> {
    fn default() -> Self {
        Self(DashMap::new())
    }
}

impl<K: Key, E: Expected + Clone> Expectations<K, E> {
    /// Decides with what `key` expects. No key is worked on twice at a time. Others see meanwhile what it expected before.
    pub fn with<T>(&self, key: &K, decide: impl FnOnce(&mut E) -> T) -> T {
        let mut expected = self.0.get(key).map(|expected| expected.clone()).unwrap_or_default();
        let decided = decide(&mut expected);
        self.note(key, |known| *known = expected);
        decided
    }

    /// Notes what `key` has just written.
    pub fn note(&self, key: &K, note: impl FnOnce(&mut E)) {
        // Most that is noted is that nothing is under way any more, and the key may never come again.
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
        give_back_shared(&self.0);
    }

    /// Whether what any key expects `is` so.
    pub fn any(&self, mut is: impl FnMut(&K, &E) -> bool) -> bool {
        self.0.iter().any(|entry| is(entry.key(), entry.value()))
    }

    /// All that `of` finds in what each key expects.
    pub fn collect<I: IntoIterator, C: FromIterator<I::Item>>(&self, mut of: impl FnMut(&K, &E) -> I) -> C {
        self.0.iter().flat_map(|entry| of(entry.key(), entry.value())).collect()
    }

    /// Brings what each key expects up to date. Keys that nobody plans while another process leads may be gone before this
    /// one leads again.
    pub fn update(&self, mut update: impl FnMut(&K, &mut E)) {
        self.0.retain(|key, expected| {
            update(key, expected);
            !expected.is_met()
        });
    }
}
