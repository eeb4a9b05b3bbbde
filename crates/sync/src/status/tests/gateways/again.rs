//! Tests of repeated folds: unchanged fields are not written, and edits by others are reverted.

use super::*;

#[test]
fn unchanged_status_and_metadata_are_not_written() {
    let world = placed(&["eu-1", "us-1"])
        .with(cluster("eu-1").label("kuadrant.io/region", "eu"))
        .with_gateway_report("eu-1", &programmed("192.0.2.1"));
    let (world, object) = settled(world, &web());
    says_all(&world);
    let world = world.after(3_600_000);
    says_all(&world);
    // The server may return lists in another order, and other clients may have added items.
    let mut other = object.clone();
    let status = &mut other.json["status"];
    status["conditions"].as_array_mut().unwrap().reverse();
    status["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "kuadrant.io/Affected", "status": "True",
        "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    let theirs = json!({"name": "theirs", "attachedRoutes": 0, "supportedKinds": [], "conditions": []});
    status["listeners"].as_array_mut().unwrap().insert(0, theirs);
    status["listeners"][1]["conditions"].as_array_mut().unwrap().push(json!({"type": "ResolvedRefs",
        "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
    status["attachedListenerSets"] = json!(0);
    says_all(&world.with(other));
}

#[test]
fn foreign_changes_are_reverted() {
    let (world, object) = settled(placed(&["eu-1"]).with_gateway_report("eu-1", &programmed("a")), &web());
    let expected = status(&placed(&["eu-1"]).with_gateway_report("eu-1", &programmed("a")));
    for (pointer, value) in [
        ("/status/conditions/1/status", json!("False")),
        ("/status/conditions/0/message", json!("")),
        ("/status/addresses", json!([])),
        ("/status/listeners/0/attachedRoutes", json!(7)),
        ("/status/listeners", json!([])),
        ("/status", json!(null)),
    ] {
        let mut edited = object.clone();
        *edited.json.pointer_mut(pointer).unwrap() = value;
        let mut found = fold(&world_with(&world, &edited)).status.unwrap();
        for condition in found.conditions.iter_mut() {
            condition.last_transition_time = expected.conditions[0].last_transition_time.clone();
        }
        found.listeners.iter_mut().flat_map(|listener| &mut listener.conditions).for_each(|condition| {
            condition.last_transition_time = expected.conditions[0].last_transition_time.clone();
        });
        assert_eq!(found, expected, "{pointer}");
    }
}

#[test]
fn condition_keeps_its_last_transition_time() {
    let world = placed(&["eu-1"]);
    let first = status(&world).conditions;
    let (world, _) = settled(world, &web());
    let world = world.after(60_000).with_gateway_report("eu-1", &refused("conflict"));
    let second = status(&world).conditions;
    assert_eq!(second[1].last_transition_time, first[1].last_transition_time, "it is False as before");
    let world = world.with_gateway_report("eu-1", &programmed("a"));
    let third = status(&world);
    assert_eq!(third.conditions[0].last_transition_time, first[0].last_transition_time);
    assert!(third.conditions[1].last_transition_time > first[1].last_transition_time);
    assert_eq!(
        third.conditions[1].last_transition_time,
        third.listeners[0].conditions[0].last_transition_time
    );
}
