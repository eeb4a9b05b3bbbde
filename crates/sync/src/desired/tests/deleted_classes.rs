//! Tests of a deleted GatewayClass that may be created again.

use serde_json::{Value, json};

use crate::status::gateway::{GatewayFold, plan};
use crate::testing::objects::{CONTROLLER, class, config_map, gateway, gateway_origin, listing, policy};
use crate::testing::world::{World, shop};
use policy_sync_api::moment::Moment;
use policy_sync_api::names::ControllerName;

/// The time in milliseconds within which a deleted class may be created again.
const RETURNS: i64 = 60_000;
const NOTHING: [&str; 0] = [];

fn written() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

fn writes(world: &World) -> Vec<String> {
    let mut writes = world.writes_of(&gateway_origin("web"));
    writes.extend(world.writes("limits"));
    writes
}

fn fold(world: &World) -> GatewayFold {
    world.see(|view| plan(view, &world.settings, gateway_origin("web").object()))
}

/// The Gateway `web` with this status. This controller owns the fields `owned` of the status, in the format of
/// `managedFields`.
fn gateway_with_status(status: &Value, owned: &Value) -> crate::testing::objects::Object {
    let entry = json!({"manager": ControllerName::new(CONTROLLER).hub_field_manager(), "operation": "Apply",
        "subresource": "status", "fieldsV1": {"f:status": owned}});
    gateway("web").placed_on("all").status(status.clone()).metadata("managedFields", json!([entry]))
}

fn condition(name: &str, status: &str) -> Value {
    json!({"type": name, "status": status, "reason": "Pending", "message": "GatewayClass multi does not exist",
        "lastTransitionTime": "2001-09-09T01:46:40Z", "observedGeneration": 1})
}

#[test]
fn deleted_class_withdraws_nothing_for_a_minute() {
    let world = written().without(class("multi"));
    assert_eq!(writes(&world), NOTHING);
    let ends = Some(Moment(world.now + RETURNS));
    assert_eq!((world.plan("limits").recheck, world.plan_of(&gateway_origin("web")).recheck), (ends, ends));
    let world = world.after(RETURNS - 1);
    assert_eq!(writes(&world), NOTHING);
    let world = world.after(1);
    assert_eq!(world.writes_of(&gateway_origin("web")), ["delete eu-1"]);
    assert_eq!(world.gateway_written().writes("limits"), ["delete eu-1"]);
}

#[test]
fn class_created_again_within_a_minute_changes_nothing() {
    let world = written();
    let watched = world.see(crate::desired::watches::plan);
    let world = world.without(class("multi"));
    assert_eq!(world.see(crate::desired::watches::plan), watched, "what it listed is watched on");
    let world = world.after(1_000).with(class("multi").metadata("uid", "another".into()));
    assert_eq!(writes(&world), NOTHING);
    assert_eq!(writes(&world.after(2 * RETURNS)), NOTHING);
    let world = written().without(class("multi")).after(2 * RETURNS);
    assert!(world.see(crate::desired::watches::plan).is_empty(), "and then no longer");
}

#[test]
fn missing_class_permits_withdrawals_but_no_creations() {
    let gone = || written().without(class("multi"));
    assert_eq!(gone().without(policy("limits")).writes("limits"), ["delete eu-1"]);
    assert_eq!(gone().without(gateway("web")).writes_of(&gateway_origin("web")), ["delete eu-1"]);
    assert_eq!(gone().decisions("all", &[]).after(5_000).writes_of(&gateway_origin("web")), ["delete eu-1"]);
    let world = gone().decisions("all", &["eu-1", "us-1"]).with(policy("more").targets("web"));
    assert_eq!((writes(&world), world.writes("more")), (vec![], vec![]));
}

#[test]
fn class_of_another_controller_withdraws_at_once() {
    let theirs = || class("multi").spec("controllerName", "example.com/other".into());
    let moved = gateway("web").placed_on("all").of_class("theirs");
    let other = class("theirs").spec("controllerName", "example.com/other".into());
    for world in [
        written().with(theirs()),
        written().without(class("multi")).with(theirs()),
        written().with(other).with(moved),
    ] {
        assert_eq!(world.writes_of(&gateway_origin("web")), ["delete eu-1"]);
    }
}

#[test]
fn gateway_of_an_unknown_class_gets_no_status() {
    let theirs = gateway("web").placed_on("all").of_class("nobodys");
    let world = shop(&["eu-1"]).restarted(vec![theirs]).decisions("all", &["eu-1"]);
    assert!(world.see(|view| view.class_deletion_ends("nobodys")).is_some(), "it is too soon to know");
    let fold = fold(&world);
    assert_eq!((fold.status, fold.metadata, fold.final_conditions), (None, None, None));
    assert_eq!(world.writes_of(&gateway_origin("web")), NOTHING);
}

#[test]
fn minute_starts_at_the_first_listing_after_a_start() {
    let (web, limits) = (gateway("web").placed_on("all"), policy("limits").targets("web"));
    let world = written().restarted(vec![web, limits]).decisions("all", &["eu-1"]);
    assert_eq!(writes(&world), NOTHING, "whichever kinds it listed");
    let world = world.after(RETURNS).gateway_written();
    assert_eq!(world.writes("limits"), ["delete eu-1"]);
}

#[test]
fn status_reports_missing_class_and_keeps_programmed() {
    let programmed = condition("Programmed", "True");
    let world = written()
        .with(gateway_with_status(&json!({"conditions": [programmed]}), &json!({})))
        .without(class("multi"));
    let conditions = fold(&world).status.unwrap().conditions;
    let summary: Vec<_> = conditions.iter().map(|c| (&*c.type_, &*c.status, &*c.reason)).collect();
    assert_eq!(summary, [("Accepted", "Unknown", "ClassGone"), ("Programmed", "True", "Pending")]);
    let message = &world.annotations("limits")["kuadrant.io/policy-sync-message"];
    assert_eq!(
        message,
        "GatewayClass multi does not exist: existing copies are deleted after a minute, unless it is created again"
    );
}

#[test]
fn programmed_becomes_unknown_once_after_the_minute() {
    let ours = json!({"f:conditions": {r#"k:{"type":"Accepted"}"#: {}, r#"k:{"type":"Programmed"}"#: {}}, "f:addresses": {}});
    let status = json!({"conditions": [condition("Accepted", "True"), condition("Programmed", "True")]});
    let world = written().with(gateway_with_status(&status, &ours)).without(class("multi")).after(RETURNS);
    let final_conditions = fold(&world).final_conditions.unwrap();
    let summary: Vec<_> = final_conditions.iter().map(|c| (&*c.type_, &*c.status, &*c.message)).collect();
    assert_eq!(summary, [("Programmed", "Unknown", "GatewayClass multi does not exist")]);

    let ours = json!({"f:conditions": {r#"k:{"type":"Programmed"}"#: {}}});
    let theirs = json!({"conditions": [condition("Accepted", "True"), condition("Programmed", "Unknown")]});
    let world = world.with(gateway_with_status(&theirs, &ours));
    assert_eq!((fold(&world).final_conditions, fold(&world).status), (None, None), "whatever others say");
    assert_eq!(
        fold(&world.with(gateway_with_status(&theirs, &json!(null)))).final_conditions,
        None,
        "what is not ours is let be"
    );
}

#[test]
fn status_of_another_controllers_gateway_is_released() {
    let ours = json!({"f:conditions": {r#"k:{"type":"Accepted"}"#: {}}, "f:listeners": {}});
    let status = json!({"conditions": [condition("Accepted", "True")]});
    let theirs = class("multi").spec("controllerName", "example.com/other".into());
    let world = written().with(theirs).with(gateway_with_status(&status, &ours));
    assert_eq!(fold(&world).final_conditions, Some(Vec::new()));
    assert_eq!(fold(&world.with(gateway_with_status(&status, &json!(null)))).final_conditions, None);
}

#[test]
fn deleted_classes_leave_no_entries() {
    let mut world = written();
    for n in 0..100 {
        let name = format!("c{n}");
        world = world.class(&name, &listing(&["ratelimitpolicies"])).without(class(&name)).after(RETURNS);
        world = world.without(config_map(&name, ""));
    }
    assert_eq!(world.see(|view| view.deleted_classes().count()), 0);
    let known = format!("{:?}", world.guard()).matches("Departed {").count();
    assert!(known <= 1, "{known} are remembered");
}
