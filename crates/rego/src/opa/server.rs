//! An OPA, and what is known of it.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::metrics::OpaMetrics;
use policy_sync_hub::json_client::JsonClient;

/// How many modules of others are named.
const NAMED: usize = 3;

/// An OPA. Clones are the same.
#[derive(Clone)]
pub struct Opa(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) client: JsonClient,
    /// Whether it is this process's own.
    pub(super) is_own: bool,
    /// Where it is waited for: evaluations are asked on threads that may wait.
    pub(super) runtime: Handle,
    /// Whether this process has ever filled it, and what keeps it from doing so now.
    pub(super) state: Mutex<State>,
    pub(super) missing: Notify,
    /// `None` where this process does not fill it.
    pub(super) metrics: Option<OpaMetrics>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    is_filled: bool,
    fault: Option<String>,
    pub(super) others: Vec<String>,
    /// The reason why OPA cannot be compared, if there is one.
    unwatched: Option<String>,
}

impl fmt::Debug for Opa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opa").field("address", self.0.client.address()).finish_non_exhaustive()
    }
}

impl Opa {
    /// The one that `client` asks, which is this process's own, or shared with others. `metrics` say how filling it goes.
    #[must_use]
    pub fn new(client: JsonClient, is_own: bool, metrics: Option<OpaMetrics>) -> Self {
        Self(Arc::new(Inner {
            client,
            is_own,
            runtime: Handle::current(),
            state: Mutex::default(),
            missing: Notify::new(),
            metrics,
        }))
    }

    /// Whether it is this process's own.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.is_own
    }

    /// Waits until somebody finds that it has not what is in force.
    pub async fn missing(&self) {
        self.0.missing.notified().await;
    }

    /// Whether it can be asked by this process, as far as that depends on who fills it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.0.is_own || self.0.state.lock().is_filled
    }

    /// What keeps it from being filled, if anything.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.0.state.lock().fault.clone()
    }

    /// The modules that others have put there.
    #[must_use]
    pub fn others(&self) -> Vec<String> {
        self.0.state.lock().others.clone()
    }

    /// Whether `opa` can be asked, and what its owner should know.
    pub fn health(&self) -> (bool, Vec<String>) {
        let mut lines = Vec::new();
        lines.extend(self.fault().map(|fault| format!("OPA has not what is in force: {fault}")));
        let unwatched = self.0.state.lock().unwatched.clone();
        lines.extend(unwatched.map(|why| format!("changes of OPA by others are not noticed: {why}")));
        let others = self.others();
        if !others.is_empty() {
            let named: Vec<&str> = others.iter().take(NAMED).map(String::as_str).collect();
            let more = others.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            lines.push(format!("OPA has modules of others: {}{more}", named.join(", ")));
        }
        (self.is_ready(), lines)
    }

    /// Counts a change by others.
    pub fn was_changed(&self) {
        if let Some(metrics) = &self.0.metrics {
            metrics.changed();
        }
    }

    /// Sets the reason why OPA cannot be compared, or clears it.
    pub fn unwatched(&self, why: Option<String>) {
        self.0.state.lock().unwatched = why;
    }

    /// Notes what keeps it from being filled, if anything.
    pub fn noted(&self, fault: Option<String>) {
        let mut state = self.0.state.lock();
        state.is_filled |= fault.is_none();
        state.fault = fault;
    }
}
