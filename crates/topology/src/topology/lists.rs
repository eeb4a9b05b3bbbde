//! Lists of numbers, one list for each node, in two allocations.

/// A list of numbers for each node, in ascending order and without duplicates.
#[derive(Debug, Default)]
pub(super) struct AdjacencyLists {
    /// The end of each node's list in `numbers`.
    ends: Vec<u32>,
    numbers: Vec<u32>,
}

impl AdjacencyLists {
    /// The lists of `nodes` nodes, from pairs of a node and a number.
    pub(super) fn new(nodes: usize, mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let mut ends = vec![0; nodes];
        for (index, (node, _)) in (1..).zip(&pairs) {
            ends[*node as usize] = index;
        }
        let mut last = 0;
        for end in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        Self { ends, numbers: pairs.into_iter().map(|(_, number)| number).collect() }
    }

    /// The list of the node with this index; empty if there is no such node.
    pub(super) fn of(&self, node: usize) -> &[u32] {
        let end = |index: usize| self.ends.get(index).copied().unwrap_or_default() as usize;
        let begin = node.checked_sub(1).map_or(0, end);
        self.numbers.get(begin..end(node)).unwrap_or_default()
    }

    /// The numbers of all lists.
    pub(super) fn all(&self) -> &[u32] {
        &self.numbers
    }

    /// Lists with each pair reversed: from the number to the node. The numbers must be nodes.
    pub(super) fn inverted(&self) -> Self {
        let nodes = self.ends.len();
        let of = |node: u32| self.of(node as usize).iter().map(move |number| (*number, node));
        Self::new(nodes, (0..).take(nodes).flat_map(of).collect())
    }
}
