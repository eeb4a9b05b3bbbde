//! OPA: an engine that is a server of its own, and which we fill.
//!
//! ```text
//! Snapshot ──▶ Contents ──push──▶ OPA: modules, data, and once it has all of them the marker
//!     └─ question ──────────────▶ decision and marker; without the marker it is no decision
//! ```
//!
//! So an OPA that came back empty, or is being filled, lets nothing pass. One at a loopback address is this process's own, and must
//! have just what this process has in force. Any other is shared: the leader fills it, and the others ask.

mod answers;
mod contents;
mod metrics;
mod push;
mod text;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use parking_lot::Mutex;
use regorus::Value;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use self::answers::{decision, failure};
use super::bundle::Bundle;
use super::embedded::Failure;
use super::engine::EngineError;
use crate::json_client::JsonClient;

pub use contents::Contents;
pub use metrics::OpaMetrics;
pub use push::{PushError, push};
pub(super) use text::for_opa;

/// How long a question may take in all: whoever asks is waited for four seconds.
const PATIENCE: Duration = Duration::from_millis(3_500);
/// How long OPA is left alone that has not what is in force.
const AGAIN: Duration = Duration::from_millis(50);

/// An OPA. Clones are the same.
#[derive(Clone)]
pub struct Opa(Arc<Inner>);

struct Inner {
    client: JsonClient,
    /// Whether it is this process's own.
    is_own: bool,
    /// Where it is waited for: evaluations are asked on threads that may wait.
    runtime: Handle,
    /// Whether this process has ever filled it, and what keeps it from doing so now.
    state: Mutex<State>,
    missing: Notify,
    /// `None` where this process does not fill it.
    metrics: Option<OpaMetrics>,
}

#[derive(Debug, Default)]
struct State {
    is_filled: bool,
    fault: Option<String>,
    others: Vec<String>,
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
    pub(super) async fn missing(&self) {
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

    /// Notes what keeps it from being filled, if anything.
    pub(super) fn noted(&self, fault: Option<String>) {
        let mut state = self.0.state.lock();
        state.is_filled |= fault.is_none();
        state.fault = fault;
    }

    /// Its marker now; `None` where it has none.
    ///
    /// # Errors
    ///
    /// Where it cannot be asked.
    pub(super) async fn marker(&self) -> Result<Option<String>, PushError> {
        push::marker(&self.0.client).await
    }
}

/// What is to be in OPA at one moment, and who asks it.
#[derive(Clone, Debug)]
pub struct InOpa {
    opa: Opa,
    contents: Arc<Contents>,
}

impl InOpa {
    /// `bundle`, without data.
    #[must_use]
    pub(super) fn new(opa: Opa, bundle: &Bundle) -> Self {
        Self { opa, contents: Arc::new(Contents::new(&bundle.for_opa(), Value::new_object())) }
    }

    /// The same modules with other data.
    #[must_use]
    pub(super) fn with_data(&self, data: Value) -> Self {
        Self { opa: self.opa.clone(), contents: Arc::new(self.contents.with_data(data)) }
    }

    /// What is to be there.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    /// The value of `query`, `None` where it is undefined, on a thread that may wait.
    pub(super) fn ask(
        &self,
        query: &str,
        input: &Value,
        bundle: &Bundle,
    ) -> Result<Option<Value>, EngineError> {
        self.opa.0.runtime.block_on(self.asked(query, input, bundle))
    }

    async fn asked(&self, query: &str, input: &Value, bundle: &Bundle) -> Result<Option<Value>, EngineError> {
        let (opa, until) = (&*self.opa.0, Instant::now() + PATIENCE);
        let unreached = |why: String| EngineError::Unreached(format!("OPA at {why}"));
        let mut question = json!({
            "query": format!("decision = [decided | decided = {query}]; revision = data.policysync.revision"),
        });
        if *input != Value::Undefined {
            question["input"] = serde_json::to_value(input).map_err(|error| unreached(error.to_string()))?;
        }
        let question = serde_json::to_vec(&question).map_err(|error| unreached(error.to_string()))?.into();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = opa.client.ask(Method::POST, "/v1/query", &question, left).await;
            let answer = answer.map_err(|error| unreached(error.to_string()))?;
            if !answer.status.is_success() {
                return Err(match failure(bundle, &answer.body) {
                    Some(fault) => Failure { too_long: false, fault }.into(),
                    None => unreached(opa.client.refused(&answer).to_string()),
                });
            }
            let found = decision(&answer.body);
            let found = found.map_err(|error| unreached(opa.client.unread(error).to_string()))?;
            match found {
                Some((value, revision)) if self.is_in_force(&revision) => return Ok(value),
                _ => opa.missing.notify_one(),
            }
            if until.saturating_duration_since(Instant::now()) <= AGAIN {
                let address = opa.client.address();
                let why = self.opa.fault().map(|fault| format!(" ({fault})")).unwrap_or_default();
                return Err(unreached(format!("{address} has not what is in force{why}")));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Whether what OPA has under this marker is in force for whoever asks.
    fn is_in_force(&self, revision: &str) -> bool {
        !self.opa.0.is_own || (self.opa.is_ready() && revision == self.contents.revision())
    }
}
