//! Orders the boxes in their columns so that few lines cross: each box moves to the average position of its
//! neighbours (the [barycentre method](https://doi.org/10.1109/TSMC.1981.4308636)).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Column, TileDraft};
use crate::graph::NodeId;

/// The number of passes over all columns, in alternating directions.
const SWEEPS: usize = 4;
/// The height of every column, independent of its number of boxes.
const SCALE: usize = 1_000_000;

/// Orders the boxes of `columns`. Boxes in `unattached` come last.
pub(super) fn order(
    columns: &mut BTreeMap<Column, Vec<TileDraft>>,
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
    let mut sides: Vec<Column> = columns.keys().copied().collect();
    for _ in 0..SWEEPS {
        for (index, column) in sides.iter().enumerate() {
            let before = sides[..index].iter().flat_map(|column| seats(&columns[column]));
            let before: HashMap<NodeId, usize> = before.collect();
            let Some(drafts) = columns.get_mut(column) else { continue };
            let own: HashMap<NodeId, usize> = seats(drafts).collect();
            drafts.sort_by_cached_key(|draft| {
                let beside = neighbours.get(&draft.node).into_iter().flatten();
                let beside: Vec<usize> = beside.filter_map(|node| before.get(node)).copied().collect();
                let sum: usize = beside.iter().sum();
                // A box keeps its position if it has no neighbour in the column that the present sweep comes from.
                let seat = own[&draft.node];
                let mean = sum.checked_div(beside.len()).unwrap_or(seat);
                (unattached.contains(&draft.node), mean, seat)
            });
        }
        sides.reverse();
    }
}

/// The positions of the boxes in a column, from 0 to [`SCALE`].
fn seats(drafts: &[TileDraft]) -> impl Iterator<Item = (NodeId, usize)> {
    let count = drafts.len();
    drafts.iter().enumerate().map(move |(seat, draft)| (draft.node, seat * SCALE / count))
}
