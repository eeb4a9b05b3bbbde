//! Runs an audit on request, for the HTTP endpoint and the periodic audit.

use std::fmt;
use std::sync::Arc;

use crate::admission::audit::Found;
use crate::admission::auditor::{Auditor, Misplaced};

/// Runs audits on request. Clones share one state.
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
    /// Audits all objects and passes each finding to `add`. Takes one evaluation for each object.
    ///
    /// # Errors
    ///
    /// If Rego policies are not loaded yet, or `goes_on` returned false.
    pub fn find(&self, add: &mut impl FnMut(Found), goes_on: impl Fn() -> bool) -> Result<(), String> {
        self.auditor.audit(add, goes_on)?;
        self.auditor.misplaced((self.misplaced)(), add);
        Ok(())
    }

    /// Why an audit is not possible yet.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        self.auditor.missing()
    }

    /// Whether placement policies are loaded. Only the leader knows which objects violate them.
    #[must_use]
    pub fn places(&self) -> bool {
        self.auditor.places()
    }
}
