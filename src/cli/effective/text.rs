//! Formats the policy rules in force for a terminal.

use policy_sync_api::text::cut;
use policy_sync_topology::show::{EffectivePolicyReport, EffectiveReport, PathResult};

/// The maximum number of characters of a rule's value.
const VALUE_LIMIT: usize = 100;

/// Formats a paragraph for each path: its nodes, then for each kind the rules, each with its value and its
/// policy.
pub(super) fn lines(report: &EffectiveReport) -> Vec<String> {
    if report.answers.is_empty() {
        return vec![report.empty_message().to_owned()];
    }
    let mut lines = Vec::new();
    for result in &report.answers {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(of_path(result, report.unknown_matches.is_empty()));
    }
    lines
}

/// The lines for one path. `all_known` is whether each rule was evaluated for the request.
fn of_path(result: &PathResult, all_known: bool) -> Vec<String> {
    let nodes: Vec<&str> = result.path.iter().map(|named| named.words.as_str()).collect();
    let mut lines = vec![nodes.join(" > "), format!("  hosts: {}", result.hostnames.join(", "))];
    if let Some(chosen) = &result.chosen {
        lines.push(match &chosen.decided {
            Some((criterion, rule)) => format!("  chosen over {}: {}", rule.words, criterion.words()),
            None if all_known => "  chosen: no other rule matches".to_owned(),
            None => "  chosen: no other rule that was evaluated matches".to_owned(),
        });
        if chosen.implementation_specific {
            lines.push("  a regular expression matches: its syntax depends on the implementation".to_owned());
        }
    }
    if result.effective.is_empty() {
        lines.push("  no policy".to_owned());
    }
    lines.extend(result.effective.iter().flat_map(rules));
    lines
}

/// The rules of one kind that are in force, and the policies that were overridden.
pub(super) fn rules(of: &EffectivePolicyReport) -> Vec<String> {
    let assumed = if of.assumed { " (assumed)" } else { "" };
    let mut lines = vec![format!("  {}{assumed}", of.kind)];
    if of.rules.is_empty() {
        lines.push("    no rules".to_owned());
    }
    for rule in &of.rules {
        let shared = match rule.shared_by {
            Some(paths) if paths > 1 => format!(", on {paths} paths"),
            _ => String::new(),
        };
        lines.push(format!("    {} of {}{shared}", rule.key, rule.source.words));
        lines.push(format!("      {}", cut(&rule.value.to_string(), VALUE_LIMIT)));
    }
    lines.extend(of.lost.iter().map(|policy| format!("    overridden: {}", policy.words)));
    lines
}
