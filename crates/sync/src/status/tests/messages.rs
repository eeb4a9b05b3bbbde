//! Tests of the messages for the owner of a policy in annotations and Events, except the spokes' reports.

use serde_json::json;

use crate::Problem;
use crate::status::policy::{ANNOTATIONS_LIMIT, Fold};
use crate::testing::objects::{gateway, gateway_origin, listing, policy, policy_origin, target};
use crate::testing::world::{World, shop};
use crate::tests::problems::bad_selector;

fn written() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

#[test]
fn long_problem_is_cut() {
    let bad = policy("limits")
        .targets("web")
        .annotation("kuadrant.io/cluster-selector", &"\u{1}x y".repeat(40_000));
    let annotations = written().with(bad).annotations("limits");
    let message = &annotations["kuadrant.io/policy-sync-message"];
    assert!(message.len() <= 1_024 && message.ends_with('…'), "{}", message.len());
}

#[test]
fn one_event_reports_all_problems_of_a_category() {
    let foreign = |n: usize| Problem::ForeignWork { cluster: format!("c{n:02}"), name: "limits".to_owned() };
    let mut problems: Vec<Problem> = (0..1_000).map(foreign).collect();
    problems.push(bad_selector("fault".to_owned()));
    let notes = Problem::event_notes(problems.iter());
    let reasons: Vec<&str> = notes.keys().copied().collect();
    assert_eq!(reasons, ["BadSelector", "ForeignWork"]);
    assert_eq!(notes["BadSelector"], problems[1_000].text());
    let text = &notes["ForeignWork"];
    assert!(text.starts_with(&format!("{}; cluster c01 has", problems[0].text())), "{text}");
    assert!(text.ends_with("; and 990 more") && text.len() <= 1_024, "{text}");
}

#[test]
fn unsynced_annotations_of_others_take_room() {
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    let full = policy("limits").targets("web").annotation(key, &"x".repeat(ANNOTATIONS_LIMIT - key.len()));
    assert_eq!(written().with(full).fold("limits").fold, Fold::Settled);
}

#[test]
fn message_names_ten_problems_and_counts_the_rest() {
    let mut targets = vec![target("web")];
    let mut world = written();
    for n in 10..23 {
        world = world.with(gateway("web").in_ns(&format!("n{n}")));
        let mut target = target("web");
        target["namespace"] = format!("n{n}").into();
        targets.push(target);
    }
    let world = world.with(policy("limits").spec("targetRefs", json!(targets)));
    let message = &world.annotations("limits")["kuadrant.io/policy-sync-message"];
    assert_eq!(message.matches("is ignored").count(), 10);
    assert!(message.ends_with("; and 3 more"), "{message}");
}

#[test]
fn foreign_work_is_reported() {
    let world = written().edited(&policy_origin("limits"), "eu-1", |work| {
        work["metadata"]["annotations"] = json!({});
    });
    assert!(
        world.annotations("limits")["kuadrant.io/policy-sync-message"]
            .contains("of another owner: it is not changed")
    );
}

#[test]
fn policy_of_two_gateways_has_one_entry_per_cluster() {
    let world = shop(&["eu-1"])
        .class("second", &listing(&["ratelimitpolicies"]))
        .with(gateway("internal").of_class("second").placed_on("all"))
        .with(policy("limits").targets_all(&["web", "internal"]))
        .settled(&[gateway_origin("web"), gateway_origin("internal"), policy_origin("limits")]);
    assert_eq!(world.entries().len(), 1);
}
