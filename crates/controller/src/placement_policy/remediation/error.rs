//! The error of remediation.

use policy_sync_hub::reconcile::{ReconcileError, RequestError};

/// A step of remediation failed. It is retried after a backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub(super) struct RemediationError {
    pub(super) action: String,
    pub(super) source: RequestError,
}

impl ReconcileError for RemediationError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn is_expected(&self) -> bool {
        self.source.is_expected() || is_conflict(&self.source)
    }
}

/// Whether another writer changed the object in the meantime.
pub(super) fn is_conflict(error: &RequestError) -> bool {
    matches!(error, RequestError::Stale(_)) || error.code() == 409
}
