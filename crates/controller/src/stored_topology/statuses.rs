//! The pending statuses, shared by the builder of graphs, the writer and the watch.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::key::StatusWriteKey;
use super::metrics::TopologyMetrics;
use super::pending::{PendingStatuses, ReplaceResult};
use policy_sync_hub::reconcile::Queue;

/// If an object was read at an outdated version, its status write is tried again after this delay.
const SETTLE_DELAY: Duration = Duration::from_secs(1);

/// The pending statuses, and the queue of their writes.
#[derive(Debug)]
pub(super) struct Statuses {
    pending: Mutex<PendingStatuses>,
    queue: Arc<Queue<StatusWriteKey>>,
    metrics: TopologyMetrics,
}

impl Statuses {
    pub(super) fn new(queue: Arc<Queue<StatusWriteKey>>, metrics: TopologyMetrics) -> Self {
        Self { pending: Mutex::default(), queue, metrics }
    }

    /// Reads the pending statuses.
    pub(super) fn read<T>(&self, read: impl FnOnce(&PendingStatuses) -> T) -> T {
        read(&self.pending.lock())
    }

    /// Changes the pending statuses and updates the metric.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut PendingStatuses) -> T) -> T {
        let mut pending = self.pending.lock();
        let changed = change(&mut pending);
        self.metrics.pending(pending.waiting());
        changed
    }

    /// Handles a watch event. Most events do not concern pending statuses.
    pub(super) fn deliver<T>(&self, deliver: impl FnOnce(&mut PendingStatuses) -> T) -> T {
        let mut pending = self.pending.lock();
        let before = pending.len();
        let result = deliver(&mut pending);
        if pending.len() != before {
            self.metrics.pending(pending.waiting());
        }
        result
    }

    /// Replaces the statuses by the statuses of a new graph, and queues new writes. Returns whether to rebuild the
    /// graph.
    pub(super) fn replace(&self, replace: impl FnOnce(&mut PendingStatuses) -> ReplaceResult) -> bool {
        let ReplaceResult { writes_to_queue, rebuild } = self.change(replace);
        self.queue.enqueue(writes_to_queue);
        rebuild
    }

    /// Settles a write. If the write stays pending, its key is queued with a delay, so that the watch can deliver a
    /// newer version.
    pub(super) fn settle(&self, settle: impl FnOnce(&mut PendingStatuses) -> Option<StatusWriteKey>) {
        if let Some(turn) = self.change(settle) {
            self.queue.add_after(turn, SETTLE_DELAY);
        }
    }
}
