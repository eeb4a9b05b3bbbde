//! Pushes published Rego policies and data to OPA. A private OPA sidecar is always filled; a shared OPA only
//! by the leader.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::following::MovedBy;
use super::key::Key;
use super::shared::Shared;
use policy_sync_api::text::with_causes;
use policy_sync_hub::json_client::AskError;
use policy_sync_hub::reconcile::{Leadership, Queue};
use policy_sync_rego::opa::{Contents, Opa, PushError, push};

/// How often the marker in OPA is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The minimum interval between full comparisons of the contents.
const COMPARE_EVERY: Duration = Duration::from_secs(10);
/// The inverse of the maximum share of time for comparisons.
const SHARE: u32 = 20;
/// The delay after OPA was unreachable.
const AGAIN: Duration = Duration::from_millis(200);
/// The maximum delay after OPA rejected a request.
const REFUSED: Duration = Duration::from_secs(10);

/// Pushes Rego policies and data to OPA.
pub(super) struct Pusher {
    shared: Arc<Shared>,
    opa: Opa,
    leadership: Leadership,
    queue: Arc<Queue<Key>>,
    /// The contents of OPA, if known.
    there: Option<Arc<Contents>>,
    /// The time of the next comparison.
    compare_at: Instant,
    /// Whether a response since the last comparison was unexpected.
    in_doubt: bool,
    /// The first part of the data for the next comparison.
    next_part: usize,
    /// The number of consecutive failures.
    failures: u32,
    /// The change that followers of placement are notified of after the next push.
    owes: Option<MovedBy>,
}

/// The next step.
enum Next {
    /// OPA is up to date; wait for a change.
    Change,
    /// Retry after this time.
    After(Duration),
}

impl Pusher {
    pub(super) fn new(shared: Arc<Shared>, opa: Opa, leadership: Leadership, queue: Arc<Queue<Key>>) -> Self {
        Self {
            shared,
            opa,
            leadership,
            queue,
            there: None,
            compare_at: Instant::now(),
            in_doubt: false,
            next_part: 0,
            failures: 0,
            owes: None,
        }
    }

    /// Keeps OPA up to date until the process ends.
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
                                // The sender is gone because the process ends.
                                return;
                            }
                        }
                        () = self.opa.missing() => self.look(true).await,
                        () = sleep(LOOK_EVERY) => self.look(false).await,
                    }
                }
            }
        }
    }

    /// Checks whether OPA still has the modules and data that this process pushed. `in_doubt` is true after an unexpected response.
    async fn look(&mut self, in_doubt: bool) {
        self.in_doubt |= in_doubt;
        let Some(there) = self.there.clone() else { return };
        if !self.opa.is_marked(&there).await.unwrap_or(false) {
            self.there = None;
            return;
        }
        let began = Instant::now();
        // A doubt advances the next comparison by 9 s, but not past the pause after a slow comparison. If that is not due yet, the doubt
        // remains.
        let forward = if self.in_doubt { COMPARE_EVERY - LOOK_EVERY } else { Duration::ZERO };
        if began + forward < self.compare_at {
            return;
        }
        self.in_doubt = false;
        let changed = self.opa.changed(&there, &mut self.next_part).await;
        let now = Instant::now();
        self.compare_at = now + COMPARE_EVERY.max((now - began) * SHARE);
        self.opa.unwatched(changed.as_ref().err().map(|error| with_causes(error)));
        if let Ok(Some(what)) = changed {
            warn!(what, "another client changed modules or data in OPA");
            self.opa.was_changed();
            self.there = None;
        }
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
                // The loader publishes a bundle without the rejected modules.
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
                Some(error) => warn!(error, "OPA does not have the current modules and data"),
                None => info!("OPA has the current modules and data"),
            }
        }
        self.opa.noted(fault.clone());
        self.shared.filled(fault);
    }
}
