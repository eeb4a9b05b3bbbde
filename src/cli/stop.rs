//! How a command that runs on is asked to end: SIGTERM or SIGINT.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Waits until this process is asked to stop. Signals count from the call on, not only from the first poll.
///
/// # Errors
///
/// Where the process cannot be told of signals.
pub(super) fn asked_to_stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
