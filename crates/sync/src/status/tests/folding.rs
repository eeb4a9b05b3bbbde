//! What the annotations of a hub policy say.

use serde_json::{Value, json};

use crate::kinds::CONFIG_MAPS;
use crate::rows::kind::{KindInfo, Resolution};
use crate::status::policy::{Fold, FoldPlan};
use crate::testing::answers::{Answer, applied, refused};
use crate::testing::objects::{CLASS, cluster, listing, policy, policy_origin};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::Summary;
use policy_sync_api::names::ControllerName;

fn written() -> World {
    shop(&["eu-1"]).with(policy("limits").targets("web")).written()
}

/// What `eu-1` is said to say, without the keys that name it.
fn entry(world: &World) -> Value {
    let mut entry = serde_json::to_value(&world.entries()[0]).unwrap();
    for key in ["cluster", "name", "namespace"] {
        entry.as_object_mut().unwrap().remove(key);
    }
    entry
}

fn said(answer: &Answer) -> Value {
    entry(&written().answered("eu-1", answer))
}

fn pending() -> Value {
    json!({"applied": false, "pending": true})
}

fn enforced() -> Answer {
    applied().condition("Enforced", "True", "Enforced", "")
}

fn summary(world: &World) -> Summary {
    world.fold("limits").summary.unwrap()
}

#[test]
fn a_cluster_without_an_answer_is_pending() {
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
fn it_is_applied_where_generation_applied_and_revision_agree() {
    assert_eq!(said(&applied()), json!({"applied": true}));
    assert_eq!(said(&applied().for_work_generation(0)), pending(), "an older generation");
    assert_eq!(said(&applied().of_revision("another")), pending(), "another revision");
    let mut unknown = pending();
    unknown["message"] = "conflict with kubectl".into();
    assert_eq!(said(&refused("conflict with kubectl")), unknown, "not applied");
}

#[test]
fn a_refusal_of_an_older_generation_says_nothing() {
    assert_eq!(said(&refused("conflict").for_work_generation(0)), pending());
}

#[test]
fn an_answer_for_what_is_no_longer_planned_is_none() {
    let world = written().answered("eu-1", &enforced());
    let world = world.with(policy("limits").targets("web").spec("rate", json!(5)));
    assert_eq!(entry(&world), pending());
}

#[test]
fn a_condition_comes_as_the_spoke_says_it() {
    let answer = applied()
        .condition("Enforced", "False", "Overridden", "by local")
        .condition("Accepted", "True", "A", "");
    let expected = json!({"applied": true, "conditions": [
        {"type": "Accepted", "status": "True", "reason": "A", "message": ""},
        {"type": "Enforced", "status": "False", "reason": "Overridden", "message": "by local"},
    ]});
    assert_eq!(said(&answer), expected);
}

#[test]
fn a_condition_of_another_generation_is_pending() {
    let answer = enforced().condition_observed("Enforced", 2);
    assert_eq!(said(&answer), json!({"applied": true, "pending": true}));
    assert_eq!(said(&answer.integer("_generation", 2))["conditions"][0]["status"], "True");
}

#[test]
fn one_stale_condition_makes_the_whole_answer_pending() {
    let answer = enforced().condition_observed("Enforced", 1).condition("Accepted", "True", "A", "");
    assert_eq!(said(&answer.condition_observed("Accepted", 0)), json!({"applied": true, "pending": true}));
}

#[test]
fn without_its_own_generation_that_of_the_status_counts() {
    assert_eq!(said(&enforced().observed(0)), json!({"applied": true, "pending": true}));
    assert_eq!(said(&enforced().observed(1))["conditions"][0]["status"], "True");
}

#[test]
fn its_own_generation_counts_more_than_that_of_the_status() {
    let answer = enforced().condition_observed("Enforced", 1).observed(0);
    assert_eq!(said(&answer)["conditions"][0]["status"], "True");
}

#[test]
fn without_conditions_a_status_of_another_generation_is_pending() {
    assert_eq!(said(&applied().observed(0)), json!({"applied": true, "pending": true}));
}

#[test]
fn without_any_generation_the_revision_suffices() {
    assert_eq!(said(&enforced())["conditions"][0]["status"], "True");
}

#[test]
fn a_generation_that_was_not_fed_back_is_no_proof() {
    let mut answer = enforced().observed(1);
    answer = answer.value("_generation", json!({"type": "String", "string": "1"}));
    assert_eq!(said(&answer), json!({"applied": true, "pending": true}));
}

#[test]
fn only_conditions_that_were_asked_for_count() {
    let answer =
        applied().condition("Invented", "False", "R", "").string("_Ready_message", "without a status");
    assert_eq!(said(&answer), json!({"applied": true}));
}

#[test]
fn configured_fields_are_shown_with_their_types() {
    let answer = applied()
        .integer("generation", 2)
        .string("text", "a")
        .value("flag", json!({"type": "Boolean", "boolean": false}))
        .value("list", json!({"type": "JsonRaw", "jsonRaw": "[1,null]"}))
        .value("broken", json!({"type": "JsonRaw", "jsonRaw": "[1"}));
    let asked = ["generation", "text", "flag", "list", "broken"];
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] =
        asked.map(|name| json!({"name": name, "path": format!(".status.{name}")})).into();
    let world = shop(&["eu-1"]).class(CLASS, &params).with(policy("limits").targets("web"));
    let world = world.settled(&[policy_origin("limits")]).answered("eu-1", &answer);
    assert_eq!(
        serde_json::Value::from(world.entries()[0].fields.clone()),
        json!({"generation": 2, "text": "a", "flag": false, "list": [1, null]})
    );
    assert_eq!(world.entries()[0].dropped, ["broken"], "it is there, and cannot be read");
}

#[test]
fn a_value_that_the_agent_has_dropped_is_told_and_one_that_is_not_there_is_not() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] = ["absent", "list", "text"]
        .map(|name| json!({"name": name, "path": format!(".status.{name}")}))
        .into();
    let world = shop(&["eu-1"]).class(CLASS, &params).with(policy("limits").targets("web"));
    let world = world.settled(&[policy_origin("limits")]);
    let error = "the type []interface {} of the value for list is not found";
    let answer = applied().string("text", "a").feedback_failed(error);
    let world = world.answered("eu-1", &answer);
    let expected = json!({"applied": true, "fields": {"text": "a"}, "dropped": ["list"]});
    assert_eq!(entry(&world), expected);
    let stale = world.answered("eu-1", &answer.observed(0));
    assert_eq!(entry(&stale), json!({"applied": true, "pending": true}));
}

/// Or the entries of all other clusters could not be read either.
#[test]
fn a_value_too_deep_to_be_read_back_is_left_out() {
    let mut params = listing(&["ratelimitpolicies"]);
    params["policiesToSync"][0]["statusFields"] = json!([{"name": "list", "path": ".status.list"}]);
    let told = |levels: usize| {
        let list = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let answer = applied().value("list", json!({"type": "JsonRaw", "jsonRaw": list}));
        let world = shop(&["eu-1"]).class(CLASS, &params).with(policy("limits").targets("web"));
        let world = world.settled(&[policy_origin("limits")]).answered("eu-1", &answer);
        let entry = world.entries().remove(0);
        assert_eq!(entry.dropped.is_empty(), entry.fields.contains_key("list"), "it is one or the other");
        entry.dropped.is_empty()
    };
    assert!(told(100));
    for levels in [101, 125, 127] {
        assert!(!told(levels), "{levels}");
    }
}

#[test]
fn a_terminating_work_is_deleting() {
    let world = written().answered("eu-1", &enforced()).with(policy("limits").targets("unknown"));
    let world = world.terminating(&policy_origin("limits"), "eu-1");
    assert_eq!(entry(&world), json!({"applied": false, "deleting": true}));
    assert!(summary(&world).synced, "no cluster is placed");
    assert_eq!(summary(&world).pending, 1);
}

#[test]
fn a_terminating_work_that_is_wanted_again_is_not_in_sync() {
    let world = written().terminating(&policy_origin("limits"), "eu-1");
    assert_eq!(entry(&world), json!({"applied": false, "pending": true, "deleting": true}));
    assert!(!summary(&world).synced);
}

#[test]
fn a_frozen_policy_still_shows_what_its_spokes_say() {
    let world = written().answered("eu-1", &enforced());
    let world =
        world.with(policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "a in b"));
    assert_eq!(entry(&world)["conditions"][0]["status"], "True");
    assert_eq!(entry(&world)["frozen"], "BadSelector");
    assert_eq!(summary(&world).frozen, 1);
    let message = &world.annotations("limits")["kuadrant.io/policy-sync-message"];
    assert_eq!(message, "annotation kuadrant.io/cluster-selector: not a label key in \"a in b\"");
}

#[test]
fn the_summary_counts() {
    let overridden = |reason| applied().condition("Enforced", "False", reason, "");
    let world = shop(&["a", "b", "c", "d", "e", "f"])
        .with(policy("limits").targets("web"))
        .written()
        .answered("a", &enforced())
        .answered("b", &overridden("Overridden"))
        .answered("c", &overridden("Overriden"))
        .answered("d", &overridden("Unknown"))
        .answered("e", &enforced().observed(7))
        .answered("f", &refused("conflict"));
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
    let world = world.answered("f", &applied());
    assert!(summary(&world).synced, "every placed cluster is applied");
}

#[test]
fn without_clusters_the_list_is_empty_while_a_gateway_of_ours_is_targeted() {
    let world = shop(&[]).with(policy("limits").targets("web"));
    assert_eq!(world.annotations("limits")["kuadrant.io/policies-synced"], "[]");
    let selective = policy("limits").targets("web").annotation("kuadrant.io/cluster-selector", "region=us");
    let world = shop(&["eu-1"]).with(cluster("eu-1")).with(selective);
    assert_eq!(world.annotations("limits")["kuadrant.io/policies-synced"], "[]");
}

#[test]
fn where_no_gateway_of_ours_is_targeted_the_annotations_go() {
    let annotated = policy("limits").targets("other").annotation("kuadrant.io/policies-synced", "[]");
    assert!(shop(&[]).with(annotated.clone()).annotations("limits").is_empty());
    let delisted = shop(&[]).with(annotated.targets("web")).params("multi", "{}");
    assert!(delisted.annotations("limits").is_empty());
}

/// The policy with the annotations that it should have.
fn annotated(world: World) -> World {
    let mut limits = policy("limits").targets("web");
    for (key, value) in world.annotations("limits") {
        limits = limits.annotation(key, &value);
    }
    world.with(limits)
}

#[test]
fn annotations_that_say_so_already_are_not_written() {
    let world = annotated(written().answered("eu-1", &enforced()));
    assert_eq!(world.fold("limits").fold, Fold::Settled);
}

#[test]
fn an_edited_annotation_is_put_back() {
    let world = annotated(written());
    let edited = policy("limits").targets("web").annotation("kuadrant.io/policies-synced", "[ ]");
    let world = world.with(edited);
    assert_eq!(world.annotations("limits").len(), 3);
}

#[test]
fn nothing_is_decided_from_the_annotations() {
    let lie =
        policy("limits").targets("web").annotation("kuadrant.io/policies-synced", r#"[{"cluster": "us-1"}]"#);
    assert_eq!(written().with(lie).writes("limits"), Vec::<String>::new());
}

#[test]
fn annotations_that_another_controller_owns_are_contested() {
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
    assert_eq!((contest.others, contest.stands), (["policy-sync-other".into()].into(), true));
    let Fold::Write { annotations, .. } = *ours else { panic!("nothing to write") };
    assert_eq!(*theirs, Fold::Settled);
    // What the other says in the same words becomes ours alone in two steps.
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
    // Where the policy is nothing to us, that is nothing to tell.
    let world = shop(&["eu-1"]).with(owned.targets("theirs"));
    assert_eq!(world.fold("limits").fold, Fold::Settled);

    // What both own, the one that is not to write lets go of.
    let us = ControllerName::new(crate::testing::objects::CONTROLLER).hub_field_manager();
    let both = annotated(json!([owner("policy-sync-other"), owner(&us)]));
    let lets_go = |fold: &Fold| matches!(fold, Fold::Write { annotations, .. } if annotations.is_empty());
    let world = written().with(both.clone().targets("web"));
    let Fold::Contested { theirs, .. } = world.fold("limits").fold else { panic!("not contested") };
    assert!(lets_go(&theirs));
    assert!(lets_go(&shop(&["eu-1"]).with(both.targets("theirs")).fold("limits").fold));
}

#[test]
fn without_the_right_to_patch_nothing_is_written() {
    let info = KindInfo { can_patch: false, ..KindInfo::named("RateLimitPolicy") };
    let world = written().resolution("ratelimitpolicies", Resolution::Resolved(info));
    assert_eq!(world.fold("limits").fold, Fold::Settled);
    assert_eq!(summary(&world).clusters, 1);
}

#[test]
fn a_policy_that_is_going_or_gone_is_left() {
    for world in
        [written().with(policy("limits").targets("web").deleting()), written().without(policy("limits"))]
    {
        assert_eq!(world.fold("limits"), FoldPlan::NOTHING);
    }
}

#[test]
fn while_parameters_are_unread_nothing_is_told() {
    let world = written();
    world.forget(&CONFIG_MAPS.object(policy_sync_api::names::ObjectKey::new("params", "multi")));
    assert_eq!(world.fold("limits").fold, Fold::Settled);
}

#[test]
fn a_kind_that_does_not_resolve_says_why_where_it_was_known() {
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
