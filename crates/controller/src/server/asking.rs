//! Runs evaluations for the server: one slot for each, on a blocking thread, with a timeout.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::error;

use crate::rego_loading::{Loaded, RegoMetrics};
use policy_sync_rego::snapshot::{Snapshot, Unanswered};
use policy_sync_rego::turns::{Requester, Turns};

/// Runs evaluations of the loaded Rego policies. Clones share the slots.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    loaded: Loaded,
    turns: Turns,
    metrics: RegoMetrics,
    patience: Duration,
}

/// An evaluation without a result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    /// The queue is full.
    #[error("too many reviews are waiting")]
    TooMany,
    /// The timeout expired.
    #[error("no response within {0} s")]
    Late(u64),
    /// The evaluation panicked.
    #[error("the review panicked: see the log")]
    Panicked,
    /// Rego policies gave no result.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// A result, and the metric's reason if the result is invalid.
pub(super) type Answer<T> = (T, Option<&'static str>);

impl Asking {
    /// Evaluates Rego policies of `loaded` with the timeout `patience`.
    pub(super) fn new(loaded: Loaded, metrics: RegoMetrics, patience: Duration) -> Self {
        Self { turns: Turns::new(loaded.at_once()), loaded, metrics, patience }
    }

    pub(super) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Runs `ask` on the Rego policies in force once a slot is free for `requester`. The timeout starts at
    /// `began`; `query` labels metrics.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        query: &'static str,
        requester: Requester,
        began: Instant,
        ask: impl FnOnce(&Snapshot) -> Result<Answer<T>, Unanswered> + Send + 'static,
    ) -> Result<T, Silence> {
        let asking = async {
            let turn = self.turns.take(requester).await.ok_or(Silence::TooMany)?;
            let (snapshot, metrics) = (self.loaded.snapshot(), self.metrics.clone());
            let asked = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                let answer = ask(&snapshot);
                let reason = match &answer {
                    Ok((_, fault)) => *fault,
                    Err(error) => Some(error.reason()),
                };
                metrics.asked(query, began.elapsed(), reason);
                turn.ended(answer.as_ref().is_err_and(Unanswered::is_too_long));
                answer
            });
            let (answer, _) = asked.await.map_err(|_| {
                // The message of a panic may quote values of the object.
                error!(query, "a review panicked");
                Silence::Panicked
            })??;
            Ok(answer)
        };
        let late = |_| Err(Silence::Late(self.patience.as_secs()));
        timeout_at(began + self.patience, asking).await.unwrap_or_else(late)
    }
}
