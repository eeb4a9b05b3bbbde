//! How every command finds its hub: Kubernetes' habits.

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::hub::innermost;

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
                    anyhow!("cannot read kubeconfig {place}: {}", one_line(&innermost(&error)))
                })?;
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(|error| anyhow!("kubeconfig {place}: {}", one_line(&error)))
            }
            None if self.context.is_some() => Config::from_kubeconfig(&options)
                .await
                .map_err(|error| anyhow!("cannot read the kubeconfig: {}", one_line(&error))),
            None => Config::infer().await.map_err(|error| {
                // Its text also says that this is no pod; its source is what is wrong with the kubeconfig.
                let reason = error.source().map_or_else(|| one_line(&error), |source| one_line(&source));
                anyhow!("no hub is configured: set --kubeconfig or KUBECONFIG ({reason})")
            }),
        }
    }
}

/// An error of the library in one line: they name their causes themselves, some in several lines.
fn one_line(error: &dyn Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
