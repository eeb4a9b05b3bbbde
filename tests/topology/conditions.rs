//! The conditions of Gateways and routes, as computed from the graph.

use std::collections::BTreeMap;

use policy_sync_topology::conditions::{ConditionText, RouteConditions, gateway_conditions};
use policy_sync_topology::locator::{GATEWAY, Locator};
use policy_sync_topology::{Graph, GraphInput};
use serde_json::{Value, json};

use crate::shorthand::objects;

fn line(condition: &ConditionText) -> String {
    let name = condition.name.trim_start_matches("policysync.kuadrant.io/");
    format!("{name}={} {}: {}", condition.status, condition.reason, condition.message)
}

/// The conditions of each route for each of its parent references, if the controller manages the Gateway
/// `ours`.
fn routes(graph_input: &GraphInput<'_>, ours: &str) -> BTreeMap<String, Vec<Vec<String>>> {
    let graph = Graph::build(graph_input);
    let mut conditions = BTreeMap::new();
    let is_ours = |locator: Locator<'_>| locator.kind == GATEWAY && locator.name == ours;
    RouteConditions::new(&graph, is_ours).each(|_, locator, _, entries| {
        let entries = entries.iter().map(|entry| entry.conditions.texts.iter().map(line).collect());
        conditions.insert(locator.name.to_owned(), entries.collect());
    });
    conditions
}

fn route(world: &[Value], name: &str) -> Vec<Vec<String>> {
    let objects = objects(world);
    routes(&objects.graph_input(), "web").remove(name).unwrap_or_default()
}

fn gateway(world: &[Value], room: usize) -> Vec<String> {
    let objects = objects(world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let node = graph.nodes().find(|node| graph.locator(*node).kind == GATEWAY).unwrap();
    gateway_conditions(&graph, node, room).iter().map(line).collect()
}

const STAYS: &str = "routes are not delivered to clusters: apply them there as well";
const RESOLVED: &str = "ResolvedRefs=True ResolvedRefs: all known backends exist";

#[test]
fn route_has_accepted_condition_for_each_managed_parent() {
    let world = [
        json!({"Gateway": "web", "listeners": [{"hostname": "*.a.io"}, {"name": "b", "port": 81, "hostname": "*.b.io"}]}),
        json!({"Gateway": "theirs"}),
        json!({"HTTPRoute": "both", "parents": ["web", "theirs"]}),
        json!({"HTTPRoute": "nowhere", "parents": ["web#c", "none"]}),
        json!({"HTTPRoute": "host", "parents": ["web#b"], "hostnames": ["x.a.io"]}),
        json!({"HTTPRoute": "theirs", "parents": ["theirs"]}),
    ];
    let attached =
        |what: &str| format!("Accepted=True Accepted: attached to {what} of Gateway shop/web; {STAYS}");
    let one = |lines: &[&str]| vec![lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()];
    assert_eq!(route(&world, "both"), one(&[&attached("2 listeners"), RESOLVED]));
    let none = "Accepted=False NoMatchingParent: Gateway shop/web has no listener \"c\" that is in force";
    assert_eq!(route(&world, "nowhere"), one(&[none, RESOLVED]));
    let host =
        "Accepted=False NoMatchingListenerHostname: listener \"b\" of Gateway shop/web has no host of x.a.io";
    assert_eq!(route(&world, "host"), one(&[host, RESOLVED]));
    assert!(route(&world, "theirs").is_empty());
}

#[test]
fn parent_references_with_different_ports_have_separate_conditions() {
    let world = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "parents": ["web:80", "web:81", "web:82", "web:80"]}),
    ];
    let conditions = route(&world, "r");
    let accepted: Vec<&str> = conditions.iter().map(|entry| &*entry[0]).collect();
    assert_eq!(accepted.len(), 3, "a duplicate parentRef has one entry: {accepted:?}");
    assert!(accepted[0].starts_with("Accepted=True"), "{accepted:?}");
    assert!(accepted[1].contains("no listener on port 81"), "{accepted:?}");
    assert!(accepted[2].contains("no listener on port 82"), "{accepted:?}");
}

#[test]
fn listener_set_of_a_managed_gateway_is_managed() {
    let world = [
        json!({"Gateway": "web", "allowedListeners": {"namespaces": {"from": "All"}}}),
        json!({"ListenerSet": "more", "parent": "web", "listeners": [{"port": 81}]}),
        json!({"HTTPRoute": "r", "parents": ["ListenerSet/more"]}),
        json!({"AuthPolicy": "on-set", "target": "ListenerSet/more", "rules": {"authentication": {"a": {}}}}),
        json!({"AuthPolicy": "on-top", "target": "Gateway/web", "rules": {"authentication": {"b": {}}}}),
    ];
    let conditions = route(&world, "r");
    assert!(conditions[0][0].contains("attached to 1 listener of ListenerSet shop/more"), "{conditions:?}");
    let of = "AuthPolicyAffected=True Affected: in force: shop/on-set; not in force: shop/on-top";
    assert_eq!(conditions[0][2], of);
}

#[test]
fn missing_backend_makes_resolved_refs_false() {
    let world = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"Service": "api", "ports": [{"port": 80}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": ["api:80"]}, {"backends": ["api:81", "none:80"]}]}),
    ];
    let conditions = route(&world, "r");
    let missing = "ResolvedRefs=False BackendNotFound: Service shop/api has no port 81, Service shop/none does not exist";
    assert_eq!(conditions[0][1], missing);
}

#[test]
fn refs_to_kinds_that_are_not_read_are_unknown_unless_another_is_not_found() {
    let world = |backends: Value| {
        [
            json!({"Gateway": "web", "listeners": [{}]}),
            json!({"Service": "api", "ports": [{"port": 80}]}),
            json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"backends": backends}]}),
        ]
    };
    let pool = "InferencePool.inference.networking.k8s.io/llm";
    let unknown = "ResolvedRefs=Unknown UnknownKind: backends of these kinds are not read: InferencePool.inference.networking.k8s.io";
    assert_eq!(route(&world(json!(["api:80", pool])), "r")[0][1], unknown);
    let missing = "ResolvedRefs=False BackendNotFound: Service shop/none does not exist";
    assert_eq!(route(&world(json!(["none:80", pool])), "r")[0][1], missing);
    assert_eq!(route(&world(json!(["api:80"])), "r")[0][1], RESOLVED);
}

#[test]
fn accepted_is_unknown_if_namespace_labels_are_unknown() {
    let world = |more: &[Value]| {
        let mut world = vec![
            json!({"Gateway": "web", "listeners": [{"from": "Selector", "selector": {"team": "a"}}, {"name": "own", "port": 81}]}),
            json!({"HTTPRoute": "r", "parents": ["web#http", "web"]}),
        ];
        world.extend(more.iter().cloned());
        route(&world, "r").into_iter().map(|entry| entry[0].clone()).collect::<Vec<_>>()
    };
    let unknown = world(&[]);
    let words = "Accepted=Unknown UnknownLabels: allowedRoutes of listener http of Gateway shop/web: the selector needs the labels of Namespace shop, which are unknown: provide the Namespace, or the right to list Namespaces";
    assert_eq!(unknown[0], words);
    assert!(unknown[1].starts_with("Accepted=True Accepted: attached to 1 listener of"), "{unknown:?}");
    let known = world(&[json!({"Namespace": "shop", "labels": {"team": "a"}})]);
    assert!(known[0].starts_with("Accepted=True"), "{known:?}");
}

/// `ResolvedRefs` is never True if it is unknown whether a reference resolves.
#[test]
fn mirrors_external_names_and_kinds_without_backends_do_not_resolve() {
    let resolved = |rule: Value| {
        let world = [
            json!({"Gateway": "web", "listeners": [{}]}),
            json!({"Service": "api", "ports": [{"port": 80}]}),
            json!({"Service": "data/api", "ports": [{"port": 80}]}),
            json!({"Service": "outside", "type": "ExternalName", "externalName": "a.io"}),
            json!({"HTTPRoute": "r", "parents": ["web"], "rules": [rule]}),
        ];
        route(&world, "r")[0][1].clone()
    };
    let mirror = |backend: Value| json!({"backends": ["api:80"], "filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": backend}}]});
    assert_eq!(resolved(mirror(json!({"name": "api", "port": 80}))), RESOLVED);
    let missing =
        "ResolvedRefs=False BackendNotFound: RequestMirror filter: Service shop/gone does not exist";
    assert_eq!(resolved(mirror(json!({"name": "gone", "port": 80}))), missing);
    let refused = "ResolvedRefs=False RefNotPermitted: RequestMirror filter: no ReferenceGrant in namespace data allows HTTPRoutes in namespace shop to refer to Service api";
    assert_eq!(resolved(mirror(json!({"name": "api", "namespace": "data", "port": 80}))), refused);
    let unread = "ResolvedRefs=Unknown UnknownKind: backends of these kinds are not read: Pool.example.com";
    assert_eq!(resolved(mirror(json!({"group": "example.com", "kind": "Pool", "name": "p"}))), unread);
    assert_eq!(resolved(json!({"backends": ["api:80", "Pool.example.com/p"]})), unread);
    let no_backend = "ResolvedRefs=False InvalidKind: ConfigMap is not a backend kind: refer to a Service";
    assert_eq!(resolved(json!({"backends": ["ConfigMap./c"]})), no_backend);
    let external = resolved(json!({"backends": ["outside:443"]}));
    let words = "ResolvedRefs=Unknown ImplementationSpecific: Service shop/outside has type ExternalName";
    assert!(external.starts_with(words), "{external}");
}

#[test]
fn conditions_name_policies_of_all_paths_without_values() {
    let limits = |limit: u32| json!({"x": {"rates": [{"limit": limit, "window": "1s"}]}});
    let world = |limit: u32| {
        vec![
            json!({"Gateway": "web", "listeners": [{"name": "a"}, {"name": "b", "port": 81}]}),
            json!({"HTTPRoute": "r", "parents": ["web#a", "web#b"], "rules": [{"name": "one"}, {"name": "two"}]}),
            json!({"TCPRoute": "raw", "parents": ["web#a"]}),
            json!({"RateLimitPolicy": "top", "target": "Gateway/web", "limits": limits(limit)}),
            json!({"RateLimitPolicy": "a", "target": "Gateway/web#a", "limits": limits(limit)}),
            json!({"RateLimitPolicy": "rule", "target": "HTTPRoute/r#two", "limits": limits(limit)}),
        ]
    };
    let conditions = route(&world(1), "r");
    let of = |conditions: &[String]| conditions[2].clone();
    assert_eq!(
        of(&conditions[0]),
        "RateLimitPolicyAffected=True Affected: in force: shop/a, shop/rule; not in force: shop/top"
    );
    assert_eq!(of(&conditions[1]), "RateLimitPolicyAffected=True Affected: in force: shop/rule, shop/top");
    assert_eq!(route(&world(2), "r"), conditions, "a changed limit does not change the conditions");
}

#[test]
fn direct_policies_are_listed_at_their_target_only() {
    let definition = json!({"CustomResourceDefinition": "retries.x.io", "labels": {"gateway.networking.k8s.io/policy": "direct"},
        "group": "x.io", "names": {"kind": "Retry", "plural": "retries"}});
    let world = [
        definition,
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"HTTPRoute": "r", "parents": ["web"], "rules": [{"name": "one"}]}),
        json!({"HTTPRoute": "s", "parents": ["web"]}),
        json!({"Retry.x.io": "here", "target": "HTTPRoute/r#one", "times": 3}),
        json!({"Retry.x.io": "above", "target": "Gateway/web", "times": 3}),
    ];
    assert_eq!(route(&world, "r")[0][2..], ["RetryAffected=True Affected: in force: shop/here".to_owned()]);
    assert_eq!(route(&world, "s")[0].len(), 2, "a direct policy on the Gateway does not affect the route");
    assert_eq!(gateway(&world, 6), ["RetryAffected=True Affected: affected by shop/above"]);
}

#[test]
fn gateway_lists_its_policies_and_those_of_its_listeners() {
    let policy = |name: &str, target: &str| json!({"AuthPolicy": name, "target": target, "rules": {"authentication": {"a": {}}}});
    let mut world = vec![
        json!({"Gateway": "web", "listeners": [{"name": "a"}, {"name": "b", "port": 81}]}),
        policy("all", "Gateway/web"),
        policy("one", "Gateway/web#b"),
        policy("lost", "Gateway/web#c"),
    ];
    assert_eq!(
        gateway(&world, 6),
        ["AuthPolicyAffected=True Affected: affected by shop/all, shop/one on listener b"]
    );
    world.extend((0..12).map(|number| policy(&format!("p{number:02}"), "Gateway/web")));
    let last = gateway(&world, 6).remove(0);
    assert!(last.ends_with("shop/p07 and 4 more"), "{last}");
}

#[test]
fn last_condition_lists_the_kinds_without_a_condition() {
    let mut world =
        vec![json!({"Gateway": "web", "listeners": [{}]}), json!({"HTTPRoute": "r", "parents": ["web"]})];
    for kind in ["A", "B", "C", "D", "E", "F", "G", "H"] {
        world.push(json!({format!("{kind}.x.io"): "p", "target": "Gateway/web", "a": 1}));
    }
    let conditions = gateway(&world, 6);
    assert_eq!(conditions.len(), 6);
    assert_eq!(
        conditions[5],
        "FAffected=True Affected: affected by shop/p; and policies of 2 more kinds: G, H"
    );
    let of_route = &route(&world, "r")[0];
    assert_eq!(of_route.len(), 8);
    assert_eq!(of_route[7], "FAffected=True Affected: in force: shop/p; and policies of 2 more kinds: G, H");
    assert!(gateway(&world, 0).is_empty(), "the Gateway has no room for further conditions");
}

#[test]
fn kinds_with_the_same_name_are_listed_with_their_groups() {
    let world = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"A.x.io": "p", "target": "Gateway/web", "a": 1}),
        json!({"A.y.io": "p", "target": "Gateway/web", "a": 1}),
    ];
    assert_eq!(gateway(&world, 6), ["AAffected=True Affected: affected by shop/p (x.io), shop/p (y.io)"]);
}

#[test]
fn unknown_grants_reveal_no_objects_of_other_namespaces() {
    let world = [
        json!({"Gateway": "web", "listeners": [{}]}),
        json!({"Service": "theirs/api", "ports": [{"port": 80}]}),
        json!({"HTTPRoute": "r", "parents": ["web"],
            "rules": [{"backends": ["theirs/api:81"]}, {"backends": ["theirs/none:80"]}]}),
    ];
    let objects = objects(&world);
    let mut graph_input = objects.graph_input();
    let resolved = |graph_input: &GraphInput<'_>| routes(graph_input, "web")["r"][0][1].clone();
    assert!(resolved(&graph_input).starts_with("ResolvedRefs=False RefNotPermitted: no ReferenceGrant"));
    graph_input.grants.known = false;
    graph_input.backends.iter_mut().for_each(|rows| rows.known = true);
    assert_eq!(resolved(&graph_input), RESOLVED);
}
