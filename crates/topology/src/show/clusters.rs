//! Reports the effective policies at listeners on the clusters of a hub. Clusters with the same result are
//! grouped.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::effective::json_of;
use super::{InForce, Named, ObjectFault, Scope};
use crate::clusters::{Fleet, GatewayThere, PolicyOn, PolicyThere, is_target};
use crate::effective::Folds;
use crate::graph::{Graph, NodeId};
use crate::locator::{GATEWAY, Kind, Locator};
use crate::objects::{Objects, Row};
use crate::request::Request;
use crate::rows::{Created, Policy};
use policy_sync_api::names::{CLUSTER, ClusterName, ObjectKey};

/// Limits that apply to every report.
const UNKNOWN: [&str; 3] = [
    "routes that exist only on clusters: paths end at the listener",
    "policies that exist only on clusters, except those that a status message names",
    "policies that target routes: they are not synced to clusters",
];
/// The limit of a report if the order of policies by age is unknown on a cluster.
const AGES: &str = "the age of policies with the same kind and target on a cluster that does not report it: their age on the hub is assumed";
/// The limit of a report if the request has parts that only routes match.
const ROUTES: &str = "the route that handles the request: path, method, headers and query select among routes, which are unknown on clusters";

/// The effective policies on the clusters of a hub.
#[derive(Debug, Serialize)]
pub struct ClustersReport {
    /// One for each listener and each group of clusters with the same result.
    pub answers: Vec<ClusterAnswer>,
    /// The request that the report is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The limits of the report.
    pub unknown: Vec<String>,
    /// The faults of policies with their specs on the clusters.
    #[serde(skip)]
    pub faults: BTreeSet<ObjectFault>,
    /// Whether several policies of a kind apply on one target of a cluster, and it is unknown which is older
    /// there.
    #[serde(skip)]
    has_unknown_ages: bool,
}

/// The effective policies at a listener, for a group of clusters with the same result.
#[derive(Clone, Debug)]
pub struct ClusterAnswer {
    /// The path to the listener, with nodes of the hub.
    pub path: Vec<Named>,
    /// The hosts of the listener.
    pub hostnames: Vec<String>,
    /// The effective policies, in the order of kinds.
    pub effective: Vec<InForce>,
    /// The clusters.
    pub clusters: Vec<ClusterName>,
    /// Whether the result is certain.
    pub certain: bool,
    /// The state of the Gateway on the clusters.
    pub gateway: GatewayThere,
    /// The policies on the Gateway and the listener, with their state on the clusters.
    pub policies: Vec<(Named, PolicyThere)>,
    /// The number of routes attached to the listener, if the clusters report it.
    pub attached_routes: Option<i64>,
}

/// A policy on a Gateway.
struct OnGateway<'o> {
    kind: &'o Kind,
    key: &'o ObjectKey,
    row: &'o Policy,
    on: &'o PolicyOn,
}

impl ClustersReport {
    /// Reports on the listeners in `scope`; with a `request`, only on those that accept it. `objects` are
    /// those of the hub.
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
            let order = |answer: &ClusterAnswer| (answer.path.clone(), answer.clusters.clone());
            order(left).cmp(&order(right))
        });
        report.unknown.extend(UNKNOWN.map(str::to_owned));
        if report.has_unknown_ages {
            report.unknown.push(AGES.to_owned());
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
        (key, clusters): (&ObjectKey, &BTreeMap<ClusterName, GatewayThere>),
    ) {
        let Some(gateway) = objects.gateways().get(key) else { return };
        let mut base = objects.without_them();
        base.put(GATEWAY, key.clone(), Row::Gateway(gateway.clone()));
        let facts = base.facts();
        let graph = Graph::build(&facts);
        let listeners: Vec<NodeId> = match &self.request {
            Some(request) => request.listeners(&graph).into_iter().collect(),
            None => graph.listeners().map(|(_, node)| node).collect(),
        };
        let on: Vec<OnGateway<'_>> = objects
            .policies()
            .iter()
            .filter_map(|((kind, own), row)| {
                let on = fleet.policies.get(&(kind.clone(), own.clone()))?;
                on.gateways.contains(key).then_some(OnGateway { kind, key: own, row, on })
            })
            .collect();
        for listener in listeners.into_iter().filter_map(|node| graph.listener(node)) {
            let is_on = |policy: &&OnGateway<'_>| {
                let mut targets = policy.row.targets.iter();
                targets.any(|target| {
                    is_target(target, &policy.key.namespace, key)
                        && target.section.as_ref().is_none_or(|section| *section == listener.name)
                })
            };
            let on: Vec<&OnGateway<'_>> = on.iter().filter(is_on).collect();
            if !scope.has_policies(on.iter().map(|policy| Locator::of(policy.kind.as_ref(), policy.key))) {
                continue;
            }
            for group in groups(&on, clusters, &listener.name, key) {
                self.has_unknown_ages |= group.rivals.contains(&None);
                self.answers.extend(group.answer(&base, key, &listener.name, &mut self.faults));
            }
        }
    }
}

/// Clusters with the same result at a listener.
struct Group<'o> {
    clusters: Vec<ClusterName>,
    gateway: &'o GatewayThere,
    on: Vec<(&'o OnGateway<'o>, &'o PolicyThere)>,
    rivals: Rivals,
    attached_routes: Option<i64>,
}

/// Groups the `clusters` of a Gateway by the result at `listener`.
fn groups<'o>(
    on: &[&'o OnGateway<'o>],
    clusters: &'o BTreeMap<ClusterName, GatewayThere>,
    listener: &str,
    key: &ObjectKey,
) -> Vec<Group<'o>> {
    let mut groups: Vec<Group<'o>> = Vec::new();
    let mut places: HashMap<_, usize> = HashMap::new();
    for (cluster, gateway) in clusters {
        let attached_routes = gateway.attached_routes.get(listener).copied();
        let GatewayThere { until, reason, certain, .. } = gateway;
        let there: Vec<Option<&PolicyThere>> =
            on.iter().map(|policy| policy.on.clusters.get(cluster)).collect();
        let on: Vec<(&OnGateway<'_>, &PolicyThere)> =
            on.iter().zip(&there).filter_map(|(policy, there)| Some((*policy, (*there)?))).collect();
        let rivals = rivals(&on, cluster, key);
        let same = (until, reason, certain, attached_routes, there, rivals.clone());
        let place = *places.entry(same).or_insert_with(|| {
            groups.push(Group { clusters: Vec::new(), gateway, on, rivals, attached_routes });
            groups.len() - 1
        });
        groups[place].clusters.push(cluster.clone());
    }
    groups
}

/// For each two policies of a kind with the same target that count on a cluster, in the order of `on`: which
/// was created first there; `None` if that is unknown. Names decide between two of the same second, as on the
/// hub.
type Rivals = Vec<Option<Ordering>>;

/// The [`Rivals`] among `on`, the policies on `cluster` that target the Gateway `key`.
fn rivals(on: &[(&OnGateway<'_>, &PolicyThere)], cluster: &ClusterName, key: &ObjectKey) -> Rivals {
    let sections = |policy: &OnGateway<'_>| -> BTreeSet<Option<String>> {
        let targets = policy.row.targets.iter();
        let targets = targets.filter(|target| is_target(target, &policy.key.namespace, key));
        targets.map(|target| target.section.as_deref().map(str::to_owned)).collect()
    };
    let counting: Vec<_> = on.iter().filter(|(_, there)| there.counts).collect();
    let sections: Vec<_> = counting.iter().map(|(policy, _)| sections(policy)).collect();
    let created = |index: usize| counting[index].0.on.created.get(cluster);
    let mut rivals = Rivals::new();
    for later in 0..counting.len() {
        for earlier in 0..later {
            if counting[earlier].0.kind == counting[later].0.kind
                && !sections[earlier].is_disjoint(&sections[later])
            {
                let moments = created(earlier).zip(created(later));
                rivals.push(moments.map(|(earlier, later)| earlier.cmp(later)));
            }
        }
    }
    rivals
}

impl Group<'_> {
    /// The creation time of the copy of `policy` on the first of these clusters; the order is the same on all
    /// of them. `None` if part of the order is unknown: then the creation times on the hub apply to all
    /// policies.
    fn created(&self, policy: &OnGateway<'_>) -> Option<Created> {
        if self.rivals.contains(&None) {
            return None;
        }
        let created = policy.on.created.get(self.clusters.first()?)?;
        Some(Some(*created).into())
    }

    /// The result at `listener` of the Gateway `key`, the only Gateway in `base`.
    fn answer(
        &self,
        base: &Objects,
        key: &ObjectKey,
        listener: &str,
        faults: &mut BTreeSet<ObjectFault>,
    ) -> Option<ClusterAnswer> {
        let mut objects = base.clone();
        for (policy, there) in self.on.iter().filter(|(_, there)| there.counts) {
            let spec = there.variant.as_ref().map(|variant| &variant.spec);
            let copy = policy.row.copy(policy.key, key, spec, self.created(policy));
            objects.put_policy(policy.kind.clone(), policy.key.clone(), copy);
        }
        let facts = objects.facts();
        let graph = Graph::build(&facts);
        faults.extend(super::faults(&graph, &|_| None));
        let mut folds = Folds::new(&graph);
        let found = graph.walk(&mut folds, &mut |path, _| {
            let ends = path.nodes.last().and_then(|node| graph.listener(*node));
            if ends.is_none_or(|found| *found.name != *listener) {
                return ControlFlow::Continue(());
            }
            let hostnames: Vec<String> = path.hostnames().into_iter().map(str::to_owned).collect();
            ControlFlow::Break((path.nodes.to_vec(), hostnames, path.effective.to_vec()))
        });
        let ControlFlow::Break((nodes, hostnames, effective)) = found else { return None };
        let policies = self.on.iter().map(|(policy, there)| {
            let locator = Locator::of(policy.kind.as_ref(), policy.key);
            let mut there = self.worded((*there).clone());
            // A policy that is on the cluster, but has no effect on its target, has that reason.
            let void = graph.policies().iter().find(|policy| policy.locator == locator);
            if let Some((reason, text)) = void.and_then(|policy| policy.without_effect()) {
                there.reason.get_or_insert_with(|| (reason.word(), text.clone()));
            }
            (Named::object(locator), there)
        });
        Some(ClusterAnswer {
            path: nodes.into_iter().map(|node| Named::on_path(&graph, node)).collect(),
            hostnames,
            effective: effective.into_iter().map(|id| InForce::new(&folds, id, None)).collect(),
            clusters: self.clusters.clone(),
            certain: self.gateway.certain
                && !self.rivals.contains(&None)
                && self.on.iter().all(|(_, there)| there.certain),
            gateway: self.worded_gateway(),
            policies: policies.collect(),
            attached_routes: self.attached_routes,
        })
    }

    /// Inserts the name of the cluster if the group has only one.
    fn named(&self, (word, text): (&'static str, String)) -> (&'static str, String) {
        match &*self.clusters {
            [cluster] => (word, text.replace(CLUSTER, &cluster.0)),
            _ => (word, text),
        }
    }

    fn worded(&self, mut there: PolicyThere) -> PolicyThere {
        there.reason = there.reason.map(|reason| self.named(reason));
        there
    }

    fn worded_gateway(&self) -> GatewayThere {
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

/// The keys are sorted.
impl Serialize for ClusterAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut json = json_of(&self.path, &self.hostnames, &self.effective);
        let policies = self.policies.iter().map(|(policy, there)| {
            let mut json = json!({"policy": policy.id, "state": there.state, "counts": there.counts});
            if !there.differs().is_empty() {
                json["differs"] = json!(there.differs());
            }
            with_reason(json, there.reason.as_ref())
        });
        json["policies"] = policies.collect();
        json["clusters"] = json!(self.clusters);
        json["certain"] = self.certain.into();
        let mut gateway = json!({"state": self.gateway.state()});
        if let Some(until) = &self.gateway.until {
            gateway["until"] = until.as_str().into();
        }
        json["gateway"] = with_reason(gateway, self.gateway.reason.as_ref());
        if let Some(attached) = self.attached_routes {
            json["attachedRoutes"] = attached.into();
        }
        json.serialize(serializer)
    }
}
