//! Policies that are asked: each question in its turn, on a thread that may wait, and no longer than somebody waits for the answer.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::error;

use crate::rego::loading::{Loaded, RegoMetrics};
use crate::rego::snapshot::{Snapshot, Unanswered};
use crate::rego::turns::{Requester, Turns};

/// What is asked. Clones take turns with each other.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    loaded: Loaded,
    turns: Turns,
    metrics: RegoMetrics,
    patience: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    /// Too many others wait for one.
    #[error("too many reviews are waiting")]
    TooMany,
    /// There was none in time.
    #[error("no answer within {0} s")]
    Late(u64),
    /// Whoever reads it failed.
    #[error("the review panicked: see the log")]
    Panicked,
    /// Policies gave none.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

/// An answer, and why it is of no use where it is, in a word for metrics.
pub(super) type Answer<T> = (T, Option<&'static str>);

impl Asking {
    /// Asks what is `loaded`, where an answer is waited for so long.
    pub(super) fn new(loaded: Loaded, metrics: RegoMetrics, patience: Duration) -> Self {
        Self { turns: Turns::new(loaded.at_once()), loaded, metrics, patience }
    }

    pub(super) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Runs `ask` on the policies in force once a slot is free for `requester`. The timeout starts at `began`; `query` labels
    /// metrics.
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
