//! Interning: equal values share one allocation.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// The minimum growth in bytes between two removals of unused values.
const MIN_GROWTH: usize = 128 * 1024;
/// The estimated size of an entry in bytes, besides its text.
const ENTRY_OVERHEAD: usize = 64;

/// A value with a known size in memory.
pub trait MemorySize {
    /// The size of the value's strings in bytes. For a value with many fields, the size of the fields is included.
    fn bytes(&self) -> usize;
}

impl MemorySize for str {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl MemorySize for Arc<str> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl<T: MemorySize> MemorySize for [T] {
    fn bytes(&self) -> usize {
        self.iter().map(MemorySize::bytes).sum()
    }
}

/// Interned values. Unused values are removed when the total size has grown by a quarter. The size is measured in
/// bytes, not in values: values come from users, and a few can be long.
#[derive(Debug)]
pub struct Interned<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    /// The total size of the values, in bytes.
    bytes: usize,
    /// The total size at which unused values are removed, in bytes.
    limit: usize,
}

// A derived impl would require `T: Clone`.
impl<T: ?Sized + Eq + Hash> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), bytes: self.bytes, limit: self.limit }
    }
}

impl<T: ?Sized + Eq + Hash> Default for Interned<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), bytes: 0, limit: MIN_GROWTH }
    }
}

impl<T: ?Sized + Eq + Hash + MemorySize> Interned<T> {
    /// Returns the stored value equal to `value`, and stores `value` if there is none.
    pub fn intern(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return known.clone();
        }
        self.bytes += ENTRY_OVERHEAD + value.bytes();
        if self.bytes > self.limit {
            self.sweep();
            self.bytes += ENTRY_OVERHEAD + value.bytes();
        }
        self.values.insert(value.clone());
        value
    }

    fn sweep(&mut self) {
        self.values.retain(|value| Arc::strong_count(value) > 1);
        self.values.shrink_to(2 * self.values.len());
        self.bytes = self.values.iter().map(|value| ENTRY_OVERHEAD + value.bytes()).sum();
        self.limit = self.bytes + MIN_GROWTH.max(self.bytes / 4);
    }

    /// The size of all values in bytes, including values that are no longer used.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_memory() {
        let mut strings = Interned::default();
        let first: Arc<str> = strings.intern("eu-1".into());
        assert!(Arc::ptr_eq(&first, &strings.intern("eu-1".into())));
        assert!(!Arc::ptr_eq(&first, &strings.intern("eu-2".into())));
    }

    #[test]
    fn unused_values_are_removed() {
        let mut strings = Interned::default();
        let text = |n: usize| Arc::<str>::from(format!("{n}{}", "x".repeat(1024)));
        let used: Vec<Arc<str>> = (0..100).map(|n| strings.intern(text(n))).collect();
        for n in 100..10_000 {
            strings.intern(text(n));
        }
        assert!(
            strings.size_in_bytes() < 2 * MIN_GROWTH + 100 * 2048,
            "{} bytes are kept",
            strings.size_in_bytes()
        );
        assert!(used.iter().all(|value| strings.values.contains(value)), "what is used stays");
        drop(used);
        (0..1_000).for_each(|n| drop(strings.intern(text(n))));
        assert!(
            strings.size_in_bytes() < 2 * MIN_GROWTH,
            "{} bytes are kept of what is used no more",
            strings.size_in_bytes()
        );
    }

    #[test]
    fn unused_long_values_are_removed_by_size() {
        let mut strings = Interned::default();
        for n in 0..100 {
            strings.intern(Arc::<str>::from(format!("{n}{}", "x".repeat(MIN_GROWTH / 2))));
        }
        assert!(strings.size_in_bytes() < 2 * MIN_GROWTH, "{} bytes are kept", strings.size_in_bytes());
    }
}
