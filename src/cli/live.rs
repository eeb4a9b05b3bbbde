//! A hub that a command asks: patient for a while, and with one line for what went wrong.

use std::time::Duration;

use anyhow::{anyhow, bail};
use kube::{Client, Config};

use super::hub::{client, innermost, url};
use crate::api::{gateway, work};

/// How long to wait for a connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// A hub to ask.
pub(super) struct Live {
    pub(super) client: Client,
    pub(super) url: String,
}

impl Live {
    /// The hub that `config` leads to. Nothing is asked of it yet.
    pub(super) fn new(mut config: Config) -> anyhow::Result<Self> {
        config.read_timeout = Some(PATIENCE);
        let url = url(&config);
        Ok(Self { client: Self::client_of(config)?, url })
    }

    /// A client that waits for an answer as long as `config` says.
    pub(super) fn client_of(mut config: Config) -> anyhow::Result<Client> {
        config.connect_timeout = Some(PATIENCE);
        client(config)
    }

    /// Whether this is a hub at all: it has Gateway API and Open Cluster Management.
    ///
    /// # Errors
    ///
    /// What it lacks, or why it cannot be asked.
    pub(super) async fn is_hub(&self) -> anyhow::Result<()> {
        let groups = match self.client.list_api_groups().await {
            Ok(list) => list.groups,
            // Who may not ask will see what else may not be read.
            Err(error) if is_forbidden(&error) => return Ok(()),
            Err(error) => return Err(self.failure("ask for the APIs", &error)),
        };
        for (group, kinds, project) in [
            (gateway::GROUP, "GatewayClasses", "Gateway API"),
            (work::GROUP, "ManifestWorks", "Open Cluster Management"),
        ] {
            if !groups.iter().any(|served| served.name == group) {
                bail!("the hub at {} has no {kinds}: {project} is not installed", self.url);
            }
        }
        Ok(())
    }

    /// Why it could not be asked to `what`, as in `list GatewayClasses`.
    pub(super) fn failure(&self, what: &str, error: &kube::Error) -> anyhow::Error {
        match error {
            kube::Error::Api(_) => anyhow!("cannot {what} on the hub at {}: {}", self.url, cause(error)),
            _ => anyhow!("cannot reach the hub at {}: {}", self.url, cause(error)),
        }
    }
}

/// Whether a right is missing.
pub(super) fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// What is behind an error: the server's own words, or the innermost of its causes.
pub(super) fn cause(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let words = if status.message.is_empty() { &status.reason } else { &status.message };
        return format!("{words} ({})", status.code);
    }
    innermost(error).to_string()
}
