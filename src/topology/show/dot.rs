//! A graph as [DOT](https://graphviz.org/doc/info/lang.html), in the form that Kuadrant's tools read: a node's id is its locator, its
//! label `Kind\nnamespace/name`, and a dashed edge leads from a policy to what it targets.

use std::fmt::Write;

use super::TopologyReport;
use crate::topology::graph::{Graph, NodeId, ObjectRow};
use crate::topology::locator::Locator;

/// The graph as DOT.
#[must_use]
pub fn dot(report: &TopologyReport<'_, '_>) -> String {
    let graph = report.graph();
    let mut lines: Vec<String> = Vec::new();
    for node in report.nodes() {
        let locator = graph.locator(node);
        lines.push(format!("  {} [label={} shape=box];", quoted(&locator.to_string()), label(graph, node)));
    }
    for policy in report.policies() {
        let locator = policy.locator;
        let label = text(locator.kind.kind, &locator.object());
        lines.push(format!("  {} [label={label} shape=note];", quoted(&locator.to_string())));
        for target in policy.targets.iter().filter_map(|target| target.node.as_ref().ok()) {
            if report.shows(*target) {
                let to = graph.locator(*target).to_string();
                lines.push(format!("  {} -> {} [style=dashed];", quoted(&locator.to_string()), quoted(&to)));
            }
        }
    }
    for (from, to) in report.links() {
        let [from, to] = [from, to].map(|node| quoted(&graph.locator(node).to_string()));
        lines.push(format!("  {from} -> {to};"));
    }
    lines.sort();
    let mut dot = String::from("strict digraph {\n  graph [rankdir=LR];\n");
    for line in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(dot, "{line}");
    }
    dot + "}\n"
}

fn label(graph: &Graph<'_>, node: NodeId) -> String {
    let locator: Locator<'_> = graph.locator(node);
    let kind = locator.kind.kind;
    let Some(section) = locator.section else { return text(kind, &locator.object()) };
    let name = format!("{}#{section}", locator.object());
    match graph.object(node).row {
        ObjectRow::Gateway(_) | ObjectRow::Set(_) => text("Listener", &name),
        ObjectRow::Route(..) => text(&format!("{kind}Rule"), &name),
        _ => text(&format!("{kind}Port"), &name),
    }
}

/// A label of two lines, whose break is DOT's.
fn text(kind: &str, name: &str) -> String {
    format!("\"{}\\n{}\"", escaped(kind), escaped(name))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// `text` inside of DOT's quotes. A backslash begins an escape in a label, and a line break would end a line of this text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            control if control.is_control() => escaped.extend(control.escape_unicode().flat_map(|c| {
                let backslash = (c == '\\').then_some('\\');
                backslash.into_iter().chain([c])
            })),
            other => escaped.push(other),
        }
    }
    escaped
}
