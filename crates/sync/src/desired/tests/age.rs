//! Tests that copies with the same target are created in the order of the hub.

use serde_json::json;

use crate::desired::WaitReason;
use crate::testing::objects::{
    Object, gateway, gateway_origin, listing, policy, policy_of, policy_origin, target,
};
use crate::testing::reports::{TestReport, applied, refused};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::{CLUSTER_OVERRIDES, CLUSTER_SELECTOR};
use policy_sync_api::moment::Moment;

const WAIT: i64 = 10_000;
/// The maximum wait of a policy for one copy in milliseconds: the copy may have been created in the last second.
const LIMIT: i64 = WAIT + 1_000;
const NOTHING: [&str; 0] = [];

/// The policy `name`, created in the second `second`.
fn of(name: &str, second: u32) -> Object {
    aged(policy(name).targets("web"), second)
}

fn aged(policy: Object, second: u32) -> Object {
    policy.metadata("creationTimestamp", json!(format!("2025-12-31T00:00:{second:02}Z")))
}

/// A cluster with the Gateway `web` and these policies, which have no works.
fn world(policies: impl IntoIterator<Item = Object>) -> World {
    let mut params = listing(&["ratelimitpolicies", "authpolicies"]);
    params["policyWaitSeconds"] = json!(WAIT / 1000);
    let world = shop(&["eu-1"]).params("multi", &params.to_string());
    let world = world.kind("authpolicies", "AuthPolicy");
    policies.into_iter().fold(world, World::with)
}

fn writes(world: &World, name: &str) -> Vec<String> {
    world.writes_of(&policy_origin(name))
}

/// The policy that `name` waits for, and the milliseconds until the next check.
fn waits(world: &World, name: &str) -> Option<(String, Option<i64>)> {
    let plan = world.plan_of(&policy_origin(name));
    let (_, waiting) = plan.waiting().next()?;
    let WaitReason::Older(older) = waiting else { panic!("{waiting:?}") };
    Some((older.name.to_string(), plan.recheck.map(|moment| moment.0 - world.now)))
}

/// Creates the works of these policies.
fn written(world: World, names: &[&str]) -> World {
    names.iter().fold(world, |world, name| world.settled(&[policy_origin(name)]))
}

fn created(second: u32) -> TestReport {
    applied().created(&format!("2026-01-01T00:01:{second:02}Z"))
}

/// Reports that the cluster created the copy of `name` in the second `second`.
fn copied(world: World, name: &str, second: u32) -> World {
    world.with_policy_report(name, "eu-1", &created(second))
}

fn zzz_and_aaa() -> World {
    world([of("zzz", 0), of("aaa", 5)])
}

#[test]
fn a_younger_policy_waits_until_the_copy_of_the_older_one_exists_for_a_second() {
    let world = zzz_and_aaa();
    assert_eq!((writes(&world, "zzz"), writes(&world, "aaa")), (vec!["create eu-1".into()], vec![]));
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(LIMIT))));
    let world = written(world, &["zzz"]);
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(LIMIT))));
    let world = world.with_policy_report("zzz", "eu-1", &applied());
    assert_eq!(waits(&world.after(1_000), "aaa"), Some(("zzz".into(), Some(LIMIT - 1_000))));

    let world = copied(written(zzz_and_aaa(), &["zzz"]), "zzz", 0);
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(1_000))));
    let world = world.after(999);
    assert_eq!((writes(&world, "aaa"), waits(&world, "aaa")), (vec![], Some(("zzz".into(), Some(1)))));
    let world = world.after(1);
    assert_eq!((writes(&world, "aaa"), waits(&world, "aaa")), (vec!["create eu-1".into()], None));
}

/// Checks that `aaa` waits from now on for the maximum of its class.
fn waits_at_most(world: World) {
    assert_eq!(writes(&world, "aaa"), NOTHING);
    let world = world.after(LIMIT - 1);
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(1))));
    let world = world.after(1);
    assert_eq!((writes(&world, "aaa"), waits(&world, "aaa")), (vec!["create eu-1".into()], None));
}

#[test]
fn wait_never_exceeds_the_maximum_of_the_class() {
    waits_at_most(zzz_and_aaa());
    waits_at_most(written(zzz_and_aaa(), &["zzz"]));
    waits_at_most(zzz_and_aaa().with_rejections(&policy_origin("zzz"), "eu-1"));
    let too_large = of("zzz", 0).spec("filler", json!("x".repeat(700_000)));
    waits_at_most(world([too_large, of("aaa", 5)]));
    waits_at_most(world([of("zzz", 0).annotation(CLUSTER_OVERRIDES, "["), of("aaa", 5)]));
}

#[test]
fn long_missing_copy_does_not_delay_new_policies() {
    let missing = |ago: i64| written(world([of("zzz", 0)]), &["zzz"]).after(ago).with(of("aaa", 5));
    assert_eq!(waits(&missing(LIMIT - 1), "aaa"), Some(("zzz".into(), Some(1))));
    assert_eq!(writes(&missing(LIMIT), "aaa"), ["create eu-1"]);
    let leaving = |ago: i64| {
        let world = written(world([of("zzz", 0)]), &["zzz"]).after(LIMIT).with(of("aaa", 5));
        let since = Moment(world.now - ago).rfc3339();
        world.edited(&policy_origin("zzz"), "eu-1", |work| {
            work["metadata"]["deletionTimestamp"] = since.into()
        })
    };
    assert_eq!(writes(&leaving(LIMIT - 1_000), "aaa"), NOTHING);
    assert_eq!(writes(&leaving(LIMIT), "aaa"), ["create eu-1"]);
}

#[test]
fn waits_of_several_runs_end_together() {
    let names = ["f", "e", "d", "c", "b", "a"];
    let world = world(names.iter().zip(0..).map(|(name, second)| of(name, second)));
    let world = written(world, &names).after(LIMIT);
    // The waits end together even if the cluster reports that the copies of `e` and `f` cannot be applied.
    let failing = |world: World, name: &str| world.with_policy_report(name, "eu-1", &refused("no such kind"));
    let world = failing(failing(written(world, &["e"]), "f"), "e");
    for name in &names[2..] {
        assert_eq!((writes(&world, name), waits(&world, name)), (vec!["create eu-1".into()], None), "{name}");
    }
}

#[test]
fn each_created_copy_restarts_the_wait() {
    let names = ["c", "b", "a"];
    let world = world(names.iter().zip(0..).map(|(name, second)| of(name, second)));
    assert_eq!(waits(&world, "a"), Some(("c".into(), Some(LIMIT))));
    let world = copied(written(world, &["c"]).after(WAIT - 2_000), "c", 0).after(1_000);
    assert_eq!(waits(&world, "a"), Some(("b".into(), Some(LIMIT))));
    // The wait does not become longer if a spoke stops reporting the first copy.
    let world = written(world, &["b"]).with_policy_report("c", "eu-1", &applied()).after(1_000);
    assert_eq!(waits(&world, "a"), Some(("c".into(), Some(1_000))));
    let world = copied(world, "c", 0).after(1_000);
    assert_eq!(waits(&world, "a"), Some(("b".into(), Some(LIMIT - 2_000))));
    assert_eq!(writes(&world.after(LIMIT - 2_000), "a"), ["create eu-1"]);
}

#[test]
fn creation_of_the_older_work_restarts_the_wait() {
    let world = zzz_and_aaa();
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(LIMIT))));
    let world = written(world.after(WAIT), &["zzz"]);
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(LIMIT))));
    // Creating a work repeatedly does not extend the wait.
    let world = world
        .after(WAIT)
        .edited(&policy_origin("zzz"), "eu-1", |work| work["metadata"]["uid"] = "new".into());
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(1_000))));
}

#[test]
fn policies_beyond_the_limit_are_awaited_through_others() {
    let names: Vec<String> = (0..60).rev().map(|number| format!("p{number:02}")).collect();
    let world = world(names.iter().zip(0..).map(|(name, second)| of(name, second)));
    let all_wait = |world: &World| names[1..].iter().all(|name| waits(world, name).is_some());
    assert!(all_wait(&world));
    // The last policy only checks `p32` and later ones, which all wait for `p59`.
    let world = copied(written(world.after(WAIT), &["p59"]), "p59", 0).after(1_000);
    let rest = &names[2..];
    assert!(rest.iter().all(|name| waits(&world, name).is_some()), "`p58` is to be created");
    let world = world.after(1_000);
    assert!(rest.iter().all(|name| waits(&world, name).is_some()), "that is progress");
}

#[test]
fn the_longest_wait_of_the_gateways_counts() {
    let both = aged(policy("both").spec("targetRefs", json!(["api", "web"].map(target))), 5);
    let mut params = listing(&["ratelimitpolicies"]);
    params["policyWaitSeconds"] = json!(2 * WAIT / 1000);
    let world = world([of("zzz", 0), aged(policy("yyy").targets("api"), 1), both]).class("slow", &params);
    let world = world.with(gateway("api").spec("gatewayClassName", json!("slow")).placed_on("all"));
    assert_eq!(waits(&world, "both"), Some(("zzz".into(), Some(2 * WAIT + 1_000))));
}

#[test]
fn zero_wait_holds_nothing() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policyWaitSeconds"] = json!(0);
    let world = zzz_and_aaa().params("multi", &params.to_string());
    assert_eq!(writes(&world, "aaa"), ["create eu-1"]);
}

#[test]
fn names_in_the_order_of_the_hub_are_created_together() {
    let world = world([of("a", 0), of("b", 5), of("c", 5)]);
    for name in ["a", "b", "c"] {
        assert_eq!(writes(&world, name), ["create eu-1"], "{name}");
    }
}

#[test]
fn a_run_waits_for_the_one_before_it() {
    // The policies, sorted by age. Their runs are `b d | a c | b2`.
    let names = ["b", "d", "a", "c", "b2"];
    let world = world(names.iter().zip(0..).map(|(name, second)| self::of(name, second)));
    let waiting = |world: &World| names.map(|name| waits(world, name).map(|(older, _)| older));
    let of = |older: [&str; 5]| older.map(|name| (!name.is_empty()).then(|| name.to_owned()));
    // All later runs wait for the oldest policy.
    assert_eq!(waiting(&world), of(["", "", "b", "b", "b"]));
    let world = copied(written(world, &["b", "d"]), "d", 0).after(1_000);
    assert_eq!(waiting(&world), of(["", "", "b", "b", "b"]));
    let world = copied(world, "b", 0).after(1_000);
    assert_eq!(waiting(&world), of(["", "", "", "", "a"]));
    let world = copied(copied(written(world, &["a", "c"]), "a", 3), "c", 3).after(1_000);
    assert_eq!(waiting(&world), of(["", "", "", "", ""]));
}

#[test]
fn policies_that_are_not_placed_there_are_not_awaited() {
    let does_not_wait = |older: Object| {
        let world = world([older, of("aaa", 5)]);
        assert_eq!(writes(&world, "aaa"), ["create eu-1"]);
    };
    does_not_wait(of("zzz", 0).annotation(CLUSTER_SELECTOR, "team=none"));
    does_not_wait(of("zzz", 0).annotation(CLUSTER_SELECTOR, "a b"));
    does_not_wait(of("zzz", 0).deleting());
    does_not_wait(aged(policy("zzz").targets("api"), 0));
    does_not_wait(aged(policy_of("authpolicies", "zzz").targets("web"), 0));
    let mut listener = target("web");
    listener["sectionName"] = json!("https");
    does_not_wait(aged(policy("zzz").spec("targetRef", listener), 0));

    // A policy that is not placed on the cluster is skipped: `aaa` waits for the run before it.
    let skipped = world([of("zzz", 0), of("yyy", 3).annotation(CLUSTER_SELECTOR, "team=none"), of("aaa", 5)]);
    assert_eq!(waits(&skipped, "aaa").unwrap().0, "zzz");
}

#[test]
fn foreign_work_of_the_planned_name_is_awaited_up_to_the_maximum() {
    let mut world = written(world([of("zzz", 0)]), &["zzz"]).with(of("aaa", 5));
    world.edit(&policy_origin("zzz"), "eu-1", |work| work["metadata"]["annotations"] = json!({}));
    waits_at_most(world);
}

#[test]
fn existing_work_is_neither_held_nor_deleted() {
    let world = written(world([of("aaa", 5)]), &["aaa"]).with(of("zzz", 0));
    let changed = world.with(of("aaa", 5).label("team", "shop"));
    assert_eq!(writes(&changed, "aaa"), ["update eu-1"]);
}

fn out_of_order(world: &World, name: &str) -> Vec<String> {
    let problems = world.plan_of(&policy_origin(name)).problems;
    problems.iter().filter(|problem| problem.category() == "OutOfOrder").map(ToString::to_string).collect()
}

#[test]
fn order_that_differs_from_the_hub_is_reported_on_both_policies() {
    let at = |zzz, aaa| {
        let world = written(world([of("aaa", 5)]), &["aaa"]).with(of("zzz", 0));
        copied(copied(written(world, &["zzz"]), "zzz", zzz), "aaa", aaa)
    };
    for (zzz, aaa) in [(2, 1), (1, 1)] {
        let world = at(zzz, aaa);
        assert_eq!(
            out_of_order(&world, "zzz"),
            [
                "its copy was created after that of shop/aaa, which has the same target and is younger on the hub, on these clusters: eu-1. These \
              clusters may enforce the wrong policy. To correct this, delete the other policy, wait until its copies are gone, and create it again"
            ]
        );
        assert_eq!(
            out_of_order(&world, "aaa"),
            [
                "its copy was created before that of shop/zzz, which has the same target and is older on the hub, on these clusters: eu-1. These \
              clusters may enforce the wrong policy. To correct this, delete this policy, wait until its copies are gone, and create it again"
            ]
        );
    }
    let ordered = at(1, 2);
    assert_eq!((out_of_order(&ordered, "zzz"), out_of_order(&ordered, "aaa")), (vec![], vec![]));
    let by_name = written(world([of("a", 5), of("b", 6)]), &["a", "b"]);
    let by_name = copied(copied(by_name, "a", 1), "b", 1);
    assert_eq!((out_of_order(&by_name, "a"), out_of_order(&by_name, "b")), (vec![], vec![]));
}

#[test]
fn changed_creation_time_delays_nothing() {
    let world = copied(written(zzz_and_aaa(), &["zzz"]), "zzz", 0).after(900);
    let world = copied(world, "zzz", 5).after(100);
    assert_eq!(writes(&world, "aaa"), ["create eu-1"]);

    let again = |world: World| copied(world.with_policy_report("zzz", "eu-1", &applied()), "zzz", 0);
    let mut world = written(zzz_and_aaa(), &["zzz"]);
    for _ in 0..WAIT / 1_000 {
        assert_eq!(writes(&world, "aaa"), NOTHING);
        world = again(world).after(999);
    }
    let world = again(world);
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(1_000))));
    let world = again(world.after(999)).after(11);
    assert_eq!(writes(&world, "aaa"), ["create eu-1"]);
}

#[test]
fn copy_counts_as_new_when_first_seen() {
    let world = copied(written(zzz_and_aaa(), &["zzz"]), "zzz", 0).after(5_000);
    assert_eq!(writes(&world, "aaa"), ["create eu-1"]);
    let world = world.edited(&policy_origin("zzz"), "eu-1", |work| work["metadata"]["uid"] = "new".into());
    assert_eq!(waits(&world, "aaa"), Some(("zzz".into(), Some(1_000))));
}

#[test]
fn a_copy_without_the_target_on_the_cluster_does_not_count() {
    // `both` and `zzz` target `api`, which is on no cluster.
    let targets = |names: [&str; 2]| json!(names.map(target));
    let both = aged(policy("both").spec("targetRefs", targets(["web", "api"])), 5);
    let zzz = aged(policy("zzz").spec("targetRefs", targets(["api", "other"])), 0);
    let world =
        world([zzz, both]).with(gateway("api").placed_on("none")).with(gateway("other").placed_on("all"));
    assert_eq!(writes(&world, "both"), ["create eu-1"]);
    let world = written(world, &["zzz", "both"]);
    let world = copied(copied(world, "zzz", 2), "both", 1);
    assert_eq!((out_of_order(&world, "zzz"), out_of_order(&world, "both")), (vec![], vec![]));
}

/// The milliseconds until the Gateway `web` checks again. `None` if the plan creates the Gateway. `Some(None)` if the
/// Gateway waits without a limit for a work that is about to be created.
fn gateway_waits(world: &World) -> Option<Option<i64>> {
    let plan = world.plan_of(&gateway_origin("web"));
    plan.waiting().next()?;
    Some(plan.recheck.map(|moment| moment.0 - world.now))
}

fn served(world: World) -> World {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policyWaitSeconds"] = json!(WAIT / 1000);
    params["policyWaitAction"] = "serve".into();
    world.params("multi", &params.to_string())
}

#[test]
fn gateway_waits_for_as_long_as_its_waiting_policy() {
    let world = served(zzz_and_aaa());
    assert_eq!(gateway_waits(&world), Some(None), "`zzz` is about to be created");
    let world = written(world, &["zzz", "aaa"]);
    assert_eq!(gateway_waits(&world), Some(Some(LIMIT)));
    let world = world.after(LIMIT);
    assert_eq!(gateway_waits(&world), Some(None), "`aaa` is about to be created");
    let world = written(world, &["aaa"]);
    assert_eq!(gateway_waits(&world), Some(Some(WAIT)));
    assert_eq!(gateway_waits(&world.after(WAIT)), None);
}

#[test]
fn gateway_waits_for_policies_held_by_another_gateway() {
    let both = aged(policy("both").spec("targetRefs", json!(["api", "web"].map(target))), 5);
    let world =
        served(world([aged(policy("zzz").targets("api"), 0), both]).with(gateway("api").placed_on("all")));
    assert_eq!(waits(&world, "both"), Some(("zzz".into(), Some(LIMIT))));
    assert_eq!(gateway_waits(&world), Some(Some(LIMIT)));
    let world = copied(written(world, &["zzz"]), "zzz", 0).after(1_000);
    assert_eq!(gateway_waits(&world), Some(None));
}

#[test]
fn status_plan_announces_a_work_whose_wait_has_ended() {
    let world = zzz_and_aaa();
    assert_eq!(
        (waits(&world, "zzz"), world.fold("zzz").replan_works),
        (None, false),
        "its own plan creates it"
    );
    assert!(waits(&world, "aaa").is_some() && !world.fold("aaa").replan_works);
    let world = world.after(LIMIT);
    assert!(world.fold("aaa").replan_works);
}
