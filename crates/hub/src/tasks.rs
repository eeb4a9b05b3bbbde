//! Supervised tasks.
//!
//! A panic ends only the task in which it occurs. Without supervision, the watch of that task would stop unnoticed, or
//! its key would remain active forever. A restart is better than a process with missing tasks. Each task therefore runs
//! under [`Tasks::watch`], which counts and logs a panic. Callers of [`Tasks::ended`] then end the process. A task can
//! also end the process by [`Tasks::end`].

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::telemetry::metrics::Metrics;

/// Supervises tasks. Clones share one state.
#[derive(Clone, Debug)]
pub struct Tasks {
    metrics: Metrics,
    reason: Arc<OnceLock<RestartReason>>,
    ended: CancellationToken,
}

/// Why the process must restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestartReason {
    /// A task has panicked.
    #[error("a task panicked: see the log")]
    Panicked,
    /// The hub was restored from a backup: its lists have long been older than the last seen version. A restart
    /// discards that version.
    #[error("the hub was restored to an earlier state: see the log")]
    HubRestored,
}

impl Tasks {
    /// Creates a supervisor that counts panics in `metrics`.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, reason: Arc::default(), ended: CancellationToken::new() }
    }

    /// Ends the process with this reason. Only the first reason is kept.
    pub fn end(&self, reason: RestartReason) {
        self.reason.get_or_init(|| reason);
        self.ended.cancel();
    }

    /// Runs `future`. Returns its value; `None` if it panics. `task` names the future in the log and the metric.
    pub fn watch<T>(
        self,
        task: &'static str,
        future: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        self.metrics.register_task(task);
        async move {
            // A panic may leave inconsistent state. This state is used only until the process has ended.
            match AssertUnwindSafe(future).catch_unwind().await {
                Ok(value) => Some(value),
                Err(panic) => {
                    self.metrics.count_panic(task);
                    error!(
                        task,
                        panic = panic_message(&*panic),
                        "a task panicked: the process exits, to be restarted"
                    );
                    self.end(RestartReason::Panicked);
                    None
                }
            }
        }
    }

    /// Waits until the process must end.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Whether the process may continue.
    ///
    /// # Errors
    ///
    /// The reason why it must end.
    pub fn check(&self) -> Result<(), RestartReason> {
        self.reason.get().map_or(Ok(()), |reason| Err(*reason))
    }
}

/// Sends `value` to the receivers of a channel, if `value` differs from the channel's current value.
pub fn send_if_changed<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let differs = *known != value;
        *known = value;
        differs
    });
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
