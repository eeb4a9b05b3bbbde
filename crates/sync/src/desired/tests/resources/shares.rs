//! Tests of splitting replicas among clusters.

use serde_json::json;

use super::{NOTHING, fleet, placed, problems, replicas, web};
use crate::PlannedShares;
use crate::desired::plan_works;
use crate::testing::objects::{Object, cluster, resource_listing};
use crate::testing::world::World;
use policy_sync_api::annotations::REPLICA_PREFERENCES;

fn split(preferences: &str) -> Object {
    placed().annotation(REPLICA_PREFERENCES, preferences)
}

/// The agent of `cluster` changes the number of replicas in its work.
fn with_replicas_in_work(world: World, cluster: &str, replicas: u64) -> World {
    world.edited(&web(), cluster, |work| {
        work["spec"]["workload"]["manifests"][1]["spec"]["replicas"] = replicas.into();
    })
}

#[test]
fn replicas_are_split_among_named_clusters() {
    let world = fleet().with(split(r#"{"clusters": {"eu-1": {"weight": 3}, "us-1": {"weight": 1}}}"#));
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 3), ("us-1".to_owned(), 1)]);
    let world = fleet().with(split(r#"{"clusters": {"eu-1": {"weight": 1}}}"#));
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 4)]);
    let world = world.settled(&[web()]);
    assert_eq!(world.writes_of(&web()), NOTHING);
    let world = world.with(split(r#"{"clusters": {"us-1": {"weight": 1}}}"#));
    assert_eq!(world.writes_of(&web()), ["create us-1", "delete eu-1"]);
    // Without preferences, each copy has all replicas.
    assert_eq!(replicas(&fleet().with(placed())), [("eu-1".to_owned(), 4), ("us-1".to_owned(), 4)]);
}

#[test]
fn unassigned_replicas_are_reported() {
    let world = fleet().with(split(r#"{"clusters": {"*": {"weight": 1, "maxReplicas": 1}}}"#));
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 1), ("us-1".to_owned(), 1)]);
    assert_eq!(
        problems(&world),
        ["2 of 4 replicas are not assigned: its preferences allow no more on any cluster"]
    );
    let none =
        fleet().with(split(r#"{"clusters": {"*": {"weight": 1}}}"#).whole_spec(json!({"paused": true})));
    assert_eq!(
        problems(&none),
        ["annotation federation.kubernetes.io/replica-set-preferences: it has no spec.replicas to split"]
    );
    assert_eq!(none.outcomes_of(&web()), ["eu-1", "us-1"]);
}

#[test]
fn invalid_preferences_freeze_the_resource() {
    let world = fleet().with(placed()).settled(&[web()]);
    let world = world.with(split(r#"{"clusters": {"c1": {"weight": "2"}}}"#));
    assert_eq!(world.outcomes_of(&web()), ["eu-1 (keep)", "us-1 (keep)"]);
    assert_eq!(
        problems(&world),
        [
            "annotation federation.kubernetes.io/replica-set-preferences.clusters.c1.weight: expected a whole number from 0, \
          found \"2\""
        ]
    );
}

#[test]
fn new_cluster_moves_no_replicas_without_rebalance() {
    let nine = |preferences: &str| split(preferences).spec("replicas", 9.into());
    let world = fleet().with(nine(r#"{"clusters": {"*": {"weight": 1}}}"#)).settled(&[web()]);
    let before = replicas(&world);
    let world = world.decisions("all", &["ap-1", "eu-1", "us-1"]);
    assert_eq!(replicas(&world)[0], ("ap-1".to_owned(), 0));
    assert_eq!(replicas(&world)[1..], before, "what is there stays there");
    let moved = world.with(nine(r#"{"clusters": {"*": {"weight": 1}}, "rebalance": true}"#));
    let mut sizes: Vec<u64> = replicas(&moved).into_iter().map(|(_, replicas)| replicas).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [3, 3, 3]);
}

#[test]
fn cluster_keeps_its_share_while_its_placement_is_unsettled() {
    let preferences = r#"{"clusters": {"*": {"weight": 1}}}"#;
    let world = fleet().with(split(preferences)).settled(&[web()]).decisions("all", &["eu-1"]);
    assert_eq!(world.outcomes_of(&web()), ["eu-1", "us-1 (keep)"]);
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 2)]);
    assert_eq!(replicas(&world.after(5_000)), [("eu-1".to_owned(), 4)], "it has left");
}

#[test]
fn cluster_with_a_terminating_work_has_no_share_while_the_placement_is_unsettled() {
    let preferences = r#"{"clusters": {"*": {"weight": 1}}}"#;
    let world = fleet().with(split(preferences)).settled(&[web()]).decisions("all", &["eu-1"]);
    let world = world.terminating(&web(), "us-1");
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 4)]);
    assert_eq!(replicas(&world.after(5_000)), [("eu-1".to_owned(), 4)]);
}

#[test]
fn paused_cluster_keeps_its_replicas_and_gets_no_others() {
    let rebalanced = r#"{"clusters": {"*": {"weight": 1}}, "rebalance": true}"#;
    let paused = || cluster("us-1").annotation("kuadrant.io/paused", "true");
    // A new cluster that is paused takes no replicas from others.
    let world = fleet().decisions("all", &["eu-1"]).after(60_000).with(split(rebalanced)).settled(&[web()]);
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 4)]);
    let world = world.with(paused()).decisions("all", &["eu-1", "us-1"]);
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 4)]);
    let world = world.with(cluster("us-1"));
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 2), ("us-1".to_owned(), 2)]);
    // The others get the replicas that the paused cluster does not have.
    let world = world.settled(&[web()]).with(paused());
    let world = world.with(split(rebalanced).spec("replicas", 10.into()));
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 8)]);
}

#[test]
fn paused_spoke_with_forged_replicas_leaves_the_others_their_minimum() {
    let preferences = r#"{"clusters": {"*": {"weight": 1, "minReplicas": 1}}}"#;
    let world = fleet().with(split(preferences)).settled(&[web()]);
    let world = with_replicas_in_work(world, "us-1", u64::MAX);
    let world = world.with(cluster("us-1").annotation("kuadrant.io/paused", "true"));
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 1)]);
    assert!(world.plan_of(&web()).shares.unwrap().values().sum::<u64>() <= 4);
}

/// The agent of a spoke can change the number of replicas in its works.
#[test]
fn spoke_cannot_take_replicas_from_others() {
    let preferences = r#"{"clusters": {"*": {"weight": 1}}}"#;
    let shares = PlannedShares::default();
    let world = fleet().with(split(preferences)).settled(&[web()]);
    let planned = world.plan_of(&web()).shares.unwrap();
    shares.note(&web(), planned.clone());
    for cluster in ["eu-1", "us-1"] {
        let fleet = fleet().with(split(preferences)).settled(&[web()]);
        let greedy = with_replicas_in_work(fleet, cluster, 100);
        let plan = greedy
            .see(|view| crate::desired::plan_works(view.with_shares(&shares), &greedy.settings, &web()));
        assert_eq!(plan.shares.as_ref(), Some(&planned), "{cluster}");
    }
}

/// The shares in a plan that knows the previous split in `shares` and records the new one there.
fn remembered(world: &World, shares: &PlannedShares) -> Option<Vec<(String, u64)>> {
    let plan = world.see(|view| plan_works(view.with_shares(shares), &world.settings, &web()));
    let split = plan.shares?;
    shares.note(&web(), split.clone());
    Some(split.into_iter().map(|(cluster, share)| (cluster.to_string(), share)).collect())
}

#[test]
fn shares_are_restored_after_an_interruption() {
    let uneven = r#"{"clusters": {"eu-1": {"weight": 3}, "us-1": {"weight": 1}}}"#;
    let even = r#"{"clusters": {"*": {"weight": 1}}}"#;
    let shares = PlannedShares::default();
    let world = fleet().with(split(uneven)).settled(&[web()]);
    let before = remembered(&world, &shares).unwrap();
    assert_eq!(before, [("eu-1".to_owned(), 3), ("us-1".to_owned(), 1)]);
    // From here on, the weights alone would give different shares.
    let world = world.with(split(even));
    assert_eq!(remembered(&world, &shares).unwrap(), before);
    let away = world.decisions("all", &["eu-1"]);
    for _ in 0..2 {
        assert_eq!(
            remembered(&away, &shares).unwrap(),
            before,
            "it takes part while it may only seem to have left"
        );
    }
    let frozen = away.params("multi", "nonsense");
    assert_eq!(remembered(&frozen, &shares), None, "what is not planned is not split");
    let back =
        frozen.params("multi", &resource_listing(None).to_string()).decisions("all", &["eu-1", "us-1"]);
    assert_eq!(remembered(&back, &shares).unwrap(), before);
}

#[test]
fn unsettled_cluster_takes_no_minimum_from_others() {
    let preferences = r#"{"clusters": {"*": {"weight": 1, "minReplicas": 1}}}"#;
    let world = fleet().with(split(preferences)).settled(&[web()]);
    let world = with_replicas_in_work(world, "us-1", u64::MAX);
    let world = world.decisions("all", &["eu-1"]);
    assert_eq!(replicas(&world), [("eu-1".to_owned(), 1)], "the minimum is its own, whatever the other says");
    assert!(world.plan_of(&web()).shares.unwrap().values().sum::<u64>() <= 4);
}
