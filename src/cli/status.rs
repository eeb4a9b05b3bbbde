//! `policy-sync status`: how far each policy of the hub is synced, as its annotations tell.
//!
//! Only the hub is read. What is shown is what the controller last wrote: where that cannot be read, the cell shows
//! `?` and standard error says why.

mod differences;
mod found;
mod hub;
mod kinds;
mod report;
mod shown;
mod table;
mod view;
mod watch;

use anyhow::bail;
use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::Answer;
use super::hub::HubArguments;
use super::output::{self, print, say};
use super::settings::ControllerArguments;
use super::stop::asked_to_stop;
use super::text::printable;
use differences::Differences;
use found::Found;
use hub::{Hub, Selection};
use report::Report;
use shown::Shown;
use view::{Rows, View};

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
    /// Go on, and print again what changes: its row, or a document for each policy.
    #[arg(short, long)]
    watch: bool,
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

/// Shows how far policies are synced: fine where all are, and where a watch was asked to end.
///
/// # Errors
///
/// Where no such kind is synced, or the hub cannot be read.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Answer> {
    if !arguments.watch {
        return answer(hub, arguments).await;
    }
    let asked = asked_to_stop()?;
    tokio::select! {
        () = asked => Ok(Answer::Fine),
        answer = answer(hub, arguments) => answer,
    }
}

async fn answer(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Answer> {
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
    let selection = Selection {
        namespace: (!arguments.all_namespaces).then_some(&*namespace),
        name: arguments.name.as_deref(),
    };
    // Rights in one namespace may be all that this user has.
    let hint =
        if arguments.namespace.is_none() { ": name a namespace that you may read with -n" } else { "" };
    let found = Found::read(&hub, &controller, arguments.kind.as_deref(), selection, hint).await?;
    for fault in &found.faults {
        say(printable(&format!("error: {fault}")));
    }
    if !found.classes {
        say(printable(&format!("no GatewayClass of the hub has the controllerName {}", controller.as_str())));
    }
    let known = match cluster {
        Some(cluster) => is_known(&hub, cluster, &found.reports).await?,
        None => true,
    };
    let mut view = view(arguments, found.reports.len());
    let (reports, others): (Vec<Report>, Vec<Report>) =
        found.reports.into_iter().partition(|report| view.shows(report));
    let none = reports.is_empty() && found.unread.is_empty();
    if none && found.classes && known {
        let of = arguments.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let place =
            selection.namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        let on = cluster.map(|cluster| format!(" on cluster {cluster}")).unwrap_or_default();
        say(printable(&format!("no policy{of} found{place}{on}")));
    }
    if !arguments.watch {
        view.differences = Differences::read(&hub, &view, &reports).await?;
    }
    if arguments.watch && known && !found.kinds.is_empty() {
        if !found.unread.is_empty() {
            say(printable(&found.unread.join("; ")));
        }
        let shown = Shown::new(view, arguments.output);
        let reports = reports.into_iter().chain(others).collect();
        return watch::watch(&hub, &found.kinds, selection, shown, reports).await.map(|()| Answer::Fine);
    }
    show(&view, &reports, arguments.output)?;
    // That nothing was found in a part of it is no answer.
    let missing = none && arguments.name.is_some();
    let in_sync = reports.iter().all(|report| view.in_sync(report));
    super::answer(found.faults.is_empty() && known && !missing && in_sync, &found.unread)
}

/// Whether the hub has the ManagedCluster `cluster`; where it has none, that is said. A policy that names the
/// cluster is proof enough where this may not be asked.
async fn is_known(hub: &Hub, cluster: &str, reports: &[Report]) -> anyhow::Result<bool> {
    let named = || reports.iter().any(|report| report.on(cluster).is_some_and(|on| on.entry.is_some()));
    match hub.labels(cluster).await {
        Ok(Some(_)) => Ok(true),
        Ok(None) => {
            say(printable(&format!("the hub has no ManagedCluster {cluster}")));
            Ok(false)
        }
        Err(kube::Error::Api(_)) if named() => Ok(true),
        Err(error) => Err(hub.failure(&format!("read ManagedCluster {cluster}"), &error)),
    }
}

fn view(arguments: &Arguments, policies: usize) -> View {
    let wide = arguments.output == Format::Wide;
    // While watching, more policies of the name may appear in other namespaces.
    let one = if arguments.watch { !arguments.all_namespaces } else { policies == 1 };
    let rows = match &arguments.cluster {
        Some(cluster) => Rows::OnCluster(cluster.clone()),
        None if wide && arguments.name.is_some() && one => Rows::Clusters,
        None => Rows::Policies,
    };
    View { rows, namespaces: arguments.all_namespaces, wide, differences: None }
}

fn show(view: &View, reports: &[Report], format: Format) -> anyhow::Result<()> {
    for remark in reports.iter().flat_map(|report| view.remarks(report)) {
        say(printable(&remark));
    }
    let list = || {
        let items: Vec<Value> = reports.iter().map(|report| view.json(report)).collect();
        json!({ "items": items })
    };
    match format {
        Format::Json => print(&output::json(&list())?),
        Format::Yaml => print(&output::yaml(&list())?),
        Format::Table | Format::Wide if reports.is_empty() => Ok(()),
        Format::Table | Format::Wide => print(&view.table(reports, Timestamp::now())),
    }
}

/// Whether `text` can stand in a path and in a selector as what it is.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
}
