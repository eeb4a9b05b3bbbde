//! The conditions of routes: for each parent reference, whether the route attaches, whether its backends
//! resolve, and which policies apply.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{AFFECTED_LIMIT, AffectingPolicies, ConditionText, Conditions, MESSAGE_LIMIT};
use crate::effective::EffectiveCache;
use crate::graph::{Graph, NodeId, ObjectRow};
use crate::locator::Locator;
use crate::reason::{Reason, Unattached, Unresolved};
use crate::rows::{Parent, ParentReference, Route, RouteKind};
use crate::topology::PolicyId;
use policy_sync_api::json::Hash;
use policy_sync_api::text::{named, truncate_bytes};

/// The conditions for one parent reference of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParentConditions {
    /// The index of the reference in `parentRefs`.
    pub reference: usize,
    /// The conditions. Routes with equal conditions share them.
    pub conditions: Arc<Conditions>,
}

/// The conditions of all routes for the parents that this controller manages.
#[derive(Debug)]
pub struct RouteConditions<'g, 'f> {
    graph: &'g Graph<'f>,
    /// The managed parents: the Gateways that `is_ours` accepts, and their ListenerSets.
    parents: HashMap<Locator<'f>, NodeId>,
    /// Pairs of a route and a listener that carries the route, sorted.
    carriers: Vec<(NodeId, NodeId)>,
    /// For each listener that carries routes, the index into `stacks` of the policies on the listener and above it.
    above: HashMap<NodeId, usize>,
    stacks: Vec<Vec<PolicyId>>,
    rejected: HashMap<Locator<'f>, Vec<&'g Unattached<'f>>>,
    /// The references of each route that do not resolve, or that may not resolve.
    unresolved: HashMap<Locator<'f>, Vec<&'g Unresolved<'f>>>,
    /// The policy conditions of routes without policies of their own. The key is the kind of the route, and the indexes
    /// into `stacks` of the policies above it.
    cached: HashMap<(RouteKind, Vec<usize>), Arc<[ConditionText]>>,
    shared: HashMap<Hash, Arc<Conditions>>,
}

impl<'g, 'f> RouteConditions<'g, 'f> {
    /// Prepares the conditions of the routes of `graph`, for the Gateways that `is_ours` accepts.
    #[must_use]
    pub fn new(graph: &'g Graph<'f>, is_ours: impl Fn(Locator<'f>) -> bool) -> Self {
        let mut all = Self {
            graph,
            parents: HashMap::new(),
            carriers: Vec::new(),
            above: HashMap::new(),
            stacks: Vec::new(),
            rejected: HashMap::new(),
            unresolved: HashMap::new(),
            cached: HashMap::new(),
            shared: HashMap::new(),
        };
        for item in graph.unattached() {
            all.rejected.entry(item.from.with(None)).or_default().push(item);
        }
        for item in graph.unresolved() {
            all.unresolved.entry(item.from.with(None)).or_default().push(item);
        }
        all.find_parents(is_ours);
        all.find_carriers();
        all
    }

    fn find_parents(&mut self, is_ours: impl Fn(Locator<'f>) -> bool) {
        for node in self.graph.object_nodes() {
            let locator = self.graph.locator(node);
            let gateway = match self.graph.object(node).row {
                ObjectRow::Gateway(_) => locator,
                ObjectRow::Set(set) if set.parent.parent == Parent::Gateway => {
                    set.parent.locator(locator.namespace).with(None)
                }
                _ => continue,
            };
            if is_ours(gateway) {
                self.parents.insert(locator, node);
            }
        }
    }

    fn find_carriers(&mut self) {
        let graph = self.graph;
        let is_class = |node: &NodeId| matches!(graph.object(*node).row, ObjectRow::Class(_));
        let is_route = |node: &NodeId| matches!(graph.object(*node).row, ObjectRow::Route(..));
        let classes: HashMap<Locator<'f>, NodeId> =
            graph.object_nodes().filter(is_class).map(|node| (graph.locator(node), node)).collect();
        let mut places: HashMap<Vec<PolicyId>, usize> = HashMap::new();
        for (gateway, listener) in graph.listeners() {
            let routes: Vec<NodeId> = graph.links(listener).filter(is_route).collect();
            if routes.is_empty() {
                continue;
            }
            let mut stack = Vec::new();
            if let ObjectRow::Gateway(row) = graph.object(gateway).row
                && let Some(class) = classes.get(&row.class_locator())
            {
                graph.push_policies(*class, &mut stack);
            }
            graph.push_policies(gateway, &mut stack);
            let listener_object = graph.object_node(listener);
            if listener_object != gateway {
                graph.push_policies(listener_object, &mut stack);
            }
            graph.push_policies(listener, &mut stack);
            let place = *places.entry(stack.clone()).or_insert_with(|| {
                self.stacks.push(stack);
                self.stacks.len() - 1
            });
            self.above.insert(listener, place);
            self.carriers.extend(routes.into_iter().map(|route| (route, listener)));
        }
        self.carriers.sort_unstable();
    }

    /// Visits each route with its conditions: an empty list if none of its parents is managed.
    pub fn each(mut self, mut visit: impl FnMut(RouteKind, Locator<'f>, &'f Route, Vec<ParentConditions>)) {
        for node in self.graph.object_nodes() {
            if let ObjectRow::Route(kind, route) = self.graph.object(node).row {
                let entries = self.route(node, kind, route);
                visit(kind, self.graph.locator(node), route, entries);
            }
        }
    }

    fn route(&mut self, node: NodeId, kind: RouteKind, route: &'f Route) -> Vec<ParentConditions> {
        let locator = self.graph.locator(node);
        let mut entries: Vec<ParentConditions> = Vec::new();
        let first = self.carriers.partition_point(|(route, _)| *route < node);
        for (place, parent) in route.parents.iter().enumerate() {
            let to = parent.locator(locator.namespace);
            let Some(listener_object) = self.parents.get(&to.with(None)).copied() else { continue };
            // A duplicate is skipped, because the API rejects a status with the same reference twice.
            if route.parents[..place].contains(parent) {
                continue;
            }
            let listeners = self.carriers[first..].iter().take_while(|(route, _)| *route == node);
            let carriers: Vec<NodeId> = listeners
                .map(|(_, listener)| *listener)
                .filter(|listener| {
                    let row = self.graph.listener(*listener);
                    self.graph.is_section_of(*listener, listener_object)
                        && row.is_some_and(|row| parent.selects(row))
                })
                .collect();
            let mut texts =
                vec![self.accepted((node, locator), to, parent, &carriers), self.resolved(node, locator)];
            texts.extend(self.affected(node, kind, &carriers).iter().cloned());
            let conditions = self.share(texts);
            entries.push(ParentConditions { reference: place, conditions });
        }
        entries
    }

    /// Keeps equal conditions of several routes only once.
    fn share(&mut self, texts: Vec<ConditionText>) -> Arc<Conditions> {
        let conditions = Conditions::from(texts);
        self.shared.entry(conditions.hash).or_insert_with(|| Arc::new(conditions)).clone()
    }

    fn accepted(
        &self,
        (node, from): (NodeId, Locator<'f>),
        to: Locator<'f>,
        parent: &ParentReference,
        carriers: &[NodeId],
    ) -> ConditionText {
        let name = "Accepted".to_owned();
        let what = format!("{} {}", to.kind.kind, to.object());
        let listeners = carriers.iter().filter(|listener| self.graph.is_certain(**listener, node)).count();
        if listeners > 0 {
            let on = if listeners == 1 { "1 listener".to_owned() } else { format!("{listeners} listeners") };
            let message = format!(
                "attached to {on} of {what}; routes are not delivered to clusters: apply them there as well"
            );
            return ConditionText { name, status: "True", reason: "Accepted", message };
        }
        if !carriers.is_empty() {
            let all = self.unresolved.get(&from).into_iter().flatten();
            let item = all.into_iter().find(|item| item.from == from && item.to == Some(to));
            let message = item
                .map_or_else(String::new, |item| truncate_bytes(&item.message, MESSAGE_LIMIT).into_owned());
            return ConditionText {
                name,
                status: "Unknown",
                reason: Reason::UnknownLabels.as_str(),
                message,
            };
        }
        let rejected = || {
            let all = self.rejected.get(&from).into_iter().flatten();
            all.filter(|item| item.from == from && item.to == to)
        };
        let same_port = rejected().find(|item| item.port == parent.port);
        let (reason, message) = match same_port.or_else(|| rejected().next()) {
            Some(item) => (item.reason.as_str(), truncate_bytes(&item.message, MESSAGE_LIMIT).into_owned()),
            None => ("NoMatchingParent", format!("{what} has no listener in force")),
        };
        ConditionText { name, status: "False", reason, message }
    }

    /// The condition for the backends of a route: whether all backends exist, and whether the route may refer to them.
    /// The status is Unknown if this is not known for a backend, for example if its kind is not read.
    fn resolved(&self, node: NodeId, route: Locator<'f>) -> ConditionText {
        let name = "ResolvedRefs".to_owned();
        let all = self.rejected.get(&route).into_iter().flatten();
        // Without a grant, the route's author must not learn which objects another namespace has.
        let may_know =
            |item: &&&Unattached<'f>| self.graph.knows_grants() || item.to.namespace == route.namespace;
        let of_rules: Vec<&&Unattached<'f>> =
            all.filter(|item| item.from != route).filter(may_know).collect();
        let Some(first) = of_rules.first() else {
            if let Some((reason, message)) = self.unknown_reason(node, route) {
                let message = truncate_bytes(&message, MESSAGE_LIMIT).into_owned();
                return ConditionText { name, status: "Unknown", reason: reason.as_str(), message };
            }
            let message = "all known backends exist".to_owned();
            return ConditionText { name, status: "True", reason: "ResolvedRefs", message };
        };
        let messages: BTreeSet<&str> = of_rules.iter().map(|item| &*item.message).collect();
        let message = named(&messages.into_iter().collect::<Vec<_>>());
        ConditionText {
            name,
            status: "False",
            reason: first.reason.as_str(),
            message: truncate_bytes(&message, MESSAGE_LIMIT).into_owned(),
        }
    }

    /// The reason why it is unknown whether all backends of a route resolve.
    fn unknown_reason(&self, node: NodeId, route: Locator<'f>) -> Option<(Reason, String)> {
        let graph = self.graph;
        let backends = graph.sections(node).flat_map(|rule| graph.links(rule)).map(|to| graph.object(to));
        let leaves = backends.filter(|object| matches!(object.row, ObjectRow::Leaf(_)));
        let mut kinds: BTreeSet<String> = leaves.map(|object| object.locator.kind.to_string()).collect();
        let mut others: BTreeSet<(Reason, &str)> = BTreeSet::new();
        for item in self.unresolved.get(&route).into_iter().flatten().filter(|item| item.from != route) {
            match (item.reason, item.to) {
                (Reason::UnknownKind, Some(to)) => drop(kinds.insert(to.kind.to_string())),
                (reason, _) => drop(others.insert((reason, &item.message))),
            }
        }
        let of_kinds = (!kinds.is_empty()).then(|| {
            let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
            (Reason::UnknownKind, format!("backends of these kinds are not read: {}", named(&kinds)))
        });
        let others = others.into_iter().map(|(reason, message)| (reason, message.to_owned()));
        let all: Vec<(Reason, String)> = of_kinds.into_iter().chain(others).collect();
        let messages: Vec<&str> = all.iter().map(|(_, message)| message.as_str()).collect();
        Some((all.first()?.0, messages.join("; ")))
    }

    /// The policies along the paths from these listeners to the route.
    fn affected(&mut self, route: NodeId, kind: RouteKind, listeners: &[NodeId]) -> Arc<[ConditionText]> {
        let mut above: Vec<usize> =
            listeners.iter().filter_map(|listener| self.above.get(listener)).copied().collect();
        above.sort_unstable();
        above.dedup();
        let graph = self.graph;
        let has_own = [route]
            .into_iter()
            .chain(graph.sections(route))
            .any(|node| graph.topology().policies_of(node).next().is_some());
        if has_own {
            return self.fold(route, kind, &above);
        }
        if let Some(cached) = self.cached.get(&(kind, above.clone())) {
            return cached.clone();
        }
        let texts = self.fold(route, kind, &above);
        self.cached.insert((kind, above), texts.clone());
        texts
    }

    fn fold(&self, route: NodeId, kind: RouteKind, above: &[usize]) -> Arc<[ConditionText]> {
        let graph = self.graph;
        // The cache is dropped at the end: its stacks may include policies of this route, which no other route has.
        let mut cache = EffectiveCache::new(graph);
        let mut affecting = AffectingPolicies::default();
        let mut below: BTreeSet<Vec<PolicyId>> = BTreeSet::new();
        let mut of_route = Vec::new();
        graph.push_policies(route, &mut of_route);
        for rule in graph.sections(route) {
            let mut stack = of_route.clone();
            graph.push_policies(rule, &mut stack);
            below.insert(stack);
        }
        if below.is_empty() {
            below.insert(of_route);
        }
        for place in above {
            for below in &below {
                let stack = [self.stacks[*place].as_slice(), below].concat();
                for id in cache.along(&stack, Some(kind)) {
                    let effective = cache.get(id);
                    let of = affecting.of_kind(effective.kind.kind);
                    of.in_force.extend(&effective.sources);
                    of.stacked.extend(cache.stack(id));
                }
            }
        }
        // Direct policies apply to their target only.
        for node in [route].into_iter().chain(graph.sections(route)).filter(|_| !above.is_empty()) {
            for number in graph
                .topology()
                .policies_of(node)
                .filter(|number| graph.policy(*number).merge_behavior.is_direct())
            {
                affecting.of_kind(graph.policy(number).locator.kind.kind).in_force.insert(number);
            }
        }
        let texts = affecting.conditions(AFFECTED_LIMIT, |of| {
            let lost: BTreeSet<PolicyId> = of.stacked.difference(&of.in_force).copied().collect();
            let parts = [("in force", &of.in_force), ("not in force", &lost)];
            let parts = parts.into_iter().filter(|(_, policies)| !policies.is_empty());
            let parts: Vec<String> = parts
                .map(|(what, policies)| format!("{what}: {}", named(&graph.names_of(policies))))
                .collect();
            parts.join("; ")
        });
        texts.into()
    }
}
