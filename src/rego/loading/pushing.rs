//! Has OPA have what is published, where OPA evaluates: this process's own each time, a shared one while this process leads.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use super::following::MovedBy;
use super::key::Key;
use super::shared::Shared;
use crate::api::text::with_causes;
use crate::json_client::AskError;
use crate::reconcile::{Leadership, Queue};
use crate::rego::opa::{Contents, Opa, PushError, push};

/// How often it is looked whether OPA still has it.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How soon it is tried again where OPA cannot be reached.
const AGAIN: Duration = Duration::from_millis(200);
/// The longest wait where it refuses something.
const REFUSED: Duration = Duration::from_secs(10);

/// Fills OPA.
pub(super) struct Pusher {
    shared: Arc<Shared>,
    opa: Opa,
    leadership: Leadership,
    queue: Arc<Queue<Key>>,
    /// What OPA has, where that is known.
    there: Option<Arc<Contents>>,
    /// How often in a row it did not take it.
    failures: u32,
    /// Changes that followers of placement are notified of after the next push.
    owes: Option<MovedBy>,
}

/// What comes next.
enum Next {
    /// It has it: once something is otherwise.
    Change,
    /// After this time.
    After(Duration),
}

impl Pusher {
    pub(super) fn new(shared: Arc<Shared>, opa: Opa, leadership: Leadership, queue: Arc<Queue<Key>>) -> Self {
        Self { shared, opa, leadership, queue, there: None, failures: 0, owes: None }
    }

    /// Fills it, for ever.
    pub(super) async fn run(mut self) {
        let mut snapshots = self.shared.snapshots();
        loop {
            snapshots.borrow_and_update();
            match self.step().await {
                Next::After(wait) => sleep(wait).await,
                Next::Change => {
                    tokio::select! {
                        changed = snapshots.changed() => {
                            if changed.is_err() {
                                // Nothing more can come: the process ends.
                                return;
                            }
                        }
                        () = self.opa.missing() => self.look().await,
                        () = sleep(LOOK_EVERY) => self.look().await,
                    }
                }
            }
        }
    }

    /// Finds out whether it still has what it had.
    async fn look(&mut self) {
        let Some(there) = &self.there else { return };
        if self.opa.marker().await.is_ok_and(|marker| marker.as_deref() == Some(there.revision())) {
            return;
        }
        self.there = None;
    }

    async fn step(&mut self) -> Next {
        if !self.opa.is_own() && !self.leadership.leads() {
            self.there = None;
            return Next::Change;
        }
        if let Some(by) = self.shared.take_owed() {
            self.owes = Some(self.owes.take().unwrap_or_default().and(by));
        }
        let snapshot = self.shared.snapshots().borrow().clone();
        let Some(in_opa) = snapshot.engine().in_opa().filter(|_| !snapshot.is_starting()) else {
            return Next::Change;
        };
        let (bundle, contents) = (snapshot.engine().bundle(), in_opa.contents());
        let pushed = push(&self.opa, bundle, self.there.as_deref(), contents).await;
        let Err(error) = pushed else {
            self.there = Some(contents.clone());
            self.failures = 0;
            self.noted(None);
            if let Some(by) = self.owes.take() {
                self.shared.tell_moved(&by);
            }
            return Next::Change;
        };
        self.there = None;
        self.failures += 1;
        self.noted(Some(with_causes(&error)));
        match error {
            PushError::Refused(faults) => {
                self.shared.refused(bundle, faults);
                self.queue.add(Key::Bundle);
                // What counts then is published.
                Next::After(AGAIN)
            }
            PushError::Ask(AskError::Unreached { .. }) => Next::After(AGAIN),
            PushError::Ask(_) => Next::After((AGAIN * 2_u32.saturating_pow(self.failures)).min(REFUSED)),
        }
    }

    fn noted(&self, fault: Option<String>) {
        let before = self.opa.fault();
        if before != fault {
            match &fault {
                Some(error) => warn!(error, "OPA has not what is in force"),
                None => info!("OPA has what is in force"),
            }
        }
        self.opa.noted(fault.clone());
        self.shared.filled(fault);
    }
}
