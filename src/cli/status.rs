//! `policy-sync status`: prints the sync state of Gateways and policies from their status and annotations on
//! the hub, and from the works of Gateways.
//!
//! Only the hub is read. The output is the last state that the controller wrote. A value that cannot be read
//! appears as `?`, with the reason on standard error.

mod cluster;
mod gateways;
mod printer;
#[cfg(test)]
#[cfg(feature = "web")]
mod states;
mod table;
mod view;
mod watch;

use std::collections::BTreeSet;
use std::io::{IsTerminal, stdout};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, json};

use super::hub::HubArguments;
use super::output::{self, print, print_message, terminal_width};
use super::settings::ControllerArguments;
use super::text::printable;
use super::{Outcome, progress, shutdown_signal};
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_api::policy_state::PolicyState;
use policy_sync_api::text::named;
use policy_sync_hub::telemetry::metrics::Metrics;
use policy_sync_hub::{HubClient, HubError, watch_client};
use policy_sync_mirror::Scope;
use policy_sync_report::{
    self as report, Check, Differences, FailOn, Item, OutOfSyncTimes, Query, Report, RequestedKinds,
};
use printer::{Printer, Screen};
use view::{ItemFilter, Rows, View};

pub(super) const EXAMPLES: &str = "\
Examples:
  # Items that are out of sync, the longest wait first
  policy-sync status -A --not-synced

  # A policy, with a row for each of its clusters
  policy-sync status ratelimitpolicy limits -n shop -o wide";

/// Arguments of `policy-sync status`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// `gateways`, `policies`, `resources`, or a kind such as `ratelimitpolicies`, `RateLimitPolicy` or
    /// `ratelimitpolicies.kuadrant.io`. Default: Gateways, and each kind in the parameters of the controller's
    /// GatewayClasses. `cluster` shows everything on the cluster NAME.
    kind: Option<String>,
    /// Name of a Gateway, policy, resource or cluster. Default: all.
    name: Option<String>,
    /// Namespace. Default: that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only the Gateways and policies on this cluster, with their status there.
    #[arg(long, value_name = "CLUSTER")]
    cluster: Option<String>,
    /// Only Gateways, policies and resources that are out of sync, the longest out of sync first. Shows the clusters
    /// that lack the current revision. Implies `--fail-on out-of-sync`; an explicit `--fail-on` takes precedence.
    #[arg(long, conflicts_with = "watch")]
    not_synced: bool,
    /// Only Gateways, policies and resources that are out of sync, and policies that are not enforced, overridden or in
    /// an unknown state. Sorted as with `--not-synced`.
    #[arg(long, conflicts_with_all = ["watch", "not_synced"])]
    not_enforced: bool,
    /// The states for which the exit code is 1.
    #[arg(
        long,
        value_enum,
        default_value_t = FailOnArgument::NotEnforced,
        default_value_if("not_synced", "true", "out-of-sync"),
        value_name = "STATES",
        conflicts_with = "watch"
    )]
    fail_on: FailOnArgument,
    /// Watch for changes: redraw on a terminal, otherwise print each changed row.
    #[arg(short, long)]
    watch: bool,
    /// Output format. With the name of a policy, `wide` shows a row for each cluster.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    controller: ControllerArguments,
}

impl Arguments {
    /// The filter of items, if there is one.
    fn item_filter(&self) -> Option<ItemFilter> {
        let not_synced = self.not_synced.then_some(ItemFilter::NotSynced);
        not_synced.or_else(|| self.not_enforced.then_some(ItemFilter::NotEnforced))
    }

    /// The terminal on which a watch redraws its tables, if there is one.
    fn screen(&self) -> Option<Screen> {
        let draws = matches!(self.output, Format::Table | Format::Wide) && stdout().is_terminal();
        draws.then_some(terminal_width)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOnArgument {
    /// A cluster lacks the current revision, or a Gateway is not accepted or not programmed.
    OutOfSync,
    /// `out-of-sync`, or a policy is rejected, not enforced, partially enforced, not applied, frozen or pending, or its
    /// cluster is not available.
    NotEnforced,
    /// `not-enforced`, or another policy takes precedence on a cluster.
    Overridden,
}

impl FailOnArgument {
    fn fail_on(self) -> FailOn {
        match self {
            Self::OutOfSync => FailOn::OutOfSync,
            Self::NotEnforced => FailOn::NotEnforced,
            Self::Overridden => FailOn::Overridden,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A row for each Gateway and each policy. On a terminal, long cells are cut so that each row fits its width.
    Table,
    /// More columns, and all names instead of the first ones. No cell is cut.
    Wide,
    /// A list with all details.
    Json,
    /// The content of the JSON output, as YAML.
    Yaml,
}

/// Runs the command. The exit code is 0 if all items pass the check, or if a watch was interrupted.
///
/// # Errors
///
/// If the kind is not synced, or the hub cannot be read.
pub async fn run(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    if !arguments.watch {
        let _waiting = progress::begin();
        return print_status(hub, arguments).await;
    }
    let shutdown = shutdown_signal()?;
    tokio::select! {
        () = shutdown => Ok(Outcome::Positive),
        outcome = print_status(hub, arguments) => outcome,
    }
}

/// Two clients for one hub: one for requests, and one for watches.
struct HubClients {
    client: HubClient,
    watching: Client,
}

impl HubClients {
    /// The clients for the hub of `config`. No request is sent yet.
    fn new(hub: &HubArguments, config: Config) -> anyhow::Result<Self> {
        let watching = watch_client(config.clone(), &Metrics::new()?, hub.request_timeout())?;
        Ok(Self { watching, client: hub.client(config)? })
    }
}

async fn print_status(hub: &HubArguments, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let controller = arguments.controller.controller()?;
    let config = hub.config().await?;
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let (name, cluster) = (arguments.name.as_ref(), arguments.cluster.as_ref());
    super::names(&[("NAMESPACE", Some(&namespace)), ("NAME", name), ("CLUSTER", cluster)])?;
    let hub = HubClients::new(hub, config)?;
    let requested = RequestedKinds::parse(arguments.kind.as_deref());
    if requested == RequestedKinds::Cluster {
        return cluster::print_status(hub, &controller, arguments).await;
    }
    let namespace = (!arguments.all_namespaces).then_some(&*namespace);
    let scope = Scope::new(namespace, name.map(String::as_str));
    // The user may have rights in one namespace only.
    let hint = if arguments.namespace.is_none() { ": use -n with a namespace that you may read" } else { "" };
    let query = Query { controller: &controller, requested, scope, cluster: None, hint };
    let report = Report::read(&hub.client, &query).await?;
    for fault in &report.faults {
        print_message(printable(&format!("error: {fault}")));
    }
    if !report.has_classes {
        print_message(printable(&format!(
            "no GatewayClass of the hub has the controllerName {}",
            controller.as_str()
        )));
    }
    let mut all = report.report_mirror.items();
    let availability = match cluster {
        Some(cluster) => Availability::of(&hub.client, cluster, &all).await?,
        None if arguments.watch || !all.iter().any(|item| item.policy().is_some()) => Availability::default(),
        None => Availability::of_all(&hub.client, &controller).await?,
    };
    let known = !availability.is_absent;
    let unavailable = Arc::new(availability.unavailable);
    all.iter_mut().for_each(|item| item.set_unavailable(&unavailable));
    let all = all;
    let mut view = view(arguments, all.iter().filter_map(Item::policy).count());
    let watches = arguments.watch && known && !report.report_mirror.sources().is_empty();
    let mut items: Vec<&Item> = all.iter().filter(|item| view.shows(item)).collect();
    let fail_on = arguments.fail_on.fail_on();
    let checks = items.iter().map(|item| (item.check(view.rows.cluster(), fail_on), *item));
    let (passed, unknown) = check_items(checks);
    let none = items.is_empty() && report.unread.is_empty();
    if none && report.has_classes && known {
        let of = name.map(|name| format!(" {name}")).unwrap_or_default();
        let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        let on = cluster.map(|cluster| format!(" on cluster {cluster}")).unwrap_or_default();
        print_message(printable(&format!("no {}{of} found{place}{on}", requested.noun())));
    }
    let mut gateways = items.iter().filter_map(|item| item.gateway());
    if let Some(works) =
        report.works_unread.filter(|_| gateways.any(|report| report.requires_works(view.wide)))
    {
        print_message(printable(&works));
    }
    if watches {
        if !report.unread.is_empty() {
            print_message(printable(&report.unread.join("; ")));
        }
        let mut printer = Printer::new(view, arguments.output, arguments.screen());
        if requested != RequestedKinds::Gateways {
            printer = printer.with_note(watch::NOTE);
        }
        return watch::watch(hub, report.report_mirror, printer).await.map(|()| Outcome::Positive);
    }
    let mut unread = report.unread;
    let depends = |item: &&Item| item.depends_on_availability(view.rows.cluster());
    if let Some(clusters) = availability.unread.filter(|_| items.iter().any(depends)) {
        match fail_on.check_state(PolicyState::Unreachable) {
            Check::Passed => print_message(printable(&clusters)),
            Check::Unknown | Check::Failed => unread.push(clusters),
        }
    }
    if view.item_filter.is_some() {
        filter(&hub.client, &controller, &mut view, &mut items, fail_on).await?;
    }
    if !arguments.watch && view.shows_differences(&items) {
        let (differences, unread) = Differences::read(&hub.client, &controller, view.rows.cluster()).await?;
        if let Some(unread) = unread {
            print_message(printable(&unread.to_string()));
        }
        view.differences = Some(differences);
    }
    show(&view, &items, arguments.output)?;
    // A named object is missing only if all lists could be read.
    let mut missing = none && arguments.name.is_some();
    if none && let Some(namespace) = &arguments.namespace {
        missing |= !super::namespaces_exist(&hub.client, "--namespace", [namespace]).await?;
    }
    unread.extend(unknown);
    super::outcome(report.faults.is_empty() && known && !missing && passed, &unread)
}

/// Whether no item fails its check, and a sentence about the items with an unknown state.
fn check_items<'i>(checks: impl Iterator<Item = (Check, &'i Item)>) -> (bool, Option<String>) {
    let (mut passed, mut unknown) = (true, Vec::new());
    for (check, item) in checks {
        passed &= check != Check::Failed;
        match item {
            Item::Policy(report) if check == Check::Unknown => {
                unknown.push(format!("{} {}", report.kind, report.origin.object()));
            }
            Item::Copy(report) if check == Check::Unknown => {
                let object =
                    report.origin.iter().map(|origin| format!("{} {}", report.kind, origin.object()));
                unknown.extend(object);
            }
            _ => {}
        }
    }
    let names: Vec<&str> = unknown.iter().map(String::as_str).collect();
    let sentence = || {
        format!("{}: not all clusters have a controller that reports whether it is enforced", named(&names))
    };
    let unknown = (!names.is_empty()).then(sentence);
    (passed, unknown)
}

/// The availability of clusters.
#[derive(Debug, Default)]
struct Availability {
    /// Whether the hub has no ManagedCluster with the given name.
    is_absent: bool,
    /// The unavailable clusters.
    unavailable: BTreeSet<ClusterName>,
    /// Why the availability of clusters is unknown.
    unread: Option<String>,
}

impl Availability {
    /// The availability of all clusters.
    async fn of_all(hub: &HubClient, controller: &ControllerName) -> anyhow::Result<Self> {
        let (unavailable, error) = report::unavailable(hub, controller).await?;
        let unread = error.map(|error| unknown_availability(&error, "list"));
        Ok(Self { unavailable, unread, ..Self::default() })
    }

    /// The availability of the cluster `name`. An absent ManagedCluster is reported. If the user may not read the
    /// ManagedCluster, a policy that names the cluster proves that the cluster exists.
    async fn of(hub: &HubClient, name: &str, items: &[Item]) -> anyhow::Result<Self> {
        let mut policies = items.iter().filter_map(Item::policy);
        let mut named = || policies.any(|report| report.on(name).is_some_and(|on| on.entry.is_some()));
        match report::cluster(hub, &name.into()).await {
            Ok(Some(cluster)) => {
                Ok(Self { unavailable: report::unavailable_of([&cluster]), ..Self::default() })
            }
            Ok(None) => {
                print_message(printable(&format!("the hub has no ManagedCluster {name}")));
                Ok(Self { is_absent: true, ..Self::default() })
            }
            Err(error) if error.is_response() && named() => {
                Ok(Self { unread: Some(unknown_availability(&error, "get")), ..Self::default() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The message that ManagedClusters could not be read, with the missing right.
fn unknown_availability(error: &HubError, verb: &str) -> String {
    let right = if error.is_forbidden() {
        format!(" without the right to {verb} managedclusters")
    } else {
        String::new()
    };
    format!("{error}: availability of clusters is unknown{right}, states are shown as last reported")
}

fn view(arguments: &Arguments, policies: usize) -> View {
    let wide = arguments.output == Format::Wide;
    // During a watch, policies with the same name may appear in other namespaces.
    let one = if arguments.watch { !arguments.all_namespaces } else { policies == 1 };
    let rows = match &arguments.cluster {
        Some(cluster) => Rows::OnCluster(cluster.clone()),
        None if wide && arguments.name.is_some() && one => Rows::Clusters,
        None => Rows::Policies,
    };
    View {
        rows,
        namespaces: arguments.all_namespaces,
        wide,
        differences: None,
        item_filter: arguments.item_filter(),
        out_of_sync_times: None,
    }
}

/// Keeps the `items` that pass the filter of `view`, and sorts them: the item that has been out of sync for the longest
/// time comes first. Prints the number of hidden items that fail the check by `fail_on`, because the exit code depends
/// on them.
async fn filter(
    hub: &HubClient,
    controller: &ControllerName,
    view: &mut View,
    items: &mut Vec<&Item>,
    fail_on: FailOn,
) -> anyhow::Result<()> {
    let found = items.len();
    let is_hidden = |item: &&&Item| !view.passes_filter(item);
    let fails = |item: &&Item| item.check(view.rows.cluster(), fail_on) == Check::Failed;
    let hidden = items.iter().filter(is_hidden).copied().filter(fails).count();
    items.retain(|item| view.passes_filter(item));
    if let Some(item_filter) = view.item_filter.filter(|_| found > 0 && items.is_empty()) {
        print_message(item_filter.none());
    }
    if hidden > 0 {
        print_message(format!("items in sync, but not enforced: {hidden} (list them with --not-enforced)"));
    }
    let (out_of_sync_times, unread) =
        OutOfSyncTimes::read(hub, controller, items, view.rows.cluster()).await?;
    if let Some(unread) = unread {
        print_message(printable(&unread.to_string()));
    }
    out_of_sync_times.sort(items);
    view.out_of_sync_times = Some(out_of_sync_times);
    Ok(())
}

fn show(view: &View, items: &[&Item], format: Format) -> anyhow::Result<()> {
    for diagnostic in items.iter().flat_map(|item| view.diagnostics(item)) {
        print_message(printable(&diagnostic));
    }
    let list = || {
        let items: Vec<Value> = items.iter().map(|item| view.json(item)).collect();
        json!({ "items": items })
    };
    match format {
        Format::Json => print(&output::json(&list())?),
        Format::Yaml => print(&output::yaml(&list())?),
        Format::Table | Format::Wide if items.is_empty() => Ok(()),
        Format::Table | Format::Wide => {
            print(&view.tables(items.iter().copied(), Timestamp::now(), terminal_width()))
        }
    }
}
