//! Tests the rule end to end: from an object's status, through CEL as an agent evaluates it, to the parsed report.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::feedback::ancestors::{Ancestors, ReportedAncestors};
use policy_sync_api::condition::is_reason;
use policy_sync_cel as cel;

fn object(ancestors: Value) -> Value {
    json!({
        "metadata": {"namespace": "kuadrant-shop", "name": "limits", "generation": 3,
            "annotations": {"kuadrant.io/revision": "r-1", "kuadrant.io/policy-synced": "shop/limits"}},
        "status": {"ancestors": ancestors},
    })
}

/// The entry of one controller for the Gateway `web`.
fn web(controller: &str, conditions: Value) -> Value {
    let reference = json!({"group": GROUP, "kind": "Gateway", "namespace": "kuadrant-shop", "name": "web"});
    json!({"ancestorRef": reference, "controllerName": controller, "conditions": conditions})
}

fn enforced(reason: &str, message: &str) -> Value {
    json!({"type": "Enforced", "status": "False", "reason": reason, "message": message, "observedGeneration": 3,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn message_of(object: &Value) -> String {
    let rule = rule(&["web", "api"]);
    cel::text(&rule.message_expression.unwrap(), object, true).unwrap()
}

fn read(object: &Value) -> ReportedAncestors {
    let message = message_of(object);
    assert!(message.chars().count() <= MESSAGE_LIMIT);
    match Ancestors::read(&message) {
        Ancestors::Reported(reported) => *reported,
        other => panic!("{other:?}: {message}"),
    }
}

/// The ancestors of the reported conditions.
fn names(ancestors: Value) -> Vec<String> {
    read(&object(ancestors)).conditions.iter().map(|found| found.ancestor.to_string()).collect()
}

#[test]
fn condition_is_read_through_the_rule() {
    let reported = read(&object(json!([web("example.com/a", json!([enforced("Overridden", "by local")]))])));
    assert_eq!((&*reported.revision, reported.generation), ("r-1", 3));
    let [only] = &reported.conditions[..] else { panic!("{reported:?}") };
    assert_eq!(&*only.ancestor, "web (example.com/a)");
    let condition = &only.condition;
    assert_eq!((&*condition.condition_type, &*condition.status), ("Enforced", "False"));
    assert_eq!(condition.reason.as_deref(), Some("Overridden"));
    assert_eq!(condition.message.as_deref(), Some("by local"));
    assert_eq!(condition.observed_generation, Some(3));
}

#[test]
fn status_without_ancestors_is_readable() {
    let mut bare = json!({"metadata": {"namespace": "n", "generation": 1}});
    for status in [Value::Null, json!({}), json!({"ancestors": []})] {
        if !status.is_null() {
            bare["status"] = status;
        }
        assert_eq!(read(&bare), ReportedAncestors { revision: "".into(), generation: 1, conditions: vec![] });
    }
    let silent =
        [json!({"ancestorRef": {"name": "web"}}), json!({"controllerName": "c"}), web("c", json!([]))];
    assert_eq!(names(json!(silent)), [""; 0]);
}

#[test]
fn all_controllers_and_sections_of_own_gateways_count() {
    let of = |reference: Value| json!({"ancestorRef": reference, "controllerName": "c", "conditions": [enforced("R", "")]});
    let ours = [
        web("a", json!([enforced("R", "")])),
        web("b", json!([enforced("R", "")])),
        of(json!({"name": "api", "sectionName": "http"})),
    ];
    assert_eq!(names(json!(ours)), ["web (a)", "web (b)", "api/http (c)"]);
    let others = [
        of(json!({"name": "other"})),
        of(json!({"name": "web", "namespace": "kuadrant-other"})),
        of(json!({"name": "web", "kind": "Service"})),
        of(json!({"name": "web", "group": ""})),
        of(json!({"group": GROUP, "kind": "Gateway"})),
    ];
    assert_eq!(names(json!(others)), [""; 0]);
}

#[test]
fn other_condition_types_are_ignored_and_missing_fields_allowed() {
    let odd = json!([{"type": "Other", "status": "True"}, {"status": "True"}, {"type": "Ready"}]);
    let reported = read(&object(json!([web("c", odd)])));
    let [only] = &reported.conditions[..] else { panic!("{reported:?}") };
    assert_eq!((&*only.condition.condition_type, &*only.condition.status), ("Ready", "Unknown"));
    assert_eq!((&only.condition.reason, only.condition.observed_generation), (&None, None));
}

#[test]
fn very_long_message_is_cut_and_hides_no_other() {
    let long = web("a", json!([enforced("Long", &"ü".repeat(40_000))]));
    let reported = read(&object(json!([long, web("b", json!([enforced("Short", "short")]))])));
    assert_eq!(reported.conditions[0].condition.message.as_deref(), Some(&*format!("{}…", "ü".repeat(510))));
    assert_eq!(reported.conditions[1].condition.message.as_deref(), Some("short"));
}

#[test]
fn all_conditions_of_sixteen_ancestors_count_despite_long_messages() {
    let condition = |name: &str| {
        let mut condition = enforced("Why", &"x".repeat(40_000));
        condition["type"] = name.into();
        condition
    };
    let conditions: Vec<Value> = CONDITIONS.iter().map(|name| condition(name)).collect();
    let ancestors: Vec<Value> =
        (0..16).map(|n| web(&format!("example.com/controller-{n}"), json!(conditions))).collect();
    let reported = read(&object(json!(ancestors)));
    assert_eq!(reported.conditions.len(), 64);
    assert!(reported.conditions.iter().all(|found| &*found.condition.status == "False"));
    assert!(reported.conditions[63].condition.message.as_deref().unwrap().ends_with('…'));
}

#[test]
fn field_of_wrong_type_fails_the_rule() {
    for (field, value) in [("message", json!(5)), ("reason", json!({})), ("observedGeneration", json!([]))] {
        let mut odd = enforced("R", "");
        odd[field] = value;
        let message = rule(&["web"]).message_expression.unwrap();
        let text = cel::text(&message, &object(json!([web("c", json!([odd]))])), true);
        assert!(text.is_err(), "{field}: {text:?}");
    }
}

#[test]
fn gateway_name_is_escaped_in_the_rule() {
    let odd = "a\"] || true || [\"\\\n\u{1}ü";
    let message = rule(&[odd]).message_expression.unwrap();
    let mut ancestor = web("c", json!([enforced("R", "")]));
    for (name, expected) in [(odd, true), ("web", false)] {
        ancestor["ancestorRef"]["name"] = name.into();
        let text = cel::text(&message, &object(json!([ancestor])), true).unwrap();
        let Ancestors::Reported(reported) = Ancestors::read(&text) else { panic!("{text}") };
        assert_eq!(!reported.conditions.is_empty(), expected, "{text}");
    }
}

proptest! {
    // Parsing such a long expression is slow.
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Texts of the spoke's users stay in the condition that contains them.
    #[test]
    fn texts_of_spokes_cannot_imitate_other_conditions(
        texts in proptest::collection::vec((".{1,20}", "([0-9]{1,2}:.{0,9}|.{0,30})", ".{0,60}"), 1..5),
        imitate in any::<prop::sample::Index>(),
    ) {
        let status = |texts: &[(String, String, String)]| {
            let entry = |(controller, reason, message): &(String, String, String)| {
                web(controller, json!([enforced(reason, message)]))
            };
            object(texts.iter().map(entry).collect())
        };
        let mut texts = texts;
        // One of the messages imitates a report with all conditions.
        let imitation = message_of(&status(&texts));
        let liar = imitate.index(texts.len());
        texts[liar].2 = imitation.replace("False", "True");
        let reported = read(&status(&texts));
        prop_assert_eq!(reported.conditions.len(), texts.len());
        for (found, (controller, reason, message)) in reported.conditions.iter().zip(&texts) {
            prop_assert_eq!(&*found.ancestor, &*format!("web ({controller})"));
            prop_assert_eq!(&*found.condition.status, "False");
            let reason = Some(&**reason).filter(|reason| is_reason(reason));
            prop_assert_eq!(found.condition.reason.as_deref(), reason);
            let kept = found.condition.message.as_deref().unwrap_or_default();
            prop_assert!(kept == message || message.starts_with(kept.trim_end_matches('…')));
        }
    }
}
