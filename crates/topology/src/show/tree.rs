//! Writes a graph as a tree for terminals.

use std::collections::BTreeSet;

use super::{NodeLabel, TopologyReport};
use crate::graph::{Graph, NodeId, ObjectRow};
use crate::locator::Locator;
use crate::reason::{Reason, Unresolved};

/// The lines of the tree, followed by failed attachments, unresolved references, policies without effect, and
/// faults.
#[must_use]
pub fn tree(report: &TopologyReport<'_, '_>) -> Vec<String> {
    let graph = report.graph();
    let mut lines = Vec::new();
    for root in graph.roots().into_iter().filter(|root| report.shows(*root)) {
        lines.push(node(graph, root));
        branches(report, root, "", &mut lines);
    }
    let unattached: Vec<String> = report
        .unattached()
        .map(|item| {
            format!("  {} to {}: {}: {}", named(item.from), named(item.to), item.reason, item.message)
        })
        .collect();
    section(&mut lines, "Not attached:", unattached);
    let line = |item: &Unresolved<'_>| format!("  {}: {}: {}", named(item.from), item.reason, item.message);
    let (unknown, unresolved): (Vec<_>, Vec<_>) =
        report.unresolved().partition(|item| item.reason == Reason::UnknownLabels);
    section(&mut lines, "Unknown attachment:", unknown.into_iter().map(line).collect());
    let (differs, unresolved): (Vec<_>, Vec<_>) =
        unresolved.into_iter().partition(|item| item.reason.differs());
    section(&mut lines, "Unresolved references:", unresolved.into_iter().map(line).collect());
    section(&mut lines, "Implementations differ:", differs.into_iter().map(line).collect());
    let no_effect = report.policies().filter_map(|policy| {
        let (reason, message) = policy.without_effect()?;
        Some(format!("  {}: {reason}: {message}", named(policy.locator)))
    });
    section(&mut lines, "Policies without effect:", no_effect.collect());
    let unknown = report.policies().flat_map(|policy| {
        policy.unknown.iter().map(|message| format!("  {}: {message}", named(policy.locator)))
    });
    section(&mut lines, "Policies with unknown targets:", unknown.collect());
    let assumed: BTreeSet<String> = report
        .policies()
        .filter(|policy| policy.merge_behavior.is_assumed())
        .map(|policy| format!("  {}", policy.locator.kind))
        .collect();
    section(&mut lines, "Kinds with an assumed merge strategy:", assumed.into_iter().collect());
    let faults = report.faults().iter().map(|fault| format!("  {fault}"));
    section(&mut lines, "Faults:", faults.collect());
    if lines.is_empty() {
        let message = match graph.knows_gateways() {
            true => "There are no Gateways.",
            false => "Unknown: not all Gateways can be read.",
        };
        lines.push(message.to_owned());
    }
    lines
}

fn section(lines: &mut Vec<String>, heading: &str, of: Vec<String>) {
    if !of.is_empty() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(heading.to_owned());
        lines.extend(of);
    }
}

fn branches(report: &TopologyReport<'_, '_>, of: NodeId, indent: &str, lines: &mut Vec<String>) {
    let graph = report.graph();
    let children: Vec<NodeId> = graph.links(of).filter(|child| report.shows(*child)).collect();
    for (index, child) in children.iter().enumerate() {
        let is_last = index + 1 == children.len();
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push(format!("{indent}{branch}{}", node(graph, *child)));
        branches(report, *child, &format!("{indent}{below}"), lines);
    }
}

/// The line of a node: its kind and name, and the policies on it.
fn node(graph: &Graph<'_>, node: NodeId) -> String {
    let locator = graph.locator(node);
    let what = match (graph.listener(node), graph.rule(node), &graph.object(node).row) {
        (Some(listener), _, _) => {
            let host = listener.hostname.as_deref().unwrap_or("*");
            format!("listener {}: {} {} {host}", listener.name, listener.protocol, listener.port)
        }
        (_, Some(_), _) => NodeLabel::on_path(graph, node).words,
        (_, _, ObjectRow::Route(_, route)) if !route.hostnames.is_empty() => {
            let hosts: Vec<&str> = route.hostnames.iter().map(|name| &**name).collect();
            format!("{}: {}", named(locator), hosts.join(", "))
        }
        (_, _, ObjectRow::Leaf(_)) => format!("{} (unknown)", named(locator)),
        _ => named(locator),
    };
    let what = of_origin(what, graph.origin(node).as_deref());
    let policies = graph.policies_on(node);
    let policies: Vec<String> =
        policies.map(|policy| of_origin(named(policy.locator), policy.row.origin.as_deref())).collect();
    if policies.is_empty() { what } else { format!("{what} [{}]", policies.join(", ")) }
}

/// Adds that `what` is a copy of the hub's `origin`.
fn of_origin(what: String, origin: Option<&str>) -> String {
    match origin {
        Some(origin) => format!("{what} (copy of the hub's {origin})"),
        None => what,
    }
}

fn named(locator: Locator<'_>) -> String {
    NodeLabel::object(locator).words
}
