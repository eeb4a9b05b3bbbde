//! The statuses that wait, shared by who builds graphs, who writes, and what watches.

use std::sync::Arc;

use parking_lot::Mutex;

use super::metrics::TopologyMetrics;
use super::pending::{PendingStatuses, Replaced};
use super::status_key::Turn;
use crate::reconcile::Queue;

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

    /// Takes a new graph's in, and queues what is new; returns whether it has to be built anew.
    pub(super) fn replace(&self, replace: impl FnOnce(&mut PendingStatuses) -> Replaced) -> bool {
        let Replaced { turns, again } = self.change(replace);
        self.queue.affect(turns);
        again
    }

    /// Settles a write, and queues the turn that this leaves to be taken.
    pub(super) fn settle(&self, settle: impl FnOnce(&mut PendingStatuses) -> Option<Turn>) {
        self.queue.affect(self.change(settle));
    }
}
