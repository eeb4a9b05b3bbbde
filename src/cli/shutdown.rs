//! Waits for SIGTERM or SIGINT in commands that run until they are stopped.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Returns a future that ends when the process is to stop. Signals are received from this call on, not only
/// from the first poll.
///
/// # Errors
///
/// If signal handlers cannot be installed.
pub(super) fn shutdown_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
