//! Tests of feedback and entries for policy kinds that have a status for each ancestor.

use serde_json::{Value, json};

use crate::desired::Outcome;
use crate::feedback::ancestors::tests::{Ancestor, ancestor, message};
use crate::rows::kind::{KindInfo, Resolution};
use crate::rows::schema::WorkSchema;
use crate::testing::objects::{policy, policy_origin};
use crate::testing::reports::{TestReport, applied, refused};
use crate::testing::world::{World, shop};
use policy_sync_api::annotations::{Summary, Synced};

fn with_ancestors() -> Resolution {
    Resolution::Resolved(KindInfo { has_ancestors: true, ..KindInfo::named("RateLimitPolicy") })
}

/// A policy that targets the Gateway `web`, on `eu-1`. Its kind has a status for each ancestor.
fn written() -> World {
    let world = shop(&["eu-1"]).resolution("ratelimitpolicies", with_ancestors());
    world.with(policy("limits").targets("web")).written()
}

fn revision(world: &World) -> String {
    let copy = world.copy("limits", "eu-1");
    copy["metadata"]["annotations"]["kuadrant.io/revision"].as_str().unwrap().to_owned()
}

/// The entry of `eu-1` if its agent reports this ancestor message with `report`.
fn entry_for(report: &TestReport, message: &str) -> Synced {
    written()
        .with_report("eu-1", &report.clone().ancestors("ConditionRuleEvaluated", message))
        .entries()
        .remove(0)
}

fn synced_with(ancestors: &[Ancestor]) -> Synced {
    entry_for(&applied(), &message(&revision(&written()), 1, ancestors))
}

fn conditions(entry: &Synced) -> Vec<String> {
    assert!(!entry.pending, "{entry:?}");
    let text = |text: &Option<String>| text.as_deref().unwrap_or("-").to_owned();
    let conditions = entry.conditions.iter();
    conditions
        .map(|condition| {
            format!(
                "{}={}/{} {}",
                condition.condition_type,
                condition.status,
                text(&condition.reason),
                text(&condition.message)
            )
        })
        .collect()
}

fn rules(world: &World) -> Value {
    match world.plan("limits").outcomes.values().next() {
        Some(Outcome::Work(work)) => json!(work.spec().unwrap().manifest_configs[1].condition_rules),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_kinds_with_ancestors_request_ancestor_feedback() {
    let rules = rules(&written());
    assert_eq!(rules[0]["condition"], "PolicySyncAncestors");
    assert_eq!(rules[0]["type"], "CEL");
    assert_eq!(rules[0]["celExpressions"], json!(["true"]));
    assert!(rules[0]["messageExpression"].as_str().unwrap().contains(r#"in ["web"]"#), "{rules}");
    let without = shop(&["eu-1"]).with(policy("limits").targets("web"));
    assert_eq!(self::rules(&without), json!([]));
}

#[test]
fn no_ancestor_feedback_without_condition_rules_on_the_hub() {
    let world = written();
    let older = WorkSchema { condition_rules: false, ..WorkSchema::FULL };
    world.change(crate::found::work_schema(older));
    assert_eq!(rules(&world), json!([]));
    let world = world.settled(&[policy_origin("limits")]).with_report("eu-1", &applied());
    assert!(!world.entries()[0].pending, "what cannot be asked is not waited for");
}

#[test]
fn worst_ancestor_condition_counts() {
    let web = |controller: &str, status: &str, reason: &str| {
        ancestor("web", "", controller).with_condition("Enforced", status, reason, "why")
    };
    let (fine, unsure, bad) =
        (web("c/a", "True", "Fine"), web("c/b", "Odd", "Unsure"), web("c/c", "False", "Bad"));
    let enforced = |ancestors: &[&Ancestor]| {
        let ancestors: Vec<Ancestor> = ancestors.iter().map(|ancestor| (*ancestor).clone()).collect();
        conditions(&synced_with(&ancestors))
    };
    assert_eq!(enforced(&[]), [""; 0]);
    assert_eq!(enforced(&[&fine]), ["Enforced=True/Fine web (c/a): why"]);
    assert_eq!(enforced(&[&fine, &unsure]), ["Enforced=Unknown/Unsure web (c/b): why"]);
    assert_eq!(enforced(&[&fine, &bad, &unsure]), ["Enforced=False/Bad web (c/c): why"]);
    let other = web("c/0", "False", "Other");
    for order in [[&bad, &fine, &other], [&other, &bad, &fine]] {
        assert_eq!(enforced(&order), ["Enforced=False/Other web (c/0) and 1 more: why"]);
    }
}

#[test]
fn each_condition_type_has_its_own_worst_ancestor() {
    let entry = synced_with(&[
        ancestor("web", "", "c/a").with_condition("Accepted", "True", "A", "").with_condition(
            "Enforced",
            "False",
            "Overridden",
            "by x",
        ),
        ancestor("web", "http", "c/b")
            .with_condition("Accepted", "False", "B", "")
            .with_condition("Ready", "True", "R", "m"),
    ]);
    let expected = [
        "Accepted=False/B web/http (c/b)",
        "Enforced=False/Overridden web (c/a): by x",
        "Ready=True/R web/http (c/b): m",
    ];
    assert_eq!(conditions(&entry), expected);
}

#[test]
fn conditions_of_the_copy_count_with_those_of_ancestors() {
    let ancestors = [ancestor("web", "", "c")
        .with_condition("Accepted", "True", "A", "")
        .with_condition("Enforced", "False", "Bad", "")];
    let message = message(&revision(&written()), 1, &ancestors);
    let whole =
        applied().condition("Accepted", "False", "Whole", "no").condition("Enforced", "True", "E", "");
    let expected = ["Accepted=False/Whole no", "Enforced=False/Bad web (c)"];
    assert_eq!(conditions(&entry_for(&whole, &message)), expected);
}

#[test]
fn overridden_ancestors_count_in_the_summary() {
    let ancestors = [ancestor("web", "", "c").with_condition("Enforced", "False", "Overridden", "")];
    let world = written();
    let message = message(&revision(&world), 1, &ancestors);
    let world = world.with_report("eu-1", &applied().ancestors("ConditionRuleEvaluated", &message));
    let expected = Summary {
        clusters: 1,
        applied: 1,
        enforced: 0,
        overridden: 1,
        pending: 0,
        synced: true,
        ..Summary::default()
    };
    assert_eq!(world.fold("limits").summary, Some(expected));
}

fn is_pending(entry: &Synced) {
    assert!(entry.applied && entry.pending && entry.conditions.is_empty(), "{entry:?}");
}

#[test]
fn without_report_for_the_current_copy_it_is_pending() {
    let fine = [ancestor("web", "", "c").with_condition("Enforced", "True", "E", "")];
    let present = revision(&written());
    is_pending(&written().with_report("eu-1", &applied()).entries()[0]);
    is_pending(&entry_for(&applied(), &message("another", 1, &fine)));
    is_pending(&entry_for(&applied(), &message(&present, 2, &fine)));
    is_pending(&entry_for(&applied().integer("_generation", 2), &message(&present, 1, &fine)));
    for stale in ["0", "2"] {
        let stale = ancestor("web", "", "d").with_condition_for(stale, "Accepted", "True", "A", "");
        is_pending(&synced_with(&[fine[0].clone(), stale]));
    }
    let silent = ancestor("web", "", "d").with_condition_for("", "Accepted", "True", "A", "");
    assert_eq!(conditions(&synced_with(std::slice::from_ref(&silent))), ["Accepted=True/A web (d)"]);
    is_pending(&entry_for(&applied().observed(0), &message(&present, 1, &[silent])));
}

#[test]
fn unreadable_report_is_explained() {
    let fault = |reason: &str, text: &str| {
        let entry = written().with_report("eu-1", &applied().ancestors(reason, text)).entries().remove(0);
        is_pending(&entry);
        entry.message.unwrap()
    };
    let failed = "the agent cannot report status.ancestors: no such key: name";
    assert_eq!(fault("ConditionRuleExpressionError", "no such key: name"), failed);
    assert_eq!(fault("ConditionRuleEvaluated", "no such key: name"), failed);
    let whole = message(&revision(&written()), 1, &[]);
    assert!(fault("ConditionRuleInvalid", &whole).starts_with("the agent cannot report"));
    let odd = whole + "1:x";
    assert_eq!(
        fault("ConditionRuleEvaluated", &odd),
        "the agent's report of status.ancestors cannot be parsed"
    );
    let many: Vec<Ancestor> = (0..99)
        .map(|_| ancestor("web", "", &"c".repeat(253)).with_condition("Ready", "True", "", ""))
        .collect();
    let cut = message(&revision(&written()), 1, &many);
    assert_eq!(fault("ConditionRuleEvaluated", &cut), "status.ancestors is too large for the agent's report");
}

#[test]
fn apply_error_replaces_earlier_conditions() {
    let report = refused("conflict").ancestors("ConditionRuleExpressionError", "no such key");
    let entry = written().with_report("eu-1", &report).entries().remove(0);
    assert_eq!((entry.applied, entry.message.as_deref()), (false, Some("conflict")));
}

#[test]
fn unrequested_ancestor_report_is_ignored() {
    let world = shop(&["eu-1"]).with(policy("limits").targets("web")).written();
    let message = message(
        &revision(&world),
        1,
        &[ancestor("web", "", "c").with_condition("Enforced", "True", "E", "")],
    );
    let world = world.with_report("eu-1", &applied().ancestors("ConditionRuleEvaluated", &message));
    assert_eq!(conditions(&world.entries()[0]), [""; 0]);
}
