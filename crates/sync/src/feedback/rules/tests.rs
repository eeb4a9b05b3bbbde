use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn paths(listeners: &Value) -> Vec<JsonPath> {
    of_gateway(&json!({"listeners": listeners}), &Params::default()).values.remove(0).json_paths
}

/// The values that are requested of listeners, such as `http attachedRoutes`.
fn requested(listeners: &Value) -> Vec<String> {
    let names = paths(listeners).into_iter().map(|path| path.name);
    names.filter_map(|name| Some(name.strip_prefix("_listener_")?.replacen('_', " ", 1))).collect()
}

fn kinds(listener: Value) -> Vec<String> {
    let requested = requested(&json!([listener]));
    requested.iter().filter_map(|name| Some(name.split_once("kind_")?.1.to_owned())).collect()
}

#[test]
fn sixteen_gateway_addresses_are_requested() {
    let addresses: Vec<JsonPath> =
        paths(&json!([])).into_iter().filter(|path| path.name.starts_with("_address_")).collect();
    assert_eq!(addresses.len(), 16);
    assert_eq!(addresses[15].path, ".status.addresses[15].value");
}

#[test]
fn listeners_are_requested_by_name() {
    let paths = paths(&json!([{"name": "a"}, {"name": "b.c-1"}]));
    let routes = paths.iter().find(|path| path.name == "_listener_b.c-1_attachedRoutes").unwrap();
    assert_eq!(routes.path, r#".status.listeners[?(@.name=="b.c-1")].attachedRoutes"#);
}

#[test]
fn listeners_with_invalid_names_are_not_requested() {
    let odd = json!([{"name": "a\")].b"}, {"name": "A"}, {"name": ""}, {"name": 5}, {}, 7, {"name": "x".repeat(254)}]);
    assert_eq!(requested(&odd), Vec::<String>::new());
    for spec in
        [json!(null), json!([]), json!({}), json!({"listeners": 5}), json!({"listeners": {"name": "a"}})]
    {
        assert_eq!(of_gateway(&spec, &Params::default()).values[0].json_paths.len(), 26, "{spec}");
    }
}

#[test]
fn route_kinds_follow_allowed_routes_or_else_the_protocol() {
    let allowed = json!({"kinds": [{"kind": "TLSRoute"}, {"group": "example.com", "kind": "OddRoute"}, {"kind": "\"]"}]});
    assert_eq!(kinds(json!({"name": "a", "allowedRoutes": allowed})), ["OddRoute", "TLSRoute"]);
    assert_eq!(kinds(json!({"name": "a", "protocol": "HTTPS"})), ["GRPCRoute", "HTTPRoute"]);
    assert_eq!(kinds(json!({"name": "a", "protocol": "UDP"})), ["UDPRoute"]);
    assert_eq!(kinds(json!({"name": "a", "protocol": "example.com/odd"})).len(), 5);
}

#[test]
fn value_names_are_unique_and_limited() {
    for count in [0, 1, 16, 17, 64, 70] {
        let mut listeners: Vec<Value> =
            (0..count).map(|n| json!({"name": format!("l{n}"), "protocol": "HTTP"})).collect();
        listeners.extend(listeners.clone());
        let paths = paths(&json!(listeners));
        let names: BTreeSet<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        assert_eq!(names.len(), paths.len());
        assert!(paths.len() <= 26 + 64 * 10, "{count}: {}", paths.len());
        let bytes: usize = paths.iter().map(|path| path.name.len() + path.path.len()).sum();
        assert!(bytes < 80 * 1024, "{count}: {bytes}");
        let listener_names: BTreeSet<&str> =
            names.iter().filter_map(|name| name.strip_prefix("_listener_")?.split('_').next()).collect();
        assert_eq!(listener_names.len(), count.min(64));
    }
}
