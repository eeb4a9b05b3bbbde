//! The graph of Gateway API objects: their attachments, the reasons why objects do not attach, and the policies that
//! target them.
//!
//! ```text
//! GatewayClass ─▶ Gateway ─▶ (ListenerSet ─▶) listener ─▶ route ─▶ rule ─▶ Service or a port of it
//! ```
//!
//! Every link leads to a later layer, so the graph has no cycles. It is built anew from rows and dropped after
//! use. Nodes are numbered in the order of their locators; the sections of an object follow the object.

mod build;
mod object;

pub(super) use build::Builder;
pub use object::{Object, ObjectRow};

use std::collections::HashSet;

use super::locator::{KindRef, Locator, Section, graph_kind};
use super::policies::PolicyNode;
use super::reason::{Reason, Unattached, Unresolved};
use super::rows::{BackendKind, Gateway, Listener, Route, Rule};
pub use super::topology::NodeId;
use super::topology::{PolicyId, Topology};

/// An object, or a section of an object. A section is given by its index in the object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    object: u32,
    section: Option<u16>,
}

/// Objects of Gateway API, the links between them, and the policies on them.
#[derive(Debug)]
pub struct Graph<'f> {
    objects: Vec<Object<'f>>,
    downstream_prefix: &'f str,
    /// Whether all ReferenceGrants are known.
    knows_grants: bool,
    /// Whether all Gateways are known.
    knows_gateways: bool,
    /// The nodes, their links and the policies on them.
    topology: Topology<Node, PolicyNode<'f>>,
    /// Links from a listener to a route if it is unknown whether the listener allows the route, because labels are
    /// unknown.
    pub(super) uncertain: HashSet<(NodeId, NodeId)>,
    /// Objects and sections that do not attach, in the order of their locators.
    pub(super) unattached: Vec<Unattached<'f>>,
    /// References that do not resolve, or that may not resolve, in the order of their locators.
    pub(super) unresolved: Vec<Unresolved<'f>>,
}

impl<'f> Graph<'f> {
    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<'f> {
        self.topology.nodes()
    }

    /// Whether all ReferenceGrants are known. If not, every reference is permitted.
    pub(super) fn knows_grants(&self) -> bool {
        self.knows_grants
    }

    /// Whether all Gateways are known. If not, Gateways may be missing from the graph.
    #[must_use]
    pub fn knows_gateways(&self) -> bool {
        self.knows_gateways
    }

    /// The nodes of objects, without the nodes of sections.
    pub fn object_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes().filter(|node| !self.is_section(*node))
    }

    /// The object of `node`: the node's own object, or the object to which the section `node` belongs.
    #[must_use]
    pub fn object(&self, node: NodeId) -> &Object<'f> {
        &self.objects[self.topology.node(node).object as usize]
    }

    /// The locator of `node`.
    #[must_use]
    pub fn locator(&self, node: NodeId) -> Locator<'f> {
        let (object, section) = (self.object(node), self.topology.node(node).section);
        object.locator.with(section.and_then(|place| object.row.section(place.into())))
    }

    /// The name of the original, if `node` is a copy of a hub's Gateway: `<namespace>/<name>`.
    #[must_use]
    pub fn origin(&self, node: NodeId) -> Option<String> {
        let Object { locator, row } = self.object(node);
        let ObjectRow::Gateway(Gateway { copy: true, .. }) = row else { return None };
        let namespace =
            locator.namespace.strip_prefix(self.downstream_prefix).filter(|_| !self.is_section(node))?;
        (!self.downstream_prefix.is_empty()).then(|| format!("{namespace}/{}", locator.name))
    }

    /// The listener, if `node` is a listener.
    #[must_use]
    pub fn listener(&self, node: NodeId) -> Option<&'f Listener> {
        self.object(node).row.listeners().get(usize::from(self.topology.node(node).section?))
    }

    /// The rule, if `node` is a rule of a route.
    #[must_use]
    pub fn rule(&self, node: NodeId) -> Option<&'f Rule> {
        match self.object(node).row {
            ObjectRow::Route(_, route) => route.rules.get(usize::from(self.topology.node(node).section?)),
            _ => None,
        }
    }

    /// Whether `node` is a section.
    #[must_use]
    pub fn is_section(&self, node: NodeId) -> bool {
        self.topology.node(node).section.is_some()
    }

    /// The children of `node`.
    pub fn links(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.topology.children(node)
    }

    /// Whether it is known that `listener` allows its child `route`.
    #[must_use]
    pub fn is_certain(&self, listener: NodeId, route: NodeId) -> bool {
        !self.uncertain.contains(&(listener, route))
    }

    /// All links, from parents to children.
    pub fn all_links(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.topology.links()
    }

    /// The nodes at which paths begin.
    #[must_use]
    pub fn roots(&self) -> Vec<NodeId> {
        let may_be_root =
            |node: &NodeId| self.object(*node).row.may_be_root() && self.links(*node).next().is_some();
        self.topology.roots().filter(may_be_root).collect()
    }

    /// The kinds that objects refer to, but whose objects are unknown.
    #[must_use]
    pub fn unknown(&self) -> Vec<KindRef<'f>> {
        let leaves = self.objects.iter().filter(|object| matches!(object.row, ObjectRow::Leaf(_)));
        let kinds = leaves.map(|object| object.locator.kind).filter(|kind| graph_kind(*kind).is_some());
        // The graph has no leaves for the backends of `RequestMirror` filters.
        let is_unknown = |item: &&Unresolved<'f>| item.reason == Reason::UnknownKind;
        let mirrors = self.unresolved.iter().filter(is_unknown).filter_map(|item| Some(item.to?.kind));
        let mirrors = mirrors.filter(|kind| BackendKind::named(*kind).is_some());
        let mut kinds: Vec<KindRef<'f>> = kinds.chain(mirrors).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    /// The type of `node` as one word. For an object, it is the kind, such as `HTTPRoute`; for a section, `Listener`,
    /// `HTTPRouteRule` or `ServicePort`. It is `Other` for kinds that the graph has only because of references to them.
    #[must_use]
    pub fn node_type(&self, node: NodeId) -> &'static str {
        let Object { locator, row } = self.object(node);
        let is_section = self.is_section(node);
        match row {
            ObjectRow::Class(_) => "GatewayClass",
            ObjectRow::Gateway(_) | ObjectRow::Set(_) if is_section => "Listener",
            ObjectRow::Gateway(_) => "Gateway",
            ObjectRow::Route(kind, _) if is_section => kind.rule(),
            ObjectRow::Route(kind, _) => kind.kind().kind,
            ObjectRow::Backend(_) if is_section => {
                BackendKind::named(locator.kind).map_or("OtherSection", BackendKind::port)
            }
            ObjectRow::Leaf(_) if is_section => "OtherSection",
            ObjectRow::Set(_) | ObjectRow::Backend(_) | ObjectRow::Leaf(_) => {
                graph_kind(locator.kind).map_or("Other", |kind| kind.kind)
            }
        }
    }

    /// All routes.
    pub fn routes(&self) -> impl Iterator<Item = (Locator<'f>, &'f Route)> {
        self.objects.iter().filter_map(|object| match object.row {
            ObjectRow::Route(_, route) => Some((object.locator, route)),
            _ => None,
        })
    }

    /// The listeners in force, each with its Gateway. For each Gateway, its own listeners come before the listeners of
    /// its ListenerSets.
    pub fn listeners(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let is_gateway = |node: &NodeId| matches!(self.object(*node).row, ObjectRow::Gateway(_));
        self.object_nodes().filter(is_gateway).flat_map(move |gateway| {
            let sets = self.links(gateway).filter(|set| !self.is_section(*set));
            let listeners = [gateway].into_iter().chain(sets).flat_map(|parent| self.links(parent));
            listeners.filter(|node| self.listener(*node).is_some()).map(move |node| (gateway, node))
        })
    }

    /// The node of an object: `node` itself, or the node of the object to which the section `node` belongs.
    pub(super) fn object_node(&self, node: NodeId) -> NodeId {
        let before = (0..=node.index()).rev().map(NodeId::new);
        before.into_iter().find(|node| !self.is_section(*node)).unwrap_or(node)
    }

    /// Whether `node` is a section of the object `object_node`.
    pub(super) fn is_section_of(&self, node: NodeId, object_node: NodeId) -> bool {
        let first = object_node.index() + 1;
        (first..first + self.object(object_node).row.sections()).contains(&node.index())
    }

    /// The index of the section `node` in its object.
    pub(super) fn place(&self, node: NodeId) -> usize {
        self.topology.node(node).section.unwrap_or_default().into()
    }

    /// The policies on `node`, in the order of their locators.
    pub fn policies_on(&self, node: NodeId) -> impl Iterator<Item = &PolicyNode<'f>> {
        self.topology.policies_of(node).map(|id| self.policy(id))
    }

    /// The nodes, their links and the policies on them, without the parts specific to Gateway API.
    pub(super) fn topology(&self) -> &Topology<Node, PolicyNode<'f>> {
        &self.topology
    }

    pub(super) fn policy(&self, id: PolicyId) -> &PolicyNode<'f> {
        self.topology.policy(id)
    }

    /// Whether `node` is in the graph only because other objects refer to it.
    pub(super) fn is_leaf(&self, node: NodeId) -> bool {
        matches!(self.object(node).row, ObjectRow::Leaf(_))
    }

    /// All policies, including those without effect.
    #[must_use]
    pub fn policies(&self) -> &[PolicyNode<'f>] {
        self.topology.all_policies()
    }

    /// The objects and sections that do not attach, each with the reason.
    #[must_use]
    pub fn unattached(&self) -> &[Unattached<'f>] {
        &self.unattached
    }

    /// The references of attached objects that do not resolve, or that may not resolve.
    #[must_use]
    pub fn unresolved(&self) -> &[Unresolved<'f>] {
        &self.unresolved
    }

    /// The first section of the object `node` that `is` accepts.
    fn section_node(&self, node: NodeId, is: impl Fn(Section<'f>) -> bool) -> Option<NodeId> {
        self.sections(node).find(|section| self.locator(*section).section.is_some_and(&is))
    }

    /// The sections of the object `node`.
    pub fn sections(&self, node: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        let count = if self.is_section(node) { 0 } else { self.object(node).row.sections() };
        (node.index() + 1..=node.index() + count).map(NodeId::new)
    }
}
