//! Reports the effective policies along paths.

use std::collections::HashMap;
use std::ops::ControlFlow;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Map, Value, json};

use super::{NodeLabel, Scope};
use crate::effective::{EffectiveCache, EffectiveId};
use crate::graph::{Graph, NodeId};
use crate::reason::Reason;
use crate::request::{Choice, Criterion, Request, UnknownChoice};
use crate::topology::PolicyId;

/// The maximum number of `unknownMatches`.
const UNKNOWN_LIMIT: usize = 16;

/// The effective policies along the selected paths.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveReport {
    /// One result for each path.
    pub answers: Vec<PathResult>,
    /// The request that the report is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// Messages about facts that the report could not determine.
    pub unknown: Vec<String>,
    /// Whether missing rights may hide further paths.
    #[serde(skip)]
    pub is_partial: bool,
    /// Whether the attachment of at least one object is unknown.
    #[serde(skip)]
    pub has_unknown_attachments: bool,
    /// Rules whose regular expressions were not evaluated; at most 16. They take precedence if the expressions match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown_matches: Vec<UnknownMatch>,
}

/// A rule with a regular expression that was not evaluated.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnknownMatch {
    /// The locator of the listener.
    pub listener: String,
    /// The locator of the rule.
    pub rule: String,
    /// Always `Unknown`.
    #[serde(rename = "match")]
    pub outcome: &'static str,
    /// The reason why the expression was not evaluated.
    pub reason: &'static str,
}

/// The effective policies along a path.
#[derive(Debug)]
pub struct PathResult {
    /// The path's nodes.
    pub path: Vec<NodeLabel>,
    /// The hosts that the path serves.
    pub hostnames: Vec<String>,
    /// The effective policies, in the order of kinds.
    pub effective: Vec<EffectivePolicyReport>,
    /// For a request: why the rule of this path serves the request.
    pub chosen: Option<RuleChoice>,
}

/// Why the rule of a path serves a request.
#[derive(Clone, Debug)]
pub struct RuleChoice {
    /// Whether the choice depends on a regular expression, which implementations may evaluate differently.
    pub implementation_specific: bool,
    /// The deciding criterion, and the rule that came second. `None` if no other rule matches.
    pub decided: Option<(Criterion, NodeLabel)>,
}

/// The effective policy of one kind.
#[derive(Clone, Debug)]
pub struct EffectivePolicyReport {
    /// The kind: `AuthPolicy.kuadrant.io`.
    pub kind: String,
    /// A hash. Two effective policies have the same hash if equal rules come from the same policies.
    pub id: String,
    /// Whether the merge is assumed.
    pub assumed: bool,
    /// The rules, in the order of their keys.
    pub rules: Vec<EffectiveRule>,
    /// The policies with a rule in force.
    pub sources: Vec<NodeLabel>,
    /// The policies without a rule in force.
    pub lost: Vec<NodeLabel>,
}

/// A rule in force.
#[derive(Clone, Debug)]
pub struct EffectiveRule {
    /// The identity of the rule: of two rules with the same key, only one applies.
    pub key: String,
    /// The policy from which the rule comes.
    pub source: NodeLabel,
    /// The value in the policy.
    pub value: Value,
    /// The number of paths on which the rule is in force; `None` if unknown.
    pub shared_by: Option<u64>,
}

impl EffectiveReport {
    /// Reports on the paths of `graph` in `scope`. With a `request`, reports only on the paths that serve the request.
    #[must_use]
    pub fn new(graph: &Graph<'_>, scope: &Scope, request: Option<Request>, mut unknown: Vec<String>) -> Self {
        let mut cache = EffectiveCache::new(graph);
        let found = request.as_ref().map(|request| request.choices(graph));
        let unknown_choices = found.as_ref().map(|found| found.unknown.clone()).unwrap_or_default();
        unknown.extend(not_evaluated(graph, &unknown_choices));
        unknown.extend(unknown_targets(graph));
        unknown.extend(unknown_attachments(graph));
        let choices: Option<HashMap<(NodeId, NodeId), RuleChoice>> = found.map(|found| {
            let chosen = found.chosen.into_iter();
            chosen.map(|choice| ((choice.listener, choice.rule), RuleChoice::new(graph, choice))).collect()
        });
        // On a path, the listener precedes the route and its rule.
        let choice = |nodes: &[NodeId]| {
            let choices = choices.as_ref()?;
            nodes.iter().find_map(|listener| choices.get(&(*listener, *nodes.last()?)).cloned())
        };
        let mut found: Vec<(Vec<NodeId>, Vec<String>, Vec<EffectiveId>)> = Vec::new();
        let _ = graph.walk::<()>(&mut cache, &mut |path, cache| {
            path.effective.iter().for_each(|id| cache.count(*id, 1));
            let along = || path.effective.iter().flat_map(|id| cache.stack(*id).to_vec()).collect();
            let is_chosen = choices.is_none() || choice(path.nodes).is_some();
            if is_chosen && scope.has_path(graph, path, along) {
                let hostnames = path.hostnames().into_iter().map(str::to_owned).collect();
                found.push((path.nodes.to_vec(), hostnames, path.effective.to_vec()));
            }
            ControlFlow::Continue(())
        });
        let shared = cache.shared();
        let answers = found.into_iter().map(|(nodes, hostnames, effective)| PathResult {
            chosen: choice(&nodes),
            path: nodes.into_iter().map(|node| NodeLabel::on_path(graph, node)).collect(),
            hostnames,
            effective: effective
                .into_iter()
                .map(|id| EffectivePolicyReport::new(&cache, id, Some(&shared)))
                .collect(),
        });
        let unknown_matches = unknown_choices.iter().take(UNKNOWN_LIMIT).map(|choice| UnknownMatch {
            listener: graph.locator(choice.listener).to_string(),
            rule: graph.locator(choice.rule).to_string(),
            outcome: "Unknown",
            reason: choice.why.words(),
        });
        let (answers, unknown_matches) = (answers.collect(), unknown_matches.collect());
        let has_unknown_attachments =
            graph.unresolved().iter().any(|item| item.reason == Reason::UnknownLabels);
        Self { answers, unknown_matches, request, unknown, is_partial: false, has_unknown_attachments }
    }

    /// Sets whether rights were missing.
    #[must_use]
    pub fn with_partial(self, is_partial: bool) -> Self {
        Self { is_partial, ..self }
    }

    /// Whether the report has no paths, and it is unknown whether any path exists.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let is_partial = self.is_partial || self.has_unknown_attachments || !self.unknown_matches.is_empty();
        self.answers.is_empty() && is_partial
    }

    /// The message for a report without paths.
    #[must_use]
    pub fn empty_message(&self) -> &'static str {
        match &self.request {
            None if self.is_partial => {
                "It is unknown whether such a path exists: some objects cannot be read."
            }
            None if self.is_unknown() => "It is unknown whether such a path exists.",
            None => "There is no such path.",
            Some(_) if self.is_partial => {
                "It is unknown whether a route matches this request: some objects cannot be read."
            }
            Some(_) if self.is_unknown() => "It is unknown whether a route matches this request.",
            Some(_) => "No route matches this request.",
        }
    }
}

/// Describes each rule with a regular expression that was not evaluated.
fn not_evaluated(graph: &Graph<'_>, choices: &[UnknownChoice]) -> Vec<String> {
    let line = |choice: &UnknownChoice| {
        let [rule, listener] =
            [choice.rule, choice.listener].map(|node| NodeLabel::object(graph.locator(node)).words);
        format!("{rule} at {listener} was not evaluated, and may match this request: {}", choice.why.words())
    };
    let mut lines: Vec<String> = choices.iter().take(UNKNOWN_LIMIT).map(line).collect();
    if let Some(more) = choices.len().checked_sub(UNKNOWN_LIMIT).filter(|more| *more > 0) {
        lines.push(format!("{more} more rules were not evaluated, and may match this request"));
    }
    lines
}

/// Describes each policy whose selectors may select more targets.
fn unknown_targets(graph: &Graph<'_>) -> Vec<String> {
    let policies = graph.policies().iter();
    let mut all = policies.flat_map(|policy| {
        let named = NodeLabel::object(policy.locator).words;
        policy.unknown.iter().map(move |message| format!("{named} may be in force: {message}"))
    });
    let mut lines: Vec<String> = all.by_ref().take(UNKNOWN_LIMIT).collect();
    let more = all.count();
    if more > 0 {
        lines.push(format!("{more} more policies may be in force: their targets are unknown"));
    }
    lines
}

/// Describes routes and ListenerSets whose attachment is unknown, or differs from the status that an implementation
/// reports.
fn unknown_attachments(graph: &Graph<'_>) -> Vec<String> {
    let of_objects = graph.unresolved().iter().filter(|item| item.from.section.is_none());
    let mut all = of_objects.filter_map(|item| {
        let words = match item.reason {
            Reason::UnknownLabels => " may not be attached",
            reason if reason.differs() => "",
            _ => return None,
        };
        Some(format!("{}{words}: {}", NodeLabel::object(item.from).words, item.message))
    });
    let mut lines: Vec<String> = all.by_ref().take(UNKNOWN_LIMIT).collect();
    let more = all.count();
    if more > 0 {
        lines.push(format!("{more} more routes may not be attached, or implementations differ"));
    }
    lines
}

impl RuleChoice {
    fn new(graph: &Graph<'_>, choice: Choice) -> Self {
        let against = |(criterion, rule)| (criterion, NodeLabel::object(graph.locator(rule)));
        Self { implementation_specific: choice.implementation_specific, decided: choice.decided.map(against) }
    }
}

impl EffectivePolicyReport {
    pub(super) fn new(
        cache: &EffectiveCache<'_, '_>,
        id: EffectiveId,
        shared: Option<&HashMap<(PolicyId, &str), u64>>,
    ) -> Self {
        let effective = cache.get(id);
        let policy = |number: PolicyId| NodeLabel::object(cache.policy(number).locator);
        let policies = |numbers: &[PolicyId]| numbers.iter().map(|number| policy(*number)).collect();
        let rules = cache.rules(id).into_iter().map(|entry| EffectiveRule {
            key: entry.rule.key.clone(),
            source: policy(entry.policy),
            value: entry.rule.value.clone(),
            shared_by: shared.map(|shared| {
                shared.get(&(entry.policy, entry.rule.key.as_str())).copied().unwrap_or_default()
            }),
        });
        Self {
            kind: effective.kind.to_string(),
            id: effective.id.to_string(),
            assumed: effective.assumed,
            rules: rules.collect(),
            sources: policies(&effective.sources),
            lost: policies(&effective.lost),
        }
    }

    fn json(&self) -> Value {
        let rule = |rule: &EffectiveRule| {
            let EffectiveRule { key, source, value, shared_by } = rule;
            let mut json = json!({"source": source.id, "value": value});
            if let Some(shared_by) = shared_by {
                json["sharedBy"] = (*shared_by).into();
            }
            (key.clone(), json)
        };
        let rules: Map<String, Value> = self.rules.iter().map(rule).collect();
        let mut json = json!({"id": self.id, "rules": rules, "sources": ids(&self.sources)});
        if self.assumed {
            json["assumed"] = true.into();
        }
        json
    }
}

/// An effective policy as JSON. The field `lost` is present only if a policy has no rule in force.
pub(super) fn json_of(
    path: &[NodeLabel],
    hostnames: &[String],
    effective: &[EffectivePolicyReport],
) -> Value {
    let in_force: Map<String, Value> = effective.iter().map(|of| (of.kind.clone(), of.json())).collect();
    let mut json = json!({"path": ids(path), "hostnames": hostnames, "effective": in_force});
    let lost = effective.iter().filter(|of| !of.lost.is_empty());
    let lost: Map<String, Value> = lost.map(|of| (of.kind.clone(), json!(ids(&of.lost)))).collect();
    if !lost.is_empty() {
        json["lost"] = lost.into();
    }
    json
}

fn ids(named: &[NodeLabel]) -> Vec<&str> {
    named.iter().map(|named| named.id.as_str()).collect()
}

/// Serializes the result with sorted keys.
impl Serialize for PathResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = json_of(&self.path, &self.hostnames, &self.effective);
        if self.chosen.as_ref().is_some_and(|chosen| chosen.implementation_specific) {
            json["implementationSpecific"] = true.into();
        }
        json.serialize(serializer)
    }
}
