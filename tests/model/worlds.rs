//! The worlds, and the number of states to explore in each.

use policy_sync_api::annotations::{CONTROLLER, GATEWAYS, PARENT};
use policy_sync_mirror::Source;
use policy_sync_sync::kinds::{self, CLUSTERS, DECISIONS, PLACEMENTS, WORKS};
use policy_sync_testenv::fixtures::{gateway, placement, placement_decision};
use policy_sync_testenv::tenant::{auth_policies, rate_limit_policies};
use serde_json::{Value, json};

use crate::explore::{Report, explore};
use crate::facts::THEIRS;
use crate::rules::{no_unprotected_moment, one_write_for_each_cluster};
use crate::step::Sync;
use crate::world::{
    Change, SHOP, World, create, delete, delete_in, deployments, edit, edit_in, limits, params, pause, place,
    place_by, policy, retarget, split, tighten, work_name,
};

/// A limit above the number of states of every completely explored world.
const ENOUGH: usize = 1_000_000;

/// Explores a world completely, and requires at least `least` states.
fn whole(world: &World, least: usize) {
    let report = explore(Sync::new(world), ENOUGH);
    assert!(report.complete, "some states were not explored");
    expect(&report, least);
}

/// Explores `states` states of a world, or the number in `POLICY_SYNC_MODEL_STATES`.
pub(crate) fn part(world: &World, states: usize) {
    let max_states = std::env::var("POLICY_SYNC_MODEL_STATES").ok();
    let report = explore(Sync::new(world), max_states.map_or(states, |text| text.parse().unwrap()));
    expect(&report, if report.complete { 1 } else { states });
}

fn expect(report: &Report, least: usize) {
    assert!(report.states >= least, "only {} states", report.states);
    assert!(report.settled > 1, "only the initial state has settled");
}

/// A user creates the Gateway that the policies target.
fn make_web() -> Change {
    create(kinds::GATEWAYS.all(), gateway(SHOP, "web", SHOP, Some("all")))
}

#[test]
fn policy_is_changed_and_deleted() {
    let world = World::new("a policy is changed and deleted")
        .actor([tighten("limits", 20), delete(limits(), "limits")]);
    whole(&world, 200);
}

#[test]
fn policy_is_changed_and_deleted_with_a_crash_and_a_fault() {
    let world = World::new("a policy is changed and deleted, with a crash and a fault")
        .without("quota")
        .crashes(1)
        .faults(1);
    part(&world.actor([tighten("limits", 20), delete(limits(), "limits")]), 10_000);
}

#[test]
fn change_of_a_policy_causes_one_write_per_cluster() {
    let world =
        World::new("two policies change").actor([tighten("limits", 20)]).actor([tighten("quota", 30)]);
    whole(&world.rule(one_write_for_each_cluster), 1_500);
}

#[test]
fn change_of_a_policy_causes_one_write_per_cluster_with_any_feedback() {
    let world = World::new("a policy changes and agents report").without("quota").agents().annotates();
    whole(&world.actor([tighten("limits", 20)]).rule(one_write_for_each_cluster), 4_000);
}

#[test]
fn a_placement_moves_and_the_controller_crashes() {
    let world = World::new("a placement moves, with a crash").without("quota").crashes(1);
    whole(&world.actor(place("all", &["eu"])), 1_000);
}

#[test]
fn a_placement_moves_away_and_back() {
    let [away, selected] = place("all", &["eu"]);
    let [back, again] = place("all", &["eu", "us"]);
    let world = World::new("a placement moves away and back").without("quota");
    whole(&world.actor([away, selected, back, again]), 4_000);
}

#[test]
fn policy_is_recreated_while_a_request_fails() {
    let world = World::new("a policy is recreated").without("quota").agents().faults(1);
    let anew = [delete(limits(), "limits"), create(limits(), policy("limits", "web"))];
    part(&world.actor(anew), 8_000);
}

#[test]
fn a_gateway_is_placed_by_another_placement() {
    let world = World::new("a Gateway changes its placement")
        .with(PLACEMENTS.all(), placement(SHOP, "edge", 1))
        .with(DECISIONS.all(), placement_decision(SHOP, "edge", 1, &["us"]))
        .actor([place_by("web", "edge")])
        .actor([tighten("limits", 20)]);
    whole(&world, 3_000);
}

#[test]
fn resource_is_changed_moved_and_deleted() {
    let scale = || edit(deployments(), "app", |json| json["spec"]["replicas"] = json!(6));
    let world = World::with_a_resource("a resource is changed, moved and deleted").agents().crashes(1);
    part(&world.actor([scale(), delete(deployments(), "app")]).actor(place("all", &["eu"])), 15_000);
    let world = World::with_a_resource("a resource changes once").agents().annotates();
    whole(&world.actor([scale()]).rule(one_write_for_each_cluster), 300);
}

#[test]
fn a_placement_of_a_resource_moves_away_and_back() {
    let [away, selected] = place("all", &["eu"]);
    let [back, again] = place("all", &["eu", "us"]);
    whole(
        &World::with_a_resource("a placement of a resource moves away and back")
            .actor([away, selected, back, again]),
        400,
    );
}

#[test]
fn split_replicas_move_between_clusters() {
    let both = r#"{"clusters": {"eu": {"weight": 3}, "us": {"weight": 1}}, "rebalance": true}"#;
    let one = r#"{"clusters": {"us": {"weight": 1}}, "rebalance": true}"#;
    let world = World::with_a_resource("split replicas move between clusters").crashes(1).faults(1);
    part(&world.actor([split(both), split(one)]).actor(place("all", &["us"])), 15_000);
}

#[test]
fn kind_is_removed_from_the_parameters_and_added_again() {
    let world =
        World::new("a kind is removed from the parameters and added again").without("quota").crashes(1);
    let listed = |kinds: Vec<Value>| {
        edit(params(), "params", move |json| {
            json["data"]["params"] = json!({ "policiesToSync": kinds }).to_string().into();
        })
    };
    let changes = [listed(vec![auth_policies()]), listed(vec![rate_limit_policies()])];
    // Parameters also affect the works of Gateways, so there are too many states to explore all of them.
    part(&world.actor(changes), 20_000);
}

#[test]
fn removed_labels_of_works_are_restored() {
    let world = World::new("labels of a work are removed").agents();
    let strip = |work: &mut Value| work["metadata"]["labels"] = json!({"team": "a"});
    let change = edit_in("eu", WORKS.all(), &work_name("limits"), strip);
    whole(&world.actor([change, tighten("limits", 20)]), 600);
}

#[test]
fn work_with_forged_metadata_is_not_changed() {
    let theirs = json!({
        "metadata": {
            "name": "limits-by-hand", "namespace": "eu", "labels": {CONTROLLER: "whatever", THEIRS: "true"},
            "annotations": {PARENT: "ratelimitpolicies.kuadrant.io/shop/limits", GATEWAYS: "[\"web\"]"},
        },
        "spec": {"workload": {"manifests": []}},
    });
    let world = World::new("a work has forged metadata").with(WORKS.all(), theirs).crashes(1);
    whole(&world.actor([delete(limits(), "limits")]), 1_400);
}

#[test]
fn gateway_is_recreated() {
    let world = World::new("a Gateway is recreated").without("quota").without("limits").agents();
    part(&world.actor([delete(kinds::GATEWAYS.all(), "web"), make_web()]), 6_000);
}

#[test]
fn policy_changes_and_a_placement_move_with_a_crash_and_a_fault() {
    let world = World::new("policies change and a placement moves, with a crash and a fault")
        .agents()
        .crashes(1)
        .faults(1);
    let world = world.actor([tighten("limits", 20)]).actor([delete(limits(), "quota")]);
    part(&world.actor(place("all", &["us"])), 10_000);
}

#[test]
fn policy_is_retargeted_to_a_new_gateway() {
    let made = create(kinds::GATEWAYS.all(), gateway(SHOP, "api", SHOP, Some("all")));
    let world =
        World::new("a policy changes its target").without("quota").actor([made, retarget("limits", "api")]);
    whole(&world, 1_800);
}

#[test]
fn gateway_status_is_correct_after_a_crash_and_a_fault() {
    let world =
        World::new("a Gateway gets a status").without("quota").without("limits").agents().gateway_statuses();
    part(&world.crashes(1).faults(1).actor(place("all", &["eu"])), 10_000);
}

#[test]
fn gateway_labels_follow_its_clusters() {
    let labelled =
        edit(CLUSTERS.all(), "eu", |json| json["metadata"]["labels"]["kuadrant.io/tier"] = json!("a"));
    let world = World::new("a Gateway gets the labels of its clusters")
        .without("quota")
        .without("limits")
        .gateway_statuses();
    whole(&world.actor([labelled]).actor(place("all", &["eu"])), 2_000);
}

#[test]
fn clusters_change_their_labels() {
    let region = |region: &'static str| {
        edit(CLUSTERS.all(), "eu", move |json| json["metadata"]["labels"]["region"] = json!(region))
    };
    let select = edit(limits(), "limits", |json| {
        json["metadata"]["annotations"]["kuadrant.io/cluster-selector"] = json!("region=eu");
    });
    let world = World::new("a cluster changes its labels").without("quota");
    whole(&world.actor([select, region("us"), region("eu")]), 600);
}

/// An actor that pauses an object, changes the policy `limits` and resumes the object.
fn paused_during_a_change(source: &Source, name: &str) -> [Change; 3] {
    [pause(source.clone(), name, true), tighten("limits", 20), pause(source.clone(), name, false)]
}

#[test]
fn paused_policy_is_only_withdrawn() {
    let world = World::new("a policy is paused").without("quota").crashes(1);
    let [away, there] = place("all", &["eu"]);
    let [back, again] = place("all", &["eu", "us"]);
    let world = world.actor(paused_during_a_change(&limits(), "limits"));
    part(&world.actor([away, there, back, again]), 12_000);
}

#[test]
fn paused_class_and_cluster_are_only_withdrawn() {
    for (source, name) in [(kinds::CLASSES.all(), SHOP), (CLUSTERS.all(), "us")] {
        let world = World::new("a class or a cluster is paused").without("quota").faults(1);
        let world = world.actor(paused_during_a_change(&source, name)).actor(place("all", &["eu"]));
        part(&world, 8_000);
    }
}

#[test]
fn gateway_is_created_after_its_policies() {
    let world =
        World::new("a Gateway is created").without("web").holds().crashes(1).rule(no_unprotected_moment);
    part(&world.actor([make_web()]), 12_000);
}

#[test]
fn gateway_is_deleted_before_its_policies() {
    let world = World::new("a Gateway is deleted").holds().faults(1).rule(no_unprotected_moment);
    part(&world.actor([delete(kinds::GATEWAYS.all(), "web")]), 12_000);
}

#[test]
fn gateway_arrives_after_and_leaves_before_its_policies() {
    let world = World::new("a Gateway moves").holds().rule(no_unprotected_moment);
    let [away, selected] = place("all", &["eu"]);
    let [back, again] = place("all", &["eu", "us"]);
    part(&world.actor([away, selected, back, again]), 12_000);
}

#[test]
fn gateway_waits_while_policies_and_works_are_deleted() {
    let world = World::new("policies and works are deleted").without("web").holds();
    let taken = delete_in("eu", WORKS.all(), &work_name("limits"));
    part(&world.actor([make_web()]).actor([delete(limits(), "quota"), taken]), 12_000);
}

#[test]
fn gateway_moves_with_a_crash_and_a_fault() {
    let world =
        World::new("a Gateway moves, with a crash and a fault").without("quota").holds().crashes(1).faults(1);
    let [away, selected] = place("all", &["eu"]);
    let [back, again] = place("all", &["eu", "us"]);
    part(&world.actor([away, selected, back, again]), 12_000);
}

#[test]
fn gateway_is_served_without_policies_that_are_never_applied() {
    let world = World::new("a Gateway is created without its policies").without("web").serves().crashes(1);
    part(&world.actor([make_web()]), 12_000);
}

#[test]
fn gateway_is_served_once_its_policies_are_applied_or_the_wait_is_over() {
    let world = World::new("a Gateway is created after its policies or after the wait")
        .without("web")
        .serves()
        .agents()
        .faults(1);
    part(&world.actor([make_web()]), 12_000);
}
