//! The paths between two nodes.

use super::{NodeId, Topology};

/// The paths between two nodes, in the order of their nodes.
#[derive(Debug)]
pub struct PathsBetween<'t, N, P> {
    topology: &'t Topology<N, P>,
    to: NodeId,
    /// Whether a path leads from each node to `to`.
    reaches_target: Vec<bool>,
    /// The nodes of the present path, each with its children that were not visited.
    open: Vec<(NodeId, std::vec::IntoIter<NodeId>)>,
}

impl<'t, N, P> PathsBetween<'t, N, P> {
    pub(super) fn new(topology: &'t Topology<N, P>, from: NodeId, to: NodeId) -> Self {
        let mut reaches_target = vec![false; topology.nodes.len()];
        let mut found = vec![to];
        while let Some(node) = found.pop() {
            if !std::mem::replace(&mut reaches_target[node.index()], true) {
                found.extend(topology.parents(node));
            }
        }
        let mut paths = Self { topology, to, reaches_target, open: Vec::new() };
        if paths.reaches_target[from.index()] {
            paths.enter(from);
        }
        paths
    }

    fn enter(&mut self, node: NodeId) {
        let children: Vec<NodeId> =
            self.topology.children(node).filter(|child| self.reaches_target[child.index()]).collect();
        self.open.push((node, children.into_iter()));
    }
}

impl<N, P> Iterator for PathsBetween<'_, N, P> {
    type Item = Vec<NodeId>;

    fn next(&mut self) -> Option<Vec<NodeId>> {
        loop {
            let (node, children) = self.open.last_mut()?;
            if *node == self.to {
                let path = self.open.iter().map(|(node, _)| *node).collect();
                self.open.pop();
                return Some(path);
            }
            match children.next() {
                Some(child) => self.enter(child),
                None => drop(self.open.pop()),
            }
        }
    }
}
