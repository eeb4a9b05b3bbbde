//! Questions to OPA, of what is to be there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use regorus::Value;
use serde_json::json;

use super::answers::{decision, failure, lacks_modules};
use super::contents::Contents;
use super::installed::MARKED;
use super::server::Opa;
use crate::bundle::Bundle;
use crate::engine_error::{EngineError, Failure};

/// How long a question may take in all: whoever asks is waited for four seconds.
const PATIENCE: Duration = Duration::from_millis(3_500);
/// How long OPA is left alone that has not what is in force.
const AGAIN: Duration = Duration::from_millis(50);

/// What is to be in OPA at one moment, and who asks it.
#[derive(Clone, Debug)]
pub struct InOpa {
    opa: Opa,
    contents: Arc<Contents>,
}

impl InOpa {
    /// `bundle`, without data.
    #[must_use]
    pub fn new(opa: Opa, bundle: &Bundle) -> Self {
        Self { opa, contents: Arc::new(Contents::new(bundle, Value::new_object())) }
    }

    /// The same modules with other data.
    #[must_use]
    pub fn with_data(&self, data: Value) -> Self {
        Self { opa: self.opa.clone(), contents: Arc::new(self.contents.with_data(data)) }
    }

    /// What is to be there.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    /// The value of `query`, `None` where it is undefined, on a thread that may wait.
    pub fn ask(&self, query: &str, input: &Value, bundle: &Bundle) -> Result<Option<Value>, EngineError> {
        self.opa.0.runtime.block_on(self.asked(query, input, bundle))
    }

    async fn asked(&self, query: &str, input: &Value, bundle: &Bundle) -> Result<Option<Value>, EngineError> {
        let (opa, until) = (&*self.opa.0, Instant::now() + PATIENCE);
        let unreached = |why: String| EngineError::Unreached(format!("OPA at {why}"));
        let mut question = json!({
            "query": format!("decision = [decided | decided = {query}]; {MARKED}"),
        });
        if *input != Value::Undefined {
            question["input"] = serde_json::to_value(input).map_err(|error| unreached(error.to_string()))?;
        }
        let question = serde_json::to_vec(&question).map_err(|error| unreached(error.to_string()))?.into();
        let lacks = || {
            let address = opa.client.address();
            let why = self.opa.fault().map(|fault| format!(" ({fault})")).unwrap_or_default();
            unreached(format!("{address} has not what is in force{why}"))
        };
        let mut is_lacking = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = match opa.client.ask(Method::POST, "/v1/query", &question, left).await {
                Ok(answer) => answer,
                // The last attempt has too little time.
                Err(_) if is_lacking && Instant::now() >= until => return Err(lacks()),
                Err(error) => return Err(unreached(error.to_string())),
            };
            if !answer.status.is_success() && !lacks_modules(&answer.body) {
                let Some(fault) = failure(bundle, &answer.body) else {
                    opa.missing.notify_one();
                    return Err(unreached(opa.client.refused(&answer).to_string()));
                };
                return Err(Failure { too_long: false, too_large: false, fault }.into());
            }
            if answer.status.is_success() {
                let found = decision(&answer.body);
                let found = found.map_err(|error| {
                    opa.missing.notify_one();
                    unreached(opa.client.unread(&error).to_string())
                })?;
                if let Some((value, revision)) = found
                    && self.is_in_force(&revision)
                {
                    return Ok(value);
                }
            }
            opa.missing.notify_one();
            if until.saturating_duration_since(Instant::now()) <= AGAIN {
                return Err(lacks());
            }
            is_lacking = true;
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Whether what OPA has under this marker is in force for whoever asks.
    fn is_in_force(&self, revision: &str) -> bool {
        !self.opa.0.is_own || (self.opa.is_ready() && revision == self.contents.revision())
    }
}
