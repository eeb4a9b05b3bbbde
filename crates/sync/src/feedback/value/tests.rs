//! Tests that every requested value is read back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::feedback::{AgentReport, ReportedGateway, of_gateway, of_policy};
use policy_sync_api::params::{Params, StatusField};
use policy_sync_api::work::{FeedbackRule, FieldValue, JsonPath};

fn names(rules: Vec<FeedbackRule>) -> Vec<String> {
    rules.into_iter().flat_map(|rule| rule.json_paths).map(|JsonPath { name, .. }| name).collect()
}

fn listener() -> impl Strategy<Value = Value> {
    let name = "[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(\\.[a-z0-9]{1,4})?";
    let protocol = prop::sample::select(vec!["HTTP", "HTTPS", "TLS", "TCP", "UDP", "example.com/own"]);
    let kinds = prop::collection::vec("[A-Z][A-Za-z0-9-]{0,20}", 0..4);
    (name, protocol, kinds).prop_map(|(name, protocol, kinds)| {
        let kinds: Vec<Value> = kinds.into_iter().map(|kind| json!({"kind": kind})).collect();
        json!({"name": name, "protocol": protocol, "allowedRoutes": {"kinds": kinds}})
    })
}

/// The report of an agent that returns every requested value: 7 for numbers, `True` for all others.
fn report_of(names: &[String]) -> AgentReport {
    let value = |name: &String| {
        let is_number = name.ends_with("eneration") || name.ends_with("attachedRoutes");
        let value = if is_number {
            json!({"type": "Integer", "integer": 7})
        } else {
            json!({"type": "String", "string": "True"})
        };
        serde_json::from_value::<FieldValue>(value).unwrap()
    };
    AgentReport::of_values(names.iter().map(|name| (name.as_str(), value(name))))
}

proptest! {
    #[test]
    fn requested_gateway_values_are_read_back(listeners in prop::collection::vec(listener(), 0..20)) {
        let names = names(of_gateway(&json!({"listeners": listeners}), &Params::default()).values);
        for name in &names {
            let read = ValueName::parse(name).map(|value| value.to_string());
            prop_assert_eq!(read.as_ref(), Some(name));
        }
        let report = report_of(&names);
        prop_assert!(report.fields.is_empty() && report.dropped.is_empty());
        let gateway = report.gateway.map_or_else(ReportedGateway::default, |gateway| *gateway);
        let of = |what: &str| names.iter().filter(|name| name.starts_with(what)).count();
        prop_assert_eq!(gateway.addresses.len(), of("_address_"));
        let read = gateway.listeners.iter().map(|listener| {
            let conditions = listener.conditions.iter();
            let parts = conditions.map(|condition| {
                [condition.status, &condition.reason, &condition.message].into_iter().filter(|text| **text == *"True").count()
            });
            let numbers = [listener.attached_routes, listener.observed_generation];
            parts.sum::<usize>() + numbers.into_iter().flatten().count() + listener.kinds.len()
        });
        prop_assert_eq!(read.sum::<usize>(), of("_listener_"));
    }
}

#[test]
fn requested_policy_values_are_read_back() {
    let field = StatusField { name: "own".to_owned(), path: ".status.own".to_owned() };
    let names = names(of_policy(&[field]).values);
    let ours: Vec<&String> = names.iter().filter(|name| *name != "own").collect();
    for name in &ours {
        assert_eq!(ValueName::parse(name).map(|value| value.to_string()).as_ref(), Some(*name));
    }
    let report = report_of(&names);
    let numbers = [report.generation, report.observed_generation];
    let parts = report.conditions.iter().map(|condition| {
        let texts = [Some(&condition.status), condition.reason.as_ref(), condition.message.as_ref()];
        texts.into_iter().flatten().count() + condition.observed_generation.iter().count()
    });
    let read = parts.sum::<usize>() + numbers.into_iter().flatten().count() + report.revision.iter().count();
    assert_eq!((read, report.fields.len()), (ours.len(), 1));
}

#[test]
fn creation_time_is_requested_once() {
    let names = names(of_policy(&[]).with_created().values);
    let created: Vec<_> = names.iter().filter_map(|name| ValueName::parse(name)).collect();
    assert_eq!(created.iter().filter(|value| **value == ValueName::Created).count(), 1, "{names:?}");
    assert_eq!(ValueName::Created.to_string(), "_created");
}

#[test]
fn unknown_value_names_are_not_parsed() {
    for name in [
        "",
        "_",
        "revision",
        "_revision_",
        "_Odd_status",
        "_Accepted",
        "_Accepted_odd",
        "_address_",
        "_address_x",
        "_listener_a",
        "_listener_a_",
        "_listener_a_odd",
        "_listener_a_Odd_status",
        "_listener_a_Accepted_odd",
    ] {
        assert_eq!(ValueName::parse(name), None, "{name}");
    }
}
