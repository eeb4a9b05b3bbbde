//! Runs long CPU-bound work on a dedicated thread, with the lowest scheduling priority.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{io, thread};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::debug;

use policy_sync_api::text::with_causes;

/// The nice value of the thread: the lowest priority on Linux.
const NICE: i32 = 19;

/// Why the work returned nothing.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// The system could not start a thread.
    #[error("cannot start a thread")]
    ThreadStart(#[from] io::Error),
    /// The work panicked.
    #[error("it panicked")]
    Panicked,
}

/// Runs `work` on a new thread called `name`, at the lowest scheduling priority, and returns its result.
///
/// # Errors
///
/// If `work` panics, or if the thread cannot be started.
pub async fn run_in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BackgroundError> {
    let ((sender, receiver), runtime) = (oneshot::channel(), Handle::current());
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _runtime = runtime.enter();
        lower_priority();
        // Sending fails if the caller was cancelled, because that drops the receiver.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    })?;
    receiver.await.ok().and_then(Result::ok).ok_or(BackgroundError::Panicked)
}

/// Like [`run_in_background`], for work that does not block or wait. Under paused time, as in tests, the clock does not
/// advance while the work runs, because a blocking thread of the runtime waits for the result.
///
/// # Errors
///
/// See [`run_in_background`].
pub async fn compute_in_background<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BackgroundError> {
    let (name, runtime) = (name.to_owned(), Handle::current());
    let task = spawn_blocking(move || runtime.block_on(run_in_background(&name, work)));
    task.await.unwrap_or(Err(BackgroundError::Panicked))
}

/// Lowers the priority of the current thread. Only on Linux: elsewhere `nice` applies to the whole process.
fn lower_priority() {
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::nice(NICE)
    {
        debug!(error = with_causes(&error), "cannot lower the priority of a thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nice value of the current thread, from `/proc`.
    fn niceness() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(16).unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn only_the_new_thread_is_niced() {
        let before = niceness();
        assert_eq!(run_in_background("test", niceness).await.unwrap(), NICE);
        assert_eq!(niceness(), before);
        assert_eq!(tokio::task::spawn_blocking(niceness).await.unwrap(), before);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_work_may_use_the_runtime() {
        let panicked = run_in_background("test", || -> () { panic!("no") }).await;
        assert!(matches!(panicked, Err(BackgroundError::Panicked)));
        let computed = run_in_background("test", || Handle::current().block_on(async { 7 })).await;
        assert_eq!(computed.unwrap(), 7);
    }
}
