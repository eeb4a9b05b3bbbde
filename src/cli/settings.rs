//! The arguments that affect plans. All commands that compute plans share them.

use anyhow::bail;
use clap::Args;

use policy_sync_api::names::ControllerName;
use policy_sync_api::syntax::is_dns_label;
use policy_sync_sync::{RESERVED_NAMESPACES, Settings};

/// The default of `--controller-name`.
pub const CONTROLLER_NAME: &str = "kuadrant.io/policy-sync";

/// The heading of these options in `--help`.
const ADVANCED: &str = "Advanced options";

/// The argument that selects the controller by its name.
#[derive(Debug, Args)]
pub struct ControllerArguments {
    /// Handle the GatewayClasses with this `spec.controllerName`.
    #[arg(long, default_value = CONTROLLER_NAME, value_name = "NAME")]
    controller_name: String,
}

impl ControllerArguments {
    /// The name of the controller.
    ///
    /// # Errors
    ///
    /// If the name is empty.
    pub fn controller(&self) -> anyhow::Result<ControllerName> {
        if self.controller_name.is_empty() {
            bail!("--controller-name must not be empty");
        }
        Ok(ControllerName::new(&self.controller_name))
    }
}

/// The arguments that plans depend on.
#[derive(Debug, Args)]
pub struct SettingsArguments {
    #[command(flatten)]
    controller: ControllerArguments,
    /// Prefix of the names of hub namespaces on the spokes.
    #[arg(long, default_value = "kuadrant-", value_name = "PREFIX", help_heading = ADVANCED)]
    downstream_namespace_prefix: String,
    /// Namespaces of the spokes that never receive copies; `*` matches any text.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PATTERN",
        default_value = RESERVED_NAMESPACES,
        help_heading = ADVANCED
    )]
    reserved_namespaces: Vec<String>,
}

impl SettingsArguments {
    /// The name of the controller.
    ///
    /// # Errors
    ///
    /// If the name is empty.
    pub fn controller(&self) -> anyhow::Result<ControllerName> {
        self.controller.controller()
    }

    /// The settings that plans depend on.
    ///
    /// # Errors
    ///
    /// If the prefix cannot start the name of a namespace.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let prefix = &self.downstream_namespace_prefix;
        if prefix.is_empty() || !is_dns_label(&format!("{prefix}a")) {
            bail!(
                "--downstream-namespace-prefix {prefix:?} is not a valid prefix of namespace names: \
                 expected a-z, 0-9 and -, not empty"
            );
        }
        Ok(Settings {
            downstream_namespace_prefix: prefix.clone(),
            reserved_namespaces: self.reserved_namespaces.clone(),
        })
    }
}
