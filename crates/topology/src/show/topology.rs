//! Writes a graph as JSON, with sorted keys and lists: equal objects give equal bytes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value, json};

use super::{ObjectFault, Scope};
use crate::conditions::{ConditionText, ListenerConditions};
use crate::effective::{EffectiveCache, EffectiveId};
use crate::graph::{Graph, NodeId, ObjectRow};
use crate::locator::Locator;
use crate::paths::Path;
use crate::policies::{AttachedTarget, PolicyNode};
use crate::reason::{Reason, Unattached, Unresolved};
use crate::rows::BackendKind;
use crate::rules::MergeBehavior;
use crate::topology::PolicyId;
use policy_sync_api::json::Hash;

/// A graph, or the selected part of it.
#[derive(Debug)]
pub struct TopologyReport<'g, 'f> {
    graph: &'g Graph<'f>,
    cache: RefCell<EffectiveCache<'g, 'f>>,
    scope: Scope,
    faults: Vec<ObjectFault>,
    /// The messages about missing rights.
    unread: Vec<String>,
    /// The nodes that are shown.
    shown: Vec<bool>,
    /// The effective policies that are shown, by their ids.
    effective: BTreeMap<Hash, EffectiveId>,
}

/// Whether a topology has faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyStatus {
    /// All objects were read, and have no fault.
    Fine,
    /// Something is not attached, has no effect, or is invalid.
    Faulty,
    /// No fault was found, but something is unknown.
    Unknown {
        /// The reason why the result is unknown.
        cause: &'static str,
    },
}

impl<'g, 'f> TopologyReport<'g, 'f> {
    /// Reports on the part of `graph` in `scope`, with the `faults` of the graph's objects.
    #[must_use]
    pub fn new(graph: &'g Graph<'f>, scope: Scope, mut faults: Vec<ObjectFault>) -> Self {
        let mut cache = EffectiveCache::new(graph);
        let mut shown: Vec<bool> = graph.nodes().map(|node| scope.has_object(&graph.locator(node))).collect();
        let mut used: BTreeSet<EffectiveId> = BTreeSet::new();
        let _ = graph.walk::<()>(&mut cache, &mut |path, _| {
            if scope.has_path(graph, path, Vec::new) {
                used.extend(path.effective);
                for node in path.nodes {
                    shown[node.index()] = true;
                    // A listener leads to all of its routes, and adding them for every path would take too
                    // long.
                    if graph.rule(*node).is_some() {
                        graph.links(*node).for_each(|backend| shown[backend.index()] = true);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        let effective = used.into_iter().map(|id| (cache.get(id).id, id)).collect();
        faults.sort();
        Self { graph, cache: RefCell::new(cache), scope, faults, unread: Vec::new(), shown, effective }
    }

    /// Adds the messages about missing rights.
    #[must_use]
    pub fn with_unread(self, unread: Vec<String>) -> Self {
        Self { unread, ..self }
    }

    /// The overall result: whether all routes and policies are attached, and all references resolve.
    #[must_use]
    pub fn verdict(&self) -> TopologyStatus {
        let has_faults = !self.faults.is_empty()
            || self.policies().any(|policy| policy.without_effect().is_some())
            || self.unattached().any(|item| item.reason.is_fault())
            || self.unresolved().any(|item| item.reason.is_fault());
        match (self.unread.is_empty(), self.unknown_attachment()) {
            _ if has_faults => TopologyStatus::Faulty,
            (false, _) => TopologyStatus::Unknown { cause: "some objects cannot be read" },
            (true, Some(cause)) => TopologyStatus::Unknown { cause },
            (true, None) => TopologyStatus::Fine,
        }
    }

    /// The reason, if it is unknown whether a route or a policy is attached.
    #[must_use]
    pub fn unknown_attachment(&self) -> Option<&'static str> {
        if self.unresolved().any(|item| item.reason == Reason::UnknownLabels) {
            return Some("listeners select Namespaces by unknown labels");
        }
        let has_unknown = self.graph.policies().iter().any(|policy| !policy.unknown.is_empty());
        has_unknown.then_some("policies select targets by unknown labels")
    }

    /// The faults of the objects in the report.
    #[must_use]
    pub fn faults(&self) -> &[ObjectFault] {
        &self.faults
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &'g Graph<'f> {
        self.graph
    }

    /// The nodes that are shown.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.graph.nodes().filter(|node| self.shows(*node))
    }

    /// Whether `node` is shown.
    #[must_use]
    pub fn shows(&self, node: NodeId) -> bool {
        self.shown[node.index()]
    }

    /// The policies to show: policies with a target that is shown, and policies named in the scope.
    pub fn policies(&self) -> impl Iterator<Item = &'g PolicyNode<'f>> {
        let is_shown = self.is_shown();
        self.graph.policies().iter().filter(move |policy| {
            let is_on_shown = |target: &AttachedTarget<'f>| match &target.node {
                Ok(node) => self.shows(*node),
                Err(_) => is_shown(target.locator),
            };
            self.scope.has_object(&policy.locator) || policy.targets.iter().any(is_on_shown)
        })
    }

    /// The objects and sections in scope that do not attach.
    pub fn unattached(&self) -> impl Iterator<Item = &'g Unattached<'f>> {
        let is_shown = self.is_shown();
        self.graph.unattached().iter().filter(move |item| is_shown(item.from) || is_shown(item.to))
    }

    /// The unresolved references in scope.
    pub fn unresolved(&self) -> impl Iterator<Item = &'g Unresolved<'f>> {
        let is_shown = self.is_shown();
        self.graph.unresolved().iter().filter(move |item| is_shown(item.from))
    }

    /// Whether the object of a locator is shown.
    fn is_shown(&self) -> impl Fn(Locator<'f>) -> bool + use<'f> {
        let is_all = self.scope.is_all();
        let shown: HashSet<Locator<'f>> = if is_all {
            HashSet::new()
        } else {
            self.nodes().map(|node| self.graph.locator(node).with(None)).collect()
        };
        move |locator| is_all || shown.contains(&locator.with(None))
    }

    /// All links between nodes that are shown.
    pub fn links(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.graph.all_links().filter(|(from, to)| self.shows(*from) && self.shows(*to))
    }
}

impl Serialize for TopologyReport<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let graph = self.graph;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(
            "effective",
            &LazyMap(
                || self.effective.keys(),
                |id: &Hash| (id.to_string(), effective(&self.cache.borrow(), self.effective[id])),
            ),
        )?;
        map.serialize_entry("faults", &self.faults)?;
        map.serialize_entry(
            "links",
            &LazyList(
                || self.links(),
                |(from, to): (NodeId, NodeId)| {
                    json!([graph.locator(from).to_string(), graph.locator(to).to_string()])
                },
            ),
        )?;
        let conditions = ListenerConditions::new(graph);
        map.serialize_entry(
            "nodes",
            &LazyList(|| self.nodes(), |node| json_of_node(graph, node, &conditions)),
        )?;
        map.serialize_entry("paths", &Paths(self))?;
        map.serialize_entry("policies", &LazyList(|| self.policies(), json_of_policy))?;
        map.serialize_entry("unattached", &LazyList(|| self.unattached(), json_of_unattached))?;
        if !self.unread.is_empty() {
            map.serialize_entry("unread", &self.unread)?;
        }
        map.serialize_entry("unresolved", &LazyList(|| self.unresolved(), json_of_unresolved))?;
        map.end()
    }
}

/// A list whose items are created while it is written.
struct LazyList<I, W>(I, W);

impl<T: Iterator, I: Fn() -> T, W: Fn(T::Item) -> Value> Serialize for LazyList<I, W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)().map(&self.1))
    }
}

/// An object whose fields are created while it is written.
struct LazyMap<I, W>(I, W);

impl<T: Iterator, I: Fn() -> T, W: Fn(T::Item) -> (String, Value)> Serialize for LazyMap<I, W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((self.0)().map(&self.1))
    }
}

struct Paths<'r, 'g, 'f>(&'r TopologyReport<'g, 'f>);

impl Serialize for Paths<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TopologyReport { graph, cache, scope, .. } = self.0;
        let mut list = serializer.serialize_seq(None)?;
        let written = graph.walk(&mut cache.borrow_mut(), &mut |path, cache| {
            if !scope.has_path(graph, path, Vec::new) {
                return ControlFlow::Continue(());
            }
            match list.serialize_element(&json_of_path(graph, path, cache)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match written {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => list.end(),
        }
    }
}

fn json_of_path(graph: &Graph<'_>, path: &Path<'_, '_>, cache: &EffectiveCache<'_, '_>) -> Value {
    let nodes: Vec<String> = path.nodes.iter().map(|node| graph.locator(*node).to_string()).collect();
    let kind = |id: &EffectiveId| cache.get(*id).kind.to_string();
    let effective: Map<String, Value> =
        path.effective.iter().map(|id| (kind(id), cache.get(*id).id.to_string().into())).collect();
    let mut json = json!({"nodes": nodes, "hostnames": path.hostnames(), "effective": effective});
    if let Some(lost) = lost(path, cache) {
        json["lost"] = lost;
    }
    json
}

/// The policies of each kind without a rule in force.
fn lost(path: &Path<'_, '_>, cache: &EffectiveCache<'_, '_>) -> Option<Value> {
    let lost = path.effective.iter().map(|id| cache.get(*id)).filter(|effective| !effective.lost.is_empty());
    let lost: Map<String, Value> =
        lost.map(|effective| (effective.kind.to_string(), locators(cache, &effective.lost))).collect();
    (!lost.is_empty()).then_some(lost.into())
}

/// The locators of the policies `numbers`, as JSON.
fn locators(cache: &EffectiveCache<'_, '_>, numbers: &[PolicyId]) -> Value {
    numbers.iter().map(|number| cache.policy(*number).locator.to_string()).collect()
}

fn effective(cache: &EffectiveCache<'_, '_>, id: EffectiveId) -> Value {
    let effective = cache.get(id);
    let rules: Map<String, Value> = cache
        .rules(id)
        .into_iter()
        .map(|entry| {
            let source = cache.policy(entry.policy).locator.to_string();
            (entry.rule.key.clone(), json!({"source": source, "value": entry.rule.value}))
        })
        .collect();
    let mut json = json!({
        "kind": effective.kind.to_string(),
        "rules": rules,
        "sources": locators(cache, &effective.sources),
    });
    if effective.assumed {
        json["assumed"] = true.into();
    }
    json
}

fn json_of_node(graph: &Graph<'_>, node: NodeId, conditions: &ListenerConditions<'_, '_>) -> Value {
    let locator = graph.locator(node);
    let policies: Vec<&PolicyNode<'_>> = graph.policies_on(node).collect();
    let ids: Vec<String> = policies.iter().map(|policy| policy.locator.to_string()).collect();
    let mut json = json!({
        "id": locator.to_string(),
        "kind": locator.kind.kind,
        "group": locator.kind.group,
        "namespace": locator.namespace,
        "name": locator.name,
        "policies": ids,
    });
    if let Some(section) = locator.section {
        json["section"] = section.to_string().into();
    }
    let is_backend = BackendKind::named(locator.kind).is_some();
    let is_direct = |policy: &&&PolicyNode<'_>| policy.merge_behavior == MergeBehavior::Direct || is_backend;
    let direct = policies.iter().filter(is_direct);
    let direct: Map<String, Value> =
        direct.map(|policy| (policy.locator.kind.to_string(), policy.locator.to_string().into())).collect();
    if !direct.is_empty() {
        json["direct"] = direct.into();
    }
    if let ObjectRow::Gateway(gateway) = graph.object(node).row
        && !graph.is_section(node)
        && !gateway.clusters.is_empty()
    {
        json["clusters"] = json!(gateway.clusters);
    }
    if let Some(origin) = graph.origin(node) {
        json["origin"] = origin.into();
    }
    let conditions: Vec<Value> = conditions.of(node).iter().map(json_of_condition).collect();
    if !conditions.is_empty() {
        json["conditions"] = conditions.into();
    }
    json
}

fn json_of_condition(text: &ConditionText) -> Value {
    let ConditionText { name, status, reason, message } = text;
    json!({"type": name, "status": status, "reason": reason, "message": message})
}

fn json_of_policy(policy: &PolicyNode<'_>) -> Value {
    let targets: Vec<Value> = policy
        .targets
        .iter()
        .map(|target| {
            let mut json = json!({"id": target.locator.to_string(), "attached": target.node.is_ok()});
            if let Err((reason, _)) = &target.node {
                json["reason"] = reason.to_string().into();
            }
            json
        })
        .collect();
    let mut json = json!({
        "id": policy.locator.to_string(),
        "kind": policy.locator.kind.to_string(),
        "counts": policy.has_effect(),
        "strategy": policy.rules.strategy.to_string(),
        "assumed": policy.merge_behavior.is_assumed(),
        "targets": targets,
    });
    if let Some(origin) = &policy.row.origin {
        json["origin"] = json!(origin);
    }
    if !policy.unknown.is_empty() {
        json["unknown"] = json!(policy.unknown);
    }
    if let Some((reason, message)) = &policy.no_effect {
        json["reason"] = reason.to_string().into();
        json["message"] = message.clone().into();
    }
    json
}

fn json_of_unattached(item: &Unattached<'_>) -> Value {
    json!({
        "from": item.from.to_string(),
        "to": item.to.to_string(),
        "reason": item.reason.to_string(),
        "message": item.message,
    })
}

fn json_of_unresolved(item: &Unresolved<'_>) -> Value {
    let mut json = json!({
        "from": item.from.to_string(),
        "status": item.status(),
        "reason": item.reason.to_string(),
        "message": item.message,
    });
    if let Some(to) = item.to {
        json["to"] = to.to_string().into();
    }
    json
}
