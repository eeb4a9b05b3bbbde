//! Gateways and policies on the clusters of a hub, for the command and the web page of effective policies. For each
//! object, lists its clusters and its state on each of them. Clusters and states come from the controller's plans, with
//! the reasons of `explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::snapshot::{self, ReadError, WorkSelection};
use policy_sync_api::annotations::CLUSTER_OVERRIDES;
use policy_sync_api::json::pointer;
use policy_sync_api::names::{
    CLUSTER_PLACEHOLDER, ClusterName, ControllerName, GroupResource, ObjectKey, Origin,
};
use policy_sync_api::params::Role;
use policy_sync_api::policy_state::PolicyState;
use policy_sync_api::schema::Schema;
use policy_sync_hub::HubClient;
use policy_sync_hub::clock::Clock;
use policy_sync_sync::desired::eligibility::{KindEligibility, of_gateway, of_kind, of_target};
use policy_sync_sync::desired::overrides::{OverrideIndexes, Overrides};
use policy_sync_sync::explain::{ClusterVerdict, Explanation, Reason, TimeBound, Unavailable, explain_on};
use policy_sync_sync::rows::kind::KindInfo;
use policy_sync_sync::rows::policy::Policy;
use policy_sync_sync::topology::TopologyInputs;
use policy_sync_sync::{ClassParams, OfflineMirror, Settings, View};
use policy_sync_topology::Objects;
use policy_sync_topology::clusters::{
    Fleet, GatewayClusterState, PolicyClusterState, PolicyDistribution, Variant, is_target,
};
use policy_sync_topology::locator::{GATEWAY, Kind, Locator};
use policy_sync_topology::rows;
use policy_sync_topology::show::{ObjectFault, Scope};

/// The Gateways and policies on clusters.
#[derive(Debug)]
pub struct FleetObjects {
    /// The GatewayClasses, Gateways and policies of the hub.
    pub objects: Objects,
    /// The Gateways and policies that are on clusters.
    pub fleet: Fleet,
    /// Objects that do not match the schema of their API.
    pub faults: Vec<ObjectFault>,
    /// Gaps in the result, one line each. These are Gateways that are not on the requested cluster or are leaving a
    /// cluster, and kinds of policies that cannot be read.
    pub unknown: Vec<String>,
    /// The lines of `unknown` that name kinds of policies.
    pub unread: Vec<String>,
}

/// The parameters of [`fleet_objects()`].
#[derive(Clone, Copy, Debug)]
pub struct FleetObjectsQuery<'q> {
    /// The settings of the controller on which plans depend.
    pub settings: &'q Settings,
    /// Restricts the result to one cluster.
    pub cluster: Option<&'q ClusterName>,
    /// Restricts the result to some Gateways.
    pub scope: &'q Scope,
}

/// Reads the Gateways and policies on clusters from the hub.
///
/// # Errors
///
/// If the hub cannot be read, or has no such cluster.
pub async fn fleet_objects(
    hub: &HubClient,
    controller: &ControllerName,
    query: FleetObjectsQuery<'_>,
) -> Result<FleetObjects, ReadError> {
    let works = query.cluster.map_or(WorkSelection::All, |cluster| WorkSelection::Cluster(cluster.clone()));
    let found = snapshot::read_with(hub, controller, &works).await?;
    let guard = found.mirror.read();
    let view = guard.view(Clock::start().now());
    if let Some(cluster) = query.cluster.filter(|cluster| view.cluster(cluster).is_none()) {
        return Err(hub.not_found(format!("ManagedCluster {cluster}")).into());
    }
    Ok(FleetObjectsBuilder { view, query, unavailable: &found.unavailable, from_files: false }
        .fleet_objects())
}

/// Computes the result of [`fleet_objects()`] from files. The mirror of files contains no works and thus no status
/// reports, so pending policies count as in force. Returns `None` if the files lack the requested cluster.
#[must_use]
pub fn fleet_objects_from_files(
    mirror: &OfflineMirror,
    query: FleetObjectsQuery<'_>,
) -> Option<FleetObjects> {
    let guard = mirror.read();
    let view = guard.view(OfflineMirror::settled(Clock::start().now()));
    if query.cluster.is_some_and(|cluster| view.cluster(cluster).is_none()) {
        return None;
    }
    Some(
        FleetObjectsBuilder { view, query, unavailable: &Unavailable::new(), from_files: true }
            .fleet_objects(),
    )
}

struct FleetObjectsBuilder<'s> {
    view: View<'s>,
    query: FleetObjectsQuery<'s>,
    unavailable: &'s Unavailable,
    from_files: bool,
}

impl FleetObjectsBuilder<'_> {
    fn fleet_objects(&self) -> FleetObjects {
        let (objects, faults) = TopologyInputs::new(self.view).read();
        let mut fleet_objects = FleetObjects {
            objects,
            fleet: Fleet::default(),
            faults,
            unknown: Vec::new(),
            unread: Vec::new(),
        };
        let scope = self.query.scope;
        let is_in_scope = |key: &&ObjectKey| scope.has_gateway(&Locator::of(GATEWAY, key));
        for key in fleet_objects.objects.gateways().keys().filter(is_in_scope) {
            let explanation = self.explain(&Origin::Gateway(key.clone()), "Gateway");
            let clusters = self.gateway(key, &explanation);
            fleet_objects.unknown.extend(self.absent(key, &explanation, clusters.is_empty()));
            if !clusters.is_empty() {
                fleet_objects.fleet.gateways.insert(key.clone(), clusters);
            }
        }
        self.unread_kinds(&mut fleet_objects);
        let mut kinds: BTreeMap<GroupResource, Option<KindInfo>> = BTreeMap::new();
        for (origin, row) in self.view.policies() {
            let kind_info =
                kinds.entry(origin.kind().clone()).or_insert_with_key(|kind| kind_info(self.view, kind));
            let Some(kind_info) = kind_info else { continue };
            let kind = Kind { group: origin.kind().group.clone(), kind: kind_info.kind.clone() };
            let key = (kind, origin.object().clone());
            let Some(policy) = fleet_objects.objects.policies().get(&key) else { continue };
            let mut on = PolicyDistribution {
                gateways: self.gateways_of(&fleet_objects.fleet, &origin, policy),
                ..PolicyDistribution::default()
            };
            let of_gateways =
                on.gateways.iter().filter_map(|gateway| fleet_objects.fleet.gateways.get(gateway));
            let clusters: BTreeSet<ClusterName> = of_gateways.flat_map(BTreeMap::keys).cloned().collect();
            if clusters.is_empty() {
                continue;
            }
            let explanation = self.explain(&origin, &kind_info.kind);
            let mut variants = Variants::new(row, policy, kind_info.schema.as_deref());
            for cluster in clusters {
                let Some(verdict) = explanation.clusters.get(&cluster) else { continue };
                let state = self.policy(&origin, &cluster, verdict, || variants.on(self.view, &cluster));
                let work = self.view.work_of(&origin, &cluster);
                if let Some(created) = work.and_then(|work| work.copied) {
                    on.created.insert(cluster.clone(), created);
                }
                on.clusters.insert(cluster, state);
            }
            fleet_objects.fleet.policies.insert(key, on);
        }
        fleet_objects
    }

    fn explain(&self, origin: &Origin, kind: &str) -> Explanation {
        let FleetObjectsQuery { settings, cluster, .. } = self.query;
        explain_on(self.view, settings, (origin, kind), self.unavailable, cluster)
    }

    /// The Gateways that `policy` targets, that are on clusters, and whose class lists the kind of `origin`.
    fn gateways_of(&self, fleet: &Fleet, origin: &Origin, policy: &rows::Policy) -> BTreeSet<ObjectKey> {
        let namespace = &origin.object().namespace;
        let targets = policy.targets.iter().map(|target| ObjectKey::new(namespace, &target.name));
        let is_target = |key: &ObjectKey| {
            fleet.gateways.contains_key(key)
                && policy.targets.iter().any(|target| is_target(target, namespace, key))
                && of_target(self.view, key, origin.kind()).is_ours()
        };
        targets.filter(is_target).collect()
    }

    /// Adds the kinds of policies that cannot be read to `unknown`, and marks each Gateway whose class lists
    /// such a kind as uncertain.
    fn unread_kinds(&self, fleet_objects: &mut FleetObjects) {
        let mut unread: BTreeSet<String> = BTreeSet::new();
        for (key, clusters) in &mut fleet_objects.fleet.gateways {
            let Some(gateway) = self.view.gateway(key) else { continue };
            let params = self.view.class_params(&gateway.class);
            let listed =
                params.iter().filter_map(ClassParams::known).flat_map(|params| params.listed(Role::Policy));
            let faults: Vec<String> = listed
                .filter_map(|gvr| match of_kind(self.view, &gvr.kind) {
                    KindEligibility::Frozen(problem, _) => {
                        Some(format!("policies of the kind {}: {}", gvr.kind, problem.text()))
                    }
                    KindEligibility::Listed(..) | KindEligibility::Unlisted => None,
                })
                .collect();
            if !faults.is_empty() {
                clusters.values_mut().for_each(|state| state.certain = false);
            }
            unread.extend(faults);
        }
        fleet_objects.unread.extend(unread.iter().cloned());
        fleet_objects.unknown.extend(unread);
    }

    /// The reasons why the Gateway `key` is missing from the result. `is_nowhere` is set if the Gateway is on none of
    /// the selected clusters.
    fn absent(&self, key: &ObjectKey, explanation: &Explanation, is_nowhere: bool) -> Vec<String> {
        let origin = Origin::Gateway(key.clone());
        let leaving = explanation.clusters.iter().filter_map(|(cluster, verdict)| {
            let is_leaving = !verdict.state.is_desired() && self.view.work_of(&origin, cluster).is_some();
            let reason =
                verdict.reasons.iter().find(|reason| reason.code == "Leaving").filter(|_| is_leaving)?;
            let (_, text) = code_and_text(reason);
            Some(format!(
                "the policies of Gateway {key} on cluster {cluster}, from which it is being removed: {}",
                text.replace(CLUSTER_PLACEHOLDER, &cluster.0)
            ))
        });
        let mut texts: Vec<String> = leaving.collect();
        let is_ours = of_gateway(self.view, key).is_ours() || self.query.scope.gateway.is_some();
        if let Some(cluster) = self.query.cluster
            && texts.is_empty()
            && is_nowhere
            && is_ours
        {
            let reason = explanation.clusters.get(cluster).and_then(|verdict| verdict.reasons.first());
            if let Some((code, text)) = reason.map(code_and_text) {
                let text = text.replace(CLUSTER_PLACEHOLDER, &cluster.0);
                texts.push(format!("Gateway {key} is not on cluster {cluster}: {code}: {text}"));
            }
        }
        texts
    }

    /// The clusters that the Gateway `key` is on.
    fn gateway(
        &self,
        key: &ObjectKey,
        explanation: &Explanation,
    ) -> BTreeMap<ClusterName, GatewayClusterState> {
        let origin = Origin::Gateway(key.clone());
        let is_on_cluster = |cluster: &ClusterName, verdict: &ClusterVerdict| {
            verdict.state.is_desired() && (self.from_files || self.view.work_of(&origin, cluster).is_some())
        };
        let on_clusters =
            explanation.clusters.iter().filter(|(cluster, verdict)| is_on_cluster(cluster, verdict));
        let on_clusters = on_clusters.map(|(cluster, verdict)| {
            let grace_period_end = verdict.reasons.iter().find_map(|reason| match reason.when {
                Some(TimeBound::Until(moment)) if reason.code == "InGrace" => Some(moment.rfc3339()),
                _ => None,
            });
            let is_fine = |reason: &&Reason| reason.code == "Programmed" || self.is_planned(reason);
            let reason = agent_silence(verdict).or(verdict.reasons.first().filter(|reason| !is_fine(reason)));
            let state = GatewayClusterState {
                grace_period_end,
                reason: reason.map(code_and_text),
                // A Gateway is on the cluster even if it is not programmed there.
                certain: reason.is_none_or(|reason| reason.code == "NotProgrammed"),
                attached_routes: self.attached_routes(&origin, cluster),
            };
            (cluster.clone(), state)
        });
        on_clusters.collect()
    }

    /// Whether the objects are from files and `reason` only means that the controller has not written a work yet. The
    /// mirror of files contains no works.
    fn is_planned(&self, reason: &Reason) -> bool {
        self.from_files && ["NotWritten", "WaitsForPolicies"].contains(&reason.code)
    }

    /// The number of attached routes that `cluster` reports for each listener of the Gateway `origin`.
    fn attached_routes(&self, origin: &Origin, cluster: &ClusterName) -> BTreeMap<String, i64> {
        let report = self.view.work_of(origin, cluster).and_then(|work| work.report.as_ref());
        let listeners = report.and_then(|report| report.gateway.as_ref()).map(|gateway| &gateway.listeners);
        let listeners = listeners.into_iter().flatten();
        let route_counts =
            listeners.filter_map(|listener| Some((listener.name.to_string(), listener.attached_routes?)));
        route_counts.collect()
    }

    /// The state of the policy `origin` on `cluster`. `verdict` is the result of `explain`.
    fn policy(
        &self,
        origin: &Origin,
        cluster: &ClusterName,
        verdict: &ClusterVerdict,
        variant: impl FnOnce() -> Option<Arc<Variant>>,
    ) -> PolicyClusterState {
        let is_merged = match verdict.reported {
            Some(PolicyState::Enforced | PolicyState::Accepted | PolicyState::Applied) => true,
            // The cluster has the copy, but does not report on which paths it is enforced.
            Some(PolicyState::PartiallyEnforced | PolicyState::Unknown) => true,
            // The mirror of files contains no status reports.
            Some(PolicyState::Pending) => self.from_files,
            _ => false,
        };
        let is_known = match verdict.reported {
            // The cluster does not report which rules are enforced.
            Some(PolicyState::Overridden | PolicyState::PartiallyEnforced | PolicyState::Unknown) => false,
            // The cluster has evaluated the current revision.
            Some(PolicyState::NotEnforced | PolicyState::Rejected) => true,
            // An earlier revision may still be enforced; its content is not stored.
            _ => is_merged || !self.may_be_on_cluster(origin, cluster),
        };
        let agent_silence = agent_silence(verdict);
        PolicyClusterState {
            state: verdict.policy_state,
            is_merged,
            certain: is_known && agent_silence.is_none(),
            reason: if is_merged { agent_silence } else { verdict.reasons.first() }.map(code_and_text),
            variant: if is_merged { variant() } else { None },
        }
    }

    /// Whether some revision of `origin` may be on `cluster`: the work is being deleted, or its agent has
    /// reported an applied revision.
    fn may_be_on_cluster(&self, origin: &Origin, cluster: &ClusterName) -> bool {
        self.view.work_of(origin, cluster).is_some_and(|work| {
            let report = work.report.as_ref();
            work.deleting.is_some()
                || report.is_some_and(|report| report.applied || report.revision.is_some())
        })
    }
}

/// The metadata of `kind`, if policies of this kind can be read.
fn kind_info(view: View<'_>, kind: &GroupResource) -> Option<KindInfo> {
    match of_kind(view, kind) {
        KindEligibility::Listed(_, kind_info) | KindEligibility::Frozen(_, Some(kind_info)) => {
            Some(kind_info)
        }
        KindEligibility::Frozen(_, None) | KindEligibility::Unlisted => None,
    }
}

/// The reason in `verdict` with the code `AgentSilent`, if any: the agent of the cluster has stopped reporting.
fn agent_silence(verdict: &ClusterVerdict) -> Option<&Reason> {
    verdict.reasons.iter().find(|reason| reason.code == "AgentSilent")
}

/// The code of `reason`, and its text with the moment.
fn code_and_text(reason: &Reason) -> (&'static str, String) {
    let when = match reason.when {
        None => String::new(),
        Some(TimeBound::Since(moment)) => format!(" (since {})", moment.rfc3339()),
        Some(TimeBound::Until(moment)) => format!(" (until {})", moment.rfc3339()),
    };
    (reason.code, format!("{}{when}", reason.text))
}

/// The specs of one policy for clusters with different overrides. The spec is patched once for each combination of
/// overrides.
struct Variants<'p> {
    base: Value,
    overrides: Overrides,
    schema: Option<&'p Schema>,
    variants: BTreeMap<OverrideIndexes, Option<Arc<Variant>>>,
}

impl<'p> Variants<'p> {
    fn new(row: &Policy, policy: &rows::Policy, schema: Option<&'p Schema>) -> Self {
        // A policy with unreadable overrides is frozen, so no variant of it is in force.
        let overrides = row.annotations.get(CLUSTER_OVERRIDES).and_then(|text| Overrides::parse(text).ok());
        Self {
            base: serde_json::from_str(&policy.spec).unwrap_or_default(),
            overrides: overrides.unwrap_or_default(),
            schema,
            variants: BTreeMap::new(),
        }
    }

    /// The spec for `cluster`; `None` if it equals the spec on the hub.
    fn on(&mut self, view: View<'_>, cluster: &ClusterName) -> Option<Arc<Variant>> {
        let selected =
            view.labels(cluster).map(|labels| self.overrides.override_selectors().selected(labels))?;
        if selected.is_empty() {
            return None;
        }
        let Self { base, overrides, schema, variants } = self;
        let number = variants.len();
        let make = |selected: &OverrideIndexes| {
            // If the schema rejects the patched spec, the policy is frozen, so the patched spec is not in force.
            let patched = overrides.patched(base.clone(), selected, *schema).ok()?;
            let mut differs = Vec::new();
            differences("", base, &patched, &mut differs);
            let spec = patched.to_string().into();
            (!differs.is_empty()).then(|| Arc::new(Variant { number, spec, differs }))
        };
        variants.entry(selected).or_insert_with_key(make).clone()
    }
}

/// Appends to `to` the JSON pointer of each value that differs between `left` and `right`.
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

/// The result of [`fleet_objects()`] for the hub of `view`. `unavailable` are the unavailable clusters of the hub.
#[cfg(any(test, feature = "testing"))]
pub fn fleet_objects_from_view(
    view: View<'_>,
    query: FleetObjectsQuery<'_>,
    unavailable: &Unavailable,
) -> FleetObjects {
    FleetObjectsBuilder { view, query, unavailable, from_files: false }.fleet_objects()
}

#[cfg(test)]
mod tests;
