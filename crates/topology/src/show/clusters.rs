//! Reports the effective policies at listeners on the clusters of a hub. Clusters with the same result are
//! grouped.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::effective::json_of;
use super::{EffectivePolicyReport, NodeLabel, ObjectFault, Scope};
use crate::clusters::{Fleet, GatewayClusterState, PolicyClusterState, PolicyDistribution, is_target};
use crate::effective::EffectiveCache;
use crate::graph::{Graph, NodeId};
use crate::locator::{GATEWAY, Kind, Locator};
use crate::objects::{Objects, Row};
use crate::request::Request;
use crate::rows::{Created, Policy};
use policy_sync_api::names::{CLUSTER_PLACEHOLDER, ClusterName, ObjectKey};

/// Limitations of every report.
const UNKNOWN: [&str; 3] = [
    "routes that exist only on clusters: paths end at the listener",
    "policies that exist only on clusters, except those that a status message names",
    "policies that target routes: they are not synced to clusters",
];
/// The limitation of a report if the order of policies by age is unknown on a cluster.
const UNKNOWN_AGES: &str = "the age of policies with the same kind and target on a cluster that does not report it: their age on the hub is assumed";
/// The limitation of a report if the request has parts that only routes match.
const ROUTES: &str = "the route that handles the request: path, method, headers and query select among routes, which are unknown on clusters";

/// The effective policies on the clusters of a hub.
#[derive(Debug, Serialize)]
pub struct ClustersReport {
    /// One result for each listener and each group of clusters with the same result.
    pub answers: Vec<ClusterResult>,
    /// The request that the report is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The limitations of the report.
    pub unknown: Vec<String>,
    /// The faults of policies, in the specs that the policies have on the clusters.
    #[serde(skip)]
    pub faults: BTreeSet<ObjectFault>,
    /// Whether, on some cluster, several policies of a kind apply on one target and it is unknown which of them is
    /// older there.
    #[serde(skip)]
    has_unknown_ages: bool,
}

/// The effective policies at a listener, for a group of clusters with the same result.
#[derive(Clone, Debug)]
pub struct ClusterResult {
    /// The path to the listener, with nodes of the hub.
    pub path: Vec<NodeLabel>,
    /// The hosts of the listener.
    pub hostnames: Vec<String>,
    /// The effective policies, in the order of kinds.
    pub effective: Vec<EffectivePolicyReport>,
    /// The clusters with this result.
    pub clusters: Vec<ClusterName>,
    /// Whether the result is certain.
    pub certain: bool,
    /// The state of the Gateway on the clusters.
    pub gateway: GatewayClusterState,
    /// The policies on the Gateway and the listener, with their state on the clusters.
    pub policies: Vec<(NodeLabel, PolicyClusterState)>,
    /// The number of routes attached to the listener, if the clusters report it.
    pub attached_routes: Option<i64>,
}

/// A policy on a Gateway.
struct GatewayPolicy<'o> {
    kind: &'o Kind,
    key: &'o ObjectKey,
    row: &'o Policy,
    on: &'o PolicyDistribution,
}

impl ClustersReport {
    /// Reports on the listeners in `scope`. With a `request`, reports only on the listeners that accept the request.
    /// `objects` are the objects of the hub.
    #[must_use]
    pub fn new(
        objects: &Objects,
        fleet: &Fleet,
        scope: &Scope,
        request: Option<Request>,
        unknown: Vec<String>,
    ) -> Self {
        let mut report =
            Self { answers: Vec::new(), request, unknown, faults: BTreeSet::new(), has_unknown_ages: false };
        for (key, clusters) in &fleet.gateways {
            if scope.has_gateway(&Locator::of(GATEWAY, key)) {
                report.gateway(objects, fleet, scope, (key, clusters));
            }
        }
        report.answers.sort_by(|left, right| {
            let order = |result: &ClusterResult| (result.path.clone(), result.clusters.clone());
            order(left).cmp(&order(right))
        });
        report.unknown.extend(UNKNOWN.map(str::to_owned));
        if report.has_unknown_ages {
            report.unknown.push(UNKNOWN_AGES.to_owned());
        }
        if report.request.as_ref().is_some_and(Request::chooses_routes) {
            report.unknown.push(ROUTES.to_owned());
        }
        report
    }

    fn gateway(
        &mut self,
        objects: &Objects,
        fleet: &Fleet,
        scope: &Scope,
        (key, clusters): (&ObjectKey, &BTreeMap<ClusterName, GatewayClusterState>),
    ) {
        let Some(gateway) = objects.gateways().get(key) else { return };
        let mut base = objects.without_gateways_and_policies();
        base.put(GATEWAY, key.clone(), Row::Gateway(gateway.clone()));
        let graph_input = base.graph_input();
        let graph = Graph::build(&graph_input);
        let listeners: Vec<NodeId> = match &self.request {
            Some(request) => request.listeners(&graph).into_iter().collect(),
            None => graph.listeners().map(|(_, node)| node).collect(),
        };
        let on: Vec<GatewayPolicy<'_>> = objects
            .policies()
            .iter()
            .filter_map(|((kind, own), row)| {
                let on = fleet.policies.get(&(kind.clone(), own.clone()))?;
                on.gateways.contains(key).then_some(GatewayPolicy { kind, key: own, row, on })
            })
            .collect();
        for listener in listeners.into_iter().filter_map(|node| graph.listener(node)) {
            let is_on = |policy: &&GatewayPolicy<'_>| {
                let mut targets = policy.row.targets.iter();
                targets.any(|target| {
                    is_target(target, &policy.key.namespace, key)
                        && target.section.as_ref().is_none_or(|section| *section == listener.name)
                })
            };
            let on: Vec<&GatewayPolicy<'_>> = on.iter().filter(is_on).collect();
            if !scope.has_policies(on.iter().map(|policy| Locator::of(policy.kind.as_ref(), policy.key))) {
                continue;
            }
            for group in groups(&on, clusters, &listener.name, key) {
                self.has_unknown_ages |= group.age_orders.contains(&None);
                self.answers.extend(group.result(&base, key, &listener.name, &mut self.faults));
            }
        }
    }
}

/// Clusters with the same result at a listener.
struct ClusterGroup<'o> {
    clusters: Vec<ClusterName>,
    gateway: &'o GatewayClusterState,
    on: Vec<(&'o GatewayPolicy<'o>, &'o PolicyClusterState)>,
    age_orders: AgeOrders,
    attached_routes: Option<i64>,
}

/// Groups the `clusters` of a Gateway by the result at `listener`.
fn groups<'o>(
    on: &[&'o GatewayPolicy<'o>],
    clusters: &'o BTreeMap<ClusterName, GatewayClusterState>,
    listener: &str,
    key: &ObjectKey,
) -> Vec<ClusterGroup<'o>> {
    let mut groups: Vec<ClusterGroup<'o>> = Vec::new();
    let mut places: HashMap<_, usize> = HashMap::new();
    for (cluster, gateway) in clusters {
        let attached_routes = gateway.attached_routes.get(listener).copied();
        let GatewayClusterState { grace_period_end, reason, certain, .. } = gateway;
        let states: Vec<Option<&PolicyClusterState>> =
            on.iter().map(|policy| policy.on.clusters.get(cluster)).collect();
        let on: Vec<(&GatewayPolicy<'_>, &PolicyClusterState)> =
            on.iter().zip(&states).filter_map(|(policy, state)| Some((*policy, (*state)?))).collect();
        let age_orders = age_orders(&on, cluster, key);
        let same = (grace_period_end, reason, certain, attached_routes, states, age_orders.clone());
        let place = *places.entry(same).or_insert_with(|| {
            groups.push(ClusterGroup { clusters: Vec::new(), gateway, on, age_orders, attached_routes });
            groups.len() - 1
        });
        groups[place].clusters.push(cluster.clone());
    }
    groups
}

/// The order of creation on a cluster, for each pair of policies whose rules are merged there. Only pairs of one kind
/// with a common target are included. An order is `None` if it is unknown. If both policies were created in the same
/// second, their names decide, as on the hub.
type AgeOrders = Vec<Option<Ordering>>;

/// The [`AgeOrders`] among `on`, the policies on `cluster` that target the Gateway `key`.
fn age_orders(
    on: &[(&GatewayPolicy<'_>, &PolicyClusterState)],
    cluster: &ClusterName,
    key: &ObjectKey,
) -> AgeOrders {
    let sections = |policy: &GatewayPolicy<'_>| -> BTreeSet<Option<String>> {
        let targets = policy.row.targets.iter();
        let targets = targets.filter(|target| is_target(target, &policy.key.namespace, key));
        targets.map(|target| target.section.as_deref().map(str::to_owned)).collect()
    };
    let counting: Vec<_> = on.iter().filter(|(_, state)| state.is_merged).collect();
    let sections: Vec<_> = counting.iter().map(|(policy, _)| sections(policy)).collect();
    let created = |index: usize| counting[index].0.on.created.get(cluster);
    let mut age_orders = AgeOrders::new();
    for later in 0..counting.len() {
        for earlier in 0..later {
            if counting[earlier].0.kind == counting[later].0.kind
                && !sections[earlier].is_disjoint(&sections[later])
            {
                let moments = created(earlier).zip(created(later));
                age_orders.push(moments.map(|(earlier, later)| earlier.cmp(later)));
            }
        }
    }
    age_orders
}

impl ClusterGroup<'_> {
    /// The creation time of the copy of `policy` on the first cluster of the group. All clusters of the group have the
    /// same order of creation. Returns `None` if part of the order is unknown. In that case, the creation times on the
    /// hub apply to all policies.
    fn created(&self, policy: &GatewayPolicy<'_>) -> Option<Created> {
        if self.age_orders.contains(&None) {
            return None;
        }
        let created = policy.on.created.get(self.clusters.first()?)?;
        Some(Some(*created).into())
    }

    /// The result at `listener` of the Gateway `key`, the only Gateway in `base`.
    fn result(
        &self,
        base: &Objects,
        key: &ObjectKey,
        listener: &str,
        faults: &mut BTreeSet<ObjectFault>,
    ) -> Option<ClusterResult> {
        let mut objects = base.clone();
        for (policy, state) in self.on.iter().filter(|(_, state)| state.is_merged) {
            let spec = state.variant.as_ref().map(|variant| &variant.spec);
            let copy = policy.row.copy(policy.key, key, spec, self.created(policy));
            objects.put_policy(policy.kind.clone(), policy.key.clone(), copy);
        }
        let graph_input = objects.graph_input();
        let graph = Graph::build(&graph_input);
        faults.extend(super::faults(&graph, &|_| None));
        let mut cache = EffectiveCache::new(&graph);
        let found = graph.walk(&mut cache, &mut |path, _| {
            let ends = path.nodes.last().and_then(|node| graph.listener(*node));
            if ends.is_none_or(|found| *found.name != *listener) {
                return ControlFlow::Continue(());
            }
            let hostnames: Vec<String> = path.hostnames().into_iter().map(str::to_owned).collect();
            ControlFlow::Break((path.nodes.to_vec(), hostnames, path.effective.to_vec()))
        });
        let ControlFlow::Break((nodes, hostnames, effective)) = found else { return None };
        let policies = self.on.iter().map(|(policy, state)| {
            let locator = Locator::of(policy.kind.as_ref(), policy.key);
            let mut state = self.with_cluster_name((*state).clone());
            // A policy on the cluster may have no effect on its target. Then the reason comes from the graph.
            let no_effect = graph.policies().iter().find(|policy| policy.locator == locator);
            if let Some((reason, text)) = no_effect.and_then(|policy| policy.without_effect()) {
                state.reason.get_or_insert_with(|| (reason.as_str(), text.clone()));
            }
            (NodeLabel::object(locator), state)
        });
        Some(ClusterResult {
            path: nodes.into_iter().map(|node| NodeLabel::on_path(&graph, node)).collect(),
            hostnames,
            effective: effective.into_iter().map(|id| EffectivePolicyReport::new(&cache, id, None)).collect(),
            clusters: self.clusters.clone(),
            certain: self.gateway.certain
                && !self.age_orders.contains(&None)
                && self.on.iter().all(|(_, state)| state.certain),
            gateway: self.gateway_with_cluster_name(),
            policies: policies.collect(),
            attached_routes: self.attached_routes,
        })
    }

    /// Inserts the name of the cluster if the group has only one cluster.
    fn named(&self, (word, text): (&'static str, String)) -> (&'static str, String) {
        match &*self.clusters {
            [cluster] => (word, text.replace(CLUSTER_PLACEHOLDER, &cluster.0)),
            _ => (word, text),
        }
    }

    fn with_cluster_name(&self, mut state: PolicyClusterState) -> PolicyClusterState {
        state.reason = state.reason.map(|reason| self.named(reason));
        state
    }

    fn gateway_with_cluster_name(&self) -> GatewayClusterState {
        let mut gateway = self.gateway.clone();
        gateway.reason = gateway.reason.map(|reason| self.named(reason));
        gateway
    }
}

fn with_reason(mut json: Value, reason: Option<&(&'static str, String)>) -> Value {
    if let Some((word, text)) = reason {
        json["reason"] = (*word).into();
        json["message"] = text.as_str().into();
    }
    json
}

/// Serializes the result with sorted keys.
impl Serialize for ClusterResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = json_of(&self.path, &self.hostnames, &self.effective);
        let policies = self.policies.iter().map(|(policy, state)| {
            let mut json = json!({"policy": policy.id, "state": state.state, "counts": state.is_merged});
            if !state.differs().is_empty() {
                json["differs"] = json!(state.differs());
            }
            with_reason(json, state.reason.as_ref())
        });
        json["policies"] = policies.collect();
        json["clusters"] = json!(self.clusters);
        json["certain"] = self.certain.into();
        let mut gateway = json!({"state": self.gateway.state()});
        if let Some(grace_period_end) = &self.gateway.grace_period_end {
            gateway["until"] = grace_period_end.as_str().into();
        }
        json["gateway"] = with_reason(gateway, self.gateway.reason.as_ref());
        if let Some(attached) = self.attached_routes {
            json["attachedRoutes"] = attached.into();
        }
        json.serialize(serializer)
    }
}
