use serde_json::json;

use super::*;

fn rule(name: &str, expressions: &[&str], message: Option<&str>) -> ConditionRule {
    ConditionRule {
        condition: name.into(),
        rule: ConditionRuleType::CEL,
        cel_expressions: expressions.iter().map(|expression| (*expression).into()).collect(),
        message_expression: message.map(Into::into),
    }
}

fn evaluated(rule: ConditionRule) -> String {
    let object = json!({"metadata": {"name": "limits"}});
    let computed = &computed(&[rule], &object, 4)[0];
    assert_eq!(computed.observed_generation, Some(4));
    format!("{}={}/{} {}", computed.type_, computed.status, computed.reason, computed.message)
}

#[test]
fn expressions_must_all_be_true() {
    assert_eq!(evaluated(rule("A", &["true"], None)), "A=True/ConditionRuleEvaluated Manifest is A");
    assert_eq!(
        evaluated(rule("A", &["true", "false"], None)),
        "A=False/ConditionRuleEvaluated Manifest is not A"
    );
}

#[test]
fn message_is_computed_from_the_object() {
    let named = rule("A", &["true"], Some("object.metadata.name"));
    assert_eq!(evaluated(named), "A=True/ConditionRuleEvaluated limits");
    assert_eq!(evaluated(rule("A", &["true"], Some("''"))), "A=True/ConditionRuleEvaluated Manifest is A");
}

#[test]
fn failed_expression_is_false_with_a_separate_reason() {
    let failed = evaluated(rule("A", &["object.status.ready"], Some("'unused'")));
    assert!(failed.starts_with("A=False/ConditionRuleExpressionError "), "{failed}");
    assert!(!failed.contains("unused"), "{failed}");
}

#[test]
fn failed_message_expression_gives_its_error() {
    let failed = evaluated(rule("A", &["true"], Some("object.status.text")));
    assert!(failed.starts_with("A=True/ConditionRuleEvaluated ") && failed.len() > 40, "{failed}");
}

#[test]
fn computed_conditions_of_other_generations_are_removed() {
    let mut conditions = computed(&[rule("A", &["true"], None)], &json!({}), 1);
    conditions.push(condition("Applied", "True", "AppliedManifestComplete", String::new(), Some(1)));
    prune(&mut conditions, 2);
    assert_eq!(conditions.iter().map(|known| known.type_.as_str()).collect::<Vec<_>>(), ["Applied"]);
}

#[test]
fn work_aggregates_the_conditions_of_its_manifests() {
    let manifest = |expression: &str| ManifestStatus {
        conditions: computed(&[rule("A", &[expression], Some("'text'"))], &json!({}), 1),
        ..ManifestStatus::default()
    };
    let one = aggregated(&[manifest("true"), ManifestStatus::default()], 1);
    assert_eq!((&*one[0].status, &*one[0].message), ("True", "text"));
    let two = aggregated(&[manifest("true"), manifest("false")], 1);
    assert_eq!((&*two[0].status, &*two[0].message), ("False", "Aggregated from 2 manifest conditions"));
}
