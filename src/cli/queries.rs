//! The arguments that name the Rego packages to query. All commands that load Rego policies share them.

use anyhow::Context;
use clap::Args;

use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_rego::queries::QueriedPackages;

/// The packages to query.
#[derive(Clone, Debug, Args)]
pub(in crate::cli) struct QueryArguments {
    /// Package with placement policies.
    #[arg(
        long,
        value_parser = package,
        value_name = "QUERY",
        default_value = "data.io.k8s.federation.admission"
    )]
    placement_query: String,
    /// Package with admission policies, whose deny rules reject writes.
    #[arg(long, value_parser = package, value_name = "QUERY", default_value = "data.admission")]
    admit_query: String,
}

/// Parses a resource name, such as `deployments.apps`.
pub(in crate::cli) fn plural(text: &str) -> Result<String, String> {
    if is_dns_subdomain(text) {
        Ok(text.to_owned())
    } else {
        Err("expected a resource, such as pods or deployments.apps".to_owned())
    }
}

fn package(query: &str) -> Result<String, String> {
    let package = QueriedPackages::parse_query(query).map(str::to_owned);
    package.ok_or_else(|| "expected data and a package, such as data.kubernetes.admission".to_owned())
}

impl QueryArguments {
    /// The configured packages.
    ///
    /// # Errors
    ///
    /// If one package has two purposes.
    pub(super) fn packages(&self) -> anyhow::Result<QueriedPackages> {
        QueriedPackages::new(&self.placement_query, &self.admit_query).context(
            "--placement-query and --admit-query need packages of their own, neither of them authorization",
        )
    }
}
