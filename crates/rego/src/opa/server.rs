//! A client of an OPA server. It remembers the last known state of the server.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::metrics::OpaMetrics;
use policy_sync_hub::json_client::JsonClient;

/// The maximum number of modules of other clients that a message names.
const MAX_NAMED_MODULES: usize = 3;

/// An OPA server. Clones share its state.
#[derive(Clone)]
pub struct Opa(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) client: JsonClient,
    /// Whether the OPA belongs to this process alone.
    pub(super) is_own: bool,
    /// The runtime that sends requests. Evaluations wait for the response on threads that may block.
    pub(super) runtime: Handle,
    /// Whether this process has filled the OPA, and the current problem.
    pub(super) state: Mutex<State>,
    pub(super) missing: Notify,
    /// The metrics of pushes; `None` if this process does not fill the OPA.
    pub(super) metrics: Option<OpaMetrics>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    is_filled: bool,
    fault: Option<String>,
    pub(super) foreign_modules: Vec<String>,
    /// The reason why OPA's contents cannot be compared; `None` if they can.
    drift_error: Option<String>,
}

impl fmt::Debug for Opa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opa").field("address", self.0.client.address()).finish_non_exhaustive()
    }
}

impl Opa {
    /// An OPA at the server of `client`. `is_own` means that the OPA belongs to this process alone. `metrics` count
    /// pushes.
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

    /// Whether the OPA belongs to this process alone.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.0.is_own
    }

    /// Waits until a query finds that OPA lacks the current contents.
    pub async fn missing(&self) {
        self.0.missing.notified().await;
    }

    /// Whether this process may query this OPA. An OPA that belongs to this process must have been filled once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.0.is_own || self.0.state.lock().is_filled
    }

    /// The problem that prevents filling OPA, if any.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.0.state.lock().fault.clone()
    }

    /// The modules of other clients in OPA.
    #[must_use]
    pub fn foreign_modules(&self) -> Vec<String> {
        self.0.state.lock().foreign_modules.clone()
    }

    /// Whether OPA may be queried, and messages for its administrator.
    pub fn health(&self) -> (bool, Vec<String>) {
        let mut lines = Vec::new();
        lines.extend(
            self.fault().map(|fault| format!("OPA does not have the current modules and data: {fault}")),
        );
        let drift_error = self.0.state.lock().drift_error.clone();
        lines.extend(
            drift_error.map(|why| format!("changes of OPA by other clients are not detected: {why}")),
        );
        let foreign_modules = self.foreign_modules();
        if !foreign_modules.is_empty() {
            let named: Vec<&str> =
                foreign_modules.iter().take(MAX_NAMED_MODULES).map(String::as_str).collect();
            let more = foreign_modules.len().saturating_sub(MAX_NAMED_MODULES);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            lines.push(format!("OPA has modules of other clients: {}{more}", named.join(", ")));
        }
        (self.is_ready(), lines)
    }

    /// Counts a change by another client.
    pub fn record_drift(&self) {
        if let Some(metrics) = &self.0.metrics {
            metrics.count_drift();
        }
    }

    /// Sets or clears the reason why OPA's contents cannot be compared.
    pub fn set_drift_error(&self, why: Option<String>) {
        self.0.state.lock().drift_error = why;
    }

    /// Records the result of a push: the problem, or `None` for success.
    pub fn record_push(&self, fault: Option<String>) {
        let mut state = self.0.state.lock();
        state.is_filled |= fault.is_none();
        state.fault = fault;
    }
}
