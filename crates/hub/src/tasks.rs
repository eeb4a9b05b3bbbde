//! Tasks that do not die unnoticed.
//!
//! A task that panics takes only itself along: what it watched, nobody would watch any more, and the key that it worked on
//! would be worked on for ever. A process that goes on deaf is worse than one that starts anew, so each task runs under
//! [`Tasks::watch`]: a panic is counted and logged, and whoever waits for [`Tasks::ended`] ends the process. So does what a
//! task cannot go on after, by [`Tasks::end`].

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::telemetry::metrics::Metrics;

/// Notices panics of tasks, and what they cannot go on after. Clones notice for each other.
#[derive(Clone, Debug)]
pub struct Tasks {
    metrics: Metrics,
    why: Arc<OnceLock<Ended>>,
    ended: CancellationToken,
}

/// Why the process ends, to start anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// A task has panicked: what it did, nobody does any more.
    #[error("a task panicked: see the log")]
    Panicked,
    /// What the hub lists has been older than what was seen of it for so long that it was restored from a backup. A fresh
    /// process has seen nothing.
    #[error("the hub is older than what was seen of it: see the log")]
    HubRestored,
}

impl Tasks {
    /// Nothing has panicked yet; counts in `metrics`.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, why: Arc::default(), ended: CancellationToken::new() }
    }

    /// Ends the process for this reason, or for the one that was there before.
    pub fn end(&self, why: Ended) {
        self.why.get_or_init(|| why);
        self.ended.cancel();
    }

    /// What `future` comes to, `None` where it panics; `task` says what it does, for the log and the metric.
    pub fn watch<T>(
        self,
        task: &'static str,
        future: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        self.metrics.runs(task);
        async move {
            // Nothing looks at what it leaves behind but what is done until the process has ended.
            match AssertUnwindSafe(future).catch_unwind().await {
                Ok(value) => Some(value),
                Err(panic) => {
                    self.metrics.panicked(task);
                    error!(task, panic = words(&*panic), "a task panicked: the process ends, to start anew");
                    self.end(Ended::Panicked);
                    None
                }
            }
        }
    }

    /// Waits until the process is to end.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Whether it is not.
    ///
    /// # Errors
    ///
    /// Why it is.
    pub fn check(&self) -> Result<(), Ended> {
        self.why.get().map_or(Ok(()), |why| Err(*why))
    }
}

/// Sends `value` to the receivers of a channel, if it differs from the current one.
pub fn announce<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let differs = *known != value;
        *known = value;
        differs
    });
}

/// What was said with a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
