//! Tests that the time and memory of a plan are limited for large policies and many differing clusters.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use allocation_counter::{AllocationInfo, measure};
use serde_json::{Value, json};

use crate::desired::ahead::unbuilt_copies;
use crate::desired::{Outcome, plan_works};
use crate::rows::work::Content;
use crate::status;
use crate::testing::objects::{cluster, gateway, gateway_origin, listing, policy, policy_origin};
use crate::testing::sizes::{CLUSTERS, TENTH, fleet, names, rules, varied};
use crate::testing::world::World;
use policy_sync_api::names::Origin;

/// The sizes of the spec and overrides of the largest policy that the API accepts, in bytes.
const WHOLE: (usize, usize) = (371_000, 254_000);

/// The memory that a plan of the policy `limits` allocates.
fn planning(world: &World) -> AllocationInfo {
    let origin = policy_origin("limits");
    world.see(|view| measure(|| drop(plan_works(view, &world.settings, &origin))))
}

fn kept(world: &World) -> usize {
    world.plan("limits").outcomes.values().filter(|outcome| matches!(outcome, Outcome::Kept(_))).count()
}

#[test]
fn distinct_copies_that_together_pass_32_mib_freeze_the_policy() {
    let world = fleet().with(policy("limits").targets("web")).written().with(varied(WHOLE));
    let problems = world.problems("limits");
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    let bytes =
        problem.strip_prefix("its 64 copies would have ").and_then(|text| text.split_once(" bytes, "));
    let (bytes, limit) = bytes.unwrap_or_else(|| panic!("{problem}"));
    assert_eq!(limit, "at most 33,554,432 are allowed");
    let bytes: usize = bytes.replace(',', "").parse().unwrap();
    assert!((36_000_000..41_000_000).contains(&bytes), "{bytes}");
    assert_eq!(world.plan("limits").problems[0].category(), "TooLarge");
    assert_eq!((kept(&world), world.writes("limits")), (CLUSTERS, Vec::new()));
}

#[test]
fn too_large_copies_are_rejected_before_one_is_built() {
    let world = fleet().with(varied(WHOLE));
    let taken = planning(&world);
    // The spec and the overrides are each parsed once. The results take about ten times the size of the texts.
    assert!(taken.bytes_total < 16 << 20, "{} bytes", taken.bytes_total);
}

#[test]
fn unrelated_changes_do_not_parse_texts_again() {
    let mut world = fleet().with(varied(WHOLE));
    let touched = |turn: u32| varied(WHOLE).annotation("example.com/turn", &turn.to_string());
    world.apply(&touched(0));
    let first = planning(&world);
    world.apply(&touched(1));
    let then = planning(&world);
    assert!(then.bytes_max < 256 << 10 && then.bytes_max < first.bytes_max / 10, "{then:?} after {first:?}");
    let problems = world.problems("limits");
    for (change, what) in [
        (touched(1).spec("more", json!(1)), "spec"),
        (touched(1).annotation("kuadrant.io/cluster-overrides", "[]"), "overrides"),
    ] {
        world.apply(&change);
        assert_ne!(world.problems("limits"), problems, "{what}");
        world.apply(&touched(1));
        assert_eq!(world.problems("limits"), problems, "{what}");
    }
}

#[test]
fn large_parsed_selectors_are_not_cached() {
    let remembered = |selector: &str| {
        let overrides = json!([{"clusterSelector": selector, "patch": {"limits": rules("x", 20_000)}}]);
        let limits = policy("limits").targets("web").spec("limits", rules("own", 20_000));
        let world = fleet().with(limits.annotation("kuadrant.io/cluster-overrides", &overrides.to_string()));
        planning(&world).bytes_current
    };
    let (short, long) = (remembered("a"), remembered(&vec!["a"; 100_000].join(",")));
    assert!(short > 0 && long <= short, "{short} and {long} bytes");
}

#[test]
fn shared_copy_counts_once() {
    let world = fleet().with(policy("limits").targets("web").spec("limits", rules("own", 480_000)));
    assert_eq!((world.problems("limits"), kept(&world)), (Vec::new(), 0));
    let for_some = json!([{"clusterSelector": "name!=c-00", "patch": {"limits": rules("x", 10_000)}}]);
    let some = policy("limits").targets("web").spec("limits", rules("own", 480_000));
    let world = world.with(some.annotation("kuadrant.io/cluster-overrides", &for_some.to_string()));
    assert_eq!((world.problems("limits"), kept(&world)), (Vec::new(), 0));
}

/// A hub with sixteen Gateways, each on a different part of the clusters, and a policy that targets all of them.
fn many_gateways(bytes: usize) -> World {
    let names = names();
    let gateways: Vec<String> = (0..16).map(|n| format!("web-{n:02}")).collect();
    let mut world = fleet();
    for (n, name) in gateways.iter().enumerate() {
        let on = names.iter().enumerate().filter(|(index, _)| (index >> (n % 6)) & 1 == (n / 6) % 2);
        let on: Vec<&str> = on.map(|(_, name)| name.as_str()).collect();
        world = world.decisions(name, &on).with(gateway(name).placed_on(name));
    }
    let gateways: Vec<&str> = gateways.iter().map(String::as_str).collect();
    world.after(60_000).with(policy("limits").targets_all(&gateways).spec("limits", rules("own", bytes)))
}

/// The number of distinct copies in the plan of the policy `limits`.
fn copies(world: &World) -> usize {
    let plan = world.plan("limits");
    let works = plan.outcomes.values().filter_map(Outcome::work);
    let revisions = works.map(|work| work.revision.clone());
    revisions.collect::<BTreeSet<_>>().len()
}

#[test]
fn copies_for_different_gateways_count_towards_the_limit() {
    let world = many_gateways(37_000);
    assert_eq!((copies(&world), world.problems("limits")), (CLUSTERS, Vec::new()));
    let small = planning(&world);
    let world = many_gateways(33_554_432 / CLUSTERS + 1_000);
    let problems = world.problems("limits");
    assert!(problems[0].starts_with("its 64 copies would have 33,"), "{problems:?}");
    assert_eq!((kept(&world), copies(&world)), (CLUSTERS, 0));
    assert!(planning(&world).bytes_total < small.bytes_total, "copies were made");
}

#[test]
fn a_plan_holds_one_copy_at_a_time() {
    let world = fleet().with(varied(TENTH));
    let one = fleet().with(policy("limits").targets("web").spec("limits", rules("own", TENTH.0 + TENTH.1)));
    let (one, all) = (planning(&one), planning(&world));
    assert_eq!((world.problems("limits"), copies(&world)), (Vec::new(), CLUSTERS));
    // The plan keeps only the parsed texts, the copy that is being built, and the hashes.
    assert!(all.bytes_max < 4 * one.bytes_max, "{} bytes for one, {} for all", one.bytes_max, all.bytes_max);
    let all = measure(|| drop(world.diff_of(&policy_origin("limits"))));
    assert!(all.bytes_max < 4 * one.bytes_max, "{} bytes for one, {} for all", one.bytes_max, all.bytes_max);
    let all = measure(|| drop(world.fold("limits")));
    assert!(all.bytes_max < 4 * one.bytes_max, "{} bytes for one, {} for all", one.bytes_max, all.bytes_max);
}

#[test]
fn gateway_that_waits_for_large_policies_keeps_no_copies() {
    let large =
        |n: usize| policy(&format!("limits-{n}")).targets("web").spec("limits", rules("own", TENTH.0));
    let planning = |world: &World| {
        world.see(|view| measure(|| drop(plan_works(view, &world.settings, &gateway_origin("web")))))
    };
    let world = fleet().with(large(0));
    let one = planning(&world);
    let all = planning(&(1..20).fold(world, |world, n| world.with(large(n))));
    assert!(all.bytes_max < 2 * one.bytes_max, "{} bytes for one, {} for all", one.bytes_max, all.bytes_max);
}

/// The time that `what` takes on a new hub. Its caches are empty, except for the hashes of the copies of `limits` if
/// `made` is true. The time is the minimum of several runs, since other processes use the machine, too.
fn takes(made: bool, what: impl Fn(&World)) -> Duration {
    let times = (0..3).map(|_| {
        let world = fleet().with(varied(TENTH));
        if made {
            world.made(&policy_origin("limits"));
        }
        let start = Instant::now();
        what(&world);
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

#[test]
fn at_a_tenth_of_the_largest_size_the_lock_is_held_for_less_than_100_ms() {
    let (limits, web) = (policy_origin("limits"), gateway_origin("web"));
    // The steps that lock the mirror, for the policy and for its Gateway.
    let held = [
        ("finding what to make", takes(false, |world| assert!(!world.is_made(&limits)))),
        ("works", takes(true, |world| drop(world.diff_of(&limits)))),
        ("fold", takes(true, |world| drop(world.fold("limits")))),
        ("works of the Gateway", takes(true, |world| drop(world.diff_of(&web)))),
        (
            "fold of the Gateway",
            takes(true, |world| {
                drop(world.see(|view| status::gateway::plan(view, &world.settings, web.object())))
            }),
        ),
    ];
    for (what, held) in held {
        assert!(held < Duration::from_millis(100), "{what} took {held:?}");
    }
}

impl World {
    fn is_made(&self, origin: &Origin) -> bool {
        self.see(|view| unbuilt_copies(view, &self.settings, origin)).is_empty()
    }

    fn made(&self, origin: &Origin) {
        self.see(|view| unbuilt_copies(view, &self.settings, origin)).build();
    }
}

/// The planned content of the policy `limits` on each cluster.
fn contents(world: &World) -> Vec<Content> {
    let plan = world.plan("limits");
    let content = |outcome: &Outcome| match outcome {
        Outcome::Work(work) => {
            let made = Content::new(&work.spec().unwrap(), &work.labels, &work.annotations);
            assert_eq!(made, work.content, "it is not made again as it was");
            made
        }
        Outcome::Deferred(..) | Outcome::Kept(_) => panic!("nothing is planned"),
    };
    plan.outcomes.values().map(content).collect()
}

#[test]
fn plan_reuses_copies_that_were_built_ahead() {
    let (world, limits) = (fleet().with(varied(TENTH)), policy_origin("limits"));
    let (before, taken) = (contents(&world), planning(&world));
    assert!(!world.is_made(&limits));
    world.made(&limits);
    assert!(world.is_made(&limits));
    assert_eq!(contents(&world), before);
    let then = planning(&world);
    assert!(then.bytes_total < taken.bytes_total / 50, "{} and {}", then.bytes_total, taken.bytes_total);
    assert!(then.bytes_total < 4 << 20, "{} bytes", then.bytes_total);
}

#[test]
fn copies_are_built_ahead_one_at_a_time() {
    let (world, limits) = (fleet().with(varied(TENTH)), policy_origin("limits"));
    let one = fleet().with(policy("limits").targets("web").spec("limits", rules("own", TENTH.0 + TENTH.1)));
    let (one, all) = (planning(&one), measure(|| world.made(&limits)));
    assert!(all.bytes_max < 4 * one.bytes_max, "{} bytes for one, {} for all", one.bytes_max, all.bytes_max);
    assert!(all.bytes_current < 64 * 1024, "{} bytes are remembered", all.bytes_current);
}

#[test]
fn small_or_rejected_copies_are_not_built_ahead() {
    let small = fleet().with(varied((2_000, 7_000))).with(policy("other").targets("web"));
    let refused = fleet().with(varied(WHOLE));
    for (world, name) in [(&small, "limits"), (&small, "other"), (&refused, "limits")] {
        assert!(world.is_made(&policy_origin(name)), "{name}");
    }
    assert!(small.is_made(&gateway_origin("web")));
}

#[test]
fn gateway_reuses_copies_built_for_its_policies() {
    let large =
        |n: usize| policy(&format!("limits-{n}")).targets("web").spec("limits", rules("own", TENTH.0));
    let world = (0..20).fold(fleet(), |world, n| world.with(large(n)));
    let (web, planning) = (gateway_origin("web"), |world: &World, origin: &Origin| {
        world.see(|view| measure(|| drop(plan_works(view, &world.settings, origin))))
    });
    let taken = planning(&world, &web);
    assert!(!world.is_made(&web));
    world.made(&web);
    assert!(world.is_made(&web));
    let then = planning(&world, &web);
    assert!(then.bytes_total < taken.bytes_total / 10, "{} and {}", then.bytes_total, taken.bytes_total);
    let written = world.settled(std::slice::from_ref(&web));
    assert!(written.is_made(&web), "it waits for nothing");
}

#[test]
fn built_copies_are_reused_until_a_copy_changes() {
    let limits = policy_origin("limits");
    let world = fleet().with(varied(TENTH));
    world.made(&limits);
    let ours = varied(TENTH).annotation("kuadrant.io/policies-synced", "[]");
    let world = world.with(ours);
    assert!(world.is_made(&limits), "what we write changes no copy");
    let before = contents(&world);
    for (change, what) in [
        (varied(TENTH).annotation("note", "x"), "annotation"),
        (varied(TENTH).label("team", "a"), "label"),
        (varied(TENTH).spec("more", json!(1)), "spec"),
    ] {
        let world = fleet().with(varied(TENTH));
        world.made(&limits);
        let world = world.with(change);
        assert!(!world.is_made(&limits), "{what}");
        world.made(&limits);
        assert!(contents(&world).iter().zip(&before).all(|(left, right)| left != right), "{what}");
    }
    let world = world.with(cluster("c-00").label("name", "other"));
    let fits_none = planning(&world);
    assert!(fits_none.bytes_total < 16 << 20, "only the copy of one cluster is made");
}

#[test]
fn changed_parameters_need_new_copies() {
    let limits = policy_origin("limits");
    let world = fleet().with(varied(TENTH));
    world.made(&limits);
    let before = contents(&world);
    let mut params = listing(&["ratelimitpolicies"]);
    params["conflicts"] = "overwrite".into();
    let world = world.params("multi", &params.to_string());
    assert!(contents(&world).iter().zip(&before).all(|(left, right)| left != right));
}

#[test]
fn outdated_copies_are_not_cached() {
    let (mut world, limits) = (fleet(), policy_origin("limits"));
    let by_bit: Vec<Value> = (0..12)
        .map(|bit| json!({"clusterSelector": format!("bit-{bit}"), "patch": {format!("bit-{bit}"): bit}}))
        .collect();
    let overrides = Value::Array(by_bit).to_string();
    let by_bit = policy("limits").targets("web").spec("limits", rules("own", 8_000));
    world.apply(&by_bit.annotation("kuadrant.io/cluster-overrides", &overrides));
    let held = measure(|| {
        for round in 0..20 {
            for (index, name) in names().iter().enumerate() {
                let number = round * CLUSTERS + index;
                let bits = (0..12).filter(|bit| (number >> bit) & 1 == 1);
                let labelled =
                    bits.fold(cluster(name), |cluster, bit| cluster.label(&format!("bit-{bit}"), ""));
                world.apply(&labelled);
            }
            assert!(!world.is_made(&limits), "each round has other copies");
            world.made(&limits);
        }
    });
    assert!(held.bytes_current < 96 * 1024, "{} bytes", held.bytes_current);
}
