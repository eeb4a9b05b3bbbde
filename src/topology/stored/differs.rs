//! What Gateways and routes should say and do not.

use std::collections::{HashMap, HashSet};

use super::index::OwnRows;
use super::standing::{Standing, of_gateway, part, said};
use super::telling::{ENTRIES_LIMIT, Key, Pending, Told};
use crate::api::json::Hash;
use crate::api::names::ObjectKey;
use crate::topology::locator::{GATEWAY, Locator};
use crate::topology::rows::Route;
use crate::topology::told::{AFFECTED_LIMIT, Conditions, EntryTold, RoutesTold, affected};
use crate::topology::{Graph, NodeId, OurGateway};

type OurGateways = HashMap<ObjectKey, OurGateway>;

/// What is to be written of what `graph` has objects say: beside `rows` of what they say, where `ours` are this controller's
/// Gateways. Routes say nothing unless they `may`.
pub(super) fn differing(
    graph: &Graph<'_>,
    rows: &OwnRows,
    ours: &OurGateways,
    may: bool,
) -> HashMap<Key, Pending> {
    let mut differing = HashMap::new();
    of_gateways(graph, rows, ours, &mut differing);
    of_routes(graph, rows, ours, may, &mut differing);
    differing
}

fn of_gateways(graph: &Graph<'_>, rows: &OwnRows, ours: &OurGateways, differing: &mut HashMap<Key, Pending>) {
    let nodes = graph.object_nodes().map(|node| (graph.locator(node), node));
    let nodes: HashMap<Locator<'_>, NodeId> = nodes.filter(|(locator, _)| locator.kind == GATEWAY).collect();
    for (key, standing) in &rows.gateways {
        let (generation, conditions) = match ours.get(key) {
            // The two watches show it at different moments: what is behind comes.
            Some(ours) if ours.uid != standing.uid || ours.generation != standing.generation => continue,
            Some(ours) => match nodes.get(&Locator::of(GATEWAY, key)) {
                Some(node) => {
                    let room = AFFECTED_LIMIT.saturating_sub(standing.others);
                    (ours.generation, Conditions::from(affected(graph, *node, room)))
                }
                // It cannot be read.
                None => continue,
            },
            None => (standing.generation, Conditions::from(Vec::new())),
        };
        let said = of_gateway(conditions.hash, conditions.said.iter().map(|_| generation));
        let is_said = if conditions.said.is_empty() { !standing.is_ours } else { standing.said() == said };
        if !is_said {
            let told = Told::Gateway(standing.uid.clone(), generation, conditions);
            differing.insert(
                Key::Gateway(key.clone()),
                Pending { told, said, uid: Hash::of_text(&standing.uid), changed: true },
            );
        }
    }
}

fn of_routes(
    graph: &Graph<'_>,
    rows: &OwnRows,
    ours: &OurGateways,
    may: bool,
    differing: &mut HashMap<Key, Pending>,
) {
    let mut differs = |key: Key, standing: &Standing, entries: Vec<EntryTold>, said| {
        if standing.said != said {
            let told = Told::Route(standing.generation, entries);
            let (uid, changed) = (standing.uid, !standing.is_current);
            differing.insert(key, Pending { told, said, uid, changed });
        }
    };
    let mut standings: HashMap<Locator<'_>, (Key, &Standing)> = HashMap::new();
    for (kind, key, standing) in &rows.standings {
        standings.insert(Locator::of(kind.kind(), key), (Key::Route(*kind, key.clone()), standing));
    }
    if may {
        let ours: HashSet<Locator<'_>> = ours.keys().map(|key| Locator::of(GATEWAY, key)).collect();
        RoutesTold::new(graph, |gateway| ours.contains(&gateway)).each(|locator, route, mut entries| {
            let Some((key, standing)) = standings.remove(&locator) else { return };
            entries.truncate(ENTRIES_LIMIT.saturating_sub(standing.others));
            let said = wanted(route, &entries, standing.generation);
            differs(key, standing, entries, said);
        });
    }
    // What cannot be read says nothing.
    for (key, standing) in standings.into_values() {
        differs(key, standing, Vec::new(), said(std::iter::empty()));
    }
}

/// The hash of what `route` is to say in this generation.
fn wanted(route: &Route, entries: &[EntryTold], generation: i64) -> Hash {
    let parts = entries.iter().map(|EntryTold { reference, conditions }| {
        route.parents.get(*reference).map(|parent| part(parent, conditions.hash, generation))
    });
    said(parts)
}
