//! What is on the clusters of a hub, as the controller's own plans say it: which Gateways, and of each policy that targets them
//! how it is there, in the words of `explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::api::annotations::CLUSTER_OVERRIDES;
use crate::api::json::pointer;
use crate::api::names::{CLUSTER, ClusterName, ControllerName, ObjectKey, Origin};
use crate::api::schema::Schema;
use crate::clock::Clock;
use crate::hub::HubClient;
use crate::sync::desired::eligibility::{KindEligibility, of_kind};
use crate::sync::desired::overrides::{Chosen, Overrides};
use crate::sync::dry_run::{self, ReadError, WorksOf};
use crate::sync::explain::{Explanation, Reason, Said, Unavailable, Verdict, When, explain, explain_as_said};
use crate::sync::rows::policy::Policy;
use crate::sync::{OfflineMirror, Settings, View};
use crate::topology::clusters::{Fleet, GatewayThere, PolicyState, PolicyThere, is_target};
use crate::topology::locator::Kind;
use crate::topology::rows;
use crate::topology::show::ObjectFault;
use crate::topology::{Lent, Objects};

/// What is on clusters.
#[derive(Debug)]
pub struct Across {
    /// The classes, the Gateways and the policies of the hub.
    pub objects: Objects,
    /// Those of them that are on clusters.
    pub fleet: Fleet,
    /// Objects that are not as the API has them.
    pub faults: Vec<ObjectFault>,
    /// The Gateways that are not on the cluster that was asked for, each with why not.
    pub absent: Vec<String>,
}

/// Reads what is on `cluster`, or on all. How policies fare on all, their annotations say; on one, its works.
///
/// # Errors
///
/// Where the hub cannot be read.
pub async fn across(
    hub: &HubClient,
    controller: &ControllerName,
    settings: &Settings,
    cluster: Option<&ClusterName>,
) -> Result<Across, ReadError> {
    let works = cluster.map_or(WorksOf::Gateways, |cluster| WorksOf::Cluster(cluster.clone()));
    let found = dry_run::read_with(hub, controller, &works).await?;
    let guard = found.mirror.read();
    let view = guard.view(Clock::start().now());
    if let Some(cluster) = cluster.filter(|cluster| view.cluster(cluster).is_none()) {
        return Err(hub.lacks(format!("ManagedCluster {cluster}")).into());
    }
    let said = |origin: &Origin| found.said(origin);
    let said: Option<&dyn Fn(&Origin) -> Said> = if cluster.is_none() { Some(&said) } else { None };
    let surveyor =
        Surveyor { view, settings, unavailable: &found.unavailable, said, cluster, of_files: false };
    Ok(surveyor.across())
}

/// The same of what files have, to which nothing has answered; `None` where they have no such cluster.
#[must_use]
pub fn across_files(
    mirror: &OfflineMirror,
    settings: &Settings,
    cluster: Option<&ClusterName>,
) -> Option<Across> {
    let guard = mirror.read();
    let view = guard.view(OfflineMirror::settled());
    if cluster.is_some_and(|cluster| view.cluster(cluster).is_none()) {
        return None;
    }
    let unavailable = Unavailable::new();
    let surveyor =
        Surveyor { view, settings, unavailable: &unavailable, said: None, cluster, of_files: true };
    Some(surveyor.across())
}

struct Surveyor<'s> {
    view: View<'s>,
    settings: &'s Settings,
    unavailable: &'s Unavailable,
    /// What annotations of policies say, where works are not read.
    said: Option<&'s dyn Fn(&Origin) -> Said>,
    /// The one cluster that is asked for.
    cluster: Option<&'s ClusterName>,
    of_files: bool,
}

impl Surveyor<'_> {
    fn across(&self) -> Across {
        let (objects, faults) = Lent::new(self.view).read();
        let mut fleet = Fleet::default();
        let mut absent = Vec::new();
        for key in objects.gateways().keys() {
            let explanation = self.explain(&Origin::Gateway(key.clone()), "Gateway");
            let there = self.gateway(key, &explanation);
            if let (true, Some(cluster)) = (there.is_empty(), self.cluster) {
                absent.push(why_absent(key, cluster, &explanation));
            }
            if !there.is_empty() {
                fleet.gateways.insert(key.clone(), there);
            }
        }
        for (origin, row) in self.view.policies() {
            let (KindEligibility::Listed(_, info) | KindEligibility::Frozen(_, Some(info))) =
                of_kind(self.view, origin.kind())
            else {
                continue;
            };
            let kind = Kind { group: origin.kind().group.clone(), kind: info.kind.clone() };
            let key = (kind, origin.object().clone());
            let Some(policy) = objects.policies().get(&key) else { continue };
            let clusters = clusters_of(&fleet, &key.1, policy);
            if clusters.is_empty() {
                continue;
            }
            let explanation = self.explain(&origin, &info.kind);
            let mut variants = Variants::new(row, policy, info.schema.as_deref());
            let there = clusters.into_iter().filter_map(|cluster| {
                let verdict = explanation.clusters.get(&cluster)?;
                let there = self.policy(verdict, || variants.on(self.view, &cluster));
                Some((cluster, there))
            });
            let there = there.collect();
            fleet.policies.insert(key, there);
        }
        Across { objects, fleet, faults, absent }
    }

    fn explain(&self, origin: &Origin, kind: &str) -> Explanation {
        let Self { view, settings, unavailable, .. } = *self;
        let mut explanation = match self.said.filter(|_| origin.as_gateway().is_none()) {
            Some(said) => explain_as_said(view, settings, origin, kind, unavailable, said(origin)),
            None => explain(view, settings, origin, kind, unavailable),
        };
        if let Some(asked) = self.cluster {
            explanation.clusters.retain(|cluster, _| cluster == asked);
        }
        explanation
    }

    /// The clusters that the Gateway `key` is on.
    fn gateway(&self, key: &ObjectKey, explanation: &Explanation) -> BTreeMap<ClusterName, GatewayThere> {
        let origin = Origin::Gateway(key.clone());
        let is_there = |cluster: &ClusterName, verdict: &Verdict| {
            verdict.state.is_desired() && (self.of_files || self.view.work_of(&origin, cluster).is_some())
        };
        let there = explanation.clusters.iter().filter(|(cluster, verdict)| is_there(cluster, verdict));
        let there = there.map(|(cluster, verdict)| {
            let until = verdict.reasons.iter().find_map(|reason| match reason.when {
                Some(When::Until(moment)) if reason.code == "InGrace" => Some(moment.rfc3339()),
                _ => None,
            });
            let [first, silent] = [verdict.reasons.first(), silent(verdict)];
            let is_fine = |reason: &&Reason| reason.code == "Programmed" || self.is_planned(reason);
            let reason = silent.or(first.filter(|reason| !is_fine(reason)));
            // What is not programmed is there all the same.
            let certain = reason.is_none_or(|reason| reason.code == "NotProgrammed");
            let there = GatewayThere {
                until,
                reason: reason.map(words),
                certain,
                attached_routes: self.attached_routes(key, cluster),
            };
            (cluster.clone(), there)
        });
        there.collect()
    }

    /// Whether `reason` says no more than that nothing has been written of what files have.
    fn is_planned(&self, reason: &Reason) -> bool {
        self.of_files && ["NotWritten", "WaitsForPolicies"].contains(&reason.code)
    }

    /// How many routes the listeners of the Gateway `key` carry on `cluster`, as the Gateway's status says.
    fn attached_routes(&self, key: &ObjectKey, cluster: &ClusterName) -> BTreeMap<String, i32> {
        let prefix = format!("{cluster}.");
        let listeners = self.view.gateway(key).map(|gateway| &gateway.fields.status.listeners);
        let listeners = listeners.into_iter().flatten();
        let of_cluster = listeners.filter_map(|listener| {
            Some((listener.name.strip_prefix(&prefix)?.to_owned(), listener.attached_routes))
        });
        of_cluster.collect()
    }

    /// How a policy is on a cluster where this is to be said of it.
    fn policy(&self, verdict: &Verdict, variant: impl FnOnce() -> Variant) -> PolicyThere {
        let reason = verdict.reasons.first();
        let code = reason.map(|reason| reason.code).unwrap_or_default();
        let state = match code {
            "Enforced" => PolicyState::Enforced,
            "Applied" => PolicyState::Applied,
            _ if reason.is_some_and(|reason| self.is_planned(reason)) => PolicyState::Planned,
            _ => PolicyState::NotInForce,
        };
        let is_silent = silent(verdict);
        let is_known = match code {
            // The cluster's own policy is in force, whose content nobody has told.
            "Overridden" => false,
            // The cluster has judged what is there.
            "NotEnforced" => true,
            // Works would tell whether an earlier revision is there.
            "WaitingForApply" | "Untold" if self.said.is_some() => false,
            // Of an earlier revision that may be in force nothing is kept.
            _ => state.counts() || !verdict.state.is_present(),
        };
        let reason = if state.counts() { is_silent } else { reason };
        let Variant { spec, differs } = if state.counts() { variant() } else { Variant::default() };
        PolicyThere {
            state,
            certain: is_known && is_silent.is_none(),
            reason: reason.map(words),
            spec,
            differs,
        }
    }
}

/// Why the Gateway `key` is not on `cluster`.
fn why_absent(key: &ObjectKey, cluster: &ClusterName, explanation: &Explanation) -> String {
    let reason = explanation.clusters.get(cluster).and_then(|verdict| verdict.reasons.first());
    let (code, text) = reason.map(words).unwrap_or_default();
    let text = text.replace(CLUSTER, &cluster.0);
    format!("Gateway {key} is not on cluster {cluster}: {code}: {text}")
}

/// That the agent is silent.
fn silent(verdict: &Verdict) -> Option<&Reason> {
    verdict.reasons.iter().find(|reason| reason.code == "AgentSilent")
}

/// A reason as a word and a sentence, with its moment.
fn words(reason: &Reason) -> (&'static str, String) {
    let when = match reason.when {
        None => String::new(),
        Some(When::Since(moment)) => format!(" (since {})", moment.rfc3339()),
        Some(When::Until(moment)) => format!(" (until {})", moment.rfc3339()),
    };
    (reason.code, format!("{}{when}", reason.text))
}

/// The clusters of the Gateways that `policy`, which is `key`, targets.
fn clusters_of(fleet: &Fleet, key: &ObjectKey, policy: &rows::Policy) -> BTreeSet<ClusterName> {
    let is_on =
        |gateway: &ObjectKey| policy.targets.iter().any(|target| is_target(target, &key.namespace, gateway));
    let gateways = fleet.gateways.iter().filter(|(gateway, _)| is_on(gateway));
    gateways.flat_map(|(_, clusters)| clusters.keys().cloned()).collect()
}

/// A policy's spec on a cluster, where overrides make it another.
#[derive(Clone, Debug, Default)]
struct Variant {
    spec: Option<Arc<str>>,
    differs: Vec<String>,
}

/// A policy's specs on clusters, each made once.
struct Variants<'p> {
    base: Value,
    overrides: Overrides,
    schema: Option<&'p Schema>,
    made: BTreeMap<Chosen, Variant>,
}

impl<'p> Variants<'p> {
    fn new(row: &Policy, policy: &rows::Policy, schema: Option<&'p Schema>) -> Self {
        // Where these cannot be read the policy is frozen, and in force nowhere.
        let overrides = row.annotations.get(CLUSTER_OVERRIDES).and_then(|text| Overrides::parse(text).ok());
        Self {
            base: serde_json::from_str(&policy.spec).unwrap_or_default(),
            overrides: overrides.unwrap_or_default(),
            schema,
            made: BTreeMap::new(),
        }
    }

    /// The spec on `cluster`.
    fn on(&mut self, view: View<'_>, cluster: &ClusterName) -> Variant {
        let chosen =
            view.labels(cluster).map(|labels| self.overrides.choice().chosen(labels)).unwrap_or_default();
        if chosen.is_empty() {
            return Variant::default();
        }
        let Self { base, overrides, schema, made } = self;
        let make = |chosen: &Chosen| {
            // What the schema refuses is frozen as well.
            let patched = overrides.patched(base.clone(), chosen, *schema).unwrap_or_else(|_| base.clone());
            let mut differs = Vec::new();
            differences("", base, &patched, &mut differs);
            Variant { spec: Some(patched.to_string().into()), differs }
        };
        made.entry(chosen).or_insert_with_key(make).clone()
    }
}

/// The places at which `right` is not as `left`, as JSON pointers.
fn differences(place: &str, left: &Value, right: &Value, to: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let [left, right] = [left, right].map(|object| object.get(key).unwrap_or(&Value::Null));
                differences(&pointer(place, key), left, right, to);
            }
        }
        _ if left == right => {}
        _ => to.push(place.to_owned()),
    }
}

#[cfg(test)]
mod tests;
