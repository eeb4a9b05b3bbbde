//! Equal values, kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// So few bytes are not worth looking for those that nobody uses any more.
const FEW: usize = 128 * 1024;
/// What an entry takes beside its texts.
const ENTRY: usize = 64;

/// A value whose size in memory is counted.
pub trait Weigh {
    /// Bytes of its texts, and of its fields if those are many.
    fn bytes(&self) -> usize;
}

impl Weigh for str {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Weigh for Arc<str> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl<T: Weigh> Weigh for [T] {
    fn bytes(&self) -> usize {
        self.iter().map(Weigh::bytes).sum()
    }
}

/// Values of which equal ones share their memory. Those that nobody else uses go when all together have grown by a quarter:
/// by their bytes, because others write them, and a few can be long.
#[derive(Debug)]
pub struct Interned<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    /// How many bytes all of them take.
    bytes: usize,
    /// How many they may take before unused ones go.
    limit: usize,
}

// Derived, it would ask for values that can be cloned.
impl<T: ?Sized + Eq + Hash> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), bytes: self.bytes, limit: self.limit }
    }
}

impl<T: ?Sized + Eq + Hash> Default for Interned<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), bytes: 0, limit: FEW }
    }
}

impl<T: ?Sized + Eq + Hash + Weigh> Interned<T> {
    /// The value that equals `value`: the one that is there, or this one from now on.
    pub fn intern(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return known.clone();
        }
        self.bytes += ENTRY + value.bytes();
        if self.bytes > self.limit {
            self.sweep();
            self.bytes += ENTRY + value.bytes();
        }
        self.values.insert(value.clone());
        value
    }

    fn sweep(&mut self) {
        self.values.retain(|value| Arc::strong_count(value) > 1);
        self.values.shrink_to(2 * self.values.len());
        self.bytes = self.values.iter().map(|value| ENTRY + value.bytes()).sum();
        self.limit = self.bytes + FEW.max(self.bytes / 4);
    }

    /// The size of all values in bytes, including values that are no longer used.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one() {
        let mut strings = Interned::default();
        let first: Arc<str> = strings.intern("eu-1".into());
        assert!(Arc::ptr_eq(&first, &strings.intern("eu-1".into())));
        assert!(!Arc::ptr_eq(&first, &strings.intern("eu-2".into())));
    }

    #[test]
    fn what_nobody_uses_any_more_goes() {
        let mut strings = Interned::default();
        let text = |n: usize| Arc::<str>::from(format!("{n}{}", "x".repeat(1024)));
        let used: Vec<Arc<str>> = (0..100).map(|n| strings.intern(text(n))).collect();
        for n in 100..10_000 {
            strings.intern(text(n));
        }
        assert!(strings.held() < 2 * FEW + 100 * 2048, "{} bytes are kept", strings.held());
        assert!(used.iter().all(|value| strings.values.contains(value)), "what is used stays");
        drop(used);
        (0..1_000).for_each(|n| drop(strings.intern(text(n))));
        assert!(strings.held() < 2 * FEW, "{} bytes are kept of what is used no more", strings.held());
    }

    #[test]
    fn long_values_go_as_soon_as_many_short_ones() {
        let mut strings = Interned::default();
        for n in 0..100 {
            strings.intern(Arc::<str>::from(format!("{n}{}", "x".repeat(FEW / 2))));
        }
        assert!(strings.held() < 2 * FEW, "{} bytes are kept", strings.held());
    }
}
