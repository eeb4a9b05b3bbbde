//! A cache slot beside a row, for results that decisions derive from it and would compute repeatedly.
//!
//! The value is dropped with the row. Since it follows from the row, it does not take part in comparisons.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The cache slot. Clones share its value.
#[derive(Clone, Default)]
pub struct CacheSlot(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl CacheSlot {
    /// The cached value, created by the first call. A later call with another type returns an uncached default.
    #[must_use]
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.0.get_or_init(|| Arc::new(T::default())).clone().downcast().unwrap_or_default()
    }
}

impl PartialEq for CacheSlot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for CacheSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aside")
    }
}
