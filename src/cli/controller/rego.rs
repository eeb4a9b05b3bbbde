//! The arguments of Rego policies.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use clap::Args;

use super::external::ExternalArguments;
use super::opa::OpaArguments;
use crate::cli::queries::{QueryArguments, plural};
use policy_sync_api::syntax::is_dns_label;
use policy_sync_controller::rego_loading::{DEFAULT_ALIAS, Settings};
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_rego::engine::Evaluator;
use policy_sync_rego::opa::OpaMetrics;
use policy_sync_rego::queries::QueriedPackages;

/// Keys of `data` that cannot be the name of a namespace of Rego policies.
const RESERVED_KEYS: [&str; 7] =
    ["admission", "authorization", "io", "k8s", "kubernetes", "policysync", "system"];

/// The arguments of Rego policies. Without a namespace of Rego policies, they are disabled.
#[derive(Debug, Args)]
pub(in crate::cli) struct RegoArguments {
    /// Load Rego policies from the ConfigMaps of this namespace, and from RegoPolicies. Repeatable.
    #[arg(long, value_parser = namespace, value_name = "NAMESPACE")]
    rego_namespace: Vec<String>,
    /// Kinds whose objects are always in data.kubernetes, even if no Rego policy names the kind, such as
    /// deployments.apps.
    #[arg(long, value_delimiter = ',', value_parser = plural, value_name = "RESOURCE")]
    replicate: Vec<String>,
    /// Another name for a kind in data.kubernetes. Repeatable.
    #[arg(
        long,
        value_parser = alias,
        value_name = "NAME=RESOURCE",
        default_value = DEFAULT_ALIAS,
        requires = "rego_namespace"
    )]
    data_alias: Vec<(String, String)>,
    /// Maximum number of namespaced objects in data.kubernetes, shared fairly by their namespaces.
    #[arg(long, default_value_t = 100_000, value_name = "NUMBER", requires = "rego_namespace")]
    replicate_limit: usize,
    /// Maximum memory of the objects in data.kubernetes, shared fairly by their namespaces.
    #[arg(
        long,
        value_parser = bytes,
        default_value = "128Mi",
        value_name = "SIZE",
        requires = "rego_namespace"
    )]
    replicate_bytes: usize,
    #[command(flatten)]
    queries: QueryArguments,
    #[command(flatten)]
    opa: OpaArguments,
    #[command(flatten)]
    external: ExternalArguments,
}

/// Parses a size in bytes: a number with an optional suffix `Ki`, `Mi` or `Gi`.
fn bytes(text: &str) -> Result<usize, String> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let number = number.parse::<u32>().ok().filter(|number| *number > 0);
    let bytes = number.and_then(|number| usize::try_from(u64::from(number) << shift).ok());
    bytes.ok_or_else(|| "expected a size such as 128Mi".to_owned())
}

fn namespace(text: &str) -> Result<String, String> {
    if RESERVED_KEYS.contains(&text) {
        return Err("data has other contents at this name: choose another namespace".to_owned());
    }
    if is_dns_label(text) { Ok(text.to_owned()) } else { Err("expected a namespace name".to_owned()) }
}

fn alias(text: &str) -> Result<(String, String), String> {
    let (name, resource) = text.split_once('=').ok_or("expected NAME=RESOURCE")?;
    Ok((plural(name)?, plural(resource)?))
}

impl RegoArguments {
    /// The packages to query.
    ///
    /// # Errors
    ///
    /// If one package has two purposes.
    pub(in crate::cli) fn packages(&self) -> anyhow::Result<QueriedPackages> {
        self.queries.packages()
    }

    /// The kinds of `--replicate`.
    pub(in crate::cli) fn replicate(&self) -> &[String] {
        &self.replicate
    }

    /// The settings of Rego policies; `None` if they are disabled. `metrics` receives the metrics of uploads to OPA.
    /// Without `metrics`, nothing is uploaded.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub(in crate::cli) fn settings(&self, metrics: Option<&Metrics>) -> anyhow::Result<Option<Settings>> {
        let namespaces: BTreeSet<String> = self.rego_namespace.iter().cloned().collect();
        // The default alias also applies if the user sets others.
        let usual = alias(DEFAULT_ALIAS).ok();
        let aliases: BTreeMap<String, String> =
            usual.into_iter().chain(self.data_alias.iter().cloned()).collect();
        let packages = self.packages()?;
        if namespaces.is_empty() {
            ensure!(self.replicate.is_empty(), "--replicate requires --rego-namespace");
            ensure!(
                packages == QueriedPackages::default(),
                "--placement-query and --admit-query require --rego-namespace"
            );
            return Ok(None);
        }
        let metrics = metrics.filter(|_| self.opa.is_configured()).map(OpaMetrics::new);
        let metrics = metrics.transpose().context("cannot set up metrics")?;
        Ok(Some(Settings {
            namespaces,
            replicate: self.replicate.iter().cloned().collect(),
            aliases,
            packages,
            evaluator: match self.external.engine()? {
                Some(external) => Evaluator::External(external),
                None => self.opa.evaluator(metrics)?,
            },
            limit: self.replicate_limit,
            bytes: self.replicate_bytes,
        }))
    }
}
