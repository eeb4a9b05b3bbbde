//! A directed acyclic graph of nodes with policies on them: the part of this crate that is independent of kinds.

mod builder;
pub(crate) mod dot;
mod lists;
mod paths;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

pub use builder::{BuildError, Node, TopologyBuilder};
use lists::AdjacencyLists;
pub use paths::PathsBetween;

use crate::merge::{EffectivePolicy, Layer};
use crate::object::Policy;

/// The id of a node. Ids are in the order of the nodes' locators. An id is valid in its topology or graph only. In
/// another topology, the same id may belong to another node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl NodeId {
    pub(crate) fn new(index: usize) -> Self {
        // A cluster has fewer than four billion objects.
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The id of a policy of a [`Topology`]. Ids are in the order of the policies' locators.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyId(pub(crate) u32);

impl PolicyId {
    pub(crate) fn new(index: usize) -> Self {
        // A cluster has fewer than four billion policies.
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

impl fmt::Debug for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}", self.0)
    }
}

/// Nodes `N`, the links between them, and the policies `P` that are attached to them.
///
/// A topology is built once and not changed: a controller builds a new topology from its present objects.
/// [`Topology::builder`] builds a topology from objects of any kinds. A [`Graph`](crate::Graph) is built from the kinds
/// of Gateway API.
pub struct Topology<N, P> {
    nodes: Vec<N>,
    /// The children of each node.
    children: AdjacencyLists,
    /// The parents of each node. Computed on first use, because few callers need it.
    parents: OnceLock<AdjacencyLists>,
    policies: Vec<P>,
    /// The policies that are attached to each node.
    attached: AdjacencyLists,
}

/// Omits the nodes and policies, which need not implement `Debug`.
impl<N, P> fmt::Debug for Topology<N, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (nodes, policies) = (self.nodes.len(), self.policies.len());
        f.debug_struct("Topology").field("nodes", &nodes).field("policies", &policies).finish_non_exhaustive()
    }
}

impl<N, P> Default for Topology<N, P> {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new(), Vec::new(), Vec::new())
    }
}

impl<N, P> Topology<N, P> {
    /// A topology with `links` from parents to children, and policies `attached` to nodes. The caller guarantees that
    /// the links have no cycle.
    pub(crate) fn new(
        nodes: Vec<N>,
        links: Vec<(NodeId, NodeId)>,
        policies: Vec<P>,
        attached: Vec<(NodeId, PolicyId)>,
    ) -> Self {
        let count = nodes.len();
        let children =
            AdjacencyLists::new(count, links.into_iter().map(|(from, to)| (from.0, to.0)).collect());
        let attached =
            AdjacencyLists::new(count, attached.into_iter().map(|(node, id)| (node.0, id.0)).collect());
        Self { nodes, children, parents: OnceLock::new(), policies, attached }
    }

    /// A topology of the same nodes with other links and policies.
    pub(crate) fn with(
        self,
        links: Vec<(NodeId, NodeId)>,
        policies: Vec<P>,
        attached: Vec<(NodeId, PolicyId)>,
    ) -> Self {
        Self::new(self.nodes, links, policies, attached)
    }

    /// All nodes, in the order of their locators. Parents do not necessarily precede their children.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<N, P> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// The data of `node`.
    ///
    /// # Panics
    ///
    /// If `node` is of another, larger topology.
    #[must_use]
    pub fn node(&self, node: NodeId) -> &N {
        &self.nodes[node.index()]
    }

    /// The nodes that `node` links to, in the order of their locators. A node of another, larger topology has no
    /// children.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.children.of(node.index()).iter().map(|number| NodeId(*number))
    }

    /// The nodes that link to `node`, in the order of their locators. A node of another, larger topology has no
    /// parents.
    pub fn parents(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let parents = self.parents.get_or_init(|| self.children.inverted());
        parents.of(node.index()).iter().map(|number| NodeId(*number))
    }

    /// The nodes without parents, in the order of their locators.
    pub fn roots(&self) -> impl Iterator<Item = NodeId> {
        let mut has_parent = vec![false; self.nodes.len()];
        for child in self.children.all() {
            has_parent[*child as usize] = true;
        }
        self.nodes().filter(move |node| !has_parent[node.index()])
    }

    /// All links, from parents to children, in the order of the locators of the parents, then of the children.
    pub fn links(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.nodes().flat_map(|from| self.children(from).map(move |to| (from, to)))
    }

    /// All paths between two nodes, both included. The path of a node to itself has that node alone. A topology may
    /// have more paths than fit into memory, so they are found one after the other.
    ///
    /// # Panics
    ///
    /// If a node is of another, larger topology.
    #[must_use]
    pub fn paths(&self, from: NodeId, to: NodeId) -> PathsBetween<'_, N, P> {
        PathsBetween::new(self, from, to)
    }

    /// All policies, also those that are attached to nothing, in the order of their locators.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = (PolicyId, &P)> {
        self.policies.iter().enumerate().map(|(index, policy)| (PolicyId::new(index), policy))
    }

    /// All policies, in the order of their ids.
    pub(crate) fn all_policies(&self) -> &[P] {
        &self.policies
    }

    /// The policy `id`.
    ///
    /// # Panics
    ///
    /// If `id` is of another, larger topology.
    #[must_use]
    pub fn policy(&self, id: PolicyId) -> &P {
        &self.policies[id.0 as usize]
    }

    /// The policies that are attached to `node`, of all kinds, in the order of their locators. There are none for nodes
    /// that policies cannot target, and for a node of another, larger topology.
    ///
    /// A policy is attached to no node if all of its targets are ignored; see [`Policy::targets`].
    pub fn policies_of(&self, node: NodeId) -> impl Iterator<Item = PolicyId> {
        self.attached.of(node.index()).iter().map(|number| PolicyId(*number))
    }

    /// The nodes of a cycle, if the links have a cycle. The first node is repeated at the end.
    fn find_cycle(&self) -> Option<Vec<NodeId>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Visit {
            New,
            Open,
            Done,
        }
        let mut visits = vec![Visit::New; self.nodes.len()];
        for start in self.nodes() {
            if visits[start.index()] != Visit::New {
                continue;
            }
            visits[start.index()] = Visit::Open;
            // The nodes of the present path, each with the number of its children that were visited.
            let mut open = vec![(start, 0)];
            while let Some((node, next)) = open.last_mut() {
                let (node, index) = (*node, *next);
                *next += 1;
                let Some(child) = self.children(node).nth(index) else {
                    visits[node.index()] = Visit::Done;
                    open.pop();
                    continue;
                };
                match visits[child.index()] {
                    Visit::Done => {}
                    Visit::New => {
                        visits[child.index()] = Visit::Open;
                        open.push((child, 0));
                    }
                    Visit::Open => {
                        let on_path = open.iter().map(|(node, _)| *node).skip_while(|node| *node != child);
                        return Some(on_path.chain([child]).collect());
                    }
                }
            }
        }
        None
    }
}

impl<N, P: Policy> Topology<N, P> {
    /// The effective policies along `path`, one for each kind of policy that counts on the path. They are in the order
    /// of [`KindRef`](crate::locator::KindRef).
    ///
    /// The path leads from the least specific node to the most specific one. Any nodes are allowed: `path` may be a
    /// part of a path, and neither the links between the nodes nor their order are checked. A node of another, larger
    /// topology has no policies.
    ///
    /// Inherited policies count on all nodes of `path`. Direct policies count on its last node only; see
    /// [`Policy::is_inherited`].
    ///
    /// # Panics
    ///
    /// With debug assertions: if two rules of a policy have the same key.
    #[must_use]
    pub fn effective(&self, path: &[NodeId]) -> Vec<EffectivePolicy<'_>> {
        let mut kinds: BTreeMap<_, Vec<PolicyId>> = BTreeMap::new();
        for (index, node) in path.iter().enumerate() {
            let is_last = index + 1 == path.len();
            for id in self.by_precedence(*node).filter(|id| is_last || self.policy(*id).is_inherited()) {
                kinds.entry(self.policy(id).locator().kind).or_default().push(id);
            }
        }
        kinds.into_iter().map(|(kind, stack)| EffectivePolicy::fold(kind, self.layers(&stack))).collect()
    }

    /// The policies that are attached to `node`, by their precedence.
    pub(crate) fn by_precedence(&self, node: NodeId) -> std::vec::IntoIter<PolicyId> {
        let mut policies: Vec<PolicyId> = self.policies_of(node).collect();
        policies.sort_by_cached_key(|id| self.policy(*id).precedence());
        policies.into_iter()
    }

    /// The layers of an effective policy, one for each policy in `stack`.
    fn layers(&self, stack: &[PolicyId]) -> Vec<Layer<'_>> {
        let layer = |id: &PolicyId| {
            let layer = Layer::of(*id, self.policy(*id));
            debug_assert!(layer.has_unique_keys(), "two rules of {} have the same key", layer.locator);
            layer
        };
        stack.iter().map(layer).collect()
    }
}

#[cfg(test)]
mod tests;
