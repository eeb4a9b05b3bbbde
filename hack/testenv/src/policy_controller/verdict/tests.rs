use serde_json::json;

use super::*;

fn policy(name: &str, synced: bool, spec: Value) -> (ObjectKey, Policy) {
    let annotations = if synced { json!({(SYNCED): "shop/limits"}) } else { json!({}) };
    let object = json!({
        "apiVersion": "kuadrant.io/v1", "kind": "RateLimitPolicy",
        "metadata": {"name": name, "namespace": "kuadrant-shop", "uid": name, "generation": 2,
            "resourceVersion": "7", "annotations": annotations},
        "spec": spec,
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    (ObjectKey::new("kuadrant-shop", name), Policy::read(&object))
}

fn to_gateway(name: &str) -> Value {
    json!({"group": GROUP, "kind": "Gateway", "name": name})
}

fn to_section(name: &str, section: &str) -> Value {
    json!({"group": GROUP, "kind": "Gateway", "name": name, "sectionName": section})
}

fn conditions_of(policies: Vec<(ObjectKey, Policy)>, name: &str) -> Vec<String> {
    let gateways = HashSet::from([ObjectKey::new("kuadrant-shop", "web")]);
    let policies = policies.into_iter().collect();
    let verdicts = verdicts(&policies, &gateways);
    let (_, _, verdict) = verdicts.iter().find(|(key, ..)| &*key.name == name).unwrap();
    verdict.conditions.iter().map(|(kind, status, reason, _)| format!("{kind}={status}/{reason}")).collect()
}

const ENFORCED: [&str; 2] = ["Accepted=True/Accepted", "Enforced=True/Enforced"];
const OVERRIDDEN: [&str; 2] = ["Accepted=True/Accepted", "Enforced=False/Overridden"];

#[test]
fn policy_of_an_existing_gateway_is_enforced() {
    assert_eq!(
        conditions_of(vec![policy("a", true, json!({"targetRef": to_gateway("web")}))], "a"),
        ENFORCED
    );
    assert_eq!(
        conditions_of(vec![policy("a", false, json!({"targetRefs": [to_gateway("web")]}))], "a"),
        ENFORCED
    );
}

#[test]
fn a_missing_gateway_is_reported() {
    let of_one = policy("a", true, json!({"targetRef": to_gateway("other")}));
    assert_eq!(conditions_of(vec![of_one], "a"), ["Accepted=False/TargetNotFound"]);
    let of_two = policy("a", true, json!({"targetRefs": [to_gateway("web"), to_gateway("other")]}));
    assert_eq!(conditions_of(vec![of_two], "a"), ["Accepted=False/TargetNotFound"]);
}

#[test]
fn a_local_policy_overrides_a_synced_one() {
    let policies = vec![
        policy("synced", true, json!({"targetRef": to_gateway("web")})),
        policy("local", false, json!({"targetRefs": [to_gateway("web")]})),
    ];
    assert_eq!(conditions_of(policies.clone(), "synced"), OVERRIDDEN);
    assert_eq!(conditions_of(policies, "local"), ENFORCED);
}

#[test]
fn other_sections_and_synced_policies_do_not_override() {
    let synced = || policy("synced", true, json!({"targetRef": to_gateway("web")}));
    let section = policy("local", false, json!({"targetRef": to_section("web", "http")}));
    assert_eq!(conditions_of(vec![synced(), section], "synced"), ENFORCED);
    let other = policy("other", true, json!({"targetRef": to_gateway("web")}));
    assert_eq!(conditions_of(vec![synced(), other], "synced"), ENFORCED);
}

#[test]
fn terminating_local_policy_does_not_override() {
    let mut local = policy("local", false, json!({"targetRef": to_gateway("web")}));
    local.1.deleted = true;
    let synced = policy("synced", true, json!({"targetRef": to_gateway("web")}));
    assert_eq!(conditions_of(vec![synced, local], "synced"), ENFORCED);
}

#[test]
fn the_message_names_the_winners() {
    let policies = HashMap::from([
        policy("synced", true, json!({"targetRef": to_gateway("web")})),
        policy("b", false, json!({"targetRef": to_gateway("web")})),
        policy("a", false, json!({"targetRef": to_gateway("web")})),
    ]);
    let gateways = HashSet::from([ObjectKey::new("kuadrant-shop", "web")]);
    let verdicts = verdicts(&policies, &gateways);
    let (_, _, verdict) = verdicts.iter().find(|(key, ..)| &*key.name == "synced").unwrap();
    assert_eq!(verdict.conditions[1].3, "Policy is overridden by [kuadrant-shop/a kuadrant-shop/b]");
}

fn with_status(policy: &Policy, status: &Value) -> Policy {
    Policy {
        observed: status["observedGeneration"].as_i64(),
        conditions: serde_json::from_value(status["conditions"].clone()).unwrap_or_default(),
        ancestors: serde_json::from_value(status["ancestors"].clone()).unwrap_or_default(),
        ..policy.clone()
    }
}

#[test]
fn current_status_is_not_written_again() {
    let policies = HashMap::from([policy("a", true, json!({"targetRef": to_gateway("web")}))]);
    let gateways = HashSet::from([ObjectKey::new("kuadrant-shop", "web")]);
    let verdicts = verdicts(&policies, &gateways);
    let (_, before, verdict) = &verdicts[0];
    for answers in [StatusForm::Whole, StatusForm::Ancestors] {
        let status = verdict.status_for(before, answers, Timestamp::UNIX_EPOCH).unwrap();
        let after = with_status(before, &status);
        assert_eq!(verdict.status_for(&after, answers, Timestamp::now()), None);
        let later = Verdict { generation: 3, ..verdict.clone() };
        assert!(later.status_for(&after, answers, Timestamp::now()).is_some());
    }
}

#[test]
fn two_controllers_report_each_target() {
    let policies = HashMap::from([
        policy("synced", true, json!({"targetRefs": [to_section("web", "http"), to_gateway("gone")]})),
        policy("local", false, json!({"targetRefs": [to_section("web", "http")]})),
    ]);
    let gateways = HashSet::from([ObjectKey::new("kuadrant-shop", "web")]);
    let verdicts = verdicts(&policies, &gateways);
    let (_, policy, verdict) = verdicts.iter().find(|(key, ..)| &*key.name == "synced").unwrap();
    let status = verdict.status_for(policy, StatusForm::Ancestors, Timestamp::UNIX_EPOCH).unwrap();
    let summary = |ancestor: &Value| {
        let conditions = ancestor["conditions"].as_array().unwrap().iter();
        let conditions: Vec<&str> =
            conditions.map(|condition| condition["reason"].as_str().unwrap()).collect();
        let name = ancestor["ancestorRef"]["name"].as_str().unwrap();
        format!("{name} {}: {}", ancestor["controllerName"].as_str().unwrap(), conditions.join(" "))
    };
    let summaries: Vec<String> = status["ancestors"].as_array().unwrap().iter().map(summary).collect();
    let expected = [
        "web example.com/timeouts: Accepted Overridden",
        "web example.com/audit: Accepted",
        "gone example.com/timeouts: TargetNotFound",
        "gone example.com/audit: TargetNotFound",
    ];
    assert_eq!(summaries, expected);
    assert_eq!(status["ancestors"][0]["ancestorRef"]["sectionName"], "http");
}
