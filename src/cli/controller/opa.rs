//! The arguments that select an OPA to evaluate Rego policies.

use std::path::PathBuf;

use clap::Args;

use policy_sync_hub::json_client::{CredentialFiles, JsonClient, ServerAddress, Token};
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::opa::{Opa, OpaMetrics};

/// The heading of these options in `--help`.
const HEADING: &str = "OPA options";

/// The arguments of an OPA that evaluates Rego policies.
#[derive(Debug, Args)]
pub(in crate::cli) struct OpaArguments {
    /// Evaluate Rego policies in this OPA instead of in the controller. Each replica uploads them and their data to an
    /// OPA on its own machine; only the leader uploads them to any other OPA.
    #[arg(long, value_name = "URL", requires = "rego_namespace", help_heading = HEADING)]
    opa_url: Option<ServerAddress>,
    /// File with the bearer token for OPA. Changes of the file take effect.
    #[arg(long, value_name = "FILE", requires = "opa_url", help_heading = HEADING)]
    opa_token_file: Option<PathBuf>,
    /// File with the CA of OPA's certificate, as PEM. Default: the CAs of this machine.
    #[arg(long, value_name = "FILE", requires = "opa_url", help_heading = HEADING)]
    opa_ca_file: Option<PathBuf>,
    /// File with the client certificate for OPA, as PEM.
    #[arg(long, value_name = "FILE", requires = "opa_url", requires = "opa_key_file", help_heading = HEADING)]
    opa_cert_file: Option<PathBuf>,
    /// File with the key of the client certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "opa_url", requires = "opa_cert_file", help_heading = HEADING)]
    opa_key_file: Option<PathBuf>,
}

impl OpaArguments {
    /// The evaluator of Rego policies. With `metrics`, this process also uploads the policies to an OPA on a loopback
    /// address; without `metrics`, this process only queries OPA.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub(in crate::cli) fn evaluator(&self, metrics: Option<OpaMetrics>) -> anyhow::Result<Evaluator> {
        let Some(address) = &self.opa_url else { return Ok(Evaluator::Embedded) };
        let files = CredentialFiles {
            token: self.opa_token_file.clone().map(Token::File),
            authority: self.opa_ca_file.clone(),
            identity: self.opa_cert_file.clone().zip(self.opa_key_file.clone()),
        };
        let is_own = metrics.is_some() && address.is_loopback();
        Ok(Evaluator::Opa(Opa::new(JsonClient::new(address.clone(), files)?, is_own, metrics)))
    }

    /// Whether an OPA is configured.
    pub(in crate::cli) fn is_configured(&self) -> bool {
        self.opa_url.is_some()
    }
}
