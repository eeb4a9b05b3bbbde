//! An engine that others fill: it is asked about an object, and what policies it has is not known here.
//!
//! ```text
//! POST <url> {"input": object}  ──▶  {"result": {"annotations": {…}, "labels": {…}, "errors": […]}}
//! ```
//!
//! Where the address ends in `/annotations`, as the published design of federation has it, the result is that map itself, and `errors`
//! are asked at the address beside it.

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

use super::engine_error::EngineError;
use policy_sync_api::text::with_causes;
use policy_sync_hub::json_client::{Address, FileError, Files, JsonClient, Token};

/// How long a question may take in all: whoever asks is waited for four seconds.
const PATIENCE: Duration = Duration::from_millis(3_500);
/// The end of an address that answers annotations alone, and of the one beside it.
const ALONE: [&str; 2] = ["/annotations", "/errors"];

/// An engine that others fill. Clones are the same.
#[derive(Clone)]
pub struct External(Arc<Inner>);

struct Inner {
    options: Options,
    /// Where its address and its token are read from, again as that changes; `None` where they are given.
    file: Option<PathBuf>,
    authority: Option<PathBuf>,
    /// Where it is waited for: evaluations are asked on threads that may wait.
    runtime: Handle,
    current: Mutex<Current>,
}

struct Current {
    asked: Asked,
    /// What is in the file.
    read: Configuration,
    fault: Option<String>,
}

/// How it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Also while there is no carrier of a policy.
    pub always: bool,
    /// How often it is asked again about what stands.
    pub resync: Duration,
}

/// The configuration file of the published design: `{"EnforceSchedulingPolicy": {"url": …, "token": …}}`.
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

/// Why an engine cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// Its configuration cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] std::io::Error),
    /// It is none.
    #[error("{0}: {1}")]
    Configuration(PathBuf, String),
    /// A token or a certificate cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Who is asked.
#[derive(Clone, Debug)]
struct Asked {
    client: JsonClient,
    /// Where it answers annotations alone: who is asked for `errors`.
    errors: Option<JsonClient>,
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("External").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl External {
    /// The engine at `address`, asked with what is in `files`.
    ///
    /// # Errors
    ///
    /// Where these cannot be read.
    pub fn at(address: Address, files: Files, options: Options) -> Result<Self, ExternalError> {
        let asked = Asked::new(address, files)?;
        Ok(Self::new(asked, Configuration::default(), options, None, None))
    }

    /// The engine that the configuration file of the published design names, whose certificate `authority` vouches for.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is none.
    pub fn of_file(
        file: PathBuf,
        authority: Option<PathBuf>,
        options: Options,
    ) -> Result<Self, ExternalError> {
        let (read, asked) = configured(&file, authority.as_deref())?;
        Ok(Self::new(asked, read, options, Some(file), authority))
    }

    fn new(
        asked: Asked,
        read: Configuration,
        options: Options,
        file: Option<PathBuf>,
        authority: Option<PathBuf>,
    ) -> Self {
        let current = Mutex::new(Current { asked, read, fault: None });
        Self(Arc::new(Inner { options, file, authority, runtime: Handle::current(), current }))
    }

    /// How it is asked.
    #[must_use]
    pub fn options(&self) -> Options {
        self.0.options
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> String {
        self.0.current.lock().asked.client.address().to_string()
    }

    /// Why its configuration of now does not count, where it does not.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.0.current.lock().fault.clone()
    }

    /// Reads its configuration again; whether that says something else. One that cannot be read leaves what it said before.
    pub fn look(&self) -> bool {
        let Some(file) = &self.0.file else { return false };
        let read = configured(file, self.0.authority.as_deref());
        let mut current = self.0.current.lock();
        current.fault = read.as_ref().err().map(|error| with_causes(error));
        match read {
            Ok((read, asked)) if read != current.read => {
                current.read = read;
                current.asked = asked;
                true
            }
            _ => false,
        }
    }

    /// What it says of `input`, on a thread that may wait.
    pub(super) fn ask(&self, input: &Value) -> Result<Option<Value>, EngineError> {
        let asked = self.0.current.lock().asked.clone();
        let said = self.0.runtime.block_on(asked.ask(input, Instant::now() + PATIENCE));
        said.map(Some).map_err(EngineError::Unreached)
    }
}

impl Asked {
    fn new(address: Address, files: Files) -> Result<Self, FileError> {
        let beside = address.sibling(ALONE[0], ALONE[1]);
        let errors = beside.map(|beside| JsonClient::new(beside, files.clone())).transpose()?;
        Ok(Self { client: JsonClient::new(address, files)?, errors })
    }

    async fn ask(&self, input: &Value, until: Instant) -> Result<Value, String> {
        let question = serde_json::to_vec(&json!({"input": input})).map_err(|error| error.to_string())?;
        let question = Bytes::from(question);
        let address = self.client.address();
        let none = || format!("{address} answers without a result");
        let result = result(&self.client, &question, until).await?.ok_or_else(none)?;
        let Some(errors) = &self.errors else { return Ok(result.into()) };
        // Where no rule says anything of them, there are none.
        let errors = self::result(errors, &question, until).await?.unwrap_or_else(|| json!([]));
        Ok(json!({"annotations": result, "errors": errors}).into())
    }
}

/// What `client` answers to `question`, `None` where that has no `result`.
async fn result(client: &JsonClient, question: &Bytes, until: Instant) -> Result<Option<Json>, String> {
    #[derive(Deserialize)]
    struct Answered {
        #[serde(default)]
        result: Option<Json>,
    }
    let left = until.saturating_duration_since(Instant::now());
    let answer = client.ask(Method::POST, "", question, left).await.map_err(|error| error.to_string())?;
    if answer.status != StatusCode::OK {
        return Err(client.refused(&answer).to_string());
    }
    let answered: Answered =
        serde_json::from_slice(&answer.body).map_err(|error| client.unread(&error).to_string())?;
    Ok(answered.result)
}

fn configured(file: &Path, authority: Option<&Path>) -> Result<(Configuration, Asked), ExternalError> {
    let text = std::fs::read_to_string(file).map_err(|error| ExternalError::Read(file.to_owned(), error))?;
    let fault = |fault: String| ExternalError::Configuration(file.to_owned(), fault);
    let read: Configuration = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
    let Enforced { url, token } = &read.policy;
    let address = url.parse().map_err(|error| fault(format!("EnforceSchedulingPolicy.url: {error}")))?;
    let token = (!token.is_empty()).then(|| Token::Text(token.clone().into()));
    let files = Files { token, authority: authority.map(Path::to_owned), identity: None };
    Ok((read, Asked::new(address, files)?))
}

#[cfg(test)]
mod tests;
