//! Which packages are asked: the same arguments for every command that reads policies, so that all read them alike.

use anyhow::Context;
use clap::Args;

use policy_sync_api::syntax::is_dns_subdomain;
use policy_sync_rego::asked::Packages;

/// Which packages are asked.
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
    let package = Packages::named(query).map(str::to_owned);
    package.ok_or_else(|| "expected data and a package, such as data.kubernetes.admission".to_owned())
}

impl QueryArguments {
    /// The packages.
    ///
    /// # Errors
    ///
    /// Where one is asked for two things.
    pub(super) fn packages(&self) -> anyhow::Result<Packages> {
        Packages::new(&self.placement_query, &self.admit_query).context(
            "--placement-query and --admit-query need packages of their own, neither of them authorization",
        )
    }
}
