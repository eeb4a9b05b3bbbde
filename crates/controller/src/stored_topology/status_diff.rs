//! Compares the status of Gateways and routes with the topology.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::digest;
use super::index::{OwnRows, RouteWithStatus};
use super::key::StatusKey;
use super::pending::{Desired, DesiredStatus};
use super::route_status::{ENTRIES_LIMIT, RouteStatus};
use policy_sync_api::json::Hash;
use policy_sync_api::names::ObjectKey;
use policy_sync_sync::topology::OurGateway;
use policy_sync_topology::conditions::{
    AFFECTED_LIMIT, Conditions, ParentConditions, RouteConditions, gateway_conditions,
};
use policy_sync_topology::locator::{GATEWAY, Locator};
use policy_sync_topology::rows::{Route, RouteKind};
use policy_sync_topology::{Graph, NodeId};

type OurGateways = HashMap<ObjectKey, OurGateway>;

/// The statuses that `graph` requires, for each object whose status in `rows` differs. `ours` are the Gateways of this
/// controller. If `route_status` is false, this controller's entries are removed from all routes.
pub(super) fn differing(
    graph: &Graph<'_>,
    rows: &OwnRows,
    ours: &OurGateways,
    route_status: bool,
) -> BTreeMap<StatusKey, DesiredStatus> {
    let mut differing = BTreeMap::new();
    of_gateways(graph, rows, ours, &mut differing);
    of_routes(graph, rows, ours, route_status, &mut differing);
    differing
}

fn of_gateways(
    graph: &Graph<'_>,
    rows: &OwnRows,
    ours: &OurGateways,
    differing: &mut BTreeMap<StatusKey, DesiredStatus>,
) {
    let nodes = graph.object_nodes().map(|node| (graph.locator(node), node));
    let nodes: HashMap<Locator<'_>, NodeId> = nodes.filter(|(locator, _)| locator.kind == GATEWAY).collect();
    for (key, current) in &rows.gateways {
        let (generation, conditions) = match ours.get(key) {
            // The sync's watch of Gateways has delivered another version. Once the watches of sync and topology have
            // the same version, the topology is rebuilt.
            Some(ours) if ours.uid != current.uid || ours.generation != current.generation => continue,
            Some(ours) => {
                let room = AFFECTED_LIMIT.saturating_sub(current.others);
                // A Gateway that cannot be parsed gets no conditions, and neither do its routes.
                let node = nodes.get(&Locator::of(GATEWAY, key));
                let texts = node.map(|node| gateway_conditions(graph, *node, room)).unwrap_or_default();
                (ours.generation, Conditions::from(texts))
            }
            None => (current.generation, Conditions::from(Vec::new())),
        };
        let digest = digest::of_gateway(conditions.hash, conditions.texts.iter().map(|_| generation));
        let is_up_to_date =
            if conditions.texts.is_empty() { !current.is_ours } else { current.digest() == digest };
        if !is_up_to_date {
            let desired = Desired::Gateway { uid: current.uid.clone(), generation, conditions };
            let uid = Hash::of_text(&current.uid);
            differing.insert(
                StatusKey::Gateway(key.clone()),
                DesiredStatus { desired, digest, uid, changed: true },
            );
        }
    }
}

fn of_routes(
    graph: &Graph<'_>,
    rows: &OwnRows,
    ours: &OurGateways,
    route_status: bool,
    differing: &mut BTreeMap<StatusKey, DesiredStatus>,
) {
    let mut differs = |key: StatusKey, current: &RouteStatus, entries: Vec<ParentConditions>, digest| {
        if current.digest != digest {
            let desired = Desired::Route { generation: current.generation, entries };
            let (uid, changed) = (current.uid, !current.is_current);
            differing.insert(key, DesiredStatus { desired, digest, uid, changed });
        }
    };
    let mut has_entries = rows.routes.each_ref().map(|routes| vec![false; routes.all.len()]);
    if route_status {
        let ours: HashSet<Locator<'_>> = ours.keys().map(|key| Locator::of(GATEWAY, key)).collect();
        RouteConditions::new(graph, |gateway| ours.contains(&gateway)).each(
            |kind, locator, route, mut entries| {
                let routes = &rows.routes[kind as usize];
                let Some(position) = routes.position(locator.namespace, locator.name) else { return };
                has_entries[kind as usize][position] = true;
                let RouteWithStatus { key, status, .. } = &routes.all[position];
                entries.truncate(ENTRIES_LIMIT.saturating_sub(status.others.into()));
                let digest = desired_hash(route, &entries, status.generation);
                differs(StatusKey::Route(kind, key.clone()), status, entries, digest);
            },
        );
    }
    // Routes that are not in the graph get no entries.
    let nothing = digest::of_route(std::iter::empty());
    for (kind, (routes, has_entries)) in RouteKind::ALL.into_iter().zip(rows.routes.iter().zip(&has_entries))
    {
        let without = routes.all.iter().zip(has_entries).filter(|(_, has_entries)| !**has_entries);
        for (RouteWithStatus { key, status, .. }, _) in without {
            differs(StatusKey::Route(kind, key.clone()), status, Vec::new(), nothing);
        }
    }
}

/// The hash of the desired status of `route` in this generation.
fn desired_hash(route: &Route, entries: &[ParentConditions], generation: i64) -> Hash {
    let parts = entries.iter().map(|ParentConditions { reference, conditions }| {
        let parent = route.parents.get(*reference);
        parent.map(|parent| digest::of_entry(parent, conditions.hash, generation))
    });
    digest::of_route(parts)
}
