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
use super::live::is_forbidden;
use super::output::{self, print, say};
use super::settings::ControllerArguments;
use super::text::printable;
use hub::{Hub, Kinds, Selection};
use kinds::{Meant, PolicyKind};
use report::{OnCluster, Report};
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
    /// Only what is on this cluster, or is to be: for each policy, what that cluster says.
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
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
    let cluster = arguments.cluster.as_ref();
    for (argument, text) in
        [("NAMESPACE", Some(&namespace)), ("NAME", arguments.name.as_ref()), ("CLUSTER", cluster)]
    {
        if let Some(text) = text.filter(|text| !is_name(text)) {
            bail!("{argument} {text:?} is no name of Kubernetes");
        }
    }
    let hub = Hub::new(config)?;
    let Kinds { kinds, faults, mut unread, classes } = hub.kinds(&controller).await?;
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
    if kinds.is_empty() && !unread.is_empty() {
        bail!(unread.join("; "));
    }
    let kinds = match &arguments.kind {
        Some(word) => vec![kind_of(&hub, &kinds, word).await?],
        None => kinds.iter().collect(),
    };
    let (mut reports, mut forbidden) = (Vec::new(), Vec::new());
    for &kind in &kinds {
        match hub.policies(kind, selection).await {
            Ok(policies) => reports.extend(policies.iter().map(|policy| Report::new(kind, policy))),
            Err(error) if is_forbidden(&error) => forbidden.push((kind, error)),
            Err(error) => return Err(hub.failure(&format!("list {}", kind.gvr.kind), &error)),
        }
    }
    if let Some((_, error)) = forbidden.first() {
        let names: Vec<&str> = forbidden.iter().map(|(kind, _)| &*kind.kind).collect();
        let failure = hub.failure(&format!("list {}", names.join(", ")), error);
        // Rights in the namespace at hand may be all that this user has.
        let hint =
            if arguments.namespace.is_none() { ": name a namespace that you may read with -n" } else { "" };
        unread.push(format!("{failure}{hint}"));
        if forbidden.len() == kinds.len() {
            bail!(unread.join("; "));
        }
    }
    reports.sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
    let on: Option<Vec<OnCluster<'_>>> =
        cluster.map(|cluster| reports.iter().filter_map(|report| report.on(cluster)).collect());
    let known = match (cluster, &on) {
        (Some(cluster), Some(on)) => is_known(&hub, cluster, on).await?,
        _ => true,
    };
    match &on {
        Some(on) => show_on_cluster(on, arguments)?,
        None => show(&reports, arguments)?,
    }
    let none = on.as_ref().map_or(reports.is_empty(), Vec::is_empty);
    if none && classes && known && unread.is_empty() {
        let of = arguments.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let place =
            selection.namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        let on = cluster.map(|cluster| format!(" on cluster {cluster}")).unwrap_or_default();
        say(printable(&format!("no policy{of} found{place}{on}")));
    }
    let missing = none && arguments.name.is_some();
    let in_sync = match &on {
        Some(on) => on.iter().all(OnCluster::in_sync),
        None => reports.iter().all(Report::in_sync),
    };
    // Nothing found in a part of it is no answer.
    let missing = missing && unread.is_empty();
    super::answer(faults.is_empty() && known && !missing && in_sync, &unread)
}

/// Whether the hub has the ManagedCluster `cluster`; where it has none, that is said. A policy that names the
/// cluster is proof enough where this may not be asked.
async fn is_known(hub: &Hub, cluster: &str, policies: &[OnCluster<'_>]) -> anyhow::Result<bool> {
    match hub.has_cluster(cluster).await {
        Ok(true) => Ok(true),
        Ok(false) => {
            say(printable(&format!("the hub has no ManagedCluster {cluster}")));
            Ok(false)
        }
        Err(kube::Error::Api(_)) if policies.iter().any(|policy| policy.entry.is_some()) => Ok(true),
        Err(error) => Err(hub.failure(&format!("read ManagedCluster {cluster}"), &error)),
    }
}

/// The kind that a user means by `word`.
async fn kind_of<'k>(hub: &Hub, kinds: &'k [PolicyKind], word: &str) -> anyhow::Result<&'k PolicyKind> {
    let listed = || match kinds {
        [] => "none".to_owned(),
        kinds => kinds.iter().map(|kind| &*kind.kind).collect::<Vec<_>>().join(", "),
    };
    let full = |kinds: &[&PolicyKind]| {
        kinds.iter().map(|kind| kind.gvr.kind.to_string()).collect::<Vec<_>>().join(" or ")
    };
    let none = match kinds::meant(kinds, word) {
        Meant::Kind(kind) => return Ok(kind),
        Meant::Ambiguous(several) => bail!("{word:?} is ambiguous: write {}", full(&several)),
        Meant::Nothing => format!("{word:?} is no kind of policies that is synced"),
    };
    let known = match kinds::meant(&hub.served().await, word) {
        Meant::Kind(kind) => full(&[kind]),
        Meant::Ambiguous(several) => full(&several),
        Meant::Nothing => bail!("{none}: the parameters of our GatewayClasses list {}", listed()),
    };
    bail!("{none}: no parameters of our GatewayClasses list {known}, but {}", listed());
}

/// Whether `text` can stand in a path and in a selector as what it is.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
}

fn show(reports: &[Report], arguments: &Arguments) -> anyhow::Result<()> {
    let by_cluster = arguments.output == Format::Wide && arguments.name.is_some() && reports.len() == 1;
    for report in reports {
        explain(report, by_cluster);
    }
    let items = || reports.iter().map(Report::json).collect();
    match (arguments.output, reports) {
        (Format::Json | Format::Yaml, _) => print_list(items(), arguments.output),
        (_, []) => Ok(()),
        (_, [report]) if by_cluster => {
            if let Some(message) = &report.message {
                say(printable(message));
            }
            print(&table::clusters(report))
        }
        (_, reports) => print(&table::policies(reports, style(arguments))),
    }
}

fn show_on_cluster(policies: &[OnCluster<'_>], arguments: &Arguments) -> anyhow::Result<()> {
    for policy in policies {
        explain(policy.report, true);
    }
    let items = || policies.iter().map(OnCluster::json).collect();
    match (arguments.output, policies) {
        (Format::Json | Format::Yaml, _) => print_list(items(), arguments.output),
        (_, []) => Ok(()),
        (_, policies) => print(&table::on_cluster(policies, style(arguments))),
    }
}

fn style(arguments: &Arguments) -> Style {
    Style {
        namespaces: arguments.all_namespaces,
        wide: arguments.output == Format::Wide,
        now: Timestamp::now(),
    }
}

fn print_list(items: Vec<Value>, format: Format) -> anyhow::Result<()> {
    let list = json!({ "items": items });
    print(&if format == Format::Yaml { output::yaml(&list)? } else { output::json(&list)? })
}

/// Says what of a policy's annotations cannot be read, and, where states of `clusters` are shown, what they leave out.
fn explain(report: &Report, clusters: bool) {
    let policy = format!("{} {}/{}", report.kind, report.namespace, report.name);
    let left_out = report.detail.explanation().filter(|_| clusters);
    for text in report.faults.iter().chain(&left_out) {
        say(printable(&format!("{policy}: {text}")));
    }
}
