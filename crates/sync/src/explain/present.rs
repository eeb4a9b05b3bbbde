//! Explains the state of an object on a cluster for which it is planned: whether its work is written, and the report of
//! its agent.

use std::cmp::Ordering;

use super::{CLUSTER_PLACEHOLDER, Explainer, Reason, TimeBound};
use crate::desired::{PlannedWork, WaitReason};
use crate::status::gateway;
use crate::status::overriding::OverridingPolicies;
use policy_sync_api::annotations::{ENFORCED, Synced, SyncedCondition};
use policy_sync_api::names::{ClusterName, ObjectKey, Origin};
use policy_sync_api::policy_state::{ACCEPTED, PolicyState};
use policy_sync_api::text::{LIST_LIMIT, join_limited};

impl Explainer<'_> {
    /// Whether the object is in sync on `cluster`, and why. `planned` is the object's planned work on this cluster.
    pub(super) fn present(&self, cluster: &ClusterName, planned: &PlannedWork) -> (bool, Reason) {
        if let Some(problem) = self.foreign.iter().find(|problem| problem.is_foreign_work(cluster)) {
            let reason = Reason::new("ForeignWork", problem.text().replace(&*cluster.0, CLUSTER_PLACEHOLDER));
            return (false, reason.change(format!("ManifestWork {CLUSTER_PLACEHOLDER}/{}", planned.name)));
        }
        let work = format!("ManifestWork {CLUSTER_PLACEHOLDER}/{}", planned.name);
        let Some(found) = self.works.get(cluster) else {
            let text = format!("the controller has not created {work} yet");
            return (
                false,
                Reason::new("NotWritten", text)
                    .change("the controller: check that it is running and has the right to write"),
            );
        };
        if let Some(since) = found.deleting {
            let text = "its agent has not finished removing the previous copy";
            let reason = Reason::new("Leaving", text).when(TimeBound::Since(since));
            return (false, reason.change(format!("the agent of cluster {CLUSTER_PLACEHOLDER}")));
        }
        if found.content.spec != planned.content.spec {
            let text = format!("the controller has not updated {work} yet");
            return (
                false,
                Reason::new("NotWritten", text)
                    .change("the controller: check that it is running and has the right to write"),
            );
        }
        let Some(entry) = self.entries.get(cluster) else { return (false, waiting()) };
        if let Some(message) = entry.message.as_ref().filter(|_| !entry.applied) {
            let text = format!("its agent could not apply it: {message}");
            return (
                false,
                Reason::new("NotApplied", text)
                    .change(format!("{} on cluster {CLUSTER_PLACEHOLDER}", self.copy)),
            );
        }
        if !entry.applied {
            return (false, waiting());
        }
        match self.origin {
            Origin::Gateway(_) => match gateway::lacks(found) {
                None => (true, Reason::new("Programmed", "it is programmed there")),
                Some(text) => (false, self.not_in_force("NotProgrammed", &format!("not programmed: {text}"))),
            },
            Origin::Object(..) => self.enforced(entry),
        }
    }

    /// Why the object's work is not created yet.
    pub(super) fn waits(&self, waiting: &WaitReason) -> Reason {
        let awaited = match waiting {
            WaitReason::Policies(awaited) => awaited,
            WaitReason::Older(policy) => {
                let reason = Reason::new("WaitsForOlder", format!("it {}", waiting.text()));
                return reason.change(format!("{} {policy} on cluster {CLUSTER_PLACEHOLDER}", self.kind));
            }
        };
        let class = self.view.gateway(self.origin.object()).map(|gateway| self.parameters(&gateway.class));
        let text = match (awaited.policies.is_empty() && awaited.unlisted.is_empty(), awaited.overdue) {
            (true, _) => "it waits until its policies are known".to_owned(),
            (false, false) => format!("it {}", waiting.text()),
            (false, true) => {
                format!("it {}; longer than policyWaitSeconds, and policyWaitAction is hold", waiting.text())
            }
        };
        let object = |policy: &Origin| {
            format!("{} {} on cluster {CLUSTER_PLACEHOLDER}", policy.kind(), policy.object())
        };
        let reason = Reason::new("WaitsForPolicies", text);
        // The list of objects to change has at most as many policies as the text names.
        let reason = reason.changes(awaited.policies.iter().take(LIST_LIMIT).map(object));
        reason.changes(class.filter(|_| awaited.overdue).map(|place| format!("{place} policyWaitAction")))
    }

    fn enforced(&self, entry: &Synced) -> (bool, Reason) {
        if let Some(message) = &entry.message {
            let text = format!("it is applied, but its status is unknown: {message}");
            return (
                false,
                Reason::new("Untold", text)
                    .change(format!("{} status on cluster {CLUSTER_PLACEHOLDER}", self.copy)),
            );
        }
        if entry.pending {
            let text = "it is applied, but the cluster has not reported on its current generation yet";
            return (
                false,
                Reason::new("Pending", text)
                    .change(format!("the policy controller of cluster {CLUSTER_PLACEHOLDER}")),
            );
        }
        let state = PolicyState::of_kind(self.role, entry);
        let lacking = entry.condition(ENFORCED).filter(|condition| condition.status != "True");
        let with = |status: &str| entry.conditions.iter().find(|condition| condition.status == status);
        let lacking = lacking.or_else(|| with("False")).or_else(|| with("Unknown"));
        match state {
            PolicyState::Enforced => (true, Reason::new("Enforced", "it is enforced there")),
            PolicyState::Applied => (true, Reason::new("Applied", "it is applied there")),
            PolicyState::Accepted => {
                let text = "it is accepted there, but its controller does not report whether it is enforced";
                (true, Reason::new("Accepted", text))
            }
            PolicyState::Overridden => (false, self.overridden(entry, lacking)),
            PolicyState::PartiallyEnforced => {
                let because = entry.condition(ENFORCED).map(message).unwrap_or_default();
                let text = format!("only enforced on some of its targets{because}");
                (false, self.not_in_force("PartiallyEnforced", &text))
            }
            PolicyState::Rejected => {
                let because = entry.condition(ACCEPTED).map(words).unwrap_or_default();
                (false, self.not_in_force("Rejected", &format!("not accepted: {because}")))
            }
            PolicyState::NotEnforced => (false, self.not_in_force("NotEnforced", &lacks(lacking))),
            _ if lacking.is_some() => (false, self.not_in_force("Unknown", &lacks(lacking))),
            _ => {
                let text = "it is applied there, but no controller reports whether it is enforced";
                let change = format!("the policy controller of cluster {CLUSTER_PLACEHOLDER}");
                (false, Reason::new("Unknown", text).change(change))
            }
        }
    }

    /// Names the policies that override the object: policies of the hub, sources of generated policies, and policies of
    /// the cluster.
    fn overridden(&self, entry: &Synced, condition: Option<&SyncedCondition>) -> Reason {
        let overriding = OverridingPolicies::read(self.view, self.origin, entry);
        let unnamed = || OverridingPolicies { of_cluster: true, ..OverridingPolicies::default() };
        let OverridingPolicies { of_hub, generated, of_cluster } = overriding.unwrap_or_else(unnamed);
        let mut who = Vec::new();
        if !of_hub.is_empty() {
            let is_one = of_hub.len() == 1;
            let only = of_hub.first().filter(|_| is_one && generated.is_empty() && !of_cluster);
            let age = only.and_then(|key| self.age(key, &entry.cluster));
            let noun = if is_one { "policy" } else { "the policies" };
            let names = join_limited(of_hub.iter().map(ToString::to_string));
            who.push(format!("{noun} {names} of the hub{}", age.unwrap_or_default()));
        }
        let sources: Vec<String> = generated.iter().map(|(kind, key)| format!("{kind} {key}")).collect();
        if !sources.is_empty() {
            let names = join_limited(sources.iter().cloned());
            who.push(format!("policies that the cluster's controller generated from {names} of the hub"));
        }
        if of_cluster {
            who.push("a policy that was created on the cluster".to_owned());
        }
        let because = condition.map(message).unwrap_or_default();
        let text = format!("it is overridden by {}{because}", who.join(" and "));
        let hub = of_hub.iter().map(|key| format!("{} {key}", self.kind));
        let reason = Reason::new("Overridden", text).changes(hub.chain(sources));
        reason.changes(
            of_cluster.then(|| format!("the policies that were created on cluster {CLUSTER_PLACEHOLDER}")),
        )
    }

    /// Compares the age of the copy of the policy `key` on `cluster` with the age of this policy's copy. `None` if the
    /// age of one of these copies is unknown. Policy controllers, such as Kuadrant, use the age in whole seconds to
    /// order policies with the same target.
    fn age(&self, key: &ObjectKey, cluster: &ClusterName) -> Option<&'static str> {
        let other = Origin::new(self.origin.kind().clone(), key.clone());
        let other = self.view.work_of(&other, cluster)?.copied?;
        Some(match other.cmp(&self.works.get(cluster)?.copied?) {
            Ordering::Less => ", and its copy is older there",
            Ordering::Equal => ", and both copies were created in the same second there",
            Ordering::Greater => ", and its copy is younger there",
        })
    }

    fn not_in_force(&self, code: &'static str, why: &str) -> Reason {
        let copy = format!("{} on cluster {CLUSTER_PLACEHOLDER}", self.copy);
        Reason::new(code, format!("it is applied, but {why}")).change(self.regarding.clone()).change(copy)
    }
}

fn waiting() -> Reason {
    Reason::new("WaitingForApply", "its agent has not applied it yet")
        .change(format!("the agent of cluster {CLUSTER_PLACEHOLDER}"))
}

/// A text with name, reason and message of a condition that is not true.
fn lacks(condition: Option<&SyncedCondition>) -> String {
    let text = |found: &SyncedCondition| {
        let (name, why) = (&found.condition_type, words(found));
        match &*found.status {
            "False" => format!("not {}: {why}", name.to_lowercase()),
            status => format!("its condition {name} is {status}: {why}"),
        }
    };
    condition.map(text).unwrap_or_default()
}

fn words(condition: &SyncedCondition) -> String {
    let reason = condition.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("Unknown");
    format!("{reason}{}", message(condition))
}

fn message(condition: &SyncedCondition) -> String {
    let message = condition.message.as_deref().filter(|message| !message.is_empty());
    message.map(|message| format!(": {message}")).unwrap_or_default()
}
