//! The arguments of an engine that others fill.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::duration;
use policy_sync_hub::json_client::{Address, Files, Token};
use policy_sync_rego::external::{External, ExternalError, Options};

/// An engine that others fill, and which is asked where objects go.
#[derive(Debug, Args)]
pub(in crate::cli) struct ExternalArguments {
    /// Ask an engine that others fill where objects go, such as that of OPA below /v1/data. Of policies on the hub it
    /// counts only whether there are any.
    #[arg(
        long,
        value_name = "URL",
        group = "external",
        requires = "rego_namespace",
        conflicts_with_all = ["opa_url", "placement_query"]
    )]
    placement_url: Option<Address>,
    /// The same, in the configuration file of the admission controller of federation, which is read again as it changes.
    #[arg(
        long,
        value_name = "FILE",
        group = "external",
        requires = "rego_namespace",
        conflicts_with_all = ["opa_url", "placement_query", "placement_token_file"]
    )]
    admission_control_config_file: Option<PathBuf>,
    /// A token that it wants, in a file that is read again as it changes.
    #[arg(long, value_name = "FILE", requires = "placement_url")]
    placement_token_file: Option<PathBuf>,
    /// Whom to trust for its certificate, as PEM; otherwise whom this machine trusts.
    #[arg(long, value_name = "FILE", requires = "external")]
    placement_ca_file: Option<PathBuf>,
    /// Ask it also while there is no policy on the hub.
    #[arg(long, requires = "external")]
    placement_url_always: bool,
    /// How often to ask it again about objects that stand.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = resync, requires = "external")]
    placement_resync: Duration,
}

fn resync(text: &str) -> Result<Duration, String> {
    const SECOND: Duration = Duration::from_secs(1);
    duration::parse(text, SECOND, &(SECOND..=Duration::from_secs(24 * 60 * 60)))
}

impl ExternalArguments {
    /// The engine, where there is one.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read.
    pub(in crate::cli) fn engine(&self) -> Result<Option<External>, ExternalError> {
        let options = Options { always: self.placement_url_always, resync: self.placement_resync };
        if let Some(file) = &self.admission_control_config_file {
            return External::of_file(file.clone(), self.placement_ca_file.clone(), options).map(Some);
        }
        let Some(address) = &self.placement_url else { return Ok(None) };
        let files = Files {
            token: self.placement_token_file.clone().map(Token::File),
            authority: self.placement_ca_file.clone(),
            identity: None,
        };
        External::at(address.clone(), files, options).map(Some)
    }
}
