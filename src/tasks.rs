//! Tasks that do not die unnoticed.
//!
//! A task that panics takes only itself along: what it watched, nobody would watch any more, and the key that it worked on
//! would be worked on for ever. A process that goes on deaf is worse than one that starts anew, so each task runs under
//! [`Tasks::watch`]: a panic is counted and logged, and whoever waits for [`Tasks::panicked`] ends the process.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::telemetry::metrics::Metrics;

/// Notices panics of tasks. Clones notice for each other.
#[derive(Clone, Debug)]
pub struct Tasks {
    metrics: Metrics,
    panicked: CancellationToken,
}

/// A task has panicked: what it did, nobody does any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a task panicked: see the log")]
pub struct Panicked;

impl Tasks {
    /// Nothing has panicked yet; counts in `metrics`.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, panicked: CancellationToken::new() }
    }

    /// What `future` comes to, `None` where it panics; `task` says what it does, for the log and the metric.
    pub async fn watch<T>(self, task: &'static str, future: impl Future<Output = T>) -> Option<T> {
        // Nothing looks at what it leaves behind but what is done until the process has ended.
        match AssertUnwindSafe(future).catch_unwind().await {
            Ok(value) => Some(value),
            Err(panic) => {
                self.metrics.panicked(task);
                error!(task, panic = words(&*panic), "a task panicked: the process ends, to start anew");
                self.panicked.cancel();
                None
            }
        }
    }

    /// Waits until a task has panicked.
    pub async fn panicked(&self) {
        self.panicked.cancelled().await;
    }

    /// Whether none has.
    ///
    /// # Errors
    ///
    /// Where one has.
    pub fn check(&self) -> Result<(), Panicked> {
        if self.panicked.is_cancelled() { Err(Panicked) } else { Ok(()) }
    }
}

/// What was said with a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
