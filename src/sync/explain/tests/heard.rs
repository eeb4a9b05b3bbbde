//! What annotations tell, against what works do.

use super::*;
use crate::sync::explain::{Said, explain_as_said};
use crate::sync::rows::Strings;

fn as_said(world: &World, annotations: &Strings) -> Explanation {
    let (origin, silent) = (policy_origin("limits"), Unavailable::new());
    let said = Said::read(annotations);
    world.see(|view| explain_as_said(view, &world.settings, &origin, "RateLimitPolicy", &silent, said))
}

fn annotations(world: &World) -> Strings {
    world.annotations("limits").into_iter().map(|(key, text)| (key.to_owned(), text)).collect()
}

fn codes(explanation: &Explanation, cluster: &str) -> Vec<&'static str> {
    let verdict = &explanation.clusters[&ClusterName::from(cluster)];
    verdict.reasons.iter().map(|reason| reason.code).collect()
}

#[test]
fn annotations_say_the_same_as_works() {
    let told = |answer| world().written().answered("eu-1", &answer);
    let enforced = || applied().observed(1).condition("Enforced", "True", "Enforced", "");
    let worlds = [
        told(enforced()),
        told(applied()),
        told(applied().observed(1).condition("Enforced", "False", "Overridden", "by local/limits")),
        told(applied().observed(1).condition("Enforced", "False", "Unknown", "")),
        told(applied().observed(0).condition("Enforced", "True", "Enforced", "")),
        told(refused("conflict")),
        world().written(),
        told(enforced()).terminating(&policy_origin("limits"), "eu-1"),
        told(enforced()).with(policy("limits").targets("web").annotation(CLUSTER_SELECTOR, "region=us")),
        told(enforced()).with(policy("limits").targets("web").annotation(CLUSTER_SELECTOR, "region=")),
    ];
    for world in worlds {
        let by_works = explained(&world, &policy_origin("limits"), &Unavailable::new());
        let by_annotations = as_said(&world, &annotations(&world));
        for cluster in ["ap-1", "eu-1", "us-1"] {
            let [works, said] = [&by_works, &by_annotations].map(|explanation| codes(explanation, cluster));
            assert_eq!(said, works, "{cluster}");
            let [works, said] = [&by_works, &by_annotations]
                .map(|explanation| explanation.clusters[&ClusterName::from(cluster)].state);
            // Of a work that is to go, annotations do not say whether it was ever applied.
            assert!(said == works || (works, said) == (State::Absent, State::Leaving), "{cluster}: {said:?}");
        }
    }
}

#[test]
fn annotations_that_do_not_say_it_are_taken_for_none() {
    let world = world()
        .written()
        .answered("eu-1", &applied().observed(1).condition("Enforced", "True", "Enforced", ""));
    let whole = annotations(&world);
    assert_eq!(codes(&as_said(&world, &whole), "eu-1"), ["Enforced"]);
    let with = |key: &str, text: &str| {
        let mut annotations = whole.clone();
        annotations.insert(key.to_owned(), text.to_owned());
        annotations
    };
    let untold = [
        Strings::new(),
        with("kuadrant.io/policies-synced-detail", "keys"),
        with("kuadrant.io/policies-synced", "no JSON"),
    ];
    for annotations in untold {
        let explanation = as_said(&world, &annotations);
        let code = codes(&explanation, "eu-1")[0];
        // A list that cannot be read names nobody.
        let expected = if annotations.get("kuadrant.io/policies-synced").is_some_and(|text| text == "no JSON")
        {
            "NotWritten"
        } else {
            "Untold"
        };
        assert_eq!(code, expected, "{annotations:?}");
    }
    let mut first = with("kuadrant.io/policies-synced-detail", "first 1 of 2");
    let entries: Vec<serde_json::Value> =
        serde_json::from_str(&first["kuadrant.io/policies-synced"]).unwrap();
    first.insert("kuadrant.io/policies-synced".to_owned(), serde_json::json!([entries[0]]).to_string());
    assert_eq!(codes(&as_said(&world, &first), "eu-1"), ["Enforced"]);
    assert_eq!(codes(&as_said(&world, &first), "us-1"), ["Untold"]);
}
