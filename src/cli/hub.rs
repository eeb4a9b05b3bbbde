//! How every command finds its hub: Kubernetes' habits.

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Which hub to talk to.
#[derive(Debug, Args)]
pub struct HubArguments {
    /// The kubeconfig file; otherwise $KUBECONFIG, ~/.kube/config, or the pod's service account.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; otherwise its current one.
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
}

impl HubArguments {
    /// Whether anything says which hub to talk to.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let file = || set("HOME").is_some_and(|home| PathBuf::from(home).join(".kube/config").exists());
        let named = self.kubeconfig.is_some() || self.context.is_some();
        named || set("KUBECONFIG").is_some() || set("KUBERNETES_SERVICE_HOST").is_some() || file()
    }

    /// The configuration of a client for the hub.
    ///
    /// # Errors
    ///
    /// Where no kubeconfig can be read, or it has no such context.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match &self.kubeconfig {
            Some(file) => {
                let place = file.display();
                let kubeconfig = Kubeconfig::read_from(file).map_err(|error| {
                    anyhow!("cannot read kubeconfig {place}: {}", said(&innermost(&error)))
                })?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(|error| anyhow!("kubeconfig {place}: {}", said(&error)))
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options)
                .await
                .map_err(|error| anyhow!("cannot read the kubeconfig: {}", said(&error))),
            None => Config::infer().await.map_err(|error| {
                // Its text also says that this is no pod; its source is what is wrong with the kubeconfig.
                let reason = error.source().map_or_else(|| said(&error), |source| said(&source));
                anyhow!("no hub is configured: set --kubeconfig or KUBECONFIG ({reason})")
            }),
        }
    }
}

/// A client for the hub that `config` leads to. Nothing is asked of it yet.
///
/// # Errors
///
/// Where its credentials cannot be read or had.
pub fn client(config: Config) -> anyhow::Result<Client> {
    let url = url(&config);
    Client::try_from(config).map_err(|error| anyhow!("cannot make a client of {url}: {}", said(&error)))
}

/// Where the hub is, for words.
#[must_use]
pub fn url(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

/// An error of the library in one line: they name their causes themselves, some in several lines.
fn said(error: &dyn Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
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
