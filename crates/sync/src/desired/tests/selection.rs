//! Tests of cluster selectors on Gateways: they can limit the clusters that the Placement selects, but not add any. A
//! deselected cluster gets a grace period.

use crate::testing::objects::{Object, cluster, gateway, gateway_origin, policy};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::{CLUSTER_SELECTOR, FEDERATION_SELECTOR, GRACE_TIMEOUT, UNPLACED_SINCE};
use policy_sync_api::moment::Moment;

const GRACE: i64 = 600_000;
const EU: &str = "region=eu";

fn web() -> Object {
    gateway("web").placed_on("all").without_annotation(GRACE_TIMEOUT)
}

/// The Placement selects two clusters, and a third exists.
fn fleet() -> World {
    let of = |name: &str, region: &str| cluster(name).label("region", region);
    let world = shop(&["eu-1", "us-1"]).with(of("eu-1", "eu")).with(of("us-1", "us")).with(of("eu-2", "eu"));
    world.with(web()).with(policy("limits").targets("web"))
}

fn gateway_writes(world: &World) -> Vec<String> {
    world.writes_of(&gateway_origin("web"))
}

const NOTHING: [&str; 0] = [];

#[test]
fn gateway_and_policies_are_on_chosen_and_selected_clusters() {
    let federation = r#"[{"key": "region", "operator": "In", "values": ["eu"]}]"#;
    for (key, selector) in [(CLUSTER_SELECTOR, EU), (FEDERATION_SELECTOR, federation)] {
        let world = fleet().with(web().annotation(key, selector));
        assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1"]);
        assert_eq!(world.outcomes("limits"), ["eu-1"]);
        // An annotation of a policy selects the same clusters as the annotation of a Gateway.
        let world = fleet().with(policy("limits").targets("web").annotation(key, selector));
        assert_eq!(world.outcomes("limits"), ["eu-1"]);
    }
    let none = fleet().with(web().annotation(CLUSTER_SELECTOR, EU).annotation(FEDERATION_SELECTOR, "[]"));
    assert_eq!(none.outcomes_of(&gateway_origin("web")), ["eu-1"]);
}

#[test]
fn deselected_cluster_keeps_its_gateway_for_the_grace_period() {
    let world = fleet().written().with(web().annotation(CLUSTER_SELECTOR, EU));
    assert_eq!((gateway_writes(&world), world.writes("limits")), (vec!["mark us-1".to_owned()], vec![]));
    let world = world.written();
    assert_eq!(gateway_writes(&world.after(GRACE - 1_000)), NOTHING);
    let world = fleet().written().with(web().annotation(CLUSTER_SELECTOR, EU)).written().after(GRACE);
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
    assert_eq!(world.gateway_written().writes("limits"), ["delete us-1"]);
}

#[test]
fn changed_labels_count_at_once() {
    // This hub has no policy, because the Gateway would wait for the policy.
    let world = fleet().without(policy("limits")).with(web().annotation(CLUSTER_SELECTOR, EU)).written();
    let world = world.with(cluster("us-1").label("region", "eu"));
    assert_eq!(gateway_writes(&world), ["create us-1"]);
    let world = world.written().with(cluster("us-1").label("region", "us"));
    assert_eq!(gateway_writes(&world), ["mark us-1"]);
    let world = world.written().after(GRACE / 2).with(cluster("us-1").label("region", "eu"));
    assert_eq!(gateway_writes(&world), ["mark us-1"], "it is selected again");
    let world = world.written().with(cluster("us-1").label("region", "us")).written();
    assert_eq!(gateway_writes(&world.after(GRACE - 1_000)), NOTHING, "the clock began anew");
}

#[test]
fn invalid_selector_freezes_the_gateway() {
    let web = || web().annotation(CLUSTER_SELECTOR, "region in eu");
    let world = fleet().with(web());
    assert_eq!(world.outcomes_of(&gateway_origin("web")), NOTHING, "what would be selected is not known");
    let world = fleet().with(self::web().annotation(CLUSTER_SELECTOR, EU)).written().with(web());
    assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1 (keep)"]);
    assert_eq!((gateway_writes(&world), world.writes("limits")), (vec![], vec![]));
    let problems = world.plan_of(&gateway_origin("web")).problems;
    assert_eq!(
        problems[0].to_string(),
        r#"annotation kuadrant.io/cluster-selector: not a label key in "region in eu""#
    );
    // The removal of a cluster still takes effect.
    let world = world.decisions("all", &["us-1"]).after(5_000).written();
    assert_eq!(gateway_writes(&world.after(GRACE)), ["delete eu-1"]);
}

#[test]
fn removed_mark_does_not_extend_the_grace_period() {
    let mut world = fleet().written().with(web().annotation(CLUSTER_SELECTOR, EU)).written();
    let start = world.now;
    while world.now < start + GRACE - 30_000 {
        world = world.after(30_000).edited(&gateway_origin("web"), "us-1", |work| {
            work["metadata"]["annotations"].as_object_mut().unwrap().remove(UNPLACED_SINCE);
        });
    }
    assert_eq!(gateway_writes(&world.after(30_000)), ["delete us-1"]);
}

#[test]
fn last_known_labels_of_a_deleted_cluster_count() {
    let world = fleet().with(web().annotation(CLUSTER_SELECTOR, EU)).written().without(cluster("eu-1"));
    assert_eq!(world.outcomes_of(&gateway_origin("web")), ["eu-1"]);
    let recheck = world.plan_of(&gateway_origin("web")).recheck;
    assert_eq!(recheck.filter(|at| *at <= Moment(world.now)), None);
}
