//! Queries OPA, and checks that OPA has the expected contents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use regorus::Value;
use serde_json::json;

use super::contents::OpaContents;
use super::installed::MARKED;
use super::responses::{decision, failure, lacks_modules};
use super::server::Opa;
use crate::bundle::Bundle;
use crate::engine::{EngineError, Failure};

/// The time limit of a query. Callers wait for four seconds.
const QUERY_TIMEOUT: Duration = Duration::from_millis(3_500);
/// The interval between attempts while OPA lacks the current modules or data.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// An OPA, with the contents that it must have for a query.
#[derive(Clone, Debug)]
pub struct OpaEngine {
    opa: Opa,
    contents: Arc<OpaContents>,
}

impl OpaEngine {
    /// Creates an engine with the modules of `bundle`, without data.
    #[must_use]
    pub fn new(opa: Opa, bundle: &Bundle) -> Self {
        Self { opa, contents: Arc::new(OpaContents::new(bundle, Value::new_object())) }
    }

    /// An engine with the same modules and this `data`.
    #[must_use]
    pub fn with_data(&self, data: Value) -> Self {
        Self { opa: self.opa.clone(), contents: Arc::new(self.contents.with_data(data)) }
    }

    /// The contents that OPA must have.
    #[must_use]
    pub fn contents(&self) -> &Arc<OpaContents> {
        &self.contents
    }

    /// Evaluates `query`. Returns `None` if it is undefined. Blocks the thread.
    pub fn query_value(
        &self,
        query: &str,
        input: &Value,
        bundle: &Bundle,
    ) -> Result<Option<Value>, EngineError> {
        self.opa.0.runtime.block_on(self.query_until_timeout(query, input, bundle))
    }

    async fn query_until_timeout(
        &self,
        query: &str,
        input: &Value,
        bundle: &Bundle,
    ) -> Result<Option<Value>, EngineError> {
        let (opa, until) = (&*self.opa.0, Instant::now() + QUERY_TIMEOUT);
        let unreached = |why: String| EngineError::Unreachable(format!("OPA at {why}"));
        let mut request = json!({
            "query": format!("decision = [decided | decided = {query}]; {MARKED}"),
        });
        if *input != Value::Undefined {
            request["input"] = serde_json::to_value(input).map_err(|error| unreached(error.to_string()))?;
        }
        let request = serde_json::to_vec(&request).map_err(|error| unreached(error.to_string()))?.into();
        let lacks = || {
            let address = opa.client.address();
            let why = self.opa.fault().map(|fault| format!(" ({fault})")).unwrap_or_default();
            unreached(format!("{address} is out of date{why}"))
        };
        let mut is_lacking = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let response = match opa.client.send_with_retries(Method::POST, "/v1/query", &request, left).await
            {
                Ok(response) => response,
                // OPA lacked the contents in earlier attempts, and this attempt had too little time left.
                Err(_) if is_lacking && Instant::now() >= until => return Err(lacks()),
                Err(error) => return Err(unreached(error.to_string())),
            };
            if !response.status.is_success() && !lacks_modules(&response.body) {
                let Some(fault) = failure(bundle, &response.body) else {
                    opa.missing.notify_one();
                    return Err(unreached(opa.client.status_error(&response).to_string()));
                };
                return Err(Failure { exceeded_time: false, exceeded_memory: false, fault }.into());
            }
            if response.status.is_success() {
                let found = decision(&response.body);
                let found = found.map_err(|error| {
                    opa.missing.notify_one();
                    unreached(opa.client.parse_error(&error).to_string())
                })?;
                if let Some((value, revision)) = found
                    && self.is_in_force(&revision)
                {
                    return Ok(value);
                }
            }
            opa.missing.notify_one();
            if until.saturating_duration_since(Instant::now()) <= RETRY_INTERVAL {
                return Err(lacks());
            }
            is_lacking = true;
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Whether OPA's modules, which `revision` identifies, may be used. An OPA of this process must have exactly the
    /// expected modules. A shared OPA may have other modules.
    fn is_in_force(&self, revision: &str) -> bool {
        !self.opa.0.is_own || (self.opa.is_ready() && revision == self.contents.revision())
    }
}
