//! Reports where a policy is in force, where it is not, and which policies replace it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::NodeLabel;
use crate::effective::{EffectiveCache, EffectiveId};
use crate::graph::{Graph, NodeId};
use crate::locator::{KindRef, Locator};
use crate::policies::PolicyNode;
use crate::topology::PolicyId;
use policy_sync_api::names::ObjectKey;
use policy_sync_api::text::named;

/// The effect of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyReport {
    /// Whether the policy has an effect; `None` if its targets are unknown.
    pub has_effect: Option<bool>,
    /// Whether the merge of the policy's kind is assumed.
    pub assumed: bool,
    /// The reason why the policy has no effect: a code and a sentence.
    pub no_effect: Option<(&'static str, String)>,
    /// The effect along paths; paths with the same effect are grouped.
    pub effects: Vec<PathsEffect>,
    /// Messages about facts that the report could not determine.
    pub unknown: Vec<String>,
}

/// The effect of a policy along some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathsEffect {
    /// The effect of the policy along the paths.
    pub effect: PolicyEffect,
    /// The number of paths.
    pub paths: u64,
    /// The ends of the paths: rules of routes, or listeners without routes.
    pub at: BTreeSet<NodeLabel>,
}

/// How much of a policy is in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyEffect {
    /// All rules of the policy are in force.
    InForce,
    /// Some rules of the policy are in force.
    Partial(Replacement),
    /// No rule of the policy is in force.
    Lost(Replacement),
    /// The policy has no rules.
    NoRules,
}

/// The replacement of rules of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replacement {
    /// The keys of the policy's rules that are not in force.
    pub keys: BTreeSet<String>,
    /// The policies whose rules are in force instead.
    pub policies: BTreeSet<NodeLabel>,
}

impl PolicyEffect {
    /// The effect as one word, for programs.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::InForce => "InForce",
            Self::Partial(_) => "InPart",
            Self::Lost(_) => "Lost",
            Self::NoRules => "NoRules",
        }
    }

    /// The rules that are not in force, with their replacement.
    #[must_use]
    pub fn replacement(&self) -> Option<&Replacement> {
        match self {
            Self::Partial(replacement) | Self::Lost(replacement) => Some(replacement),
            Self::InForce | Self::NoRules => None,
        }
    }

    /// The effect of the policy `number`, according to the effective policy `id`.
    fn of(cache: &EffectiveCache<'_, '_>, id: EffectiveId, number: PolicyId) -> Self {
        let in_force = cache.rules(id);
        let rules = &cache.policy(number).rules.rules;
        if rules.is_empty() {
            return Self::NoRules;
        }
        let mut replacement = Replacement::default();
        let named = |number: PolicyId| NodeLabel::object(cache.policy(number).locator);
        for rule in rules {
            match in_force.iter().find(|entry| entry.rule.key == rule.key) {
                Some(entry) if entry.policy == number => {}
                Some(entry) => {
                    replacement.keys.insert(rule.key.clone());
                    replacement.policies.insert(named(entry.policy));
                }
                // Another policy replaces the whole policy, or has a rule whose path contains the path of this rule or
                // is inside it.
                None => {
                    replacement.keys.insert(rule.key.clone());
                    let others = cache.get(id).sources.iter().filter(|source| **source != number);
                    replacement.policies.extend(others.map(|source| named(*source)));
                }
            }
        }
        match replacement.keys.len() {
            0 => Self::InForce,
            lost if lost < rules.len() => Self::Partial(replacement),
            _ => Self::Lost(replacement),
        }
    }
}

impl PolicyReport {
    /// Reports on the policy `key` of `kind`; `None` if `graph` has no such policy.
    #[must_use]
    pub fn new(graph: &Graph<'_>, kind: KindRef<'_>, key: &ObjectKey, unknown: Vec<String>) -> Option<Self> {
        let locator = Locator::of(kind, key);
        let place = graph.policies().iter().position(|policy| policy.locator == locator)?;
        let policy = &graph.policies()[place];
        let mut report = Self {
            has_effect: policy.has_effect(),
            assumed: policy.merge_behavior.is_assumed(),
            unknown: unknown.into_iter().chain(policy.unknown.iter().cloned()).collect(),
            no_effect: policy.without_effect().cloned().map(|(reason, text)| (reason.as_str(), text)),
            ..Self::default()
        };
        if policy.merge_behavior.is_direct() {
            report.effects.extend(at_targets(graph, policy));
            return Some(report);
        }
        let number = PolicyId::new(place);
        let mut cache = EffectiveCache::new(graph);
        let mut ends: BTreeMap<EffectiveId, (u64, BTreeSet<NodeId>)> = BTreeMap::new();
        let _ = graph.walk::<()>(&mut cache, &mut |path, cache| {
            for id in path.effective.iter().filter(|id| cache.stack(**id).contains(&number)) {
                let (paths, at) = ends.entry(*id).or_default();
                *paths += 1;
                at.extend(path.nodes.last());
            }
            ControlFlow::Continue(())
        });
        let mut on: BTreeMap<PolicyEffect, (u64, BTreeSet<NodeLabel>)> = BTreeMap::new();
        for (id, (more, nodes)) in ends {
            let (paths, at) = on.entry(PolicyEffect::of(&cache, id, number)).or_default();
            *paths += more;
            at.extend(nodes.into_iter().map(|node| NodeLabel::object(graph.locator(node))));
        }
        report.effects.extend(on.into_iter().map(|(effect, (paths, at))| PathsEffect { effect, paths, at }));
        Some(report)
    }
}

impl PolicyReport {
    /// The report as sentences without full stops.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.effects.iter().map(PathsEffect::sentence).collect();
        lines.extend(
            self.no_effect.as_ref().map(|(reason, text)| format!("It has no effect: {text} ({reason})")),
        );
        if lines.is_empty() && self.unknown.is_empty() {
            lines.push("No listener or route is on a path through its targets".to_owned());
        }
        if self.assumed && !self.effects.is_empty() {
            lines.push("The merge strategy of its kind is assumed".to_owned());
        }
        lines.extend(self.unknown.iter().map(|unknown| format!("Unknown: {unknown}")));
        lines
    }
}

impl PathsEffect {
    fn sentence(&self) -> String {
        let words =
            |named: &BTreeSet<NodeLabel>| named.iter().map(|named| named.words.clone()).collect::<Vec<_>>();
        let at = named(&words(&self.at));
        let on = match self.paths {
            0 => format!("at {at}"),
            1 => format!("on 1 path: {at}"),
            paths => format!("on {paths} paths: {at}"),
        };
        let replacement = |replacement: &Replacement| named(&words(&replacement.policies));
        let keys = |replacement: &Replacement| named(&replacement.keys.iter().collect::<Vec<_>>());
        match &self.effect {
            PolicyEffect::InForce => format!("In force {on}"),
            PolicyEffect::Partial(of) => {
                format!("Partly in force {on}; for {}, replaced by {}", keys(of), replacement(of))
            }
            PolicyEffect::Lost(of) => format!("Not in force {on}; replaced by {}", replacement(of)),
            PolicyEffect::NoRules => format!("It has no rules {on}"),
        }
    }
}

/// The effect of a policy that applies to its targets only.
fn at_targets(graph: &Graph<'_>, policy: &PolicyNode<'_>) -> Option<PathsEffect> {
    let at = policy.targets.iter().filter_map(|target| target.node.as_ref().ok());
    let at: BTreeSet<NodeLabel> = at.map(|node| NodeLabel::object(graph.locator(*node))).collect();
    if at.is_empty() { None } else { Some(PathsEffect { effect: PolicyEffect::InForce, paths: 0, at }) }
}

/// Serializes the report with sorted keys.
impl Serialize for PolicyReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ids =
            |named: &BTreeSet<NodeLabel>| named.iter().map(|named| named.id.clone()).collect::<Vec<_>>();
        let on_paths = |on: &PathsEffect| {
            let mut json = json!({"at": ids(&on.at), "fate": on.effect.as_str(), "paths": on.paths});
            if let Some(Replacement { keys, policies }) = on.effect.replacement() {
                json["instead"] = json!({"policies": ids(policies), "keys": keys});
            }
            json
        };
        let effects: Vec<Value> = self.effects.iter().map(on_paths).collect();
        let mut json = json!({"counts": self.has_effect, "fates": effects, "unknown": self.unknown});
        if self.assumed {
            json["assumed"] = true.into();
        }
        if let Some((reason, message)) = &self.no_effect {
            json["reason"] = (*reason).into();
            json["message"] = message.as_str().into();
        }
        json.serialize(serializer)
    }
}
