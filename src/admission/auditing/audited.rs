//! Who is asked what stands and breaks policies.

use std::fmt;
use std::sync::Arc;

use crate::admission::audit::Found;
use crate::admission::auditor::{Auditor, Misplaced};

/// Who is asked what stands and breaks policies. Clones are the same.
#[derive(Clone)]
pub struct Audited {
    pub(super) auditor: Auditor,
    pub(super) misplaced: Arc<dyn Fn() -> Vec<Misplaced> + Send + Sync>,
}

impl fmt::Debug for Audited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audited").field("auditor", &self.auditor).finish_non_exhaustive()
    }
}

impl Audited {
    /// Gives to `add` what stands and breaks policies, as long as it `goes_on`. It takes the time of one evaluation for each object.
    ///
    /// # Errors
    ///
    /// Where it is not known which policies there are, or it does not go on.
    pub fn find(&self, add: &mut impl FnMut(Found), goes_on: impl Fn() -> bool) -> Result<(), String> {
        self.auditor.audit(add, goes_on)?;
        self.auditor.misplaced((self.misplaced)(), add);
        Ok(())
    }

    /// What is not known yet, in words.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        self.auditor.missing()
    }

    /// Whether there are policies that say where objects go: only the process that leads knows whose place they refuse.
    #[must_use]
    pub fn places(&self) -> bool {
        self.auditor.places()
    }
}
