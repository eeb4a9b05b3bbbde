//! The arguments of an external engine that decides placement.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::duration;
use policy_sync_hub::json_client::{CredentialFiles, ServerAddress, Token};
use policy_sync_rego::external::{External, ExternalError, Options};

/// The heading of these options in `--help`.
const HEADING: &str = "External engine options";

/// The arguments of an external engine for placement. Other tools load the data of the engine.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExternalArguments {
    /// URL of an external engine that decides placement, such as OPA with a path below /v1/data. It replaces the
    /// placement policies on the hub, but is queried only while such policies exist.
    #[arg(
        long,
        value_name = "URL",
        group = "external",
        requires = "rego_namespace",
        conflicts_with_all = ["opa_url", "placement_query"],
        help_heading = HEADING
    )]
    placement_url: Option<ServerAddress>,
    /// Read the URL of the external engine from a configuration file of Kubernetes federation's admission controller.
    /// Changes of the file take effect.
    #[arg(
        long,
        value_name = "FILE",
        group = "external",
        requires = "rego_namespace",
        conflicts_with_all = ["opa_url", "placement_query", "placement_token_file"],
        help_heading = HEADING
    )]
    admission_control_config_file: Option<PathBuf>,
    /// File with the bearer token for the external engine. Changes of the file take effect.
    #[arg(long, value_name = "FILE", requires = "placement_url", help_heading = HEADING)]
    placement_token_file: Option<PathBuf>,
    /// File with the CA of the external engine's certificate, as PEM. Default: the CAs of this machine.
    #[arg(long, value_name = "FILE", requires = "external", help_heading = HEADING)]
    placement_ca_file: Option<PathBuf>,
    /// Query the external engine even if the hub has no placement policy.
    #[arg(long, requires = "external", help_heading = HEADING)]
    placement_url_always: bool,
    /// Interval at which the external engine is queried again for existing objects.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10m",
        value_parser = resync,
        requires = "external",
        help_heading = HEADING
    )]
    placement_resync: Duration,
}

fn resync(text: &str) -> Result<Duration, String> {
    const SECOND: Duration = Duration::from_secs(1);
    duration::parse(text, SECOND, &(SECOND..=Duration::from_secs(24 * 60 * 60)))
}

impl ExternalArguments {
    /// The configured engine, if there is one.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub(in crate::cli) fn engine(&self) -> Result<Option<External>, ExternalError> {
        let options = Options { always: self.placement_url_always, resync: self.placement_resync };
        if let Some(file) = &self.admission_control_config_file {
            return External::from_file(file.clone(), self.placement_ca_file.clone(), options).map(Some);
        }
        let Some(address) = &self.placement_url else { return Ok(None) };
        let files = CredentialFiles {
            token: self.placement_token_file.clone().map(Token::File),
            authority: self.placement_ca_file.clone(),
            identity: None,
        };
        External::at(address.clone(), files, options).map(Some)
    }
}
