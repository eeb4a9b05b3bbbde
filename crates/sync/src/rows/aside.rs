//! A place beside a row for what a decision finds out of it and would find out again and again.
//!
//! It is gone with the row, and follows from it: so it is no fact, and takes no part in comparisons.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// What is kept beside a row. Clones share it.
#[derive(Clone, Default)]
pub struct Aside(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);

impl Aside {
    /// What is kept, in the form in which it was first asked for.
    #[must_use]
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.0.get_or_init(|| Arc::new(T::default())).clone().downcast().unwrap_or_default()
    }
}

impl PartialEq for Aside {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Aside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aside")
    }
}
