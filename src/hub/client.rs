//! A hub that people ask: patient for a while, and with one line for what went wrong.

use std::error::Error;
use std::time::Duration;

use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Config};
use serde::de::DeserializeOwned;

use super::pages::{Page, Pages};
use super::source::Source;
use crate::api::names::{ControllerName, GroupVersionResource, ObjectKey};
use crate::api::object::HubObject;

/// How long to wait for a connection, and for each answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);
/// How many objects a page has.
const PAGE: u32 = 500;

/// Why a hub was not read, in one line that says what was tried.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// There are no credentials.
    #[error("cannot make a client of {url}: {cause}")]
    Client {
        /// The hub.
        url: String,
        /// The innermost cause.
        cause: String,
    },
    /// It was asked, and said no.
    #[error("cannot {what} on the hub at {url}: {cause}")]
    Refused {
        /// As in `list GatewayClasses`.
        what: String,
        /// The hub.
        url: String,
        /// Its own words, and the code.
        cause: String,
        /// The HTTP status.
        code: u16,
    },
    /// There was no answer.
    #[error("cannot reach the hub at {url}: {cause}")]
    Unreachable {
        /// The hub.
        url: String,
        /// The innermost cause.
        cause: String,
    },
    /// It serves no such kind.
    #[error("the hub at {url} has no {what}")]
    NotServed {
        /// The hub.
        url: String,
        /// What it lacks.
        what: String,
    },
}

impl HubError {
    /// Whether a right is missing.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }

    /// The same, of an attempt at `what` instead.
    #[must_use]
    pub fn on(self, what: String) -> Self {
        match self {
            Self::Refused { url, cause, code, .. } => Self::Refused { what, url, cause, code },
            other => other,
        }
    }

    /// Whether the hub answered at all.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::NotServed { .. })
    }
}

/// An API group without which a cluster is no hub.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// The group.
    pub group: &'static str,
    /// Kinds of it, for words.
    pub kinds: &'static str,
    /// Who brings it.
    pub project: &'static str,
}

/// A hub to ask.
#[derive(Clone)]
pub struct HubClient {
    client: Client,
    url: String,
}

impl std::fmt::Debug for HubClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HubClient").field("url", &self.url).finish_non_exhaustive()
    }
}

impl HubClient {
    /// The hub that `config` leads to. Nothing is asked of it yet.
    ///
    /// # Errors
    ///
    /// Where its credentials cannot be read or had.
    pub fn new(mut config: Config) -> Result<Self, HubError> {
        config.connect_timeout = Some(ANSWERS_WITHIN);
        config.read_timeout = Some(ANSWERS_WITHIN);
        let url = url(&config);
        Ok(Self { client: client(config)?, url })
    }

    /// What sends the requests.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finds out whether it has all that is `required`. Who may not ask for that will see what else may not be read.
    ///
    /// # Errors
    ///
    /// What it lacks, or why it cannot be asked.
    pub async fn has(&self, required: &[Requirement]) -> Result<(), HubError> {
        let groups = match self
            .client
            .list_api_groups()
            .await
            .map_err(|error| self.failure("ask for the APIs", &error))
        {
            Ok(list) => list.groups,
            Err(error) if error.is_forbidden() => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_missing = |required: &&Requirement| !groups.iter().any(|served| served.name == required.group);
        match required.iter().find(is_missing) {
            None => Ok(()),
            Some(Requirement { kinds, project, .. }) => {
                Err(self.lacks(format!("{kinds}: {project} is not installed")))
            }
        }
    }

    /// All objects of `source`, read as `gvr` for `controller`; `what` is for the words, as in `list Gateways`.
    ///
    /// # Errors
    ///
    /// Where they cannot be listed.
    pub async fn list(
        &self,
        source: &Source,
        gvr: &GroupVersionResource,
        controller: &ControllerName,
        what: &str,
    ) -> Result<Vec<HubObject>, HubError> {
        let mut pages = Pages::of(source, gvr, controller, PAGE);
        let mut objects = Vec::new();
        loop {
            let request = pages.request().map_err(kube::Error::BuildRequest);
            let page = async { self.client.request::<Page>(request?).await };
            let page = page.await.map_err(|error| match error {
                kube::Error::Api(status) if status.code == 404 => self.lacks(gvr.kind.to_string()),
                error => self.failure(what, &error),
            })?;
            objects.extend(page.items);
            if !pages.turn(page.metadata.continue_) {
                return Ok(objects);
            }
        }
    }

    /// One object, `None` where it does not exist; `what` is for the words, as in `get ConfigMap shop/params`.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub async fn get<T: DeserializeOwned>(
        &self,
        gvr: &GroupVersionResource,
        key: &ObjectKey,
        what: &str,
    ) -> Result<Option<T>, HubError> {
        let request = Request::new(gvr.path(&key.namespace)).get(&key.name, &GetParams::default());
        let object = async { self.client.request(request.map_err(kube::Error::BuildRequest)?).await };
        match object.await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.failure(what, &error)),
        }
    }

    /// That it does not have `what`.
    #[must_use]
    pub fn lacks(&self, what: impl Into<String>) -> HubError {
        HubError::NotServed { url: self.url.clone(), what: what.into() }
    }

    /// Why it was not to be asked to `what`, as in `list GatewayClasses`.
    #[must_use]
    pub fn failure(&self, what: &str, error: &kube::Error) -> HubError {
        let url = self.url.clone();
        match error {
            kube::Error::Api(status) => {
                let words = if status.message.is_empty() { &status.reason } else { &status.message };
                let (what, cause) = (what.to_owned(), format!("{words} ({})", status.code));
                HubError::Refused { what, url, cause, code: status.code }
            }
            error => HubError::Unreachable { url, cause: innermost(error).to_string() },
        }
    }
}

/// How long the hub may be silent before a connection is given up: longer than a watch, which has a bookmark every
/// minute.
pub const READ_TIMEOUT: Duration = Duration::from_secs(195);

/// Has a client give up connections that have died without a word. Nothing else would end a request on one of them, and
/// while a list does not end, its kind is not followed.
pub fn give_up_on_silence(config: &mut Config) {
    config.read_timeout = Some(READ_TIMEOUT);
    // A connection that lay idle before is not to blame for that.
    config.reset_reader_on_write = true;
}

/// A client that watches the hub that `config` leads to, for people: it waits for a connection as long as [`HubClient`].
///
/// # Errors
///
/// Where its credentials cannot be read or had.
pub fn watching(mut config: Config) -> Result<Client, HubError> {
    config.connect_timeout = Some(ANSWERS_WITHIN);
    give_up_on_silence(&mut config);
    client(config)
}

/// A client for the hub that `config` leads to. Nothing is asked of it yet.
///
/// # Errors
///
/// Where its credentials cannot be read or had.
pub fn client(config: Config) -> Result<Client, HubError> {
    let url = url(&config);
    // The library names its causes itself, some in several lines.
    let cause = |error: kube::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    Client::try_from(config).map_err(|error| HubError::Client { url, cause: cause(error) })
}

/// Where the hub is, for words.
fn url(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

/// The innermost of an error's causes: what really happened.
#[must_use]
pub fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

#[cfg(test)]
mod tests;
