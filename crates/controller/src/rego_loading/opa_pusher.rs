//! Pushes published Rego policies and data to OPA. Every replica pushes to its own OPA sidecar; only the leader pushes
//! to a shared OPA.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::followers::ChangeCause;
use super::key::Key;
use super::shared::Shared;
use policy_sync_api::text::with_causes;
use policy_sync_hub::json_client::JsonClientError;
use policy_sync_hub::reconcile::{Leadership, Queue};
use policy_sync_rego::opa::{Opa, OpaContents, PushError, push};

/// How often this process checks whether OPA still contains the marker of the pushed contents.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum interval between full comparisons of the contents.
const MIN_COMPARE_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after a comparison, as a multiple of the comparison's duration.
const SHARE: u32 = 20;
/// The delay before a retry if OPA was unreachable.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// The maximum delay before a retry if OPA rejected a request.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Pushes Rego policies and data to OPA.
pub(super) struct OpaPusher {
    shared: Arc<Shared>,
    opa: Opa,
    leadership: Leadership,
    queue: Arc<Queue<Key>>,
    /// The contents of OPA, if known.
    current: Option<Arc<OpaContents>>,
    /// The time of the next comparison.
    compare_at: Instant,
    /// Whether OPA has returned an unexpected response since the last comparison.
    in_doubt: bool,
    /// The part of the data at which the next comparison starts.
    next_part: usize,
    /// The number of consecutive failures.
    failures: u32,
    /// The change of placement inputs that followers learn of after the next push.
    pending_change: Option<ChangeCause>,
}

/// The next step of the pusher.
enum PushStep {
    /// OPA is up to date; wait for a change.
    Change,
    /// Retry after this time.
    After(Duration),
}

impl OpaPusher {
    pub(super) fn new(shared: Arc<Shared>, opa: Opa, leadership: Leadership, queue: Arc<Queue<Key>>) -> Self {
        Self {
            shared,
            opa,
            leadership,
            queue,
            current: None,
            compare_at: Instant::now(),
            in_doubt: false,
            next_part: 0,
            failures: 0,
            pending_change: None,
        }
    }

    /// Keeps OPA up to date until the process ends.
    pub(super) async fn run(mut self) {
        let mut snapshots = self.shared.snapshots();
        loop {
            snapshots.borrow_and_update();
            match self.step().await {
                PushStep::After(wait) => sleep(wait).await,
                PushStep::Change => {
                    tokio::select! {
                        changed = snapshots.changed() => {
                            if changed.is_err() {
                                // The sender is dropped only when the process ends.
                                return;
                            }
                        }
                        () = self.opa.missing() => self.check_contents(true).await,
                        () = sleep(CHECK_INTERVAL) => self.check_contents(false).await,
                    }
                }
            }
        }
    }

    /// Checks whether OPA still has the modules and data that this process pushed. `in_doubt` is true after an
    /// unexpected response.
    async fn check_contents(&mut self, in_doubt: bool) {
        self.in_doubt |= in_doubt;
        let Some(current) = self.current.clone() else { return };
        if !self.opa.is_marked(&current).await.unwrap_or(false) {
            self.current = None;
            return;
        }
        let began = Instant::now();
        // After an unexpected response, the next comparison may start up to 9 s early, but not before the pause after a
        // slow comparison ends. `in_doubt` stays set until the next comparison starts.
        let forward = if self.in_doubt { MIN_COMPARE_INTERVAL - CHECK_INTERVAL } else { Duration::ZERO };
        if began + forward < self.compare_at {
            return;
        }
        self.in_doubt = false;
        let changed = self.opa.find_drift(&current, &mut self.next_part).await;
        let now = Instant::now();
        self.compare_at = now + MIN_COMPARE_INTERVAL.max((now - began) * SHARE);
        self.opa.set_drift_error(changed.as_ref().err().map(|error| with_causes(error)));
        if let Ok(Some(what)) = changed {
            warn!(what, "another client changed modules or data in OPA");
            self.opa.record_drift();
            self.current = None;
        }
    }

    async fn step(&mut self) -> PushStep {
        if !self.opa.is_own() && !self.leadership.leads() {
            self.current = None;
            return PushStep::Change;
        }
        if let Some(by) = self.shared.take_pending_change() {
            self.pending_change = Some(self.pending_change.take().unwrap_or_default().and(by));
        }
        let snapshot = self.shared.snapshots().borrow().clone();
        let Some(opa_engine) = snapshot.engine().opa_engine().filter(|_| !snapshot.is_starting()) else {
            return PushStep::Change;
        };
        let (bundle, contents) = (snapshot.engine().bundle(), opa_engine.contents());
        let pushed = push(&self.opa, bundle, self.current.as_deref(), contents).await;
        let Err(error) = pushed else {
            self.current = Some(contents.clone());
            self.failures = 0;
            self.record_fault(None);
            if let Some(by) = self.pending_change.take() {
                self.shared.notify_followers(&by);
            }
            return PushStep::Change;
        };
        self.current = None;
        self.failures += 1;
        self.record_fault(Some(with_causes(&error)));
        match error {
            PushError::Rejected(faults) => {
                self.shared.refused(bundle, faults);
                self.queue.add(Key::Bundle);
                // The next snapshot from the loader omits the rejected modules.
                PushStep::After(RETRY_DELAY)
            }
            PushError::Request(JsonClientError::Unreachable { .. }) => PushStep::After(RETRY_DELAY),
            PushError::Request(_) => {
                PushStep::After((RETRY_DELAY * 2_u32.saturating_pow(self.failures)).min(MAX_RETRY_DELAY))
            }
        }
    }

    fn record_fault(&self, fault: Option<String>) {
        let before = self.opa.fault();
        if before != fault {
            match &fault {
                Some(error) => warn!(error, "OPA does not have the current modules and data"),
                None => info!("OPA has the current modules and data"),
            }
        }
        self.opa.record_push(fault.clone());
        self.shared.opa_updated(fault);
    }
}
