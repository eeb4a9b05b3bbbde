use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn value(json: Value) -> FieldValue {
    serde_json::from_value(json).unwrap()
}

fn text(text: &str) -> FieldValue {
    value(json!({"type": "String", "string": text}))
}

fn integer(integer: i64) -> FieldValue {
    value(json!({"type": "Integer", "integer": integer}))
}

fn report(values: &[(&str, FieldValue)]) -> ReportedGateway {
    let (mut report, mut budget) = (ReportedGateway::default(), TextBudget::default());
    for (name, value) in values {
        if let Some(name) = ValueName::parse(&format!("_{name}")) {
            report.take(name, value, &mut budget);
        }
    }
    report
}

#[test]
fn addresses_keep_their_index() {
    let report = report(&[("address_0", text("192.0.2.1")), ("address_15", text("a.example.com"))]);
    assert_eq!(report.addresses, [(0, "192.0.2.1".into()), (15, "a.example.com".into())]);
}

#[test]
fn listener_values_are_read() {
    let report = report(&[
        ("listener_a.b_attachedRoutes", integer(3)),
        ("listener_a.b_observedGeneration", integer(2)),
        ("listener_a.b_Programmed_status", text("False")),
        ("listener_a.b_Programmed_reason", text("Invalid")),
        ("listener_a.b_Programmed_message", text("it is not")),
        ("listener_a.b_kind_HTTPRoute", text("gateway.networking.k8s.io")),
        ("listener_c_attachedRoutes", integer(0)),
    ]);
    let condition = ListenerCondition {
        condition_type: "Programmed",
        status: "False",
        reason: "Invalid".into(),
        message: "it is not".into(),
    };
    let first = ReportedListener {
        name: "a.b".into(),
        attached_routes: Some(3),
        kinds: vec![("gateway.networking.k8s.io".into(), "HTTPRoute".into())],
        conditions: vec![condition],
        observed_generation: Some(2),
    };
    let second =
        ReportedListener { name: "c".into(), attached_routes: Some(0), ..ReportedListener::default() };
    assert_eq!(report.listeners, [first, second]);
}

#[test]
fn invalid_gateway_values_are_ignored() {
    let report = report(&[
        ("address_16", text("192.0.2.1")),
        ("address_x", text("192.0.2.1")),
        ("address_0", integer(5)),
        ("listener_", text("a")),
        ("listener_a", text("a")),
        ("listener_a_attachedRoutes", text("5")),
        ("listener_a_Invented_status", text("True")),
        ("listener_a_Programmed_status", text("Perhaps")),
        ("listener_a_Programmed_odd", text("True")),
        ("listener_a_kind_HTTPRoute", integer(5)),
    ]);
    assert_eq!(report.addresses, []);
    let listener = &report.listeners[0];
    assert_eq!((listener.attached_routes, listener.kinds.len()), (None, 0));
    assert_eq!(listener.conditions.len(), 1);
    assert_eq!(listener.conditions[0].status, "", "as if it were not there");
}

#[test]
fn long_text_is_cut() {
    let long = "é".repeat(5_000);
    let report = report(&[("address_0", text(&long)), ("listener_a_Programmed_message", text(&long))]);
    assert!(report.addresses[0].1.len() <= SUBDOMAIN_LIMIT);
    assert!(report.listeners[0].conditions[0].message.len() <= TEXT_LIMIT);
}

proptest! {
    #[test]
    fn arbitrary_names_and_texts_cause_no_panic(name in "(address|listener)_.{0,12}", string in ".{0,300}") {
        let _ = report(&[(&name, text(&string)), (&name, integer(-1))]);
    }
}
