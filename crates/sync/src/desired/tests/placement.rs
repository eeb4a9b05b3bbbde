//! Tests of the placement of Gateways and of their policies.

use crate::testing::objects::{
    class, cluster, decision, gateway, gateway_origin, listing, placement, policy, policy_origin,
};
use crate::testing::world::{World, shop};
use policy_sync_api::moment::Moment;

/// Gateway `web` and policy `limits` are written to both clusters.
fn on_two() -> World {
    shop(&["eu-1", "us-1"]).with(policy("limits").targets("web")).written()
}

fn gateway_writes(world: &World) -> Vec<String> {
    world.writes_of(&gateway_origin("web"))
}

#[test]
fn new_cluster_counts_at_once() {
    let world = on_two().with(decision("all", "all-2", &["ap-1"]));
    assert_eq!(world.writes("limits"), ["create ap-1"]);
    assert_eq!(gateway_writes(&world.settled(&[policy_origin("limits")])), ["create ap-1"]);
}

#[test]
fn empty_cluster_name_is_ignored() {
    let world = shop(&["eu-1", ""]);
    assert_eq!(gateway_writes(&world), ["create eu-1"]);
}

#[test]
fn invalid_cluster_name_is_ignored() {
    let long = "a".repeat(64);
    for name in [
        "../../../api/v1/namespaces/kube-system",
        "a/b",
        "a?force=true",
        "a.b",
        "Eu-1",
        "-a",
        "a-",
        "é",
        &long,
    ] {
        let world = shop(&["eu-1", name]);
        assert_eq!(gateway_writes(&world), ["create eu-1"], "{name}");
        assert_eq!(world.with(policy("limits").targets("web")).writes("limits"), ["create eu-1"], "{name}");
    }
    let longest = "a".repeat(63);
    assert_eq!(gateway_writes(&shop(&[&longest])), [format!("create {longest}")]);
}

#[test]
fn invalid_decision_entry_does_not_affect_others() {
    let mut slice = decision("all", "all-1", &[]);
    slice.json["status"]["decisions"] =
        serde_json::json!(["x", {"clusterName": 1}, {"clusterName": "eu-1"}, null]);
    assert_eq!(gateway_writes(&shop(&[]).with(slice)), ["create eu-1"]);
}

#[test]
fn removed_cluster_stays_for_five_seconds() {
    let world = on_two().decisions("all", &["eu-1"]).after(4_999);
    assert_eq!(gateway_writes(&world), Vec::<String>::new());
    assert_eq!(world.writes("limits"), Vec::<String>::new());
    let world = world.after(1);
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
    assert_eq!(world.gateway_written().writes("limits"), ["delete us-1"]);
}

#[test]
fn unrelated_writes_do_not_keep_a_cluster() {
    let mut world = on_two().decisions("all", &["eu-1"]);
    for n in 0..5 {
        world = world
            .with(placement("all").selects(1).annotation("touched", &n.to_string()))
            .with(decision("all", "all-1", &["eu-1"]).annotation("touched", &n.to_string()))
            .after(1_000);
    }
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
}

#[test]
fn plan_is_checked_again_when_the_placement_settles() {
    let world = on_two().decisions("all", &["eu-1"]);
    let settles = Some(Moment(world.now + 5_000));
    assert_eq!(world.plan("limits").recheck, settles);
    assert_eq!(world.plan_of(&gateway_origin("web")).recheck, settles);
    assert_eq!(world.after(5_000).plan("limits").recheck, None);
}

#[test]
fn cluster_stays_until_all_decisions_are_written() {
    let world = on_two().with(decision("all", "all-1", &["eu-1"])).after(3_600_000);
    assert_eq!(gateway_writes(&world), Vec::<String>::new());
    assert_eq!(world.plan("limits").recheck, None, "only the Placement's status can settle it");
    assert_eq!(world.writes("limits"), Vec::<String>::new());
}

#[test]
fn name_in_two_slices_counts_once() {
    let world = on_two().with(decision("all", "all-1", &["eu-1"])).with(decision("all", "all-2", &["eu-1"]));
    assert_eq!(gateway_writes(&world.after(3_600_000)), Vec::<String>::new());
}

#[test]
fn each_change_of_decisions_restarts_the_five_seconds() {
    let left = || on_two().decisions("all", &["eu-1"]).after(4_000);
    let number = left().with(placement("all").selects(2)).with(placement("all").selects(1));
    assert_eq!(gateway_writes(&number.after(4_000)), Vec::<String>::new());
    let decisions = left().with(decision("all", "all-2", &["ap-1"])).with(decision("all", "all-2", &[]));
    assert_eq!(gateway_writes(&decisions.after(4_000)), Vec::<String>::new());
}

#[test]
fn other_placements_do_not_restart_the_five_seconds() {
    let world = on_two().decisions("all", &["eu-1"]).after(4_000).with(placement("other").selects(1));
    assert_eq!(gateway_writes(&world.after(1_000)), ["delete us-1"]);
}

#[test]
fn deleted_placement_settles_after_five_seconds() {
    let gone = decision("all", "all-1", &["eu-1", "us-1"]);
    let world = on_two().without(placement("all").selects(2)).without(gone).after(4_999);
    assert_eq!(gateway_writes(&world), Vec::<String>::new());
    assert_eq!(gateway_writes(&world.after(1)), ["delete eu-1", "delete us-1"]);
}

#[test]
fn five_seconds_start_at_the_first_listing_after_a_start() {
    let objects = vec![
        class("multi"),
        gateway("web").placed_on("all"),
        placement("all").selects(1),
        decision("all", "all-1", &["eu-1"]),
    ];
    let world = on_two().restarted(objects).params("multi", &listing(&["ratelimitpolicies"]).to_string());
    let world = world.after(4_999);
    assert_eq!(gateway_writes(&world), Vec::<String>::new());
    assert_eq!(gateway_writes(&world.after(1)), ["delete us-1"]);
}

#[test]
fn placement_deleted_during_downtime_settles_after_five_seconds() {
    let world = on_two().restarted(vec![class("multi"), gateway("web").placed_on("all")]);
    let world = world.params("multi", &listing(&["ratelimitpolicies"]).to_string()).after(4_999);
    assert_eq!(gateway_writes(&world), Vec::<String>::new());
    assert_eq!(gateway_writes(&world.after(1)), ["delete eu-1", "delete us-1"]);
}

#[test]
fn gateway_moves_to_another_placement_at_once() {
    let world = on_two().decisions("few", &["us-1"]).after(60_000).with(gateway("web").placed_on("few"));
    assert_eq!(gateway_writes(&world), ["delete eu-1"]);
    assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1"]);
}

#[test]
fn gateway_without_the_label_is_not_placed() {
    let world = on_two().with(gateway("web"));
    assert_eq!(gateway_writes(&world), ["delete eu-1", "delete us-1"]);
    assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1", "delete us-1"]);
}

#[test]
fn placement_of_another_namespace_selects_no_clusters() {
    let world = shop(&[])
        .with(placement("far").in_ns("bank").selects(1))
        .with(decision("far", "far-1", &["eu-1"]).in_ns("bank"))
        .with(gateway("web").placed_on("far"));
    assert_eq!(gateway_writes(&world), Vec::<String>::new());
}

#[test]
fn decision_without_the_label_is_ignored() {
    let mut stray = decision("all", "stray", &["ap-1"]);
    stray.json["metadata"]["labels"] = serde_json::json!({});
    let world = on_two().with(stray);
    assert_eq!(gateway_writes(&world), Vec::<String>::new());
}

#[test]
fn decision_that_changes_its_placement_unsettles_both() {
    let world = on_two().decisions("few", &["ap-1"]).after(60_000);
    let world = world.with(decision("few", "all-1", &["eu-1", "us-1"]));
    assert_eq!(gateway_writes(&world), Vec::<String>::new(), "the old one");
    let world = world.with(gateway("web").placed_on("few"));
    let world = world.settled(&[policy_origin("limits")]);
    assert_eq!(gateway_writes(&world), ["create ap-1"], "the new one");
}

#[test]
fn terminating_gateway_is_withdrawn_while_its_placement_is_unsettled() {
    let world = on_two().decisions("all", &["eu-1"]).with(gateway("web").placed_on("all").deleting());
    assert_eq!(gateway_writes(&world), ["delete eu-1", "delete us-1"]);
    assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1", "delete us-1"]);
}

#[test]
fn policies_stay_while_the_placement_is_unsettled() {
    let world = on_two().gone(&gateway_origin("web"), "us-1").decisions("all", &["eu-1"]);
    assert_eq!(world.outcomes("limits"), ["eu-1", "us-1 (keep)"]);
}

#[test]
fn terminating_work_of_a_policy_is_not_kept_while_the_placement_is_unsettled() {
    let world = on_two().gone(&gateway_origin("web"), "us-1").decisions("all", &["eu-1"]);
    let world = world.terminating(&policy_origin("limits"), "us-1");
    assert_eq!(world.outcomes("limits"), ["eu-1"]);
    assert_eq!(world.after(5_000).outcomes("limits"), ["eu-1"]);
}

#[test]
fn selector_withdraws_while_the_placement_is_unsettled() {
    let selective = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=eu");
    let world = on_two()
        .with(cluster("eu-1").label("region", "eu"))
        .with(cluster("us-1").label("region", "us"))
        .gone(&gateway_origin("web"), "us-1")
        .decisions("all", &["eu-1"])
        .with(selective);
    assert_eq!(world.writes("limits"), ["delete us-1"]);
}

/// Policy `limits`, for clusters in the region `eu`, is written to `eu-1`, whose ManagedCluster has the label
/// `region=eu`.
fn selective() -> World {
    let limits = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=eu");
    shop(&["eu-1"]).with(cluster("eu-1").label("region", "eu")).with(limits).written()
}

#[test]
fn policy_stays_with_its_gateway_if_the_managed_cluster_is_deleted() {
    let world = selective().without(cluster("eu-1"));
    assert_eq!(world.outcomes("limits"), ["eu-1"], "it changes as it would");
    let world = world.with(cluster("eu-1").label("region", "us"));
    assert_eq!(world.writes("limits"), ["delete eu-1"], "the labels that there are count");
}

#[test]
fn policy_leaves_after_its_gateway_if_the_managed_cluster_is_deleted() {
    let web = gateway_origin("web");
    let world = selective().without(cluster("eu-1")).decisions("all", &[]).after(5_000);
    assert_eq!((world.writes_of(&web), world.writes("limits")), (vec!["delete eu-1".to_owned()], vec![]));
    assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1"]);
}

#[test]
fn labels_of_a_deleted_cluster_are_kept_until_its_last_work_is_gone() {
    let world = selective().without(cluster("eu-1"));
    let labels = |world: &World| world.see(|view| view.labels(&"eu-1".into()).cloned());
    assert!(labels(&world).is_some());
    let world = world.gone(&gateway_origin("web"), "eu-1").gone(&policy_origin("limits"), "eu-1");
    assert_eq!(labels(&world), None);
    assert_eq!(world.without(cluster("us-1")).see(|view| view.labels(&"us-1".into()).cloned()), None);
}

#[test]
fn works_on_a_cluster_deleted_before_the_start_are_kept() {
    let limits = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=eu");
    let world = selective().restarted(vec![
        class("multi"),
        gateway("web").placed_on("all"),
        placement("all").selects(1),
        decision("all", "all-1", &["eu-1"]),
    ]);
    let world = world
        .params("multi", &listing(&["ratelimitpolicies"]).to_string())
        .kind("ratelimitpolicies", "RateLimitPolicy")
        .with(limits.label("team", "shop"));
    assert_eq!(world.outcomes("limits"), ["eu-1 (keep)"]);
    let world = world.gone(&policy_origin("limits"), "eu-1");
    assert_eq!(world.outcomes("limits"), Vec::<String>::new(), "what was not selected is not made");
}
