//! How every command finds its hub: Kubernetes' habits.

use std::path::PathBuf;

use anyhow::Context;
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
    /// The configuration of a client for the hub.
    ///
    /// # Errors
    ///
    /// Where no kubeconfig can be read, or it has no such context.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        match &self.kubeconfig {
            Some(file) => {
                let kubeconfig = Kubeconfig::read_from(file)
                    .with_context(|| format!("cannot read kubeconfig {}", file.display()))?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| format!("kubeconfig {}", file.display()))
            }
            None if self.context.is_some() => {
                Config::from_kubeconfig(&options).await.context("cannot read the kubeconfig")
            }
            None => Config::infer().await.context("no hub is configured: set --kubeconfig or KUBECONFIG"),
        }
    }

    /// A client for the hub.
    ///
    /// # Errors
    ///
    /// As [`HubArguments::config`].
    pub async fn client(&self) -> anyhow::Result<Client> {
        Client::try_from(self.config().await?).context("cannot make a client")
    }
}
