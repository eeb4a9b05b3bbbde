//! Tests of the grace period: a Gateway and its policies stay for a while on a cluster that is no longer selected.

use crate::Problem;
use crate::testing::objects::{
    class, cluster, decision, gateway, gateway_origin, listing, placement, policy,
};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::{GRACE_TIMEOUT, UNPLACED_SINCE};
use policy_sync_api::moment::Moment;

/// The time after which a cluster that left counts as unplaced, and the default grace period, in milliseconds.
const SETTLES: i64 = 5_000;
const GRACE: i64 = 600_000;

/// Gateway `web` and policy `limits` are written to both clusters, without a grace period in annotations.
fn on_two() -> World {
    let web = gateway("web").placed_on("all").without_annotation(GRACE_TIMEOUT);
    let world = shop(&["eu-1", "us-1"]).with(cluster("eu-1")).with(cluster("us-1")).with(web);
    world.with(policy("limits").targets("web")).written()
}

/// The Placement no longer selects us-1, and an annotation of the work there records since when.
fn unplaced() -> World {
    on_two().decisions("all", &["eu-1"]).after(SETTLES).written()
}

fn gateway_writes(world: &World) -> Vec<String> {
    world.writes_of(&gateway_origin("web"))
}

const NOTHING: [&str; 0] = [];

#[test]
fn start_of_the_grace_period_is_written_first_and_once() {
    let world = on_two().decisions("all", &["eu-1"]).after(SETTLES);
    assert_eq!(gateway_writes(&world), ["mark us-1"]);
    assert_eq!(world.writes("limits"), NOTHING);
    let world = world.written();
    assert_eq!(gateway_writes(&world), NOTHING);
    assert_eq!(world.plan_of(&gateway_origin("web")).recheck, Some(Moment(world.now + GRACE)));
}

#[test]
fn gateway_is_deleted_when_its_grace_period_ends() {
    let world = unplaced().after(GRACE - 1_000);
    assert_eq!((gateway_writes(&world), world.writes("limits")), (vec![], vec![]));
    let world = world.after(1_000);
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
    assert_eq!(world.gateway_written().writes("limits"), ["delete us-1"]);
}

#[test]
fn policies_are_updated_during_the_grace_period() {
    let world = unplaced().with(policy("limits").targets("web").label("team", "shop"));
    assert_eq!(world.writes("limits"), ["update eu-1", "update us-1"]);
    let world = unplaced().with(policy("more").targets("web"));
    assert_eq!(world.writes("more"), ["create eu-1", "create us-1"]);
}

#[test]
fn mark_is_removed_if_the_cluster_is_chosen_again() {
    let world = unplaced().after(60_000).decisions("all", &["eu-1", "us-1"]);
    assert_eq!(gateway_writes(&world), ["mark us-1"]);
    let world = world.written().decisions("all", &["eu-1"]).after(SETTLES).written();
    assert_eq!(gateway_writes(&world.after(GRACE - 1_000)), NOTHING);
}

#[test]
fn each_cluster_has_its_own_grace_period() {
    let world = unplaced().after(60_000).decisions("all", &[]).after(SETTLES).written();
    let world = world.after(GRACE - 60_000 - SETTLES);
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
    assert_eq!(gateway_writes(&world.after(60_000 + SETTLES)), ["delete eu-1", "delete us-1"]);
}

#[test]
fn restart_does_not_restart_the_grace_period() {
    let objects = vec![
        class("multi"),
        gateway("web").placed_on("all").without_annotation(GRACE_TIMEOUT),
        placement("all").selects(1),
        decision("all", "all-1", &["eu-1"]),
        cluster("eu-1"),
        cluster("us-1"),
    ];
    let world = unplaced().after(GRACE - SETTLES).restarted(objects);
    let world = world.params("multi", &listing(&["ratelimitpolicies"]).to_string());
    assert_eq!(gateway_writes(&world), NOTHING);
    assert_eq!(gateway_writes(&world.after(SETTLES)), ["delete us-1"]);
}

#[test]
fn unsettled_decisions_neither_start_nor_end_grace_periods() {
    let world = unplaced().with(placement("all").selects(2)).after(2 * GRACE);
    assert_eq!(gateway_writes(&world), NOTHING);
}

#[test]
fn deleted_cluster_has_no_grace_period() {
    assert_eq!(gateway_writes(&unplaced().without(cluster("us-1"))), ["delete us-1"]);
}

#[test]
fn gateway_without_placement_keeps_serving_for_its_grace_period() {
    let world = on_two().with(gateway("web").annotation(GRACE_TIMEOUT, "60"));
    assert_eq!(gateway_writes(&world), ["mark eu-1", "mark us-1"]);
    let world = world.written().after(60_000);
    assert_eq!(gateway_writes(&world), ["delete eu-1", "delete us-1"]);
}

#[test]
fn gateway_that_is_deleted_or_changes_class_has_no_grace_period() {
    for world in [
        unplaced().with(gateway("web").placed_on("all").deleting()),
        unplaced().with(gateway("web").placed_on("all").of_class("theirs")),
    ] {
        assert_eq!(gateway_writes(&world), ["delete eu-1", "delete us-1"]);
    }
}

#[test]
fn invalid_parameters_do_not_stop_the_grace_period() {
    let world = on_two().params("multi", "nonsense").decisions("all", &["eu-1"]).after(SETTLES);
    assert_eq!(gateway_writes(&world), ["mark us-1"]);
    assert_eq!(gateway_writes(&world.written().after(GRACE)), ["delete us-1"]);
}

#[test]
fn spoke_cannot_extend_the_grace_period() {
    let marked = |text: &str| {
        let since = text.to_owned();
        unplaced().edited(&gateway_origin("web"), "us-1", |work| {
            work["metadata"]["annotations"][UNPLACED_SINCE] = since.into();
        })
    };
    for text in ["2999-01-01T00:00:00Z", "soon", ""] {
        let world = marked(text);
        assert_eq!(gateway_writes(&world), NOTHING, "it was written a moment ago: {text}");
        let world = world.after(60_000);
        assert_eq!(gateway_writes(&world), ["mark us-1"], "{text}");
        assert_eq!(gateway_writes(&world.written().after(GRACE - 60_000)), ["delete us-1"], "{text}");
    }
    assert_eq!(gateway_writes(&marked("1970-01-01T00:00:00Z")), ["delete us-1"]);
}

/// The spoke us-1 changes the start of the grace period in the work's annotation, or removes the annotation.
fn rewritten(world: World, moment: Option<i64>) -> World {
    world.edited(&gateway_origin("web"), "us-1", |work| {
        let annotations = work["metadata"]["annotations"].as_object_mut().unwrap();
        match moment {
            Some(moment) => annotations.insert(UNPLACED_SINCE.to_owned(), Moment(moment).rfc3339().into()),
            None => annotations.remove(UNPLACED_SINCE),
        };
    })
}

#[test]
fn repeatedly_rewritten_mark_does_not_extend_the_grace_period() {
    let later: [fn(i64) -> Option<i64>; 3] = [Some, |now| Some(now + 3_600_000), |_| None];
    for later in later {
        let mut world = unplaced();
        let (start, mut marks) = (world.now, 0);
        while world.now < start + GRACE - 3_000 {
            let moment = later(world.now + 3_000);
            world = rewritten(world.after(3_000), moment);
            let writes = gateway_writes(&world);
            assert!(writes.iter().all(|write| write == "mark us-1"), "{writes:?}");
            marks += writes.len();
            if !writes.is_empty() {
                world = world.written();
            }
        }
        assert!(marks <= 10, "a later one is written back once a minute: {marks}");
        assert!(marks >= 9, "and is written back: {marks}");
        assert_eq!(gateway_writes(&world.after(3_000)), ["delete us-1"]);
    }
}

#[test]
fn repeatedly_changed_work_does_not_extend_the_grace_period() {
    let mut world = on_two().decisions("all", &["eu-1"]).after(SETTLES);
    let start = world.now;
    while world.now < start + GRACE {
        let number = world.now;
        world = world.edited(&gateway_origin("web"), "us-1", |work| {
            work["spec"]["workload"]["manifests"][1]["spec"]["theirs"] = number.into();
        });
        assert_eq!(gateway_writes(&world), ["update us-1"], "what is updated is marked once that is seen");
        world = world.after(3_000);
    }
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
}

#[test]
fn forged_mark_on_a_chosen_cluster_starts_no_grace_period() {
    let world = rewritten(on_two(), Some(0));
    assert_eq!(gateway_writes(&world), ["mark us-1"], "it is taken back");
    let world = world.written();
    let world = world.after(60_000).decisions("all", &["eu-1"]).after(SETTLES).written();
    assert_eq!(gateway_writes(&world.after(GRACE - 1_000)), NOTHING);
}

fn with_longest(seconds: u32) -> World {
    let mut params = listing(&["ratelimitpolicies"]);
    params["maxGraceSeconds"] = seconds.into();
    unplaced().params("multi", &params.to_string())
}

fn problems(world: &World) -> Vec<String> {
    world.plan_of(&gateway_origin("web")).problems.iter().map(Problem::to_string).collect()
}

#[test]
fn class_limits_the_grace_period() {
    let asks = |seconds: &str| gateway("web").placed_on("all").annotation(GRACE_TIMEOUT, seconds);
    let world = with_longest(60);
    assert_eq!(problems(&world), NOTHING, "it asks for nothing");
    let over_limit = "annotation kuadrant.io/grace-timeout: 120 is more than maxGraceSeconds of GatewayClass multi: using 60 s";
    for (world, problem) in [(world, None), (with_longest(60).with(asks("120")), Some(over_limit))] {
        assert_eq!(problems(&world), problem.into_iter().collect::<Vec<_>>());
        assert_eq!(gateway_writes(&world.after(59_000)), NOTHING);
    }
    assert_eq!(gateway_writes(&with_longest(60).with(asks("120")).after(60_000)), ["delete us-1"]);
    assert_eq!(gateway_writes(&with_longest(0)), ["delete us-1"]);
    let shorter = with_longest(60).with(asks("30"));
    assert_eq!(
        (problems(&shorter), gateway_writes(&shorter.after(30_000))),
        (vec![], vec!["delete us-1".into()])
    );
    let of_none = unplaced().with(asks("7200")).after(3_599_000);
    assert_eq!(gateway_writes(&of_none), NOTHING);
    assert_eq!(
        gateway_writes(&of_none.after(1_000)),
        ["delete us-1"],
        "an hour where the class says nothing"
    );
}

#[test]
fn invalid_parameters_keep_the_previous_maximum_grace_period() {
    let asks = gateway("web").placed_on("all").annotation(GRACE_TIMEOUT, "7200");
    let world = with_longest(60).params("multi", "nonsense").with(asks);
    assert_eq!(gateway_writes(&world.after(60_000)), ["delete us-1"]);
}

#[test]
fn terminating_cluster_has_no_grace_period() {
    let world = unplaced().with(cluster("us-1").deleting());
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
    let chosen = on_two().with(cluster("us-1").deleting());
    assert_eq!(gateway_writes(&chosen), NOTHING, "unless it is chosen");
}

#[test]
fn invalid_grace_period_is_reported_and_the_default_applies() {
    let seconds = |text: &str| gateway("web").placed_on("all").annotation(GRACE_TIMEOUT, text);
    for (text, found) in [
        ("10m", "10m"),
        ("-1", "-1"),
        ("+5", "+5"),
        ("1.5", "1.5"),
        ("", "\"\""),
        ("31536001", "31536001"),
        ("99999999999999999999", "99999999999999999999"),
    ] {
        let world = unplaced().with(seconds(text));
        let problems: Vec<String> =
            world.plan_of(&gateway_origin("web")).problems.iter().map(Problem::to_string).collect();
        let expected = format!(
            "annotation kuadrant.io/grace-timeout: expected whole seconds, at most 31536000, found {found}: using 600 s"
        );
        assert_eq!(problems, [expected]);
        assert_eq!(gateway_writes(&world), NOTHING, "it freezes nothing");
        assert_eq!(gateway_writes(&world.after(GRACE)), ["delete us-1"], "{text}");
    }
    let world = unplaced().with(seconds("60")).after(60_000);
    assert_eq!(gateway_writes(&world), ["delete us-1"]);
}
