//! What many rows have in common, kept once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// So few are not worth looking for those that nobody uses any more.
const FEW: usize = 1024;

/// Values that are kept once. What nobody else uses any more goes when all together have grown by a half.
#[derive(Debug)]
pub(in crate::topology) struct Interned<T: ?Sized> {
    known: HashSet<Arc<T>>,
    limit: usize,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Self { known: HashSet::new(), limit: FEW }
    }
}

/// The same values, not others that equal them.
impl<T: ?Sized> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self { known: self.known.clone(), limit: self.limit }
    }
}

impl<T: Eq + Hash + ?Sized> Interned<T> {
    /// Has `value` be the one that is kept, or keeps it.
    pub(in crate::topology) fn intern(&mut self, value: &mut Arc<T>) {
        if let Some(known) = self.known.get(&**value) {
            *value = known.clone();
            return;
        }
        if self.known.len() >= self.limit {
            self.known.retain(|value| Arc::strong_count(value) > 1);
            self.known.shrink_to(2 * self.known.len());
            self.limit = FEW.max(self.known.len() * 3 / 2);
        }
        self.known.insert(value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_what_nobody_uses_goes() {
        let mut interned: Interned<str> = Interned::default();
        let mut kept: Vec<Arc<str>> = vec!["same".into(), "same".into()];
        kept.iter_mut().for_each(|value| interned.intern(value));
        assert!(Arc::ptr_eq(&kept[0], &kept[1]));
        for number in 0..10 * FEW {
            interned.intern(&mut number.to_string().into());
        }
        assert!(interned.known.len() <= FEW, "{}", interned.known.len());
        assert!(interned.known.contains("same"));
    }
}
