//! Topologies of clusters whose objects can be listed only in part.

use policy_sync_api::names::ObjectKey;
use policy_sync_topology::locator::{GATEWAY, HTTP_ROUTE, KindRef};
use policy_sync_topology::objects::{GRANT, NAMESPACE};
use policy_sync_topology::rows::Gateway;
use policy_sync_topology::show::{Scope, TopologyReport, TopologyStatus};
use policy_sync_topology::{Graph, Needs, Objects};
use serde_json::{Value, json};

use crate::shorthand::{hub_object, object};

/// A cluster whose objects of these `kinds` are all in `short`.
fn cluster(kinds: &[KindRef<'_>], short: &[Value]) -> Objects {
    let mut objects = Objects::of_cluster(kinds.iter().map(|kind| kind.to_kind()).collect());
    for short in short {
        objects.take(&hub_object(&object(short))).unwrap();
    }
    objects
}

/// The reasons for objects that do not attach, and the unknown kinds.
fn unattached(objects: &Objects) -> (Vec<String>, Vec<String>) {
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let json = serde_json::to_value(TopologyReport::new(&graph, Scope::default(), Vec::new())).unwrap();
    let items = json["unattached"].as_array().unwrap().iter();
    let unknown = graph.unknown().into_iter().map(|kind| kind.kind.to_owned());
    (items.map(|item| item["reason"].as_str().unwrap().to_owned()).collect(), unknown.collect())
}

#[test]
fn missing_objects_of_a_partly_known_kind_are_leaves() {
    let short = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "here", "parents": ["web"]}),
        json!({"HTTPRoute": "there", "parents": ["elsewhere/web"]}),
        json!({"HTTPRoute": "nowhere", "parents": ["gone"]}),
        json!({"RateLimitPolicy": "a", "target": "HTTPRoute/other"}),
    ];
    // All routes are known, but of the Gateways only those in one namespace.
    let partial = cluster(&[HTTP_ROUTE], &short);
    let unknown = ["Gateway", "GatewayClass"].map(str::to_owned).to_vec();
    assert_eq!(unattached(&partial), (Vec::new(), unknown));
    let graph_input = partial.graph_input();
    let graph = Graph::build(&graph_input);
    assert!(graph.policies()[0].no_effect.is_some(), "all routes are known");
    let whole = cluster(&[HTTP_ROUTE, GATEWAY], &short);
    assert_eq!(unattached(&whole).0, ["ParentNotFound", "ParentNotFound"]);
}

#[test]
fn selectors_of_partly_known_kinds_may_select_more() {
    let short = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "labels": {"a": "b"}, "parents": ["web"]}),
        json!({"RateLimitPolicy": "p", "targetSelectors": [{"kind": "HTTPRoute", "matchLabels": {"a": "b"}}], "limits": {"x": {}}}),
    ];
    let policy = |kinds: &[KindRef<'_>]| {
        let objects = cluster(kinds, &short);
        let graph_input = objects.graph_input();
        let graph = Graph::build(&graph_input);
        serde_json::to_value(TopologyReport::new(&graph, Scope::default(), Vec::new())).unwrap()["policies"]
            [0]
        .clone()
    };
    let known = policy(&[GATEWAY, HTTP_ROUTE]);
    assert_eq!((&known["counts"], &known["unknown"]), (&json!(true), &Value::Null));
    let partly = policy(&[GATEWAY]);
    let message = "it selects HTTPRoutes by their labels, but not all of them are known";
    // The known route is selected.
    assert_eq!((&partly["counts"], &partly["unknown"]), (&json!(true), &json!([message])));
}

/// The controller of a hub does not store labels.
#[test]
fn targets_are_unknown_if_labels_are_not_read() {
    let mut objects = Objects::of_cluster([GATEWAY.to_kind()].into());
    let gateway = r#"{"gatewayClassName": "istio", "listeners": []}"#;
    objects.put_gateway(ObjectKey::new("shop", "web"), Gateway::of_spec(gateway).unwrap());
    let policy =
        json!({"RateLimitPolicy": "p", "targetSelectors": [{"kind": "Gateway"}], "limits": {"x": {}}});
    objects.take(&hub_object(&object(&policy))).unwrap();
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let report = TopologyReport::new(&graph, Scope::default(), Vec::new());
    let cause = "policies select targets by unknown labels";
    assert_eq!(report.verdict(), TopologyStatus::Unknown { cause });
    let json = serde_json::to_value(report).unwrap();
    let policy = &json["policies"][0];
    assert_eq!((&policy["counts"], &policy["reason"]), (&Value::Null, &json!("UnknownTargets")));
    assert_eq!(policy["message"], "it selects Gateways by their labels, which are not read");
}

/// The cost of matching labels is bounded for each namespace.
#[test]
fn selectors_over_the_limit_of_a_namespace_are_not_evaluated() {
    let mut short = vec![json!({"Gateway": "web", "listeners": [{}]})];
    short.extend((0..2_000).map(|number| json!({"HTTPRoute": format!("r{number}"), "parents": ["web"]})));
    let selectors = |from: u32| -> Vec<Value> {
        (from..from + 16)
            .map(|number| json!({"kind": "HTTPRoute", "matchLabels": {"a": number.to_string()}}))
            .collect()
    };
    short.extend((0..40).map(|number| {
        json!({"RateLimitPolicy": format!("p{number:02}"), "targetSelectors": selectors(number * 16), "limits": {"x": {}}})
    }));
    // Another namespace has its own limit.
    short.push(json!({"HTTPRoute": "other/r", "labels": {"a": "b"}, "parents": ["shop/web"]}));
    short.push(json!({"RateLimitPolicy": "other/p", "targetSelectors": [{"kind": "HTTPRoute", "matchLabels": {"a": "b"}}], "limits": {"x": {}}}));
    let objects = cluster(&[GATEWAY, HTTP_ROUTE], &short);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let reason = |name: &str| {
        let policy = graph.policies().iter().find(|policy| policy.locator.object() == name).unwrap();
        policy.no_effect.as_ref().map(|(reason, message)| format!("{reason}: {message}"))
    };
    assert!(reason("shop/p00").unwrap().starts_with("TargetNotFound"));
    let limited = "UnknownTargets: its namespace has too many selectors to evaluate";
    assert_eq!(reason("shop/p39").unwrap(), limited);
    assert_eq!(reason("other/p"), None);
}

#[test]
fn cross_namespace_reference_is_no_fault_if_grants_are_unknown() {
    let short = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": ["other/api:80"]}]}),
    ];
    let known = [GATEWAY, HTTP_ROUTE, GRANT];
    assert_eq!(unattached(&cluster(&known, &short)).0, ["RefNotPermitted"]);
    assert_eq!(unattached(&cluster(&known[..2], &short)).0, Vec::<String>::new());
}

#[test]
fn namespace_selectors_by_unknown_labels_are_unknown_but_not_those_by_name() {
    let listener = |selector: &Value| json!([{"allowedRoutes": {"namespaces": {"from": "Selector", "selector": selector}}}]);
    let reasons = |kinds: &[KindRef<'_>], selector: Value| {
        let short = [
            json!({"Gateway": "web", "listeners": listener(&selector)}),
            json!({"HTTPRoute": "other/r", "parents": ["shop/web"]}),
        ];
        let objects = cluster(kinds, &short);
        let graph_input = objects.graph_input();
        let graph = Graph::build(&graph_input);
        let unresolved = graph.unresolved().iter().map(|item| (item.status(), item.reason.as_str()));
        let unattached = graph.unattached().iter().map(|item| ("False", item.reason.as_str()));
        unattached.chain(unresolved).collect::<Vec<_>>()
    };
    let known = [GATEWAY, HTTP_ROUTE, NAMESPACE];
    let (refused, unknown) = (vec![("False", "NotAllowedByListeners")], vec![("Unknown", "UnknownLabels")]);
    let team = |operator: &str| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": ["a"]}]});
    let name = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let both = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name, "team": "a"}});
    assert_eq!(reasons(&known, team("In")), refused);
    assert_eq!(reasons(&known, team("NotIn")), []);
    assert_eq!(reasons(&known[..2], team("In")), unknown);
    assert_eq!(reasons(&known[..2], team("NotIn")), unknown);
    assert_eq!(reasons(&known[..2], name("mine")), refused);
    assert_eq!(reasons(&known[..2], name("other")), []);
    assert_eq!(reasons(&known[..2], both("mine")), refused);
    assert_eq!(reasons(&known[..2], both("other")), unknown);
}

#[test]
fn needed_kinds_follow_from_the_references_of_known_objects() {
    let needs = |short: &[Value]| cluster(&[], short).needs();
    assert_eq!(needs(&[]), Needs::default());
    let route =
        |backend: &str| json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": [backend]}]});
    assert_eq!(needs(&[route("api:80")]), Needs { backends: [true, false, false], ..Needs::default() });
    let across = Needs { backends: [true, false, false], grants: true, namespaces: false };
    assert_eq!(needs(&[route("other/api:80")]), across);
    let import = needs(&[route("ServiceImport.multicluster.x-k8s.io/api:80")]);
    assert_eq!(import, Needs { backends: [false, true, false], ..Needs::default() });
    let certificate =
        json!({"Gateway": "web", "listeners": [{"protocol": "HTTPS", "certificates": ["other/cert"]}]});
    assert_eq!(needs(&[certificate]), Needs { grants: true, ..Needs::default() });
    assert_eq!(needs(&[route("Bucket.example.com/b")]), Needs::default());
    let policy = json!({"RateLimitPolicy": "a", "target": "Gateway/other/web"});
    assert!(
        needs(&[policy]).backends == [false; 3]
            && needs(&[json!({"RateLimitPolicy": "a", "target": "Gateway/other/web"})]).grants
    );
    let selecting = |selector: Value| {
        needs(&[json!({"Gateway": "web", "listeners": [{"from": "Selector", "selector": selector}]})])
            .namespaces
    };
    assert!(selecting(json!({"team": "a"})));
    assert!(!selecting(json!({"kubernetes.io/metadata.name": "shop"})));
}
