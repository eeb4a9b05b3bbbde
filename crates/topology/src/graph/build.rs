//! Builds a graph from its input: first the objects, in the order of their locators, then their attachments.

use std::collections::{HashMap, HashSet};

use super::{Graph, Node, NodeId, Object, ObjectRow};
use crate::attachment::leaves;
use crate::graph_input::{Grants, GraphInput, Labels, Rows};
use crate::locator::{GATEWAY, GATEWAY_CLASS, KindRef, Locator, Section};
use crate::policies::{self, PolicyNode};
use crate::reason::{Reason, Unattached, Unresolved};
use crate::rows::{BackendKind, RouteKind, SetKind};
use crate::topology::{PolicyId, Topology};

/// A graph under construction.
pub(crate) struct Builder<'f> {
    pub graph_input: &'f GraphInput<'f>,
    pub grants: Grants<'f>,
    pub labels: Labels<'f>,
    pub graph: Graph<'f>,
    /// The objects of each kind, by namespace and name.
    by_name: HashMap<KindRef<'f>, HashMap<(&'f str, &'f str), NodeId>>,
    links: Vec<(NodeId, NodeId)>,
}

impl<'f> Graph<'f> {
    /// Builds the graph of `graph_input`.
    #[must_use]
    pub fn build(graph_input: &'f GraphInput<'f>) -> Self {
        let mut builder = Builder::new(graph_input);
        builder.attach_gateways();
        let in_force = builder.attach_listeners();
        builder.resolve_listeners();
        builder.attach_routes(&in_force);
        builder.attach_backends();
        builder.compare_backends();
        let policies = policies::read(graph_input);
        builder.attach_policies(policies)
    }
}

impl<'f> Builder<'f> {
    fn new(graph_input: &'f GraphInput<'f>) -> Self {
        let grants = Grants::new(graph_input);
        let mut objects: Vec<Object<'f>> = Vec::with_capacity(graph_input.count());
        add_objects(&mut objects, GATEWAY, &graph_input.gateways, ObjectRow::Gateway);
        add_objects(&mut objects, GATEWAY_CLASS, &graph_input.classes, ObjectRow::Class);
        for kind in SetKind::ALL {
            add_objects(&mut objects, kind.kind(), graph_input.sets_of(kind), ObjectRow::Set);
        }
        for kind in RouteKind::ALL {
            add_objects(&mut objects, kind.kind(), graph_input.routes_of(kind), |route| {
                ObjectRow::Route(kind, route)
            });
        }
        for kind in BackendKind::ALL {
            add_objects(&mut objects, kind.kind(), graph_input.backends_of(kind), ObjectRow::Backend);
        }
        // `known` is needed only if some but not all objects of a kind are known.
        let known: HashSet<Locator<'f>> = if graph_input.is_partial() {
            objects.iter().map(|object| object.locator).collect()
        } else {
            HashSet::new()
        };
        for (object, sections) in leaves(graph_input, &grants).filter(|(object, _)| !known.contains(object)) {
            objects.push(Object { locator: object, row: ObjectRow::Leaf(sections) });
        }
        // `objects` is almost sorted already, because the rows of each kind are sorted.
        objects.sort_by(|left, right| left.locator.cmp_object(&right.locator));
        let mut nodes = nodes(&objects);
        nodes.shrink_to_fit();
        let graph = Graph {
            topology: Topology::new(nodes, Vec::new(), Vec::new(), Vec::new()),
            objects,
            downstream_prefix: graph_input.downstream_prefix,
            knows_grants: graph_input.grants.known,
            knows_gateways: graph_input.gateways.known,
            uncertain: HashSet::new(),
            unattached: Vec::new(),
            unresolved: Vec::new(),
        };
        let mut by_name: HashMap<KindRef<'f>, HashMap<(&str, &str), NodeId>> = HashMap::new();
        for node in graph.object_nodes() {
            let Locator { kind, namespace, name, .. } = graph.locator(node);
            by_name.entry(kind).or_default().insert((namespace, name), node);
        }
        Self { graph_input, grants, labels: Labels::new(graph_input), graph, by_name, links: Vec::new() }
    }

    /// The node of the object that `to` names, or whose section it names.
    pub(crate) fn find(&self, to: Locator<'_>) -> Option<NodeId> {
        self.by_name.get(&to.kind)?.get(&(to.namespace, to.name)).copied()
    }

    /// The node of a section of the object `node`.
    pub(crate) fn section(&self, node: NodeId, name: &str) -> Option<NodeId> {
        self.graph.section_node(node, |section| section.is(name))
    }

    /// The node of a port of the backend `node`.
    pub(crate) fn port(&self, node: NodeId, port: u16) -> Option<NodeId> {
        match &self.graph.object(node).row {
            ObjectRow::Backend(backend) => {
                let place = backend.ports.iter().position(|written| written.port == port)?;
                self.section_at(node, place)
            }
            _ => self.graph.section_node(node, |section| section == Section::Port(port)),
        }
    }

    /// The node of the section at `place` of the object `node`.
    pub(crate) fn section_at(&self, node: NodeId, place: usize) -> Option<NodeId> {
        self.graph.sections(node).find(|section| {
            self.graph.topology.node(*section).section.is_some_and(|found| usize::from(found) == place)
        })
    }

    /// The links that were added so far.
    pub(crate) fn linked(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.links.iter().copied()
    }

    pub(crate) fn link(&mut self, from: NodeId, to: NodeId) {
        self.links.push((from, to));
    }

    /// Links the sections of the object `node` to it.
    pub(crate) fn link_sections(&mut self, node: NodeId) {
        for section in self.graph.sections(node) {
            self.link(node, section);
        }
    }

    pub(crate) fn reject(&mut self, from: Locator<'f>, to: Locator<'f>, reason: Reason, message: String) {
        self.reject_on_port((to, None), from, reason, message);
    }

    /// Records that `from` does not attach to `to`. If `port` is set, the reference selects listeners on this port.
    pub(crate) fn reject_on_port(
        &mut self,
        (to, port): (Locator<'f>, Option<u16>),
        from: Locator<'f>,
        reason: Reason,
        message: String,
    ) {
        self.graph.unattached.push(Unattached { from, to, port, reason, message });
    }

    /// Adds an unresolved reference.
    pub(crate) fn unresolved(&mut self, item: Unresolved<'f>) {
        self.graph.unresolved.push(item);
    }

    pub(crate) fn finish(
        mut self,
        policies: Vec<PolicyNode<'f>>,
        attached: Vec<(NodeId, PolicyId)>,
    ) -> Graph<'f> {
        self.graph.topology = std::mem::take(&mut self.graph.topology).with(self.links, policies, attached);
        let unattached = &mut self.graph.unattached;
        unattached.sort_by_cached_key(|item| (item.from.to_string(), item.to.to_string(), item.reason));
        // If two references are equal except for the port, keep one of them.
        unattached.dedup_by(|later, kept| *later == Unattached { port: later.port, ..kept.clone() });
        let to = |item: &Unresolved<'_>| item.to.map(|to| to.to_string());
        self.graph
            .unresolved
            .sort_by_cached_key(|item| (item.from.to_string(), to(item), item.message.clone()));
        self.graph.unresolved.dedup();
        self.graph
    }
}

fn add_objects<'f, R>(
    objects: &mut Vec<Object<'f>>,
    kind: KindRef<'static>,
    rows: &Rows<'f, R>,
    row: impl Fn(&'f R) -> ObjectRow<'f>,
) {
    objects.extend(
        rows.objects.iter().map(|(key, found)| Object { locator: Locator::of(kind, key), row: row(found) }),
    );
}

/// The nodes of all objects, each followed by its sections in the order of their names.
fn nodes(objects: &[Object<'_>]) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut sorted: Vec<u16> = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        nodes.push(Node { object: index, section: None });
        let count = u16::try_from(object.row.sections()).unwrap_or(u16::MAX);
        sorted.clear();
        sorted.extend(0..count);
        let section = |place: &u16| object.row.section((*place).into());
        sorted.sort_by(|left, right| match (section(left), section(right)) {
            (Some(left), Some(right)) => left.cmp_text(&right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        });
        nodes.extend(sorted.iter().map(|place| Node { object: index, section: Some(*place) }));
    }
    nodes
}
