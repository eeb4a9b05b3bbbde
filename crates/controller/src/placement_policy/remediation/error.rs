//! The error of remediation.

use policy_sync_hub::reconcile::{Failure, RequestError};

/// A step of remediation failed. It is retried after a backoff.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}")]
pub(super) struct RemediationError {
    pub(super) what: String,
    pub(super) source: RequestError,
}

impl Failure for RemediationError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn is_routine(&self) -> bool {
        self.source.is_routine() || is_conflict(&self.source)
    }
}

/// Whether another writer changed the object in the meantime.
pub(super) fn is_conflict(error: &RequestError) -> bool {
    matches!(error, RequestError::Stale(_)) || error.code() == 409
}
