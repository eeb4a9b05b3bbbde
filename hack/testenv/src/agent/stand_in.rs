//! The seam for our own work agent: [`StandIn::start`] returns once it watches, [`StandIn::stop`] once nothing runs.

use anyhow::Result;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::AgentConfig;

/// Our agent, as a task.
#[derive(Debug)]
pub struct StandIn {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl StandIn {
    pub(super) async fn start(_config: AgentConfig) -> Result<Self> {
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task: JoinHandle<()> = tokio::spawn(async move { stopped.cancelled().await });
        Ok(Self { stop, task: AbortOnDropHandle::new(task) })
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        // A task that has panicked has ended, too.
        let _ = self.task.await;
    }
}
