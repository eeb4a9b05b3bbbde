//! `policy-sync status cluster NAME`: prints the copies that are on one cluster, or are planned for this cluster. Reads
//! the works of the copies.

use anyhow::bail;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::printer::Printer;
use super::view::{Rows, View};
use super::{Arguments, Format, HubClients, check_items, filter, unknown_availability, watch};
use crate::cli::Outcome;
use crate::cli::output::{self, print, print_message, terminal_width};
use crate::cli::text::printable;
use policy_sync_api::cluster::ManagedClusterStatus;
use policy_sync_api::names::{ClusterName, ControllerName};
use policy_sync_mirror::Scope;
use policy_sync_report::{self as report, Item, Query, Report, RequestedKinds};

/// Prints the items on the cluster of `arguments`, and checks them by `--fail-on`.
pub(super) async fn print_status(
    hub: HubClients,
    controller: &ControllerName,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    let Some(name) = &arguments.name else {
        bail!("the name of the cluster is missing: status cluster NAME")
    };
    if arguments.cluster.is_some() || arguments.namespace.is_some() {
        bail!("status cluster NAME shows everything on one cluster: omit --cluster and -n");
    }
    let mut unread = Vec::new();
    let cluster = ClusterName::from(name.as_str());
    let unavailable = match report::cluster(&hub.client, &cluster).await {
        Ok(Some(cluster)) => cluster.status_as::<ManagedClusterStatus>().unavailable_since(),
        Ok(None) => {
            print_message(printable(&format!("the hub has no ManagedCluster {name}")));
            return Ok(Outcome::Negative);
        }
        Err(error) if error.is_forbidden() => {
            unread.push(unknown_availability(&error, "get"));
            None
        }
        Err(error) => return Err(error.into()),
    };
    let (requested, scope) = (RequestedKinds::Cluster, Scope::All);
    let query = Query { controller, requested, scope, cluster: Some(cluster), hint: "" };
    let mut report = Report::read(&hub.client, &query).await?;
    unread.append(&mut report.unread);
    for fault in &report.faults {
        print_message(printable(&format!("error: {fault}")));
    }
    if let Some(since) = unavailable {
        print_message(printable(&format!("cluster {name}: no contact with its agent since {since}")));
    }
    let mut items = report.report_mirror.items();
    for item in &mut items {
        if let Item::Copy(copy) = item {
            copy.unavailable = unavailable.is_some();
        }
    }
    if items.is_empty() {
        print_message(printable(&format!("no object of {} is on cluster {name}", controller.as_str())));
    }
    let wide = arguments.output == Format::Wide;
    let mut view = View {
        rows: Rows::Policies,
        namespaces: true,
        wide,
        differences: None,
        item_filter: arguments.item_filter(),
        out_of_sync_times: None,
    };
    if arguments.watch {
        if !unread.is_empty() {
            print_message(printable(&unread.join("; ")));
        }
        let printer = Printer::new(view, arguments.output, arguments.screen()).with_note(watch::NOTE);
        return watch::watch(hub, report.report_mirror, printer).await.map(|()| Outcome::Positive);
    }
    let fail_on = arguments.fail_on.fail_on();
    let (passed, unknown) = check_items(items.iter().map(|item| (item.check(None, fail_on), item)));
    unread.extend(unknown);
    let in_sync = report.faults.is_empty() && unavailable.is_none() && items.iter().all(Item::in_sync);
    let fine = in_sync && passed;
    let mut shown: Vec<&Item> = items.iter().collect();
    if view.item_filter.is_some() {
        filter(&hub.client, controller, &mut view, &mut shown, fail_on).await?;
    }
    let list = || {
        let items: Vec<Value> = shown.iter().map(|item| view.json(item)).collect();
        let since = unavailable.map(|since| since.to_string());
        json!({"cluster": {"name": name, "unavailableSince": since, "inSync": in_sync}, "items": items})
    };
    match arguments.output {
        Format::Json => print(&output::json(&list())?)?,
        Format::Yaml => print(&output::yaml(&list())?)?,
        Format::Table | Format::Wide if shown.is_empty() => {}
        Format::Table | Format::Wide => {
            print(&view.tables(shown.iter().copied(), Timestamp::now(), terminal_width()))?;
        }
    }
    crate::cli::outcome(fine, &unread)
}
