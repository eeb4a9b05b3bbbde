//! Prints the policy rules in force on clusters.

use anyhow::anyhow;

use super::Arguments;
use super::text::rules;
use crate::cli::hub::HubArguments;
use crate::cli::manifests::UnreadableDocuments;
use crate::cli::output::print_messages;
use crate::cli::{Outcome, manifests, names, plan, progress};
use policy_sync_api::names::ClusterName;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_api::text::named;
use policy_sync_hub::HubError;
use policy_sync_report::snapshot::ReadError;
use policy_sync_report::{FleetObjects, FleetObjectsQuery, fleet_objects, fleet_objects_from_files};
use policy_sync_sync::dry_run::Severity;
use policy_sync_topology::Request;
use policy_sync_topology::show::{ClusterResult, ClustersReport, Scope};

pub(super) async fn run(
    hub: &HubArguments,
    arguments: &Arguments,
    scope: &Scope,
    request: Option<Request>,
) -> anyhow::Result<Outcome> {
    let input = &arguments.input;
    input.check()?;
    names(&[("--cluster", arguments.cluster.as_ref())])?;
    let (settings, controller) = (input.settings.settings()?, input.settings.controller()?);
    let cluster = arguments.cluster.as_deref().map(ClusterName::from);
    let (mut is_fine, mut unreadable) = (true, UnreadableDocuments::default());
    let query = FleetObjectsQuery { settings: &settings, cluster: cluster.as_ref(), scope };
    let FleetObjects { objects, fleet, faults, unknown, unread } = if input.filenames.is_empty() {
        let _waiting = progress::begin();
        let client = hub.client(hub.config().await?)?;
        match fleet_objects(&client, &controller, query).await {
            Err(ReadError::Hub(error @ HubError::Absent { .. })) => {
                print_messages([format!("policy-sync: {error}")]);
                return Ok(Outcome::Negative);
            }
            found => found?,
        }
    } else {
        let read = manifests::read_each(&input.filenames)?;
        unreadable = read.unreadable;
        let (manifests, no_objects) = manifests::divided(read.read);
        print_messages(&no_objects);
        let (mirror, mut diagnostics) =
            plan::mirror(manifests, input.namespace.as_deref().unwrap_or("default"), &controller);
        diagnostics.retain(|diagnostic| diagnostic.severity == Severity::Error);
        is_fine = diagnostics.is_empty() && no_objects.is_empty();
        print_messages(&diagnostics);
        let fleet_objects = fleet_objects_from_files(&mirror, query);
        fleet_objects.ok_or_else(|| {
            anyhow!("no ManagedCluster {} is given", arguments.cluster.as_deref().unwrap_or_default())
        })?
    };
    let mut report = ClustersReport::new(&objects, &fleet, scope, request, unknown);
    report.faults.extend(faults);
    print_messages(&report.faults);
    arguments.output.print(&report, text)?;
    let is_fine = is_fine && report.faults.is_empty() && !report.answers.is_empty();
    unreadable.end(super::super::outcome(is_fine, &unread)?)
}

/// Formats a paragraph for each listener and group of clusters, followed by messages about unknown facts.
pub(in crate::cli) fn text(report: &ClustersReport) -> Vec<String> {
    let mut lines = Vec::new();
    for result in &report.answers {
        lines.extend(result_lines(result));
        lines.push(String::new());
    }
    if report.answers.is_empty() {
        let none = if report.request.is_some() {
            "No cluster has a listener for this request."
        } else {
            "No cluster has a matching listener."
        };
        lines.extend([none.to_owned(), String::new()]);
    }
    lines.push("Unknown:".to_owned());
    lines.extend(report.unknown.iter().map(|text| format!("  {text}")));
    lines
}

fn result_lines(result: &ClusterResult) -> Vec<String> {
    let clusters: Vec<&str> = result.clusters.iter().map(|cluster| &*cluster.0).collect();
    let nodes: Vec<&str> = result.path.iter().map(|named| named.words.as_str()).collect();
    let uncertain = if result.certain { "" } else { " (uncertain)" };
    let mut lines = vec![
        format!("On {}{uncertain}:", named(&clusters)),
        format!("  {}", nodes.join(" > ")),
        format!("    hosts: {}", result.hostnames.join(", ")),
    ];
    if let Some(until) = &result.gateway.grace_period_end {
        lines.push(format!("    the Gateway is unplaced and keeps serving until {until}"));
    }
    if let Some((word, text)) = &result.gateway.reason {
        lines.push(format!("    the Gateway: {word}: {text}"));
    }
    if let Some(attached) = result.attached_routes {
        lines.push(format!("    attached routes of the cluster: {attached}"));
    }
    if result.policies.iter().all(|(_, copy)| !copy.is_merged) {
        lines.push("    no policy of the hub is in force".to_owned());
    }
    lines.extend(result.effective.iter().flat_map(rules).map(|line| format!("  {line}")));
    for (policy, copy) in &result.policies {
        let state = copy.state.map_or("not on the cluster", PolicyState::as_str);
        let mut line = format!("    {}: {state}{}", policy.words, copy.note());
        if let Some(why) = copy.why() {
            line = format!("{line}: {why}");
        }
        let differs = copy.differs();
        if !differs.is_empty() {
            line = format!("{line}; overrides for this cluster change {}", named(differs));
        }
        lines.push(line);
    }
    lines
}
