//! Computes the status of each policy from all policies of its kind and the existing Gateways.

use std::collections::{HashMap, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use policy_sync_api::gateway::{GROUP, TargetReference};
use policy_sync_api::names::ObjectKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Annotation of policies that were synced from the hub.
const SYNCED: &str = "kuadrant.io/policy-synced";

/// The target of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    group: String,
    kind: String,
    object: ObjectKey,
    section: Option<String>,
}

/// The cached part of a policy.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) kind: String,
    pub(super) generation: i64,
    pub(super) synced: bool,
    pub(super) deleted: bool,
    pub(super) targets: Vec<Target>,
    pub(super) observed: Option<i64>,
    pub(super) conditions: Vec<Condition>,
    pub(super) ancestors: Vec<Ancestor>,
}

impl Policy {
    /// Reads the cached part of `object`.
    pub(super) fn read(object: &DynamicObject) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        let spec = &object.data["spec"];
        let plural = spec["targetRefs"].as_array().into_iter().flatten();
        let references = spec.get("targetRef").into_iter().chain(plural);
        let status = &object.data["status"];
        Self {
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            kind: object.types.as_ref().map_or_else(|| "Policy".into(), |types| types.kind.clone()),
            generation: object.metadata.generation.unwrap_or_default(),
            synced: object.annotations().contains_key(SYNCED),
            deleted: object.metadata.deletion_timestamp.is_some(),
            targets: references.map(|reference| target(reference, &namespace)).collect(),
            observed: status["observedGeneration"].as_i64(),
            conditions: serde_json::from_value(status["conditions"].clone()).unwrap_or_default(),
            ancestors: serde_json::from_value(status["ancestors"].clone()).unwrap_or_default(),
        }
    }
}

fn target(reference: &Value, namespace: &str) -> Target {
    let section = reference["sectionName"].as_str().map(Into::into);
    let reference: TargetReference = serde_json::from_value(reference.clone()).unwrap_or_default();
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    Target {
        object: ObjectKey::new(namespace, &reference.name),
        group: reference.group,
        kind: reference.kind,
        section,
    }
}

/// The status entry of one controller for one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ancestor {
    ancestor_ref: Value,
    controller_name: String,
    conditions: Vec<Condition>,
}

/// The form of a policy kind's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusForm {
    /// Conditions for the whole policy.
    Whole,
    /// Conditions for each target.
    Ancestors,
}

/// Controllers that report status for each target, with their condition types.
const CONTROLLERS: [(&str, &[&str]); 2] =
    [("example.com/timeouts", &["Accepted", "Enforced"]), ("example.com/audit", &["Accepted"])];

type Conditions = Vec<(&'static str, &'static str, &'static str, String)>;

/// The expected status of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    generation: i64,
    conditions: Conditions,
    by_target: Vec<(Target, Conditions)>,
}

/// The verdict for each policy of one kind. Policies that are being deleted are ignored.
pub(super) fn verdicts<'a>(
    policies: &'a HashMap<ObjectKey, Policy>,
    gateways: &HashSet<ObjectKey>,
) -> Vec<(&'a ObjectKey, &'a Policy, Verdict)> {
    let mut local: HashMap<&Target, Vec<&ObjectKey>> = HashMap::new();
    for (key, policy) in policies.iter().filter(|(_, policy)| !policy.synced && !policy.deleted) {
        for target in &policy.targets {
            local.entry(target).or_default().push(key);
        }
    }
    let judge = |(key, policy)| (key, policy, verdict(policy, gateways, &local));
    policies.iter().filter(|(_, policy)| !policy.deleted).map(judge).collect()
}

fn verdict(
    policy: &Policy,
    gateways: &HashSet<ObjectKey>,
    local: &HashMap<&Target, Vec<&ObjectKey>>,
) -> Verdict {
    let judge = |targets: &[Target]| conditions(policy, targets, gateways, local);
    Verdict {
        generation: policy.generation,
        conditions: judge(&policy.targets),
        by_target: policy
            .targets
            .iter()
            .map(|target| (target.clone(), judge(std::slice::from_ref(target))))
            .collect(),
    }
}

fn conditions(
    policy: &Policy,
    targets: &[Target],
    gateways: &HashSet<ObjectKey>,
    local: &HashMap<&Target, Vec<&ObjectKey>>,
) -> Conditions {
    let is_missing = |target: &&Target| {
        target.kind == "Gateway" && target.group == GROUP && !gateways.contains(&target.object)
    };
    if let Some(missing) = targets.iter().find(is_missing) {
        // As in Kuadrant, a policy that is not accepted has no `Enforced`.
        let message = format!("{} target {} was not found", policy.kind, missing.object.name);
        vec![("Accepted", "False", "TargetNotFound", message)]
    } else {
        let accepted = format!("{} has been accepted", policy.kind);
        vec![("Accepted", "True", "Accepted", accepted), enforced(policy, targets, local)]
    }
}

fn enforced(
    policy: &Policy,
    targets: &[Target],
    local: &HashMap<&Target, Vec<&ObjectKey>>,
) -> (&'static str, &'static str, &'static str, String) {
    let mut winners: Vec<String> = Vec::new();
    if policy.synced {
        let rivals = targets.iter().filter_map(|target| local.get(target)).flatten();
        winners = rivals.map(ToString::to_string).collect();
        winners.sort();
        winners.dedup();
    }
    if winners.is_empty() {
        ("Enforced", "True", "Enforced", format!("{} has been successfully enforced", policy.kind))
    } else {
        ("Enforced", "False", "Overridden", format!("Policy is overridden by [{}]", winners.join(" ")))
    }
}

impl Verdict {
    /// The status to write, or `None` if `policy` has this status already.
    pub(super) fn status_for(&self, policy: &Policy, answers: StatusForm, now: Timestamp) -> Option<Value> {
        match answers {
            StatusForm::Whole => {
                let conditions = self.renewed(&self.conditions, &policy.conditions, now);
                let settled =
                    policy.observed == Some(self.generation) && same(&conditions, &policy.conditions);
                let status = || json!({"observedGeneration": self.generation, "conditions": conditions});
                (!settled).then(status)
            }
            StatusForm::Ancestors => {
                let ancestors = self.ancestors(&policy.ancestors, now);
                let known = &policy.ancestors;
                let settled = ancestors.len() == known.len()
                    && ancestors
                        .iter()
                        .zip(known)
                        .all(|(one, other)| one.is_of(other) && same(&one.conditions, &other.conditions));
                (!settled).then(|| json!({ "ancestors": ancestors }))
            }
        }
    }

    fn ancestors(&self, known: &[Ancestor], now: Timestamp) -> Vec<Ancestor> {
        let entry = |(target, conditions): &(Target, Conditions), (name, types): (&str, &[&str])| {
            let mut entry = Ancestor {
                ancestor_ref: target.reference(),
                controller_name: name.into(),
                conditions: vec![],
            };
            let known = known.iter().find(|known| known.is_of(&entry));
            let known = known.map(|known| known.conditions.as_slice()).unwrap_or_default();
            let wanted: Conditions =
                conditions.iter().filter(|condition| types.contains(&condition.0)).cloned().collect();
            entry.conditions = self.renewed(&wanted, known, now);
            entry
        };
        let targets = self.by_target.iter();
        targets.flat_map(|target| CONTROLLERS.map(|controller| entry(target, controller))).collect()
    }

    /// Builds the conditions. Conditions with an unchanged status keep their transition time.
    fn renewed(&self, wanted: &Conditions, known: &[Condition], now: Timestamp) -> Vec<Condition> {
        let renew = |(kind, status, reason, message): &(&str, &str, &str, String)| {
            let same = known.iter().find(|known| known.type_ == *kind && known.status == *status);
            let moment = same.map_or_else(|| in_seconds(now), |known| known.last_transition_time.clone());
            Condition {
                type_: (*kind).into(),
                status: (*status).into(),
                reason: (*reason).into(),
                message: message.clone(),
                observed_generation: Some(self.generation),
                last_transition_time: moment,
            }
        };
        wanted.iter().map(renew).collect()
    }
}

impl Ancestor {
    /// Whether both entries have the same target and controller.
    fn is_of(&self, other: &Self) -> bool {
        self.ancestor_ref == other.ancestor_ref && self.controller_name == other.controller_name
    }
}

impl Target {
    fn reference(&self) -> Value {
        let mut reference = json!({
            "group": self.group, "kind": self.kind,
            "namespace": self.object.namespace, "name": self.object.name,
        });
        if let Some(section) = &self.section {
            reference["sectionName"] = section.as_str().into();
        }
        reference
    }
}

/// Whether both lists contain the same conditions, in any order.
fn same(left: &[Condition], right: &[Condition]) -> bool {
    left.len() == right.len() && left.iter().all(|condition| right.contains(condition))
}

fn in_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests;
