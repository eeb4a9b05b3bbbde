//! Runs evaluations for the server. Each evaluation takes one slot and runs on a blocking thread, with a timeout.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::error;

use crate::rego_loading::{Loaded, RegoMetrics};
use policy_sync_rego::evaluation_slots::{EvaluationSlots, Requester};
use policy_sync_rego::snapshot::{RegoQueryError, Snapshot};

/// Runs evaluations of the loaded Rego policies. Clones share the slots.
#[derive(Clone, Debug)]
pub(super) struct QueryRunner {
    loaded: Loaded,
    evaluation_slots: EvaluationSlots,
    metrics: RegoMetrics,
    timeout: Duration,
}

/// Why an evaluation has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    /// The queue is full.
    #[error("too many reviews are waiting")]
    TooMany,
    /// The timeout expired.
    #[error("no response within {0} s")]
    Timeout(u64),
    /// The evaluation panicked.
    #[error("the review panicked: see the log")]
    Panicked,
    /// The Rego policies could not be evaluated.
    #[error(transparent)]
    NotEvaluated(#[from] RegoQueryError),
}

/// A result of an evaluation. If the result is invalid, the second value is the reason for metrics.
pub(super) type Evaluated<T> = (T, Option<&'static str>);

impl QueryRunner {
    /// Creates a runner for the Rego policies of `loaded`. Each evaluation has the timeout `timeout`.
    pub(super) fn new(loaded: Loaded, metrics: RegoMetrics, timeout: Duration) -> Self {
        Self { evaluation_slots: EvaluationSlots::new(loaded.max_concurrency()), loaded, metrics, timeout }
    }

    pub(super) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Runs `evaluate` on the Rego policies in force once a slot is free for `requester`. The timeout starts at
    /// `began`. `query` is the label of metrics.
    pub(super) async fn evaluate<T: Send + 'static>(
        &self,
        query: &'static str,
        requester: Requester,
        began: Instant,
        evaluate: impl FnOnce(&Snapshot) -> Result<Evaluated<T>, RegoQueryError> + Send + 'static,
    ) -> Result<T, ReviewError> {
        let queued_evaluation = async {
            let turn = self.evaluation_slots.acquire(requester).await.ok_or(ReviewError::TooMany)?;
            let (snapshot, metrics) = (self.loaded.snapshot(), self.metrics.clone());
            let evaluation = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                let result = evaluate(&snapshot);
                let reason = match &result {
                    Ok((_, fault)) => *fault,
                    Err(error) => Some(error.reason()),
                };
                metrics.record_evaluation(query, began.elapsed(), reason);
                turn.finish(result.as_ref().is_err_and(RegoQueryError::is_timeout));
                result
            });
            let (result, _) = evaluation.await.map_err(|_| {
                // The message of a panic may quote values of the object.
                error!(query, "a review panicked");
                ReviewError::Panicked
            })??;
            Ok(result)
        };
        let timed_out = |_| Err(ReviewError::Timeout(self.timeout.as_secs()));
        timeout_at(began + self.timeout, queued_evaluation).await.unwrap_or_else(timed_out)
    }
}
