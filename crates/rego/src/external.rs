//! An external engine: it evaluates placement policies that are unknown to this process.
//!
//! ```text
//! POST <url> {"input": object}  ──▶  {"result": {"annotations": {…}, "labels": {…}, "errors": […]}}
//! ```
//!
//! If the URL ends in `/annotations`, the result is the annotations themselves, and the errors come from the sibling
//! URL `/errors`. The published design of Kubernetes federation has these two URLs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use regorus::Value;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::runtime::Handle;

use super::engine::EngineError;
use policy_sync_api::text::with_causes;
use policy_sync_hub::json_client::{CredentialError, CredentialFiles, JsonClient, ServerAddress, Token};

/// The time limit of a query. Callers wait for four seconds.
const QUERY_TIMEOUT: Duration = Duration::from_millis(3_500);
/// The suffix of a URL whose result is the annotations, and of the sibling URL for errors.
const SIBLING_PATHS: [&str; 2] = ["/annotations", "/errors"];

/// An external engine. Clones share its state.
#[derive(Clone)]
pub struct External(Arc<Inner>);

struct Inner {
    options: Options,
    /// The configuration file, which is reloaded when it changes; `None` if URL and token are given directly.
    file: Option<PathBuf>,
    authority: Option<PathBuf>,
    /// The runtime that sends requests. Evaluations wait for the response on threads that may block.
    runtime: Handle,
    current: Mutex<Current>,
}

struct Current {
    clients: QueryClients,
    /// The configuration as last read.
    read: Configuration,
    fault: Option<String>,
}

/// Options for queries.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether to query the engine while the hub has no carrier of policies.
    pub always: bool,
    /// The interval at which existing objects are evaluated again.
    pub resync: Duration,
}

/// The configuration file of Kubernetes federation: `{"EnforceSchedulingPolicy": {"url": …, "token": …}}`.
#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(rename = "EnforceSchedulingPolicy")]
    policy: Enforced,
}

#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Enforced {
    url: String,
    #[serde(default)]
    token: String,
}

/// Why the engine cannot be queried.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// The configuration file cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] std::io::Error),
    /// The configuration file is invalid.
    #[error("{0}: {1}")]
    Configuration(PathBuf, String),
    /// A token or certificate cannot be used.
    #[error(transparent)]
    File(#[from] CredentialError),
}

/// The clients for queries.
#[derive(Clone, Debug)]
struct QueryClients {
    client: JsonClient,
    /// The client for the sibling URL `/errors`; `None` unless `client` has the URL `/annotations`.
    errors: Option<JsonClient>,
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl External {
    /// The engine at `address`, with the credentials in `files`.
    ///
    /// # Errors
    ///
    /// If the credentials cannot be loaded.
    pub fn at(
        address: ServerAddress,
        files: CredentialFiles,
        options: Options,
    ) -> Result<Self, ExternalError> {
        let clients = QueryClients::new(address, files)?;
        Ok(Self::new(clients, Configuration::default(), options, None, None))
    }

    /// The engine that a configuration file of Kubernetes federation names. `authority` is a file with the CA
    /// certificate of the engine.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid.
    pub fn from_file(
        file: PathBuf,
        authority: Option<PathBuf>,
        options: Options,
    ) -> Result<Self, ExternalError> {
        let (read, clients) = load_configuration(&file, authority.as_deref())?;
        Ok(Self::new(clients, read, options, Some(file), authority))
    }

    fn new(
        clients: QueryClients,
        read: Configuration,
        options: Options,
        file: Option<PathBuf>,
        authority: Option<PathBuf>,
    ) -> Self {
        let current = Mutex::new(Current { clients, read, fault: None });
        Self(Arc::new(Inner { options, file, authority, runtime: Handle::current(), current }))
    }

    /// The options for queries.
    #[must_use]
    pub fn options(&self) -> Options {
        self.0.options
    }

    /// The engine's URL.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.current.lock().clients.client.address().to_string()
    }

    /// The reason why the configuration file cannot be used in its current state; `None` if it can.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.0.current.lock().fault.clone()
    }

    /// Reloads the configuration file. Returns whether it has changed. If the new file is invalid, the previous
    /// configuration stays in use.
    pub fn reload(&self) -> bool {
        let Some(file) = &self.0.file else { return false };
        let read = load_configuration(file, self.0.authority.as_deref());
        let mut current = self.0.current.lock();
        current.fault = read.as_ref().err().map(|error| with_causes(error));
        match read {
            Ok((read, clients)) if read != current.read => {
                current.read = read;
                current.clients = clients;
                true
            }
            _ => false,
        }
    }

    /// Queries the engine with `input`. Blocks the thread.
    pub(super) fn query_value(&self, input: &Value) -> Result<Option<Value>, EngineError> {
        let clients = self.0.current.lock().clients.clone();
        let value = self.0.runtime.block_on(clients.query_value(input, Instant::now() + QUERY_TIMEOUT));
        value.map(Some).map_err(EngineError::Unreachable)
    }
}

impl QueryClients {
    fn new(address: ServerAddress, files: CredentialFiles) -> Result<Self, CredentialError> {
        let sibling = address.sibling(SIBLING_PATHS[0], SIBLING_PATHS[1]);
        let errors = sibling.map(|sibling| JsonClient::new(sibling, files.clone())).transpose()?;
        Ok(Self { client: JsonClient::new(address, files)?, errors })
    }

    async fn query_value(&self, input: &Value, until: Instant) -> Result<Value, String> {
        let request = serde_json::to_vec(&json!({"input": input})).map_err(|error| error.to_string())?;
        let request = Bytes::from(request);
        let address = self.client.address();
        let none = || format!("{address} returned no result");
        let result = result(&self.client, &request, until).await?.ok_or_else(none)?;
        let Some(errors) = &self.errors else { return Ok(result.into()) };
        // If the result of `/errors` is undefined, there are no errors.
        let errors = self::result(errors, &request, until).await?.unwrap_or_else(|| json!([]));
        Ok(json!({"annotations": result, "errors": errors}).into())
    }
}

/// The field `result` of the response to `request`; `None` if it is absent.
async fn result(client: &JsonClient, request: &Bytes, until: Instant) -> Result<Option<Json>, String> {
    #[derive(Deserialize)]
    struct QueryResponse {
        #[serde(default)]
        result: Option<Json>,
    }
    let left = until.saturating_duration_since(Instant::now());
    let response =
        client.send_with_retries(Method::POST, "", request, left).await.map_err(|error| error.to_string())?;
    if response.status != StatusCode::OK {
        return Err(client.status_error(&response).to_string());
    }
    let query_response: QueryResponse =
        serde_json::from_slice(&response.body).map_err(|error| client.parse_error(&error).to_string())?;
    Ok(query_response.result)
}

fn load_configuration(
    file: &Path,
    authority: Option<&Path>,
) -> Result<(Configuration, QueryClients), ExternalError> {
    let text = std::fs::read_to_string(file).map_err(|error| ExternalError::Read(file.to_owned(), error))?;
    let fault = |fault: String| ExternalError::Configuration(file.to_owned(), fault);
    let read: Configuration = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
    let Enforced { url, token } = &read.policy;
    let address = url.parse().map_err(|error| fault(format!("EnforceSchedulingPolicy.url: {error}")))?;
    let token = (!token.is_empty()).then(|| Token::Text(token.clone().into()));
    let files = CredentialFiles { token, authority: authority.map(Path::to_owned), identity: None };
    Ok((read, QueryClients::new(address, files)?))
}

#[cfg(test)]
mod tests;
