//! The statuses that wait, shared by who builds graphs, who writes, and what watches.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::metrics::TopologyMetrics;
use super::pending::{PendingStatuses, Replaced};
use super::status_key::Turn;
use policy_sync_hub::reconcile::Queue;

/// How long a turn waits that an older look has not settled.
const SETTLES: Duration = Duration::from_secs(1);

/// Which statuses wait to be written, with the queue of their turns.
#[derive(Debug)]
pub(super) struct Statuses {
    pending: Mutex<PendingStatuses>,
    queue: Arc<Queue<Turn>>,
    metrics: TopologyMetrics,
}

impl Statuses {
    /// None yet.
    pub(super) fn new(queue: Arc<Queue<Turn>>, metrics: TopologyMetrics) -> Self {
        Self { pending: Mutex::default(), queue, metrics }
    }

    /// Looks at them.
    pub(super) fn read<T>(&self, read: impl FnOnce(&PendingStatuses) -> T) -> T {
        read(&self.pending.lock())
    }

    /// Changes them.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut PendingStatuses) -> T) -> T {
        let mut pending = self.pending.lock();
        let changed = change(&mut pending);
        self.metrics.pending(pending.waiting());
        changed
    }

    /// Takes in what the watch shows, which is seldom one of them.
    pub(super) fn show<T>(&self, show: impl FnOnce(&mut PendingStatuses) -> T) -> T {
        let mut pending = self.pending.lock();
        let before = pending.len();
        let shown = show(&mut pending);
        if pending.len() != before {
            self.metrics.pending(pending.waiting());
        }
        shown
    }

    /// Takes a new graph's in, and queues what is new; returns whether it has to be built anew.
    pub(super) fn replace(&self, replace: impl FnOnce(&mut PendingStatuses) -> Replaced) -> bool {
        let Replaced { turns, again } = self.change(replace);
        self.queue.affect(turns);
        again
    }

    /// Settles a write, and queues the turn that this leaves to be taken: once the watch may have come to what was read.
    pub(super) fn settle(&self, settle: impl FnOnce(&mut PendingStatuses) -> Option<Turn>) {
        if let Some(turn) = self.change(settle) {
            self.queue.add_after(turn, SETTLES);
        }
    }
}
