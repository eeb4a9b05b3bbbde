//! The order of boxes in their columns, in which few lines cross: each is put where its neighbours are on average (the
//! [barycentre method](https://doi.org/10.1109/TSMC.1981.4308636)).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Column, Draft};
use crate::topology::graph::NodeId;

/// How often all columns are ordered by the column before them, and back.
const SWEEPS: usize = 4;

/// Orders the boxes of `columns`; those that are `unattached` stand last.
pub(super) fn order(
    columns: &mut BTreeMap<Column, Vec<Draft>>,
    lines: &[(NodeId, NodeId)],
    unattached: &BTreeSet<NodeId>,
) {
    let mut boxes: HashMap<NodeId, NodeId> = HashMap::new();
    for draft in columns.values().flatten() {
        boxes.extend(draft.rows.iter().map(|row| (*row, draft.node)));
    }
    let mut neighbours: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for (from, to) in lines {
        let [Some(from), Some(to)] = [from, to].map(|node| boxes.get(node).copied()) else { continue };
        neighbours.entry(from).or_default().push(to);
        neighbours.entry(to).or_default().push(from);
    }
    let sides: Vec<Column> = columns.keys().copied().collect();
    for sweep in 0..SWEEPS {
        let forth = sides.iter().copied();
        let sides: Vec<Column> = if sweep % 2 == 0 { forth.collect() } else { forth.rev().collect() };
        for pair in sides.windows(2) {
            let [before, column] = [pair[0], pair[1]];
            let seats = |column: &[Draft]| -> HashMap<NodeId, usize> {
                column.iter().enumerate().map(|(seat, draft)| (draft.node, seat)).collect()
            };
            let fixed = seats(&columns[&before]);
            let Some(drafts) = columns.get_mut(&column) else { continue };
            let own = seats(drafts);
            drafts.sort_by_cached_key(|draft| {
                let beside = neighbours.get(&draft.node).into_iter().flatten();
                let beside: Vec<usize> = beside.filter_map(|node| fixed.get(node)).copied().collect();
                // One without a neighbour there stays where it is.
                let sum: usize = beside.iter().sum();
                let seat = own[&draft.node];
                let mean = if beside.is_empty() { seat * 1_000 } else { sum * 1_000 / beside.len() };
                (unattached.contains(&draft.node), mean, seat)
            });
        }
    }
}
