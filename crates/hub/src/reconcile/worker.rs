//! Takes keys from the queue and reconciles several at a time.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::{Capability, Leadership, LeadershipChange, Queue, ReconcileError};
use crate::tasks::Tasks;
use crate::telemetry::metrics::{Metrics, ReconcileResult};
use policy_sync_api::text::with_causes;
use policy_sync_mirror::Key;

/// The maximum number of keys that are reconciled at once.
const MAX_CONCURRENT: usize = 32;

/// A permit for one concurrent key.
pub type Slot = Result<OwnedSemaphorePermit, AcquireError>;

/// Reconciles the keys of a capability.
pub struct Worker<C: Capability> {
    capability: C,
    queue: Arc<Queue<C::Key>>,
    leadership: Leadership,
    metrics: Metrics,
    tasks: Tasks,
}

impl<C: Capability> Worker<C> {
    /// Takes keys from `queue` while `leadership` permits. A panic in a reconciliation ends `tasks`.
    #[must_use]
    pub fn new(
        capability: C,
        queue: Arc<Queue<C::Key>>,
        leadership: Leadership,
        metrics: Metrics,
        tasks: Tasks,
    ) -> Self {
        metrics.register_kinds(C::Key::CATEGORIES, MAX_CONCURRENT);
        Self { capability, queue, leadership, metrics, tasks }
    }

    /// Runs until `stop`, then waits for the active keys.
    pub async fn run(self, stop: CancellationToken) {
        let worker = Arc::new(self);
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT));
        let running = TaskTracker::new();
        let mut leadership = worker.leadership.clone();
        loop {
            let next = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, worker.queue.next().await)
            };
            let (slot, key) = tokio::select! {
                () = stop.cancelled() => break,
                change = leadership.changed() => {
                    worker.leadership_changed(change);
                    continue;
                }
                next = next => next,
            };
            let worker = worker.clone();
            let watched = worker.tasks.clone();
            running.spawn(watched.watch("key", async move { worker.work(&key, slot).await }));
        }
        running.close();
        running.wait().await;
    }

    /// Queues all keys if this process has become the leader, because its earlier keys were dropped.
    fn leadership_changed(&self, change: LeadershipChange) {
        self.capability.leadership_changed();
        if change == LeadershipChange::Gained {
            self.queue.enqueue(self.capability.all_keys());
        }
    }

    async fn work(&self, key: &C::Key, slot: Slot) {
        if !self.leadership.leads() && !self.capability.runs_on_followers(key) {
            return self.queue.done(key);
        }
        let active_key = self.metrics.start_work(key.category());
        let outcome = self.capability.reconcile(key, slot).await;
        let Err(error) = outcome else {
            active_key.finish(ReconcileResult::Success);
            return self.queue.done(key);
        };
        let category = error.category();
        if error.is_expected() {
            active_key.finish(ReconcileResult::Requeue);
            debug!(?key, category, error = with_causes(&error), "reconcile failed, retrying");
        } else {
            active_key.finish(ReconcileResult::Error);
            warn!(?key, category, error = with_causes(&error), "reconcile failed, retrying");
        }
        self.queue.failed(key);
    }
}
