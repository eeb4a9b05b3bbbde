//! The arguments on which plans depend: the same for every command that plans, so that all plan the same.

use anyhow::bail;
use clap::Args;

use policy_sync_api::names::ControllerName;
use policy_sync_api::syntax::is_dns_label;
use policy_sync_sync::{RESERVED_NAMESPACES, Settings};

/// The controller, where no other is named.
pub const CONTROLLER_NAME: &str = "kuadrant.io/policy-sync";

/// Whose GatewayClasses are ours.
#[derive(Debug, Args)]
pub struct ControllerArguments {
    /// Handle the GatewayClasses with this `spec.controllerName`.
    #[arg(long, default_value = CONTROLLER_NAME, value_name = "NAME")]
    controller_name: String,
}

impl ControllerArguments {
    /// The controller.
    ///
    /// # Errors
    ///
    /// Where its name is empty.
    pub fn controller(&self) -> anyhow::Result<ControllerName> {
        if self.controller_name.is_empty() {
            bail!("--controller-name must not be empty");
        }
        Ok(ControllerName::new(&self.controller_name))
    }
}

/// How plans are made.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    #[command(flatten)]
    controller: ControllerArguments,
    /// Prefix of the names of hub namespaces on the spokes.
    #[arg(long, default_value = "kuadrant-", value_name = "PREFIX")]
    downstream_namespace_prefix: String,
    /// Namespaces of the spokes that never receive copies; `*` matches any text.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PATTERN",
        default_value = RESERVED_NAMESPACES
    )]
    reserved_namespaces: Vec<String>,
}

impl SettingsArguments {
    /// The controller.
    ///
    /// # Errors
    ///
    /// Where its name is empty.
    pub fn controller(&self) -> anyhow::Result<ControllerName> {
        self.controller.controller()
    }

    /// The settings of plans.
    ///
    /// # Errors
    ///
    /// Where the prefix starts no name of a namespace.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let prefix = &self.downstream_namespace_prefix;
        if prefix.is_empty() || !is_dns_label(&format!("{prefix}a")) {
            bail!(
                "--downstream-namespace-prefix {prefix:?} must start a namespace's name: a-z, 0-9 and -, not empty"
            );
        }
        Ok(Settings {
            downstream_namespace_prefix: prefix.clone(),
            reserved_namespaces: self.reserved_namespaces.clone(),
        })
    }
}
