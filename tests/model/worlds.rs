//! The worlds, and how far each is followed.

use policy_sync::api::annotations::{CONTROLLER, GATEWAYS, PARENT};
use policy_sync::mirror::Source;
use policy_sync_testenv::fixtures::{gateway, placement, placement_decision};
use policy_sync_testenv::world::{auth_policies, rate_limit_policies};
use serde_json::{Value, json};

use crate::explore::explore;
use crate::facts::THEIRS;
use crate::rules::one_write_for_each_cluster;
use crate::world::{
    SHOP, World, create, delete, edit, edit_in, limits, params, place, place_by, policy, retarget, tighten,
    work_name,
};

/// Follows a world for `limit` states, or until there are no more, and expects that there are at least `least`.
fn follow(world: &World, least: usize, limit: usize) {
    let asked = std::env::var("POLICY_SYNC_MODEL_STATES").ok();
    let report = explore(world, asked.map_or(limit, |text| text.parse().unwrap()));
    assert!(report.states >= least, "only {} states", report.states);
    assert!(report.settled > 0, "nothing has settled");
}

#[test]
fn a_policy_changes_and_goes() {
    let world = World::new("change and delete").actor([tighten("limits", 20), delete(limits(), "limits")]);
    follow(&world, 200, 10_000);
}

#[test]
fn a_policy_changes_and_goes_while_all_goes_wrong_once() {
    let world = World::new("change and delete, crash and fault").without("quota").crashes(1).faults(1);
    follow(&world.actor([tighten("limits", 20), delete(limits(), "limits")]), 2_000, 10_000);
}

#[test]
fn a_change_costs_one_write_for_each_cluster() {
    let world = World::new("two changes").actor([tighten("limits", 20)]).actor([tighten("quota", 30)]);
    follow(&world.rule(one_write_for_each_cluster), 500, 5_000);
}

#[test]
fn a_change_costs_one_write_for_each_cluster_whenever_it_is_answered() {
    let world = World::new("a change and its answers").without("quota").agents().folds();
    follow(&world.actor([tighten("limits", 20)]).rule(one_write_for_each_cluster), 1_000, 8_000);
}

#[test]
fn a_placement_moves_and_the_controller_crashes() {
    let world = World::new("move and crash").without("quota").crashes(1);
    follow(&world.actor(place("all", &["eu"])), 2_000, 10_000);
}

#[test]
fn a_placement_moves_away_and_back() {
    let [away, there] = place("all", &["eu"]);
    let [back, again] = place("all", &["eu", "us"]);
    let world = World::new("away and back").without("quota");
    follow(&world.actor([away, there, back, again]), 1_000, 8_000);
}

#[test]
fn a_policy_is_made_anew_and_a_request_fails() {
    let world = World::new("anew").without("quota").agents().faults(1);
    let anew = [delete(limits(), "limits"), create(limits(), policy("limits", "web"))];
    follow(&world.actor(anew), 5_000, 8_000);
}

#[test]
fn a_gateway_is_placed_by_another_placement() {
    let world = World::new("another placement")
        .with(Source::Placements, placement(SHOP, "edge", 1))
        .with(Source::Decisions, placement_decision(SHOP, "edge", 1, &["us"]))
        .actor([place_by("web", "edge")])
        .actor([tighten("limits", 20)]);
    follow(&world, 2_000, 6_000);
}

#[test]
fn a_kind_is_listed_no_more() {
    let world = World::new("delisted").without("quota").crashes(1);
    let listed = |kinds: Vec<Value>| {
        edit(params(), "params", move |json| {
            json["data"]["params"] = json!({ "policiesToSync": kinds }).to_string().into();
        })
    };
    let changes = [listed(vec![auth_policies()]), listed(vec![rate_limit_policies()])];
    follow(&world.actor(changes), 1_000, 8_000);
}

#[test]
fn someone_takes_the_labels_of_works_away() {
    let world = World::new("labels taken away").agents();
    let strip = |work: &mut Value| work["metadata"]["labels"] = json!({"team": "a"});
    let change = edit_in("eu", Source::Works, &work_name("limits"), strip);
    follow(&world.actor([change, tighten("limits", 20)]), 500, 5_000);
}

#[test]
fn a_work_that_is_not_ours_says_that_it_is() {
    let theirs = json!({
        "metadata": {
            "name": "limits-by-hand", "namespace": "eu", "labels": {CONTROLLER: "whatever", THEIRS: "true"},
            "annotations": {PARENT: "ratelimitpolicies.kuadrant.io/shop/limits", GATEWAYS: "[\"web\"]"},
        },
        "spec": {"workload": {"manifests": []}},
    });
    let world = World::new("theirs").with(Source::Works, theirs).crashes(1);
    follow(&world.actor([delete(limits(), "limits")]), 200, 5_000);
}

#[test]
fn a_gateway_is_made_anew() {
    let world = World::new("a gateway anew").without("quota").without("limits").agents();
    let web = gateway(SHOP, "web", SHOP, Some("all"));
    follow(&world.actor([delete(Source::Gateways, "web"), create(Source::Gateways, web)]), 200, 8_000);
}

#[test]
fn all_at_once() {
    let world = World::new("all at once").agents().crashes(1).faults(1);
    let world = world.actor([tighten("limits", 20)]).actor([delete(limits(), "quota")]);
    follow(&world.actor(place("all", &["us"])), 10_000, 10_000);
}

#[test]
fn a_policy_moves_to_a_gateway_that_is_just_made() {
    let made = create(Source::Gateways, gateway(SHOP, "api", SHOP, Some("all")));
    let world = World::new("retarget").without("quota").actor([made, retarget("limits", "api")]);
    follow(&world, 500, 8_000);
}

#[test]
fn clusters_change_their_labels() {
    let region = |region: &'static str| {
        edit(Source::Clusters, "eu", move |json| json["metadata"]["labels"]["region"] = json!(region))
    };
    let select = edit(limits(), "limits", |json| {
        json["metadata"]["annotations"]["kuadrant.io/cluster-selector"] = json!("region=eu");
    });
    let world = World::new("labels").without("quota");
    follow(&world.actor([select, region("us"), region("eu")]), 500, 8_000);
}
