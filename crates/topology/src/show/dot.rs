//! Writes a graph as [DOT](https://graphviz.org/doc/info/lang.html), in the form that Kuadrant's tools read.
//! A node's id is its locator, its label is `Kind\nnamespace/name`, and a dashed edge leads from a policy to
//! its target.

use std::fmt;

use super::TopologyReport;
use crate::graph::{Graph, NodeId, ObjectRow};
use crate::locator::{GATEWAY, GATEWAY_CLASS, Locator};
use crate::policies::PolicyNode;
use crate::rows::{RouteKind, SetKind};
use crate::topology::dot::{BEGIN, DotLines, END, label as text};

/// The parts of a graph that the text contains. Except with [`Full`](Self::Full), a policy is included only if one of
/// its targets is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All parts.
    Full,
    /// GatewayClasses, Gateways, ListenerSets, listeners and routes. Rules of routes and backends are left out.
    Routes,
    /// GatewayClasses, Gateways, ListenerSets and listeners. The label of each listener has the number of its routes.
    Listeners,
    /// GatewayClasses and Gateways.
    Gateways,
    /// GatewayClasses and the first Gateways by name. Contains the number of Gateways shown, and the number of all
    /// Gateways.
    First(usize, usize),
}

/// Formats the detail as in the annotation `kuadrant.io/topology-detail`.
impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("full"),
            Self::Routes => f.write_str("routes"),
            Self::Listeners => f.write_str("listeners"),
            Self::Gateways => f.write_str("gateways"),
            Self::First(shown, all) => write!(f, "first {shown} of {all}"),
        }
    }
}

/// Writes the whole graph.
#[must_use]
pub fn dot(report: &TopologyReport<'_, '_>) -> String {
    within(report, Detail::Full, usize::MAX).unwrap_or_default()
}

/// Writes a graph without nodes.
#[must_use]
pub fn empty() -> String {
    format!("{BEGIN}{END}")
}

/// The number of Gateways in the report.
#[must_use]
pub fn gateways(report: &TopologyReport<'_, '_>) -> usize {
    report.nodes().filter(|node| is_gateway(report.graph(), *node)).count()
}

fn is_gateway(graph: &Graph<'_>, node: NodeId) -> bool {
    graph.object(node).locator.kind == GATEWAY && !graph.is_section(node)
}

/// Writes the graph in this `detail`; `None` if that takes more than `limit` bytes.
#[must_use]
pub fn within(report: &TopologyReport<'_, '_>, detail: Detail, limit: usize) -> Option<String> {
    let graph = report.graph();
    let kept = kept(report, detail);
    let mut lines = DotLines::within(limit)?;
    for node in report.nodes().filter(|node| kept[node.index()]) {
        lines.object(&graph.locator(node), &label(graph, node, detail))?;
    }
    let targets = |policy: &PolicyNode<'_>| -> Vec<NodeId> {
        let on = policy.targets.iter().filter_map(|target| target.node.as_ref().ok());
        on.filter(|target| report.shows(**target) && kept[target.index()]).copied().collect()
    };
    for policy in report.policies() {
        let locator = policy.locator;
        let targets = targets(policy);
        if detail != Detail::Full && targets.is_empty() {
            continue;
        }
        lines.policy(&locator, &text(&[locator.kind.kind, &locator.object()]))?;
        for target in targets {
            lines.target(&locator, &graph.locator(target))?;
        }
    }
    for (from, to) in report.links().filter(|(from, to)| kept[from.index()] && kept[to.index()]) {
        lines.link(&graph.locator(from), &graph.locator(to))?;
    }
    Some(lines.sorted())
}

/// For each node, whether this `detail` includes it.
fn kept(report: &TopologyReport<'_, '_>, detail: Detail) -> Vec<bool> {
    let graph = report.graph();
    let mut gateways = 0;
    let mut is_kept = |node: NodeId| {
        let (kind, is_section) = (graph.object(node).locator.kind, graph.is_section(node));
        let is_route = RouteKind::named(kind).is_some();
        match detail {
            Detail::Full => true,
            Detail::Routes if is_route => !is_section,
            Detail::Routes | Detail::Listeners => {
                matches!(kind, GATEWAY_CLASS | GATEWAY) || SetKind::named(kind).is_some()
            }
            Detail::Gateways => kind == GATEWAY_CLASS || is_gateway(graph, node),
            Detail::First(shown, _) => {
                let is_gateway = is_gateway(graph, node) && report.shows(node);
                gateways += usize::from(is_gateway);
                kind == GATEWAY_CLASS || is_gateway && gateways <= shown
            }
        }
    };
    graph.nodes().map(&mut is_kept).collect()
}

fn label(graph: &Graph<'_>, node: NodeId, detail: Detail) -> String {
    let locator: Locator<'_> = graph.locator(node);
    let kind = locator.kind.kind;
    let Some(section) = locator.section else { return text(&[kind, &locator.object()]) };
    let name = format!("{}#{section}", locator.object());
    match graph.object(node).row {
        ObjectRow::Gateway(_) | ObjectRow::Set(_) => match detail {
            Detail::Listeners => {
                let routes = graph.links(node).count();
                text(&["Listener", &name, &format!("routes: {routes}")])
            }
            _ => text(&["Listener", &name]),
        },
        ObjectRow::Route(..) => text(&[&format!("{kind}Rule"), &name]),
        _ => text(&[&format!("{kind}Port"), &name]),
    }
}
