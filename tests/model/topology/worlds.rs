//! The worlds of the stored topology: a Gateway with a route and a policy, and the changes of each actor.

use std::collections::BTreeMap;

use policy_sync_api::names::ObjectKey;
use policy_sync_controller::stored_topology::kinds::{GATEWAYS, config_map, source};
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::CLASSES;
use policy_sync_testenv::fixtures::topology::object;
use policy_sync_testenv::fixtures::{gateway, gateway_class, params_config_map};
use policy_sync_testenv::hostile::{HOSTILE_TENANT, Hostile};
use policy_sync_testenv::tenant::rate_limit_policies;
use policy_sync_topology::rows::RouteKind;
use serde_json::{Value, json};

use super::step::Topology;
use crate::controller::CONTROLLER;
use crate::explore::explore;
use crate::world::{Change, SHOP, World, create, delete, delete_in, edit, edit_in, limits, params, policy};

/// A limit above the number of states of every completely explored world.
const ENOUGH: usize = 1_000_000;

fn routes() -> Source {
    source(RouteKind::Http)
}

fn stored() -> Source {
    config_map(&ObjectKey::new(SHOP, "topology"))
}

fn route(name: &str, listener: &str) -> Value {
    object("HTTPRoute", (SHOP, name), json!({"parentRefs": [{"name": "web", "sectionName": listener}]}))
}

/// A class, its Gateway `web`, the policy `top` on it, and the attached route `orders`.
fn world(name: &'static str) -> World {
    let parameters = json!({"policiesToSync": [rate_limit_policies()]});
    let mut world = World::new(name);
    world.objects = vec![
        (CLASSES.all(), gateway_class(SHOP, CONTROLLER, Some((SHOP, "params")))),
        (params(), params_config_map(SHOP, "params", &parameters)),
        (GATEWAYS.all(), gateway(SHOP, "web", SHOP, None)),
        (limits(), policy("top", "web")),
        (routes(), route("orders", "http")),
    ];
    world
}

/// Explores `world` completely, or at least `states` states. `max_writes` is the maximum number of writes for each
/// object without faults.
fn follow(world: &World, states: usize, max_writes: &[(&'static str, usize)]) {
    let max_states = std::env::var("POLICY_SYNC_MODEL_STATES").ok();
    let limit = max_states.map_or(states, |text| states.max(text.parse().unwrap()));
    let report = explore(Topology::new(world, BTreeMap::from_iter(max_writes.iter().copied())), limit);
    assert!(report.complete || report.states >= states, "only {} states", report.states);
    assert!(states < ENOUGH || report.complete, "some states were not explored");
    assert!(report.settled > 1, "only the initial state has settled");
}

const ORDERS: &str = "HTTPRoute shop/orders";
const WEB: &str = "Gateway shop/web";
const STORED: &str = "ConfigMap topology";

fn attach(name: &str, listener: &'static str) -> Change {
    edit(routes(), name, move |json| json["spec"]["parentRefs"][0]["sectionName"] = json!(listener))
}

fn tighten(name: &str) -> Change {
    edit(limits(), name, |json| json["spec"]["limits"]["all"]["rates"][0]["limit"] = json!(20))
}

/// Another controller writes its entry into a route's status.
fn theirs(name: &str, message: &'static str) -> Change {
    edit(routes(), name, move |json| {
        let mut parents = json["status"]["parents"].as_array().cloned().unwrap_or_default();
        parents.retain(|entry| entry["controllerName"] == CONTROLLER);
        parents.push(json!({"controllerName": "example.com/theirs", "parentRef": {"name": "web"},
            "conditions": [{"type": "Accepted", "message": message}]}));
        json["status"]["parents"] = parents.into();
    })
}

/// The annotation that stores the removed entries.
const STASH: &str = "example.com/stash";

/// A user removes the entries from a route's status.
fn strip(name: &str) -> Change {
    edit(routes(), name, |json| {
        let stash = json["status"]["parents"].to_string();
        json["metadata"]["annotations"][STASH] = stash.into();
        json["status"] = json!({});
    })
}

/// A user restores the removed entries.
fn restore(name: &str) -> Change {
    edit(routes(), name, |json| {
        let stash = json["metadata"]["annotations"][STASH].as_str().unwrap_or("null");
        json["status"]["parents"] = serde_json::from_str(stash).unwrap();
    })
}

#[test]
fn a_route_detaches_and_attaches() {
    let world =
        world("a route detaches and attaches").actor([attach("orders", "none"), attach("orders", "http")]);
    follow(&world, ENOUGH, &[(ORDERS, 2), (WEB, 0), (STORED, 2)]);
}

#[test]
fn a_route_of_two_parents_attaches_to_one_after_the_other() {
    let both = |sections: [&'static str; 2]| {
        edit(routes(), "orders", move |json| {
            let parents = sections.map(|section| json!({"name": "web", "sectionName": section}));
            json["spec"]["parentRefs"] = json!(parents);
        })
    };
    let changes = [both(["none", "http"]), both(["http", "none"])];
    follow(&world("a route with two parents changes").faults(1).actor(changes), 30_000, &[]);
}

#[test]
fn changed_limit_causes_no_write() {
    follow(&world("a limit changes").actor([tighten("top")]), ENOUGH, &[(ORDERS, 0), (WEB, 0), (STORED, 0)]);
}

#[test]
fn policies_come_and_go_while_a_route_attaches() {
    let world = world("policies change while a route detaches")
        .actor([create(limits(), policy("more", "web")), delete(limits(), "top")])
        .actor([attach("orders", "none")]);
    follow(&world, 30_000, &[]);
}

#[test]
fn route_is_recreated_while_a_request_fails() {
    let anew = [delete(routes(), "orders"), create(routes(), route("orders", "none"))];
    follow(&world("a route is recreated").faults(1).actor(anew), 30_000, &[]);
}

#[test]
fn gateway_is_recreated_while_a_request_fails() {
    let anew = [delete(GATEWAYS.all(), "web"), create(GATEWAYS.all(), gateway(SHOP, "web", SHOP, None))];
    follow(&world("a Gateway is recreated").faults(1).actor(anew), 30_000, &[]);
}

#[test]
fn removed_status_is_written_again() {
    let world = world("a status is removed")
        .actor([strip("orders"), strip("orders")])
        .actor([attach("orders", "none")]);
    follow(&world, 30_000, &[]);
}

#[test]
fn removed_and_restored_status_settles() {
    let world = world("a status is removed and restored").actor([
        strip("orders"),
        restore("orders"),
        strip("orders"),
    ]);
    follow(&world, ENOUGH, &[]);
}

#[test]
fn route_is_recreated_unchanged() {
    let new = || create(routes(), route("orders", "http"));
    let world = world("a route is recreated unchanged").without("orders").faults(1);
    follow(&world.actor([new(), delete(routes(), "orders"), new()]), 30_000, &[]);
}

#[test]
fn route_changes_and_reverts_while_a_request_fails() {
    let blink = [attach("orders", "none"), attach("orders", "http")];
    follow(&world("a route changes and reverts").faults(1).actor(blink), 30_000, &[]);
}

#[test]
fn another_controller_writes_the_same_route_status() {
    let world = world("another controller writes the same status")
        .actor([theirs("orders", "one"), theirs("orders", "two")])
        .actor([attach("orders", "none")]);
    follow(&world, 30_000, &[]);
}

#[test]
fn policy_is_deleted_and_the_process_crashes() {
    let world =
        world("a policy is deleted, with a crash").crashes(1).faults(1).actor([delete(limits(), "top")]);
    follow(&world, 30_000, &[]);
}

#[test]
fn edited_and_deleted_config_map_is_restored() {
    let scribble = edit(stored(), "topology", |json| json["data"]["topology"] = json!("scribble"));
    let world = world("the ConfigMap is edited and deleted").actor([scribble, delete(stored(), "topology")]);
    follow(&world.actor([attach("orders", "none")]), 30_000, &[]);
}

#[test]
fn unreadable_route_does_not_block_another() {
    let spoil = edit(routes(), "orders", |json| json["spec"]["parentRefs"] = json!("none"));
    let forge = edit(routes(), "orders", |json| {
        json["status"]["parents"] = json!([{"controllerName": CONTROLLER, "parentRef": 7}, "junk"]);
    });
    let world = world("a route becomes unreadable").with(routes(), route("carts", "none"));
    follow(&world.actor([forge, spoil]).actor([attach("carts", "http")]), 30_000, &[]);
}

#[test]
fn gateway_becomes_unreadable_and_readable_again() {
    let listeners = |listeners: Value| {
        edit(GATEWAYS.all(), "web", move |json| json["spec"]["listeners"] = listeners.clone())
    };
    let whole = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let world = world("a Gateway becomes unreadable and readable again")
        .actor([listeners(json!("none")), listeners(whole)]);
    follow(&world, ENOUGH, &[]);
}

#[test]
fn route_attaches_beside_routes_that_are_costly_to_parse() {
    for seed in 0..2 {
        let mut hostile = Hostile::new(seed);
        let mut hostile_routes = || hostile.route(HOSTILE_TENANT, "orders");
        let (made, changed) = (hostile_routes(), hostile_routes());
        let attack = [
            create(routes(), made),
            edit_in(HOSTILE_TENANT, routes(), "orders", move |json| json["spec"] = changed["spec"].clone()),
            delete_in(HOSTILE_TENANT, routes(), "orders"),
        ];
        let world = world("a route attaches beside routes that are costly to parse").faults(1).actor(attack);
        follow(&world.actor([attach("orders", "none"), attach("orders", "http")]), 1_000, &[]);
    }
}
