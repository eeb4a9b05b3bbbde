//! The seam for a spoke's policy controller: it sets Accepted and Enforced on policies, as Kuadrant's would.

use anyhow::Result;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A running policy controller. Dropping it ends it.
#[derive(Debug)]
pub struct PolicyController {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

/// Starts one for the spoke that `client` reaches, on the runtime that is current here.
pub async fn spawn(_client: Client) -> Result<PolicyController> {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let task = AbortOnDropHandle::new(tokio::spawn(async move { stopped.cancelled().await }));
    Ok(PolicyController { stop, task })
}

impl PolicyController {
    /// Ends it, and returns when it does nothing any more.
    pub async fn stop(self) {
        self.stop.cancel();
        // A task that has panicked has ended, too.
        let _ = self.task.await;
    }
}
