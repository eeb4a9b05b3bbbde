//! Tests of the Events about policies.

use crate::testing::objects::{policy, policy_origin};
use crate::testing::reports::{TestReport, applied, refused};
use crate::testing::world::{World, shop};
use policy_sync_api::moment::Moment;

const STUCK: i64 = 300_000;

fn on_two() -> World {
    shop(&["eu-1", "us-1"]).with(policy("limits").targets("web")).written()
}

fn overridden() -> TestReport {
    applied().condition("Enforced", "False", "Overridden", "by a policy of the spoke")
}

/// The notices as `<reason>: <note>`, and the milliseconds until the notices may change.
fn notices(world: &World) -> (Vec<String>, Option<i64>) {
    let plan = world.fold("limits");
    let notes =
        plan.notices.iter().map(|notice| format!("{}: {}", notice.reason.as_str(), notice.note)).collect();
    (notes, plan.recheck.map(|Moment(at)| at - world.now))
}

#[test]
fn synced_policy_is_reported() {
    let world = on_two().with_report("eu-1", &applied());
    assert_eq!(notices(&world), (vec![], Some(STUCK)));
    let world = world.with_report("us-1", &applied());
    let synced = "Synced: generation 1 is applied on all of its clusters: 2";
    assert_eq!(notices(&world), (vec![synced.to_owned()], None));
    assert!(world.fold("limits").notices[0].reason.is_good());
}

#[test]
fn override_by_a_policy_of_the_spoke_is_reported() {
    let world = on_two().with_report("eu-1", &applied()).with_report("us-1", &overridden());
    let (notes, _) = notices(&world);
    assert_eq!(notes[1], "Overridden: a policy of the cluster takes precedence on: us-1");
    assert!(!world.fold("limits").notices[1].reason.is_good());
    let (notes, _) = notices(&world.with_report("us-1", &applied()));
    assert_eq!(notes.len(), 1);
}

#[test]
fn overriding_copy_is_named_as_policy_of_the_hub() {
    let by = |names: &str| {
        applied().condition(
            "Enforced",
            "False",
            "Overridden",
            &format!("RateLimitPolicy is overridden by [{names}]"),
        )
    };
    let world = on_two().with(policy("zzz").targets("web")).settled(&[policy_origin("zzz")]);
    let note = |world: &World| {
        let notes = notices(world).0;
        let note = notes.iter().find_map(|note| note.strip_prefix("Overridden: "));
        note.map(str::to_owned).unwrap_or_default()
    };
    let by_copy = world.with_report("eu-1", &by("kuadrant-shop/zzz"));
    assert_eq!(note(&by_copy), "policy shop/zzz of the hub takes precedence on: eu-1");
    let by_both = by_copy.with_report("us-1", &by("kuadrant-shop/local kuadrant-shop/zzz"));
    assert_eq!(
        note(&by_both),
        "a policy of the cluster takes precedence on: us-1; policy shop/zzz of the hub takes precedence on: eu-1; us-1"
    );
    // These names do not denote copies: a hub policy without a copy on the cluster, the policy itself, policies of
    // other namespaces.
    for names in ["kuadrant-shop/gone", "kuadrant-shop/limits", "kuadrant-other/zzz", "shop/zzz"] {
        let world = on_two()
            .with(policy("zzz").targets("web"))
            .settled(&[policy_origin("zzz")])
            .with_report("eu-1", &by(names));
        assert_eq!(note(&world), "a policy of the cluster takes precedence on: eu-1", "{names}");
    }
}

#[test]
fn policy_not_applied_for_five_minutes_is_stuck() {
    let stuck = |clusters: &str| format!("Stuck: neither applied nor deleted on {clusters} after 5 minutes");
    let world = on_two().with_report("eu-1", &refused("conflict")).after(STUCK - 1);
    assert_eq!(notices(&world), (vec![], Some(1)));
    let world = world.after(1);
    assert_eq!(notices(&world).0, [stuck("eu-1; us-1")]);
    // After the owner changes the policy, the five minutes start again.
    let changed = policy("limits").targets("web").metadata("generation", 2.into());
    assert_eq!(notices(&world.with(changed)), (vec![], Some(STUCK)));
    let now = Moment(on_two().now).rfc3339();
    let going = on_two().edited(&policy_origin("limits"), "us-1", |work| {
        work["metadata"]["deletionTimestamp"] = now.into();
    });
    let going = going.with_report("eu-1", &applied());
    assert_eq!(notices(&going.after(STUCK)).0, [stuck("us-1")]);
}

#[test]
fn note_names_at_most_ten_clusters() {
    let names: Vec<String> = (0..1000).map(|n| format!("spoke-{n}")).collect();
    let clusters: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = shop(&clusters).with(policy("limits").targets("web")).written().after(STUCK);
    let plan = world.fold("limits");
    assert_eq!((plan.notices.len(), plan.notices[0].clusters.len()), (1, 1000));
    assert!(plan.notices[0].note.ends_with("; and 990 more after 5 minutes"), "{}", plan.notices[0].note);
}
