//! Tests of the planned status of GatewayClasses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use crate::rows::kind::Resolution;
use crate::status::class::{self as planned, ClassStatus};
use crate::testing::objects::{class, config_map, gateway, gateway_origin, listing, policy};
use crate::testing::world::{World, resolved, shop, world};
use crate::{Key, Keys, status};
use policy_sync_api::names::ObjectKey;
use policy_sync_mirror::{SourceEvent, WatchFailure, WatchFailureKind};

fn status(world: &World) -> Option<ClassStatus> {
    world.see(|view| planned::plan(view, &ObjectKey::new("", "multi")))
}

fn condition(world: &World, wanted: &str) -> Condition {
    status(world).unwrap().conditions.into_iter().find(|condition| condition.type_ == wanted).unwrap()
}

fn condition_parts(world: &World, wanted: &str) -> (String, String, String) {
    let Condition { status, reason, message, .. } = condition(world, wanted);
    (status, reason, message)
}

fn text(status: &str, reason: &str, message: &str) -> (String, String, String) {
    (status.to_owned(), reason.to_owned(), message.to_owned())
}

#[test]
fn class_of_another_controller_gets_no_status() {
    let theirs = class("multi").spec("controllerName", "example.com/other".into());
    assert_eq!(status(&world().with(theirs)), None);
}

#[test]
fn no_status_before_parameters_are_read() {
    assert_eq!(status(&world().with(class("multi"))), None);
}

#[test]
fn no_status_before_kinds_are_checked() {
    assert_eq!(status(&world().class("multi", &listing(&["ratelimitpolicies"]))), None);
}

#[test]
fn valid_parameters_with_resolved_kinds_are_accepted_and_resolved() {
    let world = shop(&[]);
    assert_eq!(condition_parts(&world, "Accepted"), text("True", "Accepted", "the parameters are valid"));
    assert_eq!(condition_parts(&world, "PoliciesResolved"), text("True", "Resolved", "1 kinds are synced"));
}

#[test]
fn class_without_parameters_syncs_nothing() {
    let mut bare = class("multi");
    bare.json["spec"].as_object_mut().unwrap().remove("parametersRef");
    let world = shop(&["eu-1"]).with(bare).with(policy("limits").targets("web"));
    assert_eq!(condition_parts(&world, "PoliciesResolved"), text("True", "Resolved", "0 kinds are synced"));
    assert!(world.plan("limits").outcomes.is_empty());
    assert_eq!(world.copy_of(&gateway_origin("web"), "eu-1")["spec"]["gatewayClassName"], "istio");
}

#[test]
fn invalid_parameters_are_reported_with_place_and_fault() {
    let reference =
        |reference: serde_json::Value| world().with(class("multi").spec("parametersRef", reference));
    for (world, fault) in [
        (shop(&[]).params("multi", "{\"a\": 1}"), "parameters params/multi: a: unknown key, expected one of"),
        (shop(&[]).without(config_map("multi", "")), "parameters params/multi: the ConfigMap does not exist"),
        (
            shop(&[]).params("multi", r#"{"downstreamClass": "multi"}"#),
            "parameters params/multi: downstreamClass: \"multi\" is itself",
        ),
        (
            reference(json!({"group": "", "kind": "Secret", "name": "a"})),
            "GatewayClass multi: spec.parametersRef.kind: expected a core ConfigMap",
        ),
        (
            reference(json!({"group": "", "kind": "ConfigMap", "name": "a"})),
            "GatewayClass multi: spec.parametersRef.namespace: is required",
        ),
    ] {
        let (status, reason, message) = condition_parts(&world, "Accepted");
        assert_eq!((&*status, &*reason), ("False", "InvalidParameters"));
        assert!(message.starts_with(fault), "{message}");
        assert_eq!(condition(&world, "PoliciesResolved").status, "Unknown");
    }
}

#[test]
fn long_message_is_cut_to_the_condition_limit() {
    let params = format!(
        r#"{{"policiesToSync": [{{"group": "{}", "version": "v1", "resource": "a"}}]}}"#,
        "Ü".repeat(500_000)
    );
    let (_, _, message) = condition_parts(&shop(&[]).params("multi", &params), "Accepted");
    assert!(message.chars().count() <= 32_768, "{}", message.len());
    assert!(message.starts_with("parameters params/multi: policiesToSync[0].group: "));
}

#[test]
fn reason_is_that_of_the_first_unresolved_kind() {
    let kinds = ["a", "b", "c", "d"];
    let world = world()
        .class("multi", &listing(&kinds))
        .resolution("a", resolved("A"))
        .resolution("b", Resolution::Forbidden("the controller may not list it".into()))
        .resolution("c", Resolution::Gone)
        .resolution("d", Resolution::NotAPolicy("it is cluster-scoped".into()));
    let message = "kuadrant.io/v1 b: the controller may not list it; kuadrant.io/v1 c: the hub has no such custom resource; \
        kuadrant.io/v1 d: it is cluster-scoped";
    assert_eq!(condition_parts(&world, "PoliciesResolved"), text("False", "Forbidden", message));
    assert_eq!(condition(&world, "Accepted").status, "True");
}

#[test]
fn message_names_ten_kinds_and_counts_the_rest() {
    let names: Vec<String> = (10..22).map(|n| format!("p{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = world().class("multi", &listing(&names));
    for name in names {
        world.resolve("v1", name, Resolution::Gone);
    }
    let (_, reason, message) = condition_parts(&world, "PoliciesResolved");
    assert_eq!(reason, "UnknownResource");
    assert_eq!(message.matches("the hub has no such custom resource").count(), 10);
    assert!(message.ends_with("p19: the hub has no such custom resource; and 2 more"), "{message}");
}

#[test]
fn version_conflict_is_reported_on_the_class_that_lists_the_version() {
    let v2 = json!({"policiesToSync": [{"group": "kuadrant.io", "version": "v2", "resource": "ratelimitpolicies"}]});
    let world = shop(&[]).class("second", &v2);
    let of_second = |world: &World| {
        let status = world.see(|view| planned::plan(view, &ObjectKey::new("", "second")))?;
        let mut conditions = status.conditions.into_iter();
        let resolved = conditions.find(|condition| condition.type_ == "PoliciesResolved")?;
        Some((resolved.status, resolved.reason, resolved.message))
    };
    assert_eq!(of_second(&world), None, "not until it was looked up");
    let world = world.resolution_of("v2", "ratelimitpolicies", resolved("RateLimitPolicy"));
    assert_eq!(condition_parts(&world, "PoliciesResolved"), text("True", "Resolved", "1 kinds are synced"));
    let message = "kuadrant.io/v2 ratelimitpolicies: is synced in version v1, which GatewayClass multi lists: \
                   list the same version in all classes";
    assert_eq!(of_second(&world), Some(text("False", "VersionConflict", message)));
}

/// `world` after `status` was written to the class, a moment later.
fn showing(world: World, status: &ClassStatus) -> World {
    let conditions = serde_json::to_value(&status.conditions).unwrap();
    world.with(class("multi").status(json!({"conditions": conditions}))).after(60_000)
}

#[test]
fn unchanged_status_is_not_written() {
    let world = shop(&[]);
    let seen = status(&world).unwrap();
    assert_eq!(status(&showing(world, &seen)), None);
}

#[test]
fn transition_time_changes_only_with_the_status() {
    let world = shop(&[]);
    let seen = status(&world).unwrap();
    let then = condition(&world, "Accepted").last_transition_time;
    let world = showing(world, &seen).params("multi", "nonsense").with(class("multi"));
    assert_ne!(condition(&world, "Accepted").last_transition_time, then);

    let world = shop(&[]);
    let world = showing(world, &seen).resolution("ratelimitpolicies", Resolution::Gone);
    assert_eq!(condition(&world, "Accepted").last_transition_time, then, "still accepted");
    assert_ne!(condition(&world, "PoliciesResolved").last_transition_time, then);
}

#[test]
fn conditions_have_the_observed_generation() {
    let world = shop(&[]).with(class("multi").metadata("generation", json!(7)));
    assert_eq!(condition(&world, "Accepted").observed_generation, Some(7));
}

/// `world` after an attempt to list the parameters of `multi` failed.
fn unread(world: World, kind: WatchFailureKind) -> World {
    let source = config_map("multi", "").source;
    let failure = WatchFailure { text: "configmaps is forbidden (403)".into(), kind };
    world.change(SourceEvent::FailureChanged(source, Some(failure)));
    world
}

const UNREAD: &str = "parameters params/multi cannot be read: configmaps is forbidden (403)";

#[test]
fn forbidden_parameters_are_unread_and_not_invalid() {
    let world = unread(world().with(class("multi")), WatchFailureKind::Forbidden);
    for condition in ["Accepted", "PoliciesResolved"] {
        assert_eq!(
            condition_parts(&world, condition),
            text("Unknown", "ParametersUnread", UNREAD),
            "{condition}"
        );
    }
}

#[test]
fn transient_read_failure_is_not_reported() {
    let world = unread(world().with(class("multi")), WatchFailureKind::Transient);
    assert_eq!(status(&world), None);
    let world = unread(world.after(4_999), WatchFailureKind::Transient);
    assert_eq!(status(&world), None, "it is tried again and again");
    let world = unread(world.after(1), WatchFailureKind::Transient);
    assert_eq!(condition_parts(&world, "Accepted"), text("Unknown", "ParametersUnread", UNREAD));
}

#[test]
fn unread_parameters_affect_all_dependent_keys_once() {
    let world = world().with(class("multi")).with(gateway("web"));
    let failing = |kind| {
        let failure = WatchFailure { text: "no".into(), kind };
        world.change(SourceEvent::FailureChanged(config_map("multi", "").source, Some(failure)))
    };
    assert!(failing(WatchFailureKind::Forbidden).contains(&Key::Class(ObjectKey::new("", "multi"))));
    assert_eq!(failing(WatchFailureKind::Forbidden), Keys::new());
}

#[test]
fn parameters_stay_valid_if_later_reads_fail() {
    let before = shop(&["eu-1"]).with(policy("limits").targets("web"));
    let outcome = |world: &World| (status(world), world.outcomes("limits"), world.problems("limits"));
    let expected = outcome(&before);
    assert_eq!(outcome(&unread(before, WatchFailureKind::Forbidden)), expected);
}

#[test]
fn unread_parameters_freeze_gateways_and_policies_with_a_message() {
    let second = gateway("api").of_class("multi").placed_on("all");
    let world = crate::testing::world::world()
        .class("other", &listing(&["ratelimitpolicies"]))
        .kind("ratelimitpolicies", "RateLimitPolicy")
        .decisions("all", &["eu-1"])
        .with(class("multi"))
        .with(second)
        .with(policy("limits").targets("api"));
    let world = unread(world, WatchFailureKind::Forbidden);
    let problem = format!("cannot read the parameters of GatewayClass multi: {UNREAD}");
    assert_eq!(
        (world.outcomes("limits"), world.problems("limits")),
        (vec!["eu-1 (keep)".into()], vec![problem.clone()])
    );
    let message = world.annotations("limits").remove("kuadrant.io/policy-sync-message");
    assert_eq!(message, Some(problem.clone()));
    let api = gateway_origin("api");
    let fold = world.see(|view| status::gateway::plan(view, &world.settings, api.object()));
    let conditions = fold.status.unwrap().conditions;
    let summary: Vec<_> =
        conditions.iter().map(|c| (&*c.type_, &*c.status, &*c.reason, &*c.message)).collect();
    assert_eq!(summary, [("Accepted", "Unknown", "ParametersUnread", &*problem)]);
}

#[test]
fn programmed_condition_stays_while_parameters_are_unread() {
    let programmed = json!({"type": "Programmed", "status": "True", "reason": "Programmed", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    let web = gateway("web").placed_on("all").status(json!({"conditions": [programmed]}));
    let world = unread(
        crate::testing::world::world().with(class("multi")).decisions("all", &["eu-1"]).with(web),
        WatchFailureKind::Forbidden,
    );
    let fold = world.see(|view| status::gateway::plan(view, &world.settings, gateway_origin("web").object()));
    let conditions = fold.status.unwrap().conditions;
    assert_eq!(
        (&*conditions[1].type_, &*conditions[1].status, &*conditions[1].message),
        ("Programmed", "True", "m")
    );
}
