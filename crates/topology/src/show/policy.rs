//! Reports where a policy is in force, where it is not, and which policies replace it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::Named;
use crate::effective::{EffectiveId, Folds};
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
    pub counts: Option<bool>,
    /// Whether the merge of its kind is assumed.
    pub assumed: bool,
    /// The reason why the policy has no effect: a code and a sentence.
    pub void: Option<(&'static str, String)>,
    /// The effect along paths, grouped by the fate of the policy.
    pub fates: Vec<OnPaths>,
    /// Messages about facts that the report could not determine.
    pub unknown: Vec<String>,
}

/// The fate of a policy along some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnPaths {
    /// The fate of the policy.
    pub fate: Fate,
    /// The number of paths.
    pub paths: u64,
    /// The ends of the paths: rules of routes, or listeners without routes.
    pub at: BTreeSet<Named>,
}

/// How much of a policy is in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// All of its rules are in force.
    InForce,
    /// Some of its rules are in force.
    InPart(Instead),
    /// None of its rules is in force.
    Lost(Instead),
    /// It has no rules.
    NoRules,
}

/// The replacement of rules of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instead {
    /// The keys of the policy's rules that are not in force.
    pub keys: BTreeSet<String>,
    /// The policies whose rules are in force instead.
    pub policies: BTreeSet<Named>,
}

impl Fate {
    /// The fate as one word, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::InForce => "InForce",
            Self::InPart(_) => "InPart",
            Self::Lost(_) => "Lost",
            Self::NoRules => "NoRules",
        }
    }

    /// The rules that are not in force, with their replacement.
    #[must_use]
    pub fn instead(&self) -> Option<&Instead> {
        match self {
            Self::InPart(instead) | Self::Lost(instead) => Some(instead),
            Self::InForce | Self::NoRules => None,
        }
    }

    /// The fate of the policy `number` in the effective policy `id`.
    fn of(folds: &Folds<'_, '_>, id: EffectiveId, number: PolicyId) -> Self {
        let in_force = folds.rules(id);
        let rules = &folds.policy(number).rules.rules;
        if rules.is_empty() {
            return Self::NoRules;
        }
        let mut instead = Instead::default();
        let named = |number: PolicyId| Named::object(folds.policy(number).locator);
        for rule in rules {
            match in_force.iter().find(|entry| entry.rule.key == rule.key) {
                Some(entry) if entry.policy == number => {}
                Some(entry) => {
                    instead.keys.insert(rule.key.clone());
                    instead.policies.insert(named(entry.policy));
                }
                // Another policy replaces the whole policy, or has a rule at a path that contains or is
                // inside the rule's own.
                None => {
                    instead.keys.insert(rule.key.clone());
                    let others = folds.get(id).sources.iter().filter(|source| **source != number);
                    instead.policies.extend(others.map(|source| named(*source)));
                }
            }
        }
        match instead.keys.len() {
            0 => Self::InForce,
            lost if lost < rules.len() => Self::InPart(instead),
            _ => Self::Lost(instead),
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
            counts: policy.counts(),
            assumed: policy.manner.is_assumed(),
            unknown: unknown.into_iter().chain(policy.unknown.iter().cloned()).collect(),
            void: policy.without_effect().cloned().map(|(reason, text)| (reason.word(), text)),
            ..Self::default()
        };
        if policy.manner.is_direct() {
            report.fates.extend(at_targets(graph, policy));
            return Some(report);
        }
        let number = PolicyId::new(place);
        let mut folds = Folds::new(graph);
        let mut ends: BTreeMap<EffectiveId, (u64, BTreeSet<NodeId>)> = BTreeMap::new();
        let _ = graph.walk::<()>(&mut folds, &mut |path, folds| {
            for id in path.effective.iter().filter(|id| folds.stack(**id).contains(&number)) {
                let (paths, at) = ends.entry(*id).or_default();
                *paths += 1;
                at.extend(path.nodes.last());
            }
            ControlFlow::Continue(())
        });
        let mut on: BTreeMap<Fate, (u64, BTreeSet<Named>)> = BTreeMap::new();
        for (id, (more, nodes)) in ends {
            let (paths, at) = on.entry(Fate::of(&folds, id, number)).or_default();
            *paths += more;
            at.extend(nodes.into_iter().map(|node| Named::object(graph.locator(node))));
        }
        report.fates.extend(on.into_iter().map(|(fate, (paths, at))| OnPaths { fate, paths, at }));
        Some(report)
    }
}

impl PolicyReport {
    /// The report as sentences without full stops.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.fates.iter().map(OnPaths::sentence).collect();
        lines.extend(self.void.as_ref().map(|(reason, text)| format!("It has no effect: {text} ({reason})")));
        if lines.is_empty() && self.unknown.is_empty() {
            lines.push("No listener or route is on a path through its targets".to_owned());
        }
        if self.assumed && !self.fates.is_empty() {
            lines.push("The merge strategy of its kind is assumed".to_owned());
        }
        lines.extend(self.unknown.iter().map(|unknown| format!("Unknown: {unknown}")));
        lines
    }
}

impl OnPaths {
    fn sentence(&self) -> String {
        let words =
            |named: &BTreeSet<Named>| named.iter().map(|named| named.words.clone()).collect::<Vec<_>>();
        let at = named(&words(&self.at));
        let on = match self.paths {
            0 => format!("at {at}"),
            1 => format!("on 1 path: {at}"),
            paths => format!("on {paths} paths: {at}"),
        };
        let instead = |instead: &Instead| named(&words(&instead.policies));
        let keys = |instead: &Instead| named(&instead.keys.iter().collect::<Vec<_>>());
        match &self.fate {
            Fate::InForce => format!("In force {on}"),
            Fate::InPart(of) => {
                format!("Partly in force {on}; for {}, replaced by {}", keys(of), instead(of))
            }
            Fate::Lost(of) => format!("Not in force {on}; replaced by {}", instead(of)),
            Fate::NoRules => format!("It has no rules {on}"),
        }
    }
}

/// The effect of a policy that applies to its targets only.
fn at_targets(graph: &Graph<'_>, policy: &PolicyNode<'_>) -> Option<OnPaths> {
    let at = policy.targets.iter().filter_map(|target| target.node.as_ref().ok());
    let at: BTreeSet<Named> = at.map(|node| Named::object(graph.locator(*node))).collect();
    if at.is_empty() { None } else { Some(OnPaths { fate: Fate::InForce, paths: 0, at }) }
}

/// The keys are sorted.
impl Serialize for PolicyReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ids = |named: &BTreeSet<Named>| named.iter().map(|named| named.id.clone()).collect::<Vec<_>>();
        let on_paths = |on: &OnPaths| {
            let mut json = json!({"at": ids(&on.at), "fate": on.fate.word(), "paths": on.paths});
            if let Some(Instead { keys, policies }) = on.fate.instead() {
                json["instead"] = json!({"policies": ids(policies), "keys": keys});
            }
            json
        };
        let fates: Vec<Value> = self.fates.iter().map(on_paths).collect();
        let mut json = json!({"counts": self.counts, "fates": fates, "unknown": self.unknown});
        if self.assumed {
            json["assumed"] = true.into();
        }
        if let Some((reason, message)) = &self.void {
            json["reason"] = (*reason).into();
            json["message"] = message.as_str().into();
        }
        json.serialize(serializer)
    }
}
