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
    (ObjectKey::new("kuadrant-shop", name), Policy::of(&object))
}

fn to_gateway(name: &str) -> Value {
    json!({"group": GROUP, "kind": "Gateway", "name": name})
}

fn to_section(name: &str, section: &str) -> Value {
    json!({"group": GROUP, "kind": "Gateway", "name": name, "sectionName": section})
}

fn said(policies: Vec<(ObjectKey, Policy)>, name: &str) -> Vec<String> {
    let gateways = HashSet::from([ObjectKey::new("kuadrant-shop", "web")]);
    let policies = policies.into_iter().collect();
    let verdicts = verdicts(&policies, &gateways);
    let (_, _, verdict) = verdicts.iter().find(|(key, ..)| &*key.name == name).unwrap();
    verdict.conditions.iter().map(|(kind, status, reason, _)| format!("{kind}={status}/{reason}")).collect()
}

const ENFORCED: [&str; 2] = ["Accepted=True/Accepted", "Enforced=True/Enforced"];
const OVERRIDDEN: [&str; 2] = ["Accepted=True/Accepted", "Enforced=False/Overridden"];

#[test]
fn a_policy_whose_gateway_is_there_is_enforced() {
    assert_eq!(said(vec![policy("a", true, json!({"targetRef": to_gateway("web")}))], "a"), ENFORCED);
    assert_eq!(said(vec![policy("a", false, json!({"targetRefs": [to_gateway("web")]}))], "a"), ENFORCED);
}

#[test]
fn a_missing_gateway_is_reported() {
    let of_one = policy("a", true, json!({"targetRef": to_gateway("other")}));
    assert_eq!(said(vec![of_one], "a"), ["Accepted=False/TargetNotFound"]);
    let of_two = policy("a", true, json!({"targetRefs": [to_gateway("web"), to_gateway("other")]}));
    assert_eq!(said(vec![of_two], "a"), ["Accepted=False/TargetNotFound"]);
}

#[test]
fn a_local_policy_overrides_a_synced_one() {
    let policies = vec![
        policy("synced", true, json!({"targetRef": to_gateway("web")})),
        policy("local", false, json!({"targetRefs": [to_gateway("web")]})),
    ];
    assert_eq!(said(policies.clone(), "synced"), OVERRIDDEN);
    assert_eq!(said(policies, "local"), ENFORCED);
}

#[test]
fn neither_another_section_nor_another_synced_one_overrides() {
    let synced = || policy("synced", true, json!({"targetRef": to_gateway("web")}));
    let section = policy("local", false, json!({"targetRef": to_section("web", "http")}));
    assert_eq!(said(vec![synced(), section], "synced"), ENFORCED);
    let other = policy("other", true, json!({"targetRef": to_gateway("web")}));
    assert_eq!(said(vec![synced(), other], "synced"), ENFORCED);
}

#[test]
fn a_local_policy_that_is_being_deleted_overrides_no_more() {
    let mut local = policy("local", false, json!({"targetRef": to_gateway("web")}));
    local.1.deleted = true;
    let synced = policy("synced", true, json!({"targetRef": to_gateway("web")}));
    assert_eq!(said(vec![synced, local], "synced"), ENFORCED);
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

#[test]
fn a_status_that_says_all_that_is_not_written_again() {
    let policies = HashMap::from([policy("a", true, json!({"targetRef": to_gateway("web")}))]);
    let gateways = HashSet::from([ObjectKey::new("kuadrant-shop", "web")]);
    let verdicts = verdicts(&policies, &gateways);
    let (_, before, verdict) = &verdicts[0];
    let conditions = verdict.conditions_for(before, Timestamp::UNIX_EPOCH).unwrap();
    assert!(conditions.iter().all(|condition| condition.observed_generation == Some(2)));
    let after = Policy { conditions, observed: Some(2), ..(*before).clone() };
    assert_eq!(verdict.conditions_for(&after, Timestamp::now()), None);
    let stale = Policy { observed: Some(1), ..after };
    assert!(verdict.conditions_for(&stale, Timestamp::now()).is_some());
}
