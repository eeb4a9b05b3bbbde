//! Equal values, kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// So few are not worth looking for those that nobody uses any more.
const FEW: usize = 1024;

/// Values of which equal ones share their memory. Those that nobody else uses go when their number has doubled.
#[derive(Debug)]
pub(super) struct Interned<T: ?Sized + Eq + Hash> {
    values: HashSet<Arc<T>>,
    /// How many there may be before unused ones go.
    limit: usize,
}

// Derived, it would ask for values that can be cloned.
impl<T: ?Sized + Eq + Hash> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), limit: self.limit }
    }
}

impl<T: ?Sized + Eq + Hash> Default for Interned<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), limit: FEW }
    }
}

impl<T: ?Sized + Eq + Hash> Interned<T> {
    /// The value that equals `value`: the one that is there, or this one from now on.
    pub(super) fn intern(&mut self, value: Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(&value) {
            return known.clone();
        }
        if self.values.len() >= self.limit {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.limit = FEW.max(self.values.len() * 2);
        }
        self.values.insert(value.clone());
        value
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
        let used: Vec<Arc<str>> = (0..FEW).map(|n| strings.intern(n.to_string().into())).collect();
        for n in FEW..10 * FEW {
            strings.intern(n.to_string().into());
        }
        assert!(strings.values.len() <= 2 * FEW, "{} are kept", strings.values.len());
        assert!(used.iter().all(|value| strings.values.contains(value)), "what is used stays");
    }
}
