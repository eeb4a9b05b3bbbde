//! `policy-sync explain`: prints why a Gateway or a policy is on a cluster of the hub or is not, and which change would
//! lead to another result.
//!
//! The explanation comes from the controller's own planning code, run on the state of the hub. The hub is
//! only read.

use anyhow::bail;
use clap::{Args, ValueEnum};

use super::hub::HubArguments;
use super::output::{self, print, print_message};
use super::settings::SettingsArguments;
use super::text::printable;
use super::{Outcome, progress};
use policy_sync_api::names::{ClusterName, ObjectKey};
use policy_sync_api::text::named;
use policy_sync_hub::HubClient;
use policy_sync_report::{
    self as report, Check, ExplainQuery, KindMatch, ObjectExplanation, Sentence, ServedKind, discover,
    match_kind, qualified_names,
};
use policy_sync_sync::kinds::REQUIRED;
use policy_sync_topology::show::PolicyReport;

pub(super) const EXAMPLES: &str = "\
Examples:
  # Why a policy is on its clusters, or is missing
  policy-sync explain ratelimitpolicy limits -n shop

  # Why a Gateway is missing on one cluster, as JSON
  policy-sync explain gateway web -n shop --cluster eu-1 -o json";

/// Arguments of `policy-sync explain`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// `gateway`, or a policy kind such as `ratelimitpolicy`, `RateLimitPolicy` or `ratelimitpolicies.kuadrant.io`.
    kind: String,
    /// Name of the Gateway or policy.
    name: String,
    /// Namespace of the Gateway or policy. Default: the namespace of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Explain only this cluster.
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    #[command(flatten)]
    settings: SettingsArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Sentences; clusters with the same result are grouped.
    Text,
    /// All details, with the names of all clusters.
    Json,
    /// The content of the JSON output, as YAML.
    Yaml,
}

/// Runs the command. The exit code is 0 if the object is in force on the requested cluster, or on all
/// clusters it is planned for.
///
/// # Errors
///
/// If the object or the cluster does not exist, or the hub cannot be read.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let settings = arguments.settings.settings()?;
    let controller = arguments.settings.controller()?;
    let _waiting = progress::begin();
    let config = hub.config().await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let cluster = arguments.cluster.as_ref();
    super::names(&[("NAMESPACE", Some(&namespace)), ("NAME", Some(&arguments.name)), ("CLUSTER", cluster)])?;
    let hub = hub.client(config)?;
    hub.has(&REQUIRED).await?;
    let kind = kind_of(&hub, &arguments.kind).await?;
    let key = ObjectKey::new(&namespace, &arguments.name);
    let cluster = cluster.map(|name| ClusterName::from(name.as_str()));
    let query = ExplainQuery {
        controller: &controller,
        settings: &settings,
        kind: &kind,
        key,
        cluster: cluster.as_ref(),
    };
    let explanation = match report::explain(&hub, query).await {
        Err(error) if error.is_not_found() => {
            print_message(printable(&format!("policy-sync: {error}")));
            return Ok(Outcome::Negative);
        }
        explanation => explanation?,
    };
    print(&match arguments.output {
        Format::Text => text(&explanation),
        Format::Json => output::json(&explanation.json())?,
        Format::Yaml => output::yaml(&explanation.json())?,
    })?;
    super::outcome(explanation.check() != Check::Failed, &unknown(&explanation))
}

/// The unknown parts of the explanation: the state on clusters, and the effect on the hub's routes.
fn unknown(explanation: &ObjectExplanation) -> Vec<String> {
    let clusters: Vec<&str> = explanation.unknown().map(|cluster| &*cluster.0).collect();
    let on_clusters = (!clusters.is_empty())
        .then(|| format!("no controller reports whether it is enforced on {}", named(&clusters)));
    let on_hub = explanation.on_hub.iter().flat_map(|report| &report.unknown);
    let on_hub = on_hub.map(|unknown| format!("its effect on the hub's routes is unknown: {unknown}"));
    on_clusters.into_iter().chain(on_hub).collect()
}

/// The kind that `word` names.
async fn kind_of(hub: &HubClient, word: &str) -> anyhow::Result<ServedKind> {
    let gateways = ServedKind::gateways();
    if gateways.matches_name(word) {
        return Ok(gateways);
    }
    let discovered = discover(hub).await?;
    match match_kind(&discovered.kinds, word) {
        KindMatch::Kind(kind) => Ok(kind.clone()),
        KindMatch::Ambiguous(several) => bail!("{word:?} is ambiguous: write {}", qualified_names(&several)),
        KindMatch::Nothing => {
            let unread = discovered.unread().map(|unread| format!(": {unread}")).unwrap_or_default();
            bail!("the hub at {} has no kind {word:?}{unread}", hub.url())
        }
    }
}

/// Formats an explanation for a terminal.
fn text(explanation: &ObjectExplanation) -> String {
    let mut text = format!("{}\n\n", printable(&explanation.title()));
    text.extend(explanation.step_sentences().map(lines));
    text.extend(explanation.on_hub.as_ref().map(of_hub));
    for group in &explanation.groups {
        text.push_str(&format!("\n{}\n", printable(&group.title())));
        text.extend(group.sentences().map(lines));
    }
    text
}

/// The effect of a policy on the hub's own routes.
fn of_hub(report: &PolicyReport) -> String {
    let lines: Vec<String> =
        report.sentences().iter().map(|sentence| printable(&format!("- {sentence}."))).collect();
    format!("\nEffect on routes of the hub, which are not synced:\n{}\n", lines.join("\n"))
}

/// Formats a sentence, with the change that would lead to another result on a separate line.
fn lines(Sentence { text, change }: Sentence) -> String {
    let change = if change.is_empty() { change } else { format!("  To change: {}\n", printable(&change)) };
    format!("- {}\n{change}", printable(&text))
}

#[cfg(test)]
mod tests;
