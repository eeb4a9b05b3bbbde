//! Queries of OPA, with a check that it has the expected contents.

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

/// The time limit of a query. Callers wait for four seconds.
const PATIENCE: Duration = Duration::from_millis(3_500);
/// The interval between attempts while OPA lacks the current modules or data.
const AGAIN: Duration = Duration::from_millis(50);

/// An OPA, with the contents that it must have for a query.
#[derive(Clone, Debug)]
pub struct InOpa {
    opa: Opa,
    contents: Arc<Contents>,
}

impl InOpa {
    /// The modules of `bundle`, without data.
    #[must_use]
    pub fn new(opa: Opa, bundle: &Bundle) -> Self {
        Self { opa, contents: Arc::new(Contents::new(bundle, Value::new_object())) }
    }

    /// The same modules with other data.
    #[must_use]
    pub fn with_data(&self, data: Value) -> Self {
        Self { opa: self.opa.clone(), contents: Arc::new(self.contents.with_data(data)) }
    }

    /// The contents that OPA must have.
    #[must_use]
    pub fn contents(&self) -> &Arc<Contents> {
        &self.contents
    }

    /// Evaluates `query`. Returns `None` if it is undefined. Blocks the thread.
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
            unreached(format!("{address} is out of date{why}"))
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

    /// Whether OPA's modules, which `revision` identifies, may be used. An OPA of this process must have exactly the
    /// expected ones; a shared one may have others.
    fn is_in_force(&self, revision: &str) -> bool {
        !self.opa.0.is_own || (self.opa.is_ready() && revision == self.contents.revision())
    }
}
