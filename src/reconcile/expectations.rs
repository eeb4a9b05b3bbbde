//! What keys have written and the watch has not brought yet: until it does, what is decided of them is decided from what they
//! have overtaken.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::Key;
use crate::shrink::give_back;

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
pub struct Expectations<K, E>(Mutex<HashMap<K, E>>);

impl<K, E> Default for Expectations<K, E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Key, E: Expected> Expectations<K, E> {
    /// Decides with what `key` expects. No key is worked on twice at a time, so others are not kept waiting for that long.
    pub fn with<T>(&self, key: &K, decide: impl FnOnce(&mut E) -> T) -> T {
        let mut expected = self.0.lock().remove(key).unwrap_or_default();
        let decided = decide(&mut expected);
        self.keep(&mut self.0.lock(), key, expected);
        decided
    }

    /// Notes what `key` has just written.
    pub fn note(&self, key: &K, note: impl FnOnce(&mut E)) {
        let mut all = self.0.lock();
        let mut expected = all.remove(key).unwrap_or_default();
        note(&mut expected);
        self.keep(&mut all, key, expected);
    }

    fn keep(&self, all: &mut HashMap<K, E>, key: &K, expected: E) {
        // Most that is noted is that nothing is under way any more, and the key may never come again.
        if !expected.is_met() {
            all.insert(key.clone(), expected);
        }
        give_back(all);
    }

    /// Looks at what all keys expect.
    pub fn look<T>(&self, look: impl FnOnce(&HashMap<K, E>) -> T) -> T {
        look(&self.0.lock())
    }

    /// Brings what each key expects up to date. Keys that nobody plans while another process leads may be gone before this
    /// one leads again.
    pub fn update(&self, mut update: impl FnMut(&K, &mut E)) {
        self.0.lock().retain(|key, expected| {
            update(key, expected);
            !expected.is_met()
        });
    }
}
