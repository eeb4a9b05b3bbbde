//! Tests of the planned annotations of a hub policy.

use serde_json::{Value, json};

use crate::kinds::CONFIG_MAPS;
use crate::rows::kind::{KindInfo, Resolution};
use crate::status::policy::{Fold, FoldPlan};
use crate::testing::objects::{CLASS, cluster, listing, policy, policy_origin};
use crate::testing::reports::{TestReport, applied, refused};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::Summary;
use policy_sync_api::names::ControllerName;

fn written() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

/// The entry of `eu-1` without the keys that identify it.
fn entry(world: &World) -> Value {
    let mut entry = serde_json::to_value(&world.entries()[0]).unwrap();
    for key in ["cluster", "name", "namespace"] {
        entry.as_object_mut().unwrap().remove(key);
    }
    entry
}

fn entry_json(report: &TestReport) -> Value {
    entry(&written().with_report("eu-1", report))
}

fn pending() -> Value {
    json!({"applied": false, "pending": true})
}

fn enforced() -> TestReport {
    applied().condition("Enforced", "True", "Enforced", "")
}

fn summary(world: &World) -> Summary {
    world.fold("limits").summary.unwrap()
}

#[test]
fn cluster_without_report_is_pending() {
    assert_eq!(entry(&written()), pending());
    let world = shop(&["eu-1"]).with(policy("limits").targets("web"));
    assert_eq!(entry(&world), pending(), "nor is there a work");
}

#[test]
fn entries_name_the_copy_and_are_sorted_by_cluster() {
    let world = shop(&["us-1", "eu-1", "ap-1"]).with(policy("limits").targets("web"));
    let entries = world.entries();
    let clusters: Vec<&str> = entries.iter().map(|entry| &*entry.cluster.0).collect();
    assert_eq!(clusters, ["ap-1", "eu-1", "us-1"]);
    assert_eq!((&*entries[0].name, &*entries[0].namespace), ("limits", "kuadrant-shop"));
}

#[test]
fn entry_is_applied_if_generation_condition_and_revision_match() {
    assert_eq!(entry_json(&applied()), json!({"applied": true}));
    assert_eq!(entry_json(&applied().for_work_generation(0)), pending(), "an older generation");
    assert_eq!(entry_json(&applied().of_revision("another")), pending(), "another revision");
    let mut unknown = pending();
    unknown["message"] = "conflict with kubectl".into();
    assert_eq!(entry_json(&refused("conflict with kubectl")), unknown, "not applied");
}

#[test]
fn apply_error_of_an_older_generation_is_ignored() {
    assert_eq!(entry_json(&refused("conflict").for_work_generation(0)), pending());
}

#[test]
fn report_for_an_outdated_copy_is_ignored() {
    let world = written().with_report("eu-1", &enforced());
    let world = world.with(policy("limits").targets("web").spec("rate", json!(5)));
    assert_eq!(entry(&world), pending());
}

#[test]
fn condition_is_copied_from_the_spoke() {
    let report = applied()
        .condition("Enforced", "False", "Overridden", "by local")
        .condition("Accepted", "True", "A", "");
    let expected = json!({"applied": true, "conditions": [
        {"type": "Accepted", "status": "True", "reason": "A", "message": ""},
        {"type": "Enforced", "status": "False", "reason": "Overridden", "message": "by local"},
    ]});
    assert_eq!(entry_json(&report), expected);
}

#[test]
fn condition_of_another_generation_is_pending() {
    let report = enforced().condition_observed("Enforced", 2);
    assert_eq!(entry_json(&report), json!({"applied": true, "pending": true}));
    assert_eq!(entry_json(&report.integer("_generation", 2))["conditions"][0]["status"], "True");
}

#[test]
fn one_stale_condition_makes_the_whole_report_pending() {
    let report = enforced().condition_observed("Enforced", 1).condition("Accepted", "True", "A", "");
    assert_eq!(
        entry_json(&report.condition_observed("Accepted", 0)),
        json!({"applied": true, "pending": true})
    );
}

#[test]
fn generation_of_the_status_counts_if_the_condition_has_none() {
    assert_eq!(entry_json(&enforced().observed(0)), json!({"applied": true, "pending": true}));
    assert_eq!(entry_json(&enforced().observed(1))["conditions"][0]["status"], "True");
}

#[test]
fn generation_of_the_condition_overrides_that_of_the_status() {
    let report = enforced().condition_observed("Enforced", 1).observed(0);
    assert_eq!(entry_json(&report)["conditions"][0]["status"], "True");
}

#[test]
fn status_of_another_generation_without_conditions_is_pending() {
    assert_eq!(entry_json(&applied().observed(0)), json!({"applied": true, "pending": true}));
}

#[test]
fn revision_suffices_without_any_generation() {
    assert_eq!(entry_json(&enforced())["conditions"][0]["status"], "True");
}

#[test]
fn entry_is_pending_if_the_generation_was_not_fed_back() {
    let mut report = enforced().observed(1);
    report = report.value("_generation", json!({"type": "String", "string": "1"}));
    assert_eq!(entry_json(&report), json!({"applied": true, "pending": true}));
}

#[test]
fn only_requested_conditions_count() {
    let report =
        applied().condition("Invented", "False", "R", "").string("_Ready_message", "without a status");
    assert_eq!(entry_json(&report), json!({"applied": true}));
}

#[test]
fn configured_fields_are_shown_with_their_types() {
    let report = applied()
        .integer("generation", 2)
        .string("text", "a")
        .value("flag", json!({"type": "Boolean", "boolean": false}))
        .value("list", json!({"type": "JsonRaw", "jsonRaw": "[1,null]"}))
        .value("broken", json!({"type": "JsonRaw", "jsonRaw": "[1"}));
    let requested = ["generation", "text", "flag", "list", "broken"];
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] =
        requested.map(|name| json!({"name": name, "path": format!(".status.{name}")})).into();
    let world = shop(&["eu-1"]).class(CLASS, &params).with(policy("limits").targets("web"));
    let world = world.settled(&[policy_origin("limits")]).with_report("eu-1", &report);
    assert_eq!(
        serde_json::Value::from(world.entries()[0].fields.clone()),
        json!({"generation": 2, "text": "a", "flag": false, "list": [1, null]})
    );
    assert_eq!(world.entries()[0].dropped, ["broken"], "it is there, and cannot be read");
}

#[test]
fn dropped_value_is_reported_and_missing_value_is_not() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] = ["absent", "list", "text"]
        .map(|name| json!({"name": name, "path": format!(".status.{name}")}))
        .into();
    let world = shop(&["eu-1"]).class(CLASS, &params).with(policy("limits").targets("web"));
    let world = world.settled(&[policy_origin("limits")]);
    let error = "the type []interface {} of the value for list is not found";
    let report = applied().string("text", "a").feedback_failed(error);
    let world = world.with_report("eu-1", &report);
    let expected = json!({"applied": true, "fields": {"text": "a"}, "dropped": ["list"]});
    assert_eq!(entry(&world), expected);
    let stale = world.with_report("eu-1", &report.observed(0));
    assert_eq!(entry(&stale), json!({"applied": true, "pending": true}));
}

/// Because of a value that is nested too deeply, parsers would reject the whole annotation, with the entries of all
/// other clusters.
#[test]
fn value_nested_too_deeply_is_left_out() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] = json!([{"name": "list", "path": ".status.list"}]);
    let is_kept = |levels: usize| {
        let list = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let report = applied().value("list", json!({"type": "JsonRaw", "jsonRaw": list}));
        let world = shop(&["eu-1"]).class(CLASS, &params).with(policy("limits").targets("web"));
        let world = world.settled(&[policy_origin("limits")]).with_report("eu-1", &report);
        let entry = world.entries().remove(0);
        assert_eq!(entry.dropped.is_empty(), entry.fields.contains_key("list"), "it is one or the other");
        entry.dropped.is_empty()
    };
    assert!(is_kept(100));
    for levels in [101, 125, 127] {
        assert!(!is_kept(levels), "{levels}");
    }
}

#[test]
fn terminating_work_is_deleting() {
    let world = written().with_report("eu-1", &enforced()).with(policy("limits").targets("unknown"));
    let world = world.terminating(&policy_origin("limits"), "eu-1");
    assert_eq!(entry(&world), json!({"applied": false, "deleting": true}));
    assert!(summary(&world).synced, "no cluster is placed");
    assert_eq!(summary(&world).pending, 1);
}

#[test]
fn terminating_work_that_is_planned_again_is_out_of_sync() {
    let world = written().terminating(&policy_origin("limits"), "eu-1");
    assert_eq!(entry(&world), json!({"applied": false, "pending": true, "deleting": true}));
    assert!(!summary(&world).synced);
}

#[test]
fn frozen_policy_still_shows_the_reports_of_its_spokes() {
    let world = written().with_report("eu-1", &enforced());
    let world =
        world.with(policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "a in b"));
    assert_eq!(entry(&world)["conditions"][0]["status"], "True");
    assert_eq!(entry(&world)["frozen"], "BadSelector");
    assert_eq!(summary(&world).frozen, 1);
    let message = &world.annotations("limits")["kuadrant.io/policy-sync-message"];
    assert_eq!(message, "annotation kuadrant.io/cluster-selector: not a label key in \"a in b\"");
}

#[test]
fn summary_counts_clusters_by_state() {
    let overridden = |reason| applied().condition("Enforced", "False", reason, "");
    let world = shop(&["a", "b", "c", "d", "e", "f"])
        .with(policy("limits").targets("web"))
        .written()
        .with_report("a", &enforced())
        .with_report("b", &overridden("Overridden"))
        .with_report("c", &overridden("Overriden"))
        .with_report("d", &overridden("Unknown"))
        .with_report("e", &enforced().observed(7))
        .with_report("f", &refused("conflict"));
    let expected = Summary {
        clusters: 6,
        applied: 5,
        enforced: 1,
        overridden: 2,
        pending: 2,
        not_enforced: 1,
        synced: false,
        ..Summary::default()
    };
    assert_eq!(summary(&world), expected);
    let written = &world.annotations("limits")["kuadrant.io/policies-synced-summary"];
    assert_eq!(
        *written,
        r#"{"clusters":6,"applied":5,"enforced":1,"overridden":2,"pending":2,"notEnforced":1,"synced":false}"#
    );
    let world = world.with_report("f", &applied());
    assert!(summary(&world).synced, "every placed cluster is applied");
}

#[test]
fn list_is_empty_if_the_targeted_gateway_has_no_clusters() {
    let world = shop(&[]).with(policy("limits").targets("web"));
    assert_eq!(world.annotations("limits")["kuadrant.io/policies-synced"], "[]");
    let selective = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=us");
    let world = shop(&["eu-1"]).with(cluster("eu-1")).with(selective);
    assert_eq!(world.annotations("limits")["kuadrant.io/policies-synced"], "[]");
}

#[test]
fn annotations_are_removed_if_no_own_gateway_is_targeted() {
    let annotated = policy("limits").targets("other").annotation("kuadrant.io/policies-synced", "[]");
    assert!(shop(&[]).with(annotated.clone()).annotations("limits").is_empty());
    let delisted = shop(&[]).with(annotated.targets("web")).params("multi", "{}");
    assert!(delisted.annotations("limits").is_empty());
}

/// The policy with its planned annotations.
fn annotated(world: World) -> World {
    let mut limits = policy("limits").targets("web");
    for (key, value) in world.annotations("limits") {
        limits = limits.annotation(key, &value);
    }
    world.with(limits)
}

#[test]
fn unchanged_annotations_are_not_written() {
    let world = annotated(written().with_report("eu-1", &enforced()));
    assert_eq!(world.fold("limits").fold, Fold::Settled);
}

#[test]
fn edited_annotation_is_restored() {
    let world = annotated(written());
    let edited = policy("limits").targets("web").annotation("kuadrant.io/policies-synced", "[ ]");
    let world = world.with(edited);
    assert_eq!(world.annotations("limits").len(), 3);
}

#[test]
fn plan_does_not_depend_on_the_annotations() {
    let lie =
        policy("limits").targets("web").annotation("kuadrant.io/policies-synced", r#"[{"cluster": "us-1"}]"#);
    assert_eq!(written().with(lie).writes("limits"), Vec::<String>::new());
}

#[test]
fn annotations_owned_by_another_controller_are_contested() {
    let owner = |manager: &str| {
        json!({"manager": manager, "operation": "Apply",
            "fieldsV1": {"f:metadata": {"f:annotations": {"f:kuadrant.io/policies-synced": {}}}}})
    };
    let annotated = |owners: serde_json::Value| {
        policy("limits").annotation("kuadrant.io/policies-synced", "[]").metadata("managedFields", owners)
    };
    let owned = annotated(json!([owner("policy-sync-other")]));
    let world = written().with(owned.clone().targets("web"));
    let Fold::Contested { contest, ours, theirs } = world.fold("limits").fold else {
        panic!("not contested")
    };
    assert_eq!((contest.others, contest.has_work), (["policy-sync-other".into()].into(), true));
    let Fold::Write { annotations, .. } = *ours else { panic!("nothing to write") };
    assert_eq!(*theirs, Fold::Settled);
    // If another controller owns the same text, this controller becomes the only owner in two steps.
    let same = owned
        .clone()
        .targets("web")
        .annotation("kuadrant.io/policies-synced", annotations["kuadrant.io/policies-synced"].as_str());
    let Fold::Contested { ours, .. } = written().with(same).fold("limits").fold else {
        panic!("not contested")
    };
    let Fold::Write { annotations: first, .. } = *ours else { panic!("nothing to write") };
    assert_eq!(
        first["kuadrant.io/policies-synced"],
        format!("{} ", annotations["kuadrant.io/policies-synced"])
    );
    assert_eq!(first["kuadrant.io/policies-synced-detail"], "full");
    // A policy that targets no Gateway of this controller is not contested.
    let world = shop(&["eu-1"]).with(owned.targets("theirs"));
    assert_eq!(world.fold("limits").fold, Fold::Settled);

    // The losing controller gives up shared annotations.
    let us = ControllerName::new(crate::testing::objects::CONTROLLER).hub_field_manager();
    let both = annotated(json!([owner("policy-sync-other"), owner(&us)]));
    let lets_go = |fold: &Fold| matches!(fold, Fold::Write { annotations, .. } if annotations.is_empty());
    let world = written().with(both.clone().targets("web"));
    let Fold::Contested { theirs, .. } = world.fold("limits").fold else { panic!("not contested") };
    assert!(lets_go(&theirs));
    assert!(lets_go(&shop(&["eu-1"]).with(both.targets("theirs")).fold("limits").fold));
}

#[test]
fn nothing_is_written_without_permission_to_patch() {
    let info = KindInfo { can_patch: false, ..KindInfo::named("RateLimitPolicy") };
    let world = written().resolution("ratelimitpolicies", Resolution::Resolved(info));
    assert_eq!(world.fold("limits").fold, Fold::Settled);
    assert_eq!(summary(&world).clusters, 1);
}

#[test]
fn terminating_or_deleted_policy_is_not_written() {
    for world in
        [written().with(policy("limits").targets("web").deleting()), written().without(policy("limits"))]
    {
        assert_eq!(world.fold("limits"), FoldPlan::NOTHING);
    }
}

#[test]
fn nothing_is_written_while_parameters_are_not_read() {
    let world = written();
    world.forget(&CONFIG_MAPS.object(policy_sync_api::names::ObjectKey::new("params", "multi")));
    assert_eq!(world.fold("limits").fold, Fold::Settled);
}

#[test]
fn unresolved_kind_is_reported_on_known_policies() {
    let v2 =
        r#"{"policiesToSync": [{"group": "kuadrant.io", "version": "v2", "resource": "ratelimitpolicies"}]}"#;
    let world = written().with(crate::testing::objects::class("first")).params("first", v2);
    let world =
        world.resolution_of("v2", "ratelimitpolicies", crate::testing::world::resolved("RateLimitPolicy"));
    let world = world.with(policy("limits").targets("web"));
    assert!(
        world.annotations("limits")["kuadrant.io/policy-sync-message"].contains("is synced in version v2")
    );
}
