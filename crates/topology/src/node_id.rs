//! The ids of nodes.

use std::fmt;

/// The id of a node. Ids are in the order of the nodes' locators. An id is valid in its topology or graph only; in another one it may be
/// the id of another node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(super) u32);

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl NodeId {
    pub(super) fn new(index: usize) -> Self {
        // A cluster has fewer than four billion objects.
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}
