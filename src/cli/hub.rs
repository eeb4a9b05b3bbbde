//! The arguments that select the hub, with the conventions of `kubectl`.

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::duration;
use policy_sync_hub::{HubClient, HubError, RequestTimeout, root_cause};

/// The heading of these options in `--help`.
pub const HEADING: &str = "Hub options";

/// The maximum of `--request-timeout`.
const TIMEOUT_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The arguments that select the hub, the user and the timeout of requests.
#[derive(Clone, Debug, Args)]
pub struct HubArguments {
    /// Kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, or the pod's service account.
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING)]
    context: Option<String>,
    /// User to impersonate, also a service account: `system:serviceaccount:NAMESPACE:NAME`.
    #[arg(
        long = "as",
        global = true,
        value_name = "USER",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = HEADING
    )]
    user: Option<String>,
    /// Group to impersonate. Repeatable.
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = HEADING
    )]
    groups: Vec<String>,
    /// Timeout of each request, such as 1s or 2m; a number alone is in seconds, 0 means no timeout. For a watch, it
    /// limits only the time until the watch starts. Default: the controller has its own timeouts, and other commands
    /// wait 15s for a response to start.
    #[arg(long, global = true, value_name = "DURATION", value_parser = request_timeout, help_heading = HEADING)]
    request_timeout: Option<RequestTimeout>,
}

fn request_timeout(text: &str) -> Result<RequestTimeout, String> {
    duration::parse(text, Duration::from_secs(1), &(Duration::ZERO..=TIMEOUT_LIMIT)).map(RequestTimeout::new)
}

impl HubArguments {
    /// Whether a kubeconfig or a service account is configured.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let file = || set("HOME").is_some_and(|home| PathBuf::from(home).join(".kube/config").exists());
        let named = self.kubeconfig.is_some() || self.context.is_some();
        named || set("KUBECONFIG").is_some() || set("KUBERNETES_SERVICE_HOST").is_some() || file()
    }

    /// The timeout of a request.
    #[must_use]
    pub fn request_timeout(&self) -> RequestTimeout {
        self.request_timeout.unwrap_or_default()
    }

    /// A client for the hub of `config`. No request is sent yet.
    ///
    /// # Errors
    ///
    /// If the credentials cannot be read or obtained.
    pub fn client(&self, config: Config) -> Result<HubClient, HubError> {
        HubClient::new(config, self.request_timeout())
    }

    /// The names of the contexts in the kubeconfig; empty if it cannot be read.
    pub(super) fn contexts(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig.as_ref().map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        kubeconfig
            .into_iter()
            .flat_map(|kubeconfig| kubeconfig.contexts)
            .map(|context| context.name)
            .collect()
    }

    /// The client configuration for the hub.
    ///
    /// # Errors
    ///
    /// If no kubeconfig can be read, the context does not exist, or `--as-group` is set without `--as`.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let mut config = self.configured().await?;
        let auth = &mut config.auth_info;
        if self.user.is_some() {
            auth.impersonate.clone_from(&self.user);
        }
        if !self.groups.is_empty() {
            if auth.impersonate.is_none() {
                bail!("--as-group requires --as");
            }
            auth.impersonate_groups = Some(self.groups.clone());
        }
        Ok(config)
    }

    async fn configured(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match &self.kubeconfig {
            Some(file) => {
                let place = file.display();
                let kubeconfig = Kubeconfig::read_from(file).map_err(|error| {
                    anyhow!("cannot read kubeconfig {place}: {}", one_line(&root_cause(&error)))
                })?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(|error| anyhow!("kubeconfig {place}: {}", one_line(&error)))
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options)
                .await
                .map_err(|error| anyhow!("cannot read the kubeconfig: {}", one_line(&error))),
            None => Config::infer().await.map_err(|error| {
                // The text of the error also mentions the missing service account. The source of the error contains
                // only the fault of the kubeconfig.
                let reason = error.source().map_or_else(|| one_line(&error), |source| one_line(&source));
                anyhow!("no hub is configured: set --kubeconfig or KUBECONFIG ({reason})")
            }),
        }
    }
}

/// The first line of an error. The library's errors include their causes, sometimes in several lines.
fn one_line(error: &dyn Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
