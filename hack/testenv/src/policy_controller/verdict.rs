//! What a policy's status should say: a pure function of all policies of its kind and of the Gateways there are.

use std::collections::{HashMap, HashSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use policy_sync::api::gateway::{GROUP, TargetReference};
use policy_sync::api::names::ObjectKey;
use serde_json::Value;

/// The annotation of policies that came from the hub.
const SYNCED: &str = "kuadrant.io/policy-synced";

/// What a policy aims at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    group: String,
    kind: String,
    object: ObjectKey,
    section: Option<String>,
}

/// What is kept of a policy.
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
}

impl Policy {
    /// What is kept of `object`.
    pub(super) fn of(object: &DynamicObject) -> Self {
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

/// What a status should say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    generation: i64,
    conditions: Vec<(&'static str, &'static str, &'static str, String)>,
}

/// The verdict on each policy of one kind. Those being deleted count no more.
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
    let is_missing = |target: &&Target| {
        target.kind == "Gateway" && target.group == GROUP && !gateways.contains(&target.object)
    };
    let conditions = if let Some(missing) = policy.targets.iter().find(is_missing) {
        // What is not accepted has no `Enforced` at all, as with Kuadrant.
        let message = format!("{} target {} was not found", policy.kind, missing.object.name);
        vec![("Accepted", "False", "TargetNotFound", message)]
    } else {
        let accepted = format!("{} has been accepted", policy.kind);
        vec![("Accepted", "True", "Accepted", accepted), enforced(policy, local)]
    };
    Verdict { generation: policy.generation, conditions }
}

fn enforced(
    policy: &Policy,
    local: &HashMap<&Target, Vec<&ObjectKey>>,
) -> (&'static str, &'static str, &'static str, String) {
    let mut winners: Vec<String> = Vec::new();
    if policy.synced {
        let rivals = policy.targets.iter().filter_map(|target| local.get(target)).flatten();
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
    /// The conditions that `policy` should have, or `None` where its status says all that already.
    pub(super) fn conditions_for(&self, policy: &Policy, now: Timestamp) -> Option<Vec<Condition>> {
        let known = |kind: &str| policy.conditions.iter().find(|condition| condition.type_ == kind);
        let wanted: Vec<Condition> = self
            .conditions
            .iter()
            .map(|(kind, status, reason, message)| {
                let same = known(kind).filter(|known| known.status == *status);
                let moment = same.map_or_else(|| in_seconds(now), |known| known.last_transition_time.clone());
                Condition {
                    type_: (*kind).into(),
                    status: (*status).into(),
                    reason: (*reason).into(),
                    message: message.clone(),
                    observed_generation: Some(self.generation),
                    last_transition_time: moment,
                }
            })
            .collect();
        let settled = policy.observed == Some(self.generation)
            && wanted.len() == policy.conditions.len()
            && wanted.iter().all(|condition| known(&condition.type_) == Some(condition));
        (!settled).then_some(wanted)
    }
}

fn in_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests;
