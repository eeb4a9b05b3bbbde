//! `policy-sync status`: how far each policy of the hub is synced, as its annotations tell.
//!
//! Only the hub is read. What is shown is what the controller last wrote: where that cannot be read, the cell shows
//! `?` and standard error says why.

mod hub;
mod kinds;
mod report;
mod table;

use anyhow::bail;
use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::Answer;
use super::hub::HubArguments;
use super::output::{self, print, say};
use super::settings::ControllerArguments;
use super::text::printable;
use hub::{Hub, Kinds, Selection};
use kinds::PolicyKind;
use report::{Detail, Report};
use table::Style;

/// Arguments of `policy-sync status`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A kind of policies, as in `ratelimitpolicies`, `RateLimitPolicy` or `ratelimitpolicies.kuadrant.io`;
    /// otherwise every kind that the parameters of our GatewayClasses list.
    kind: Option<String>,
    /// The name of a policy; otherwise all.
    name: Option<String>,
    /// The namespace; otherwise that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// How to print it. With the name of a policy, `wide` shows a row for each cluster.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    controller: ControllerArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A row for each policy, long cells cut.
    Table,
    /// Nothing cut.
    Wide,
    /// A list of all that is known.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Shows how far policies are synced: fine where all are.
///
/// # Errors
///
/// Where no such kind is synced, or the hub cannot be read.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Answer> {
    let controller = arguments.controller.controller()?;
    let config = hub.config().await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    for (argument, text) in [("NAMESPACE", Some(&namespace)), ("NAME", arguments.name.as_ref())] {
        if let Some(text) = text.filter(|text| !is_name(text)) {
            bail!("{argument} {text:?} is no name of Kubernetes");
        }
    }
    let hub = Hub::new(config)?;
    let Kinds { kinds, faults, classes } = hub.kinds(&controller).await?;
    for fault in &faults {
        say(printable(&format!("error: {fault}")));
    }
    if !classes {
        say(printable(&format!("no GatewayClass of the hub has the controllerName {}", controller.as_str())));
    }
    let selection = Selection {
        namespace: (!arguments.all_namespaces).then_some(&*namespace),
        name: arguments.name.as_deref(),
    };
    let mut reports = Vec::new();
    for kind in meant(&kinds, arguments.kind.as_deref())? {
        let policies = hub.policies(kind, selection).await?;
        reports.extend(policies.iter().map(|policy| Report::new(kind, policy)));
    }
    reports.sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
    show(&reports, arguments)?;
    let missing = reports.is_empty() && arguments.name.is_some();
    if reports.is_empty() && classes {
        let of = arguments.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let place =
            selection.namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        say(printable(&format!("no policy{of} found{place}")));
    }
    let fine = faults.is_empty() && !missing && reports.iter().all(Report::in_sync);
    Ok(if fine { Answer::Fine } else { Answer::No })
}

/// The kinds that a user means by `word`.
fn meant<'k>(kinds: &'k [PolicyKind], word: Option<&str>) -> anyhow::Result<Vec<&'k PolicyKind>> {
    let Some(word) = word else { return Ok(kinds.iter().collect()) };
    let meant: Vec<&PolicyKind> = kinds.iter().filter(|kind| kind.is(word)).collect();
    if meant.is_empty() {
        let known: Vec<String> = kinds.iter().map(|kind| kind.gvr.kind.to_string()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!(
            "{word:?} is no kind of policies that is synced: the parameters of our GatewayClasses list {known}"
        );
    }
    Ok(meant)
}

/// Whether `text` can stand in a path and in a selector as what it is.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
}

fn show(reports: &[Report], arguments: &Arguments) -> anyhow::Result<()> {
    for report in reports {
        let policy = format!("{} {}/{}", report.kind, report.namespace, report.name);
        for fault in &report.faults {
            say(printable(&format!("{policy}: {fault}")));
        }
    }
    let style = Style {
        namespaces: arguments.all_namespaces,
        wide: arguments.output == Format::Wide,
        now: Timestamp::now(),
    };
    let list = || {
        let items: Vec<Value> = reports.iter().map(Report::json).collect();
        json!({ "items": items })
    };
    match (arguments.output, reports) {
        (Format::Json, _) => print(&output::json(&list())?),
        (Format::Yaml, _) => print(&output::yaml(&list())?),
        (_, []) => Ok(()),
        (Format::Wide, [report]) if arguments.name.is_some() => {
            explain(report);
            print(&table::clusters(report))
        }
        (Format::Table | Format::Wide, reports) => print(&table::policies(reports, style)),
    }
}

/// Says what the table of a policy's clusters leaves out.
fn explain(report: &Report) {
    if let Some(message) = &report.message {
        say(printable(message));
    }
    match report.detail {
        Detail::Full => {}
        Detail::Minimal => say("conditions that are true are left out: the list was too large to show them"),
        Detail::Names => say("only the clusters' names are shown: the list was too large for more"),
    }
}
