//! Runs audits for the endpoint `/audit` and for the periodic audit. An audit reviews all objects with the admission
//! policies. Its findings also include the objects that violate placement policies.

use std::fmt;
use std::sync::Arc;

use crate::admission::audit::Finding;
use crate::admission::auditor::{Auditor, PlacementViolation};

/// Runs audits on request. Clones share one state.
#[derive(Clone)]
pub struct AuditRunner {
    pub(super) auditor: Auditor,
    pub(super) placement_violations: Arc<dyn Fn() -> Vec<PlacementViolation> + Send + Sync>,
}

impl fmt::Debug for AuditRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditRunner").field("auditor", &self.auditor).finish_non_exhaustive()
    }
}

impl AuditRunner {
    /// Audits all objects and passes each finding to `add`. Evaluates the admission policies for each object.
    ///
    /// # Errors
    ///
    /// If Rego policies are not loaded yet, or `should_continue` returned false.
    pub fn find(
        &self,
        add: &mut impl FnMut(Finding),
        should_continue: impl Fn() -> bool,
    ) -> Result<(), String> {
        self.auditor.audit(add, should_continue)?;
        self.auditor.placement_violations((self.placement_violations)(), add);
        Ok(())
    }

    /// Why an audit is not possible yet.
    #[must_use]
    pub fn not_ready_reason(&self) -> Option<String> {
        self.auditor.not_ready_reason()
    }

    /// Whether placement policies are loaded. Only the leader knows which objects violate placement policies.
    #[must_use]
    pub fn has_placement_policies(&self) -> bool {
        self.auditor.has_placement_policies()
    }
}
