//! `policy-sync topology` and `policy-sync effective` for files. The module `live` has the tests with
//! clusters.

mod across;
mod live;

use std::path::Path;

use policy_sync_testenv::bad_input::{self, code};
use serde_json::{Value, json};

use crate::run::{CommandOutput, run, run_with};

const CLASS: &str = "{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: istio}, spec: {controllerName: a/b}}";

/// An object of Gateway API in the namespace `shop`.
fn object(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: {kind}, metadata: {{name: {name}, namespace: shop}}, spec: {spec}}}"
    )
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: kuadrant.io/v1, kind: RateLimitPolicy, metadata: {{name: {name}, namespace: shop}}, spec: {spec}}}"
    )
}

fn gateway(listeners: &str) -> String {
    object("Gateway", "web", &format!("{{gatewayClassName: istio, listeners: [{listeners}]}}"))
}

/// Joins objects into a YAML text of several documents.
fn text(objects: &[String]) -> String {
    objects.join("\n---\n")
}

const TARGET: &str = "targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: web}";

/// A description of an error, objects with this error, and the message.
fn cases() -> Vec<(&'static str, Vec<String>, &'static str)> {
    let route = |spec: &str| vec![object("HTTPRoute", "r", spec)];
    let of_gateway = |listeners: &str| vec![gateway(listeners)];
    let of_policy = |spec: &str| vec![policy("p", spec)];
    vec![
        (
            "a name with quotes and markup",
            vec![object("HTTPRoute", "'<b>\"x\"'", "{}")],
            "stdin:1: httproute.gateway.networking.k8s.io:shop/<b>\"x\": metadata.name: \"<b>\\\"x\\\"\" is not a valid Kubernetes name",
        ),
        (
            "a name with a line break",
            vec![object("HTTPRoute", "\"a\\nb\"", "{}")],
            "stdin:1: httproute.gateway.networking.k8s.io:shop/a\\nb: metadata.name: \"a\\nb\" is not a valid Kubernetes name",
        ),
        (
            "an object without a name",
            vec!["{apiVersion: v1, kind: Service}".to_owned()],
            "stdin:1: Service: an object without metadata.name",
        ),
        (
            "a target name that is a number",
            of_policy("{targetRef: {kind: Gateway, name: 5}}"),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.targetRef.name: invalid type: integer `5`, expected a string",
        ),
        (
            "targets as a string",
            of_policy("{targetRefs: web}"),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.targetRefs: invalid type: string \"web\", expected a sequence",
        ),
        (
            "an invalid section name of a target",
            of_policy("{targetRef: {kind: HTTPRoute, name: r, sectionName: rule-1~1}}"),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.targetRef.sectionName: \"rule-1~1\" is not a valid Kubernetes name",
        ),
        (
            "parents as an object",
            route("{parentRefs: {name: web}}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.parentRefs: invalid type: map, expected a sequence",
        ),
        (
            "33 parents",
            route(&format!("{{parentRefs: [{}]}}", vec!["{name: web}"; 33].join(", "))),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.parentRefs: has 33 items, at most 32 are allowed",
        ),
        (
            "a parent's kind with a space",
            route("{parentRefs: [{kind: Gate way, name: web}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.parentRefs[0].kind: \"Gate way\" is not a valid kind",
        ),
        (
            "a parent's port above the maximum",
            route("{parentRefs: [{name: web, port: 65536}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.parentRefs[0].port: expected a port from 1 to 65535, found 65536",
        ),
        (
            "a host name in upper case",
            route("{hostnames: [a.example.com, Shop.example.com]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.hostnames[1]: \"Shop.example.com\" is not a valid lowercase host name",
        ),
        (
            "an IP address as a host name",
            route("{hostnames: [10.0.0.1]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.hostnames[0]: \"10.0.0.1\" is not a valid lowercase host name",
        ),
        (
            "17 rules",
            route(&format!("{{rules: [{}]}}", vec!["{}"; 17].join(", "))),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules: has 17 items, at most 16 are allowed",
        ),
        (
            "two rules with the same name",
            route("{rules: [{name: a}, {name: a}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules[1].name: duplicate rule name \"a\"",
        ),
        (
            "a backend's port as a string",
            route("{rules: [{backendRefs: [{name: orders, port: http}]}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules[0].backendRefs[0].port: invalid type: string \"http\", expected i64",
        ),
        (
            "a path without a leading slash",
            route("{rules: [{matches: [{path: {value: a}}]}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules[0].matches[0].path.value: \"a\" does not begin with /",
        ),
        (
            "a path with an empty element",
            route("{rules: [{matches: [{path: {type: Exact, value: /a//b}}]}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules[0].matches[0].path.value: \"/a//b\" contains //",
        ),
        (
            "a method in lower case",
            route("{rules: [{matches: [{method: get}]}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules[0].matches[0].method: \"get\" is not one of GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH",
        ),
        (
            "an unknown match type",
            route("{rules: [{matches: [{path: {type: Prefix, value: /}}]}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules[0].matches[0].path.type: unknown variant `Prefix`, expected one of `Exact`, `PathPrefix`, `RegularExpression`",
        ),
        (
            "a regular expression that RE2 rejects",
            route("{rules: [{matches: [{headers: [{name: a, type: RegularExpression, value: '(?!x)'}]}]}]}"),
            "stdin:1: httproute.gateway.networking.k8s.io:shop/r: spec.rules[0].matches[0].headers[0].value: \"(?!x)\" is not a valid RE2 regular expression: it matches nothing",
        ),
        (
            "two listeners with the same name",
            of_gateway("{name: a, port: 80, protocol: HTTP}, {name: a, port: 81, protocol: HTTP}"),
            "stdin:1: gateway.gateway.networking.k8s.io:shop/web: spec.listeners[1].name: duplicate listener name \"a\"",
        ),
        (
            "a listener without a port",
            of_gateway("{name: a, protocol: HTTP}"),
            "stdin:1: gateway.gateway.networking.k8s.io:shop/web: spec.listeners[0]: missing field `port`",
        ),
        (
            "a domain as a protocol",
            of_gateway("{name: a, port: 80, protocol: example.com}"),
            "stdin:1: gateway.gateway.networking.k8s.io:shop/web: spec.listeners[0].protocol: \"example.com\" is not a valid protocol: expected HTTP or example.com/name",
        ),
        (
            "an unknown source of routes",
            of_gateway("{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Everyone}}}"),
            "stdin:1: gateway.gateway.networking.k8s.io:shop/web: spec.listeners[0].allowedRoutes.namespaces.from: unknown variant `Everyone`, expected one of `All`, `Same`, `Selector`, `None`",
        ),
        (
            "a selector with an unknown operator",
            of_gateway(
                "{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchExpressions: [{key: a, operator: Is}]}}}}",
            ),
            "stdin:1: gateway.gateway.networking.k8s.io:shop/web: spec.listeners[0].allowedRoutes.namespaces: selector: \"Is\" is not one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            "a Gateway without a class",
            vec![object("Gateway", "web", "{listeners: []}")],
            "stdin:1: gateway.gateway.networking.k8s.io:shop/web: spec: missing field `gatewayClassName`",
        ),
        (
            "a port without a name beside another port",
            vec![
                object("Service", "orders", "{ports: [{name: a, port: 80}, {port: 81}]}")
                    .replace("gateway.networking.k8s.io/v1", "v1"),
            ],
            "stdin:1: service:shop/orders: spec.ports[1].name: is required if there are several ports",
        ),
        (
            "a grant without a namespace",
            vec![object("ReferenceGrant", "g", "{from: [{group: '', kind: Service}], to: []}")],
            "stdin:1: referencegrant.gateway.networking.k8s.io:shop/g: spec.from[0]: missing field `namespace`",
        ),
        (
            "limits as a list",
            of_policy(&format!("{{{TARGET}, limits: [a]}}")),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.limits: expected an object, found a list",
        ),
        (
            "a limit as a number",
            of_policy(&format!("{{{TARGET}, overrides: {{limits: {{'a b': 5}}}}}}")),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.overrides.limits[\"a b\"]: expected an object, found a number",
        ),
        (
            "defaults as a string",
            of_policy(&format!("{{{TARGET}, defaults: atomic}}")),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.defaults: expected an object, found a string",
        ),
        (
            "a strategy as a number",
            of_policy(&format!("{{{TARGET}, defaults: {{strategy: 1}}}}")),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.defaults.strategy: expected a string, found a number",
        ),
        (
            "an unknown strategy",
            of_policy(&format!("{{{TARGET}, defaults: {{strategy: replace}}}}")),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.defaults.strategy: unknown strategy \"replace\": \"atomic\" is used",
        ),
        (
            "both defaults and overrides",
            of_policy(&format!("{{{TARGET}, defaults: {{}}, overrides: {{}}}}")),
            "stdin:1: ratelimitpolicy.kuadrant.io:shop/p: spec.overrides: defaults and overrides are both set: only the defaults are used",
        ),
        (
            "two objects with the same identity",
            vec![CLASS.to_owned(), CLASS.replace("/v1,", "/v1beta1,")],
            "policy-sync: stdin:3: duplicate GatewayClass istio, also at stdin:1",
        ),
        (
            "not YAML",
            vec!["{".to_owned()],
            "policy-sync: stdin:1: document 1: unclosed bracket '{' at column 1",
        ),
    ]
}

#[test]
fn messages_about_invalid_objects_are_documented() {
    let mut table = "| input | message |\n|---|---|\n".to_owned();
    let mut faults = Vec::new();
    for (what, objects, expected) in cases() {
        let ran = run_with(&["topology", "-f", "-", "-o", "json"], &text(&objects));
        let code_expected = if expected.starts_with("policy-sync: ") { 2 } else { 1 };
        let lines: Vec<&str> = ran.stderr.lines().collect();
        if ran.code != code_expected || !lines.contains(&expected) {
            faults.push(format!("{what}: expected {expected}, found {} {}", ran.code, ran.stderr));
        }
        table += &format!("| {what} | {} |\n", code(expected));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    bad_input::holds("topology", &table).unwrap();
}

/// A description of an error, arguments of a request, and the message.
const REQUESTS: [(&str, &[&str], &str); 12] = [
    ("an empty host", &["--host="], "policy-sync: --host: \"\" is not a valid host"),
    ("a host with an underscore", &["--host=a_b.io"], "policy-sync: --host: \"a_b.io\" is not a valid host"),
    ("a wildcard", &["--host=*.io"], "policy-sync: --host: \"*.io\" is not a valid host"),
    (
        "an IPv6 address without a closing bracket",
        &["--host=[::1"],
        "policy-sync: --host: \"[::1\" is not a valid host",
    ),
    ("a host name in brackets", &["--host=[a.io]"], "policy-sync: --host: \"[a.io]\" is not a valid host"),
    (
        "a host's port above the maximum",
        &["--host=a.io:65536"],
        "policy-sync: --host: \"65536\" is not a valid port",
    ),
    (
        "a path without a leading slash",
        &["--path=a"],
        "policy-sync: --path: \"a\" is not a valid path: it must start with / and contain no #, spaces or control characters",
    ),
    (
        "a path with a fragment",
        &["--path=/a#b"],
        "policy-sync: --path: \"/a#b\" is not a valid path: it must start with / and contain no #, spaces or control characters",
    ),
    ("a method with a space", &["--method=GET /"], "policy-sync: --method: \"GET /\" is not a valid method"),
    (
        "a header without a value",
        &["--header=a"],
        "policy-sync: --header: \"a\" is not of the form NAME=VALUE",
    ),
    (
        "a parameter without a name",
        &["--query==a"],
        "policy-sync: --query: \"=a\" is not of the form NAME=VALUE",
    ),
    (
        "a route without a kind",
        &["--route=orders"],
        "policy-sync: --route \"orders\" is not of the form KIND/NAME",
    ),
];

#[test]
fn messages_about_invalid_requests_are_documented() {
    let mut table = "| error | argument | message |\n|---|---|---|\n".to_owned();
    for (what, arguments, expected) in REQUESTS {
        let ran = run_with(&[&["effective", "-f", "-"], arguments].concat(), CLASS);
        assert_eq!((ran.code, ran.stderr.trim_end(), &*ran.stdout), (2, expected, ""), "{what}");
        table += &format!("| {what} | {} | {} |\n", code(&arguments.join(" ")), code(expected));
    }
    bad_input::holds("requests of effective", &table).unwrap();
}

/// An invalid object is left out, and all other objects are processed.
#[test]
fn invalid_object_does_not_affect_others() {
    let objects = text(&[
        CLASS.to_owned(),
        gateway("{name: http, port: 80, protocol: HTTP}"),
        object("HTTPRoute", "bad", "{parentRefs: [{name: web}], hostnames: [A]}"),
        object("HTTPRoute", "good", "{parentRefs: [{name: web}]}"),
    ]);
    let ran = run_with(&["topology", "-f", "-", "-o", "json"], &objects);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, 1);
    assert_eq!(json["paths"].as_array().unwrap().len(), 1);
    assert_eq!(json["faults"][0]["place"], "stdin:5");
    let others = ["nodes", "links", "unattached", "paths"].map(|field| json[field].to_string());
    assert!(others.iter().all(|text| !text.contains("shop/bad")), "the invalid route is only in the faults");
}

#[test]
fn unreadable_document_leaves_the_others() {
    let good = [CLASS.to_owned(), gateway("{name: http, port: 80, protocol: HTTP}")];
    let bad = text(&[good[0].clone(), "a: 'x".to_owned(), good[1].clone()]);
    for command in [&["topology"][..], &["effective"], &["effective", "--clusters"]] {
        let arguments = [command, &["-f", "-", "-o", "json"]].concat();
        let (ran, expected) = (run_with(&arguments, &bad), run_with(&arguments, &text(&good)));
        assert_eq!((ran.code, ran.stdout), (2, expected.stdout), "{}", ran.stderr);
        let line = ran.stderr.lines().last().unwrap_or_default();
        assert!(line.starts_with("policy-sync: stdin:3: document 2: "), "{}", ran.stderr);
    }
}

fn published() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/topology").display().to_string()
}

fn json_of(arguments: &[&str]) -> Value {
    let folder = published();
    let ran = run(&[arguments, &["-f", &folder, "-o", "json"]].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// The last node of each path in a report.
fn ends(json: &Value) -> Vec<&str> {
    let paths = json["paths"].as_array().or_else(|| json["answers"].as_array()).unwrap();
    let end = |path: &'_ Value| -> Option<usize> {
        path["nodes"].as_array().or_else(|| path["path"].as_array()).map(Vec::len)
    };
    paths
        .iter()
        .map(|path| {
            let last = end(path).unwrap() - 1;
            let nodes = if path["nodes"].is_array() { &path["nodes"] } else { &path["path"] };
            nodes[last].as_str().unwrap().split_once(':').unwrap().1
        })
        .collect()
}

#[test]
fn flags_select_a_part_of_the_topology() {
    let all = ["infra/web#internal", "shop/orders#cart", "shop/orders#rule-2"];
    assert_eq!(ends(&json_of(&["topology"])), all);
    assert_eq!(ends(&json_of(&["topology", "-A"])), all);
    assert_eq!(ends(&json_of(&["topology", "-n", "shop"])), all[1..]);
    assert_eq!(ends(&json_of(&["topology", "--gateway", "web"])), all);
    assert_eq!(ends(&json_of(&["topology", "--gateway", "web", "-n", "shop"])), [""; 0]);
    assert_eq!(ends(&json_of(&["effective"])), all);
    assert_eq!(ends(&json_of(&["effective", "--route", "httproutes/orders"])), all[1..]);
    assert_eq!(ends(&json_of(&["effective", "--route", "grpcroute/orders"])), [""; 0]);
    assert_eq!(ends(&json_of(&["effective", "--policy", "RateLimitPolicy/cart"])), ["shop/orders#cart"]);
    assert_eq!(ends(&json_of(&["effective", "--policy", "tlspolicies.kuadrant.io/own-authority"])), all[..1]);
    // A policy that other policies replace is still on the path.
    assert_eq!(ends(&json_of(&["effective", "--policy", "authpolicy/login", "-n", "infra"])), all);
    let in_shop = json_of(&["topology", "-n", "shop"]);
    let policies: Vec<&str> =
        in_shop["policies"].as_array().unwrap().iter().map(|policy| policy["id"].as_str().unwrap()).collect();
    assert!(policies.contains(&"tokenratelimitpolicy.kuadrant.io:shop/tokens"), "{policies:?}");
    assert!(policies.contains(&"ratelimitpolicy.kuadrant.io:infra/ceiling"), "{policies:?}");
    assert!(!policies.contains(&"tlspolicy.kuadrant.io:infra/own-authority"), "{policies:?}");
}

#[test]
fn yaml_output_equals_json_output() {
    let folder = published();
    for command in ["topology", "effective"] {
        let yaml = run(&[command, "-f", &folder, "-o", "yaml"]).stdout;
        let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(yaml, json_of(&[command]));
    }
}

#[test]
fn exit_code_is_1_if_something_does_not_attach() {
    let fine = text(&[CLASS.to_owned(), gateway("{name: http, port: 80, protocol: HTTP}")]);
    let code = |arguments: &[&str], input: &str| run_with(arguments, input).code;
    assert_eq!(code(&["topology", "-f", "-"], &fine), 0);
    let other = object("HTTPRoute", "r", "{parentRefs: [{name: web}, {kind: Service, group: '', name: x}]}");
    assert_eq!(
        code(&["topology", "-f", "-"], &text(&[fine.clone(), other])),
        0,
        "a parent of another controller is not a fault"
    );
    let unattached = object("HTTPRoute", "r", "{parentRefs: [{name: nope}]}");
    assert_eq!(code(&["topology", "-f", "-"], &text(&[fine.clone(), unattached])), 1);
    let void = policy(
        "p",
        &TARGET
            .replace("name: web", "name: nope")
            .replace("targetRef", "{targetRef")
            .replace("nope}", "nope}}"),
    );
    assert_eq!(code(&["topology", "-f", "-"], &text(&[fine.clone(), void])), 1);
    assert_eq!(code(&["effective", "-f", "-"], &fine), 0);
    assert_eq!(code(&["effective", "-f", "-", "--host", "a.io"], &fine), 1, "no route matches the request");
    assert_eq!(code(&["effective", "-f", "-", "-n", "other"], &fine), 1);
}

#[test]
fn listeners_unknown_targets_and_assumed_merges_are_in_the_text() {
    let listeners = "{name: lower, port: 80, protocol: http}, \
        {name: odd, port: 81, protocol: HTTP, allowedRoutes: {kinds: [{kind: FooRoute}, {kind: HTTPRoute}]}}";
    let other = format!(
        "{{apiVersion: example.com/v1, kind: OtherPolicy, metadata: {{name: other, namespace: shop}}, spec: {{{TARGET}, a: 1}}}}"
    );
    let selecting =
        policy("p", "{targetSelectors: [{group: '', kind: Service, matchLabels: {a: b}}], limits: {x: {}}}");
    let objects = text(&[CLASS.to_owned(), gateway(listeners), other, selecting]);
    let expected = "\
GatewayClass istio
└─ Gateway shop/web [OtherPolicy shop/other]
   └─ listener odd: HTTP 81 *

Not attached:
  Gateway shop/web lower to Gateway shop/web: UnsupportedProtocol: unsupported protocol \"http\": expected HTTP, HTTPS, TLS, TCP or UDP, which are case-sensitive

Unresolved references:
  Gateway shop/web odd: InvalidRouteKinds: Gateway API has no route kind FooRoute

Policies with unknown targets:
  RateLimitPolicy shop/p: it selects Services by their labels, which are not read

Kinds with an assumed merge strategy:
  OtherPolicy.example.com
";
    let CommandOutput { code, stdout, .. } = run_with(&["topology", "-f", "-"], &objects);
    assert_eq!((code, &*stdout), (1, expected));
    let CommandOutput { stdout, stderr, .. } = run_with(&["effective", "-f", "-"], &objects);
    assert!(stdout.contains("  OtherPolicy.example.com (assumed)\n"), "{stdout}");
    let unknown =
        "RateLimitPolicy shop/p may be in force: it selects Services by their labels, which are not read\n";
    assert_eq!(stderr, unknown);
    let json = run_with(&["effective", "-f", "-", "-o", "json"], &objects).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["answers"][0]["effective"]["OtherPolicy.example.com"]["assumed"], true);
}

#[test]
fn attachment_is_unknown_if_namespace_labels_are_unknown() {
    let listener = "{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, \
        selector: {matchExpressions: [{key: team, operator: NotIn, values: [a]}]}}}}";
    let route = object("HTTPRoute", "r", "{parentRefs: [{name: web}]}");
    let objects = text(&[CLASS.to_owned(), gateway(listener), route]);
    let words = "allowedRoutes of listener http of Gateway shop/web: the selector needs the labels of Namespace shop, which are unknown: provide the Namespace, or the right to list Namespaces";
    let CommandOutput { code, stdout, stderr } = run_with(&["topology", "-f", "-"], &objects);
    assert_eq!(code, 2, "{stdout}{stderr}");
    let expected = format!("\nUnknown attachment:\n  HTTPRoute shop/r: UnknownLabels: {words}\n");
    assert!(stdout.ends_with(&expected), "{stdout}");
    assert!(stderr.contains("it is unknown whether everything is attached"), "{stderr}");
    let CommandOutput { stderr, .. } = run_with(&["effective", "-f", "-"], &objects);
    assert!(stderr.contains(&format!("HTTPRoute shop/r may not be attached: {words}\n")), "{stderr}");
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: b}}}".to_owned();
    let CommandOutput { code, stdout, .. } = run_with(&["topology", "-f", "-"], &text(&[objects, namespace]));
    assert_eq!((code, stdout.contains("UnknownLabels")), (0, false), "{stdout}");
}

#[test]
fn differing_implementations_are_in_the_text() {
    let listener = "{name: http, port: 80, protocol: HTTP}";
    let route = |name: &str, status: &str| {
        let status = format!(
            "{{parents: [{{parentRef: {{name: web}}, controllerName: a.io/b, conditions: [{{type: Accepted, {status}}}]}}]}}"
        );
        let route = object("HTTPRoute", name, "{parentRefs: [{name: web}]}");
        format!("{}, status: {status}}}", route.strip_suffix('}').unwrap())
    };
    let objects = |status: &str| {
        let older = object("GRPCRoute", "a", "{parentRefs: [{name: web}]}");
        text(&[CLASS.to_owned(), gateway(listener), older, route("r", status)])
    };
    let accepted = objects("status: 'True', reason: Accepted");
    let CommandOutput { code, stdout, stderr } = run_with(&["topology", "-f", "-"], &accepted);
    let words = "implementation differs: a.io/b accepts it; according to Gateway API, Conflicted: a GRPCRoute on the same listener shares a hostname, and is older or first by name";
    let section = format!("\nImplementations differ:\n  HTTPRoute shop/r: ImplementationAccepts: {words}\n");
    assert!(stdout.ends_with(&section) && stdout.contains("└─ HTTPRoute shop/r\n"), "{stdout}");
    assert_eq!(code, 0, "{stdout}{stderr}");
    let CommandOutput { stderr, .. } = run_with(&["effective", "-f", "-"], &accepted);
    assert!(stderr.contains(&format!("HTTPRoute shop/r: {words}\n")), "{stderr}");
    let CommandOutput { code, stdout, .. } =
        run_with(&["topology", "-f", "-"], &objects("status: 'False', reason: Conflicted"));
    assert!(code == 1 && stdout.contains("Not attached:\n  HTTPRoute shop/r"), "{stdout}");
    assert!(!stdout.contains("Implementations differ"), "{stdout}");
    // Status entries of the hub's controller are ignored, because they repeat the graph.
    let own = accepted.replace("a.io/b", "kuadrant.io/policy-sync");
    assert_eq!(run_with(&["topology", "-f", "-"], &own).code, 1);
}

/// Missing input is reported once, and is not a fault.
#[test]
fn missing_input_is_reported_without_failing() {
    let CommandOutput { code, stderr, .. } =
        run_with(&["topology", "-f", "-"], &gateway("{name: http, port: 80, protocol: HTTP}"));
    assert_eq!(code, 0);
    assert_eq!(stderr, "no GatewayClass is given: referenced objects appear only by name\n");
}

#[test]
fn copy_with_precedence_over_a_local_policy_is_a_fault() {
    let policy = |name: &str, annotations: &str, block: &str| {
        format!(
            "{{apiVersion: kuadrant.io/v1, kind: RateLimitPolicy, metadata: {{name: {name}, namespace: shop, annotations: {annotations}}}, \
             spec: {{{TARGET}, {block}: {{limits: {{all: {{rates: [{{limit: 1, window: 1s}}]}}}}}}}}}}"
        )
    };
    let objects = |block: &str| {
        let copy = policy("copy", "{kuadrant.io/policy-synced: hub/limits}", block);
        let listener = gateway("{name: http, port: 80, protocol: HTTP}");
        text(&[CLASS.to_owned(), listener, copy, policy("local", "{}", block)])
    };
    let fault = "stdin:5: ratelimitpolicy.kuadrant.io:shop/copy: HierarchyNotHonored: this copy of the hub's hub/limits takes \
                 precedence over RateLimitPolicy shop/local, a policy of this cluster with the same target, Gateway shop/web\n";
    let of_topology = run_with(&["topology", "-f", "-"], &objects("overrides"));
    assert!(of_topology.stdout.ends_with(&format!("\nFaults:\n  {fault}")), "{of_topology:#?}");
    assert_eq!((of_topology.code, &*of_topology.stderr), (1, ""));
    let of_effective = run_with(&["effective", "-f", "-"], &objects("overrides"));
    assert_eq!((of_effective.code, &*of_effective.stderr), (1, fault));
    // If two defaults were created in the same second, the policy with the later name is in force. Here, that policy is
    // the spoke's own policy.
    for command in ["topology", "effective"] {
        let CommandOutput { code, stderr, .. } = run_with(&[command, "-f", "-"], &objects("defaults"));
        assert_eq!((code, &*stderr), (0, ""), "{command}");
    }
}

/// Backends of kinds such as InferencePool are never read, neither from a cluster nor from files. So references to
/// these backends do not affect the exit code.
#[test]
fn unread_kinds_of_backends_are_no_fault() {
    let route = |rule: &str| {
        let route = object("HTTPRoute", "r", &format!("{{parentRefs: [{{name: web}}], rules: [{rule}]}}"));
        text(&[CLASS.to_owned(), gateway("{name: http, port: 80, protocol: HTTP}"), route])
    };
    let pool = "{backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: llm}]}";
    let CommandOutput { code, stdout, stderr } = run_with(&["topology", "-f", "-"], &route(pool));
    let line = "\nUnresolved references:\n  HTTPRoute shop/r rule-1: UnknownKind: backends of the kind \
                InferencePool.inference.networking.k8s.io are not read\n";
    assert!(stdout.ends_with(line), "{stdout}");
    assert_eq!((code, &*stderr), (0, ""));
    // Files may omit Services, for mirrors as for other backends.
    let mirror = "{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: copies, port: 80}}}]}";
    for rule in [mirror, "{backendRefs: [{name: copies, port: 80}]}"] {
        let CommandOutput { code, stderr, .. } = run_with(&["topology", "-f", "-"], &route(rule));
        let line = "no Service is given: referenced objects appear only by name\n";
        assert_eq!((code, &*stderr), (0, line), "{rule}");
    }
}

#[test]
fn report_contains_the_parsed_request() {
    let json = json_of(&[
        "effective",
        "--host",
        "EU.shop.example.com.:443",
        "--path",
        "/cart?a=1&a=2&b=%20x+y",
        "--header",
        "X-One=1",
        "--method",
        "post",
        "--query",
        "c=d",
    ]);
    let expected = json!({
        "host": "eu.shop.example.com", "hostPort": 443, "path": "/cart", "method": "POST",
        "headers": {"x-one": ["1"]}, "query": {"a": "1", "b": " x y", "c": "d"},
    });
    assert_eq!(json["request"], expected);
    assert_eq!(ends(&json), ["shop/orders#cart"]);
}

#[test]
fn effective_lists_sixteen_unevaluated_rules_and_counts_the_others() {
    // Each regular expression is different, and too large once it is compiled.
    let rule = |number: usize| {
        let path = format!(r"{{type: RegularExpression, value: '/(\w{{100}}){{100}}{number}'}}");
        format!("{{name: large-{number:02}, matches: [{{path: {path}}}]}}")
    };
    let rules = |numbers: std::ops::Range<usize>| numbers.map(rule).collect::<Vec<_>>().join(", ");
    let route = |name: &str, rules: &str| {
        object("HTTPRoute", name, &format!("{{parentRefs: [{{name: web}}], rules: [{rules}]}}"))
    };
    let listener = || gateway("{name: http, port: 80, protocol: HTTP}");
    let not_evaluated = |route: &str, number: usize| {
        format!(
            "HTTPRoute shop/{route} large-{number:02} at Gateway shop/web http was not evaluated, and may match this request: a regular \
             expression takes more than 1 MiB when compiled"
        )
    };
    let ran =
        |objects: &[String]| run_with(&["effective", "-f", "-", "--host=a.io", "--path=/a"], &text(objects));

    let CommandOutput { code, stdout, stderr } =
        ran(&[CLASS.to_owned(), listener(), route("a", &rules(0..9)), route("b", &rules(9..18))]);
    let of_first = (0..9).map(|number| not_evaluated("a", number));
    let mut expected: Vec<String> =
        of_first.chain((9..16).map(|number| not_evaluated("b", number))).collect();
    expected.push("2 more rules were not evaluated, and may match this request".to_owned());
    expected.push("policy-sync: it is unknown whether such a path exists".to_owned());
    assert_eq!(stderr.lines().collect::<Vec<_>>(), expected);
    assert_eq!((code, &*stdout), (2, "It is unknown whether a route matches this request.\n"));

    let CommandOutput { code, stdout, stderr } =
        ran(&[CLASS.to_owned(), listener(), route("a", &format!("{{name: all}}, {}", rules(0..1)))]);
    assert_eq!(stderr.trim_end(), not_evaluated("a", 0));
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("> rule all\n"), "{stdout}");
    assert!(stdout.contains("  chosen: no other rule that was evaluated matches\n"), "{stdout}");
}

/// A policy with the maximum size that the API accepts.
#[test]
fn ten_thousand_limits_are_merged() {
    let limits: Vec<String> = (0..10_000).map(|index| format!("limit-{index}: {{}}")).collect();
    let limits = limits.join(", ");
    let objects = text(&[
        CLASS.to_owned(),
        gateway("{name: http, port: 80, protocol: HTTP}"),
        object("HTTPRoute", "r", "{parentRefs: [{name: web}]}"),
        policy("p", &format!("{{{TARGET}, overrides: {{strategy: merge, limits: {{{limits}}}}}}}")),
        policy(
            "q",
            "{targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}, limits: {own: {}}}",
        ),
    ]);
    let ran = run_with(&["effective", "-f", "-", "-o", "json"], &objects);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    let rules = json["answers"][0]["effective"]["RateLimitPolicy.kuadrant.io"]["rules"].as_object().unwrap();
    assert_eq!(rules.len(), 10_001);
}

/// The examples in `docs/topology.md` and `docs/effective-policies.md` show the output of their commands.
#[test]
fn examples_in_the_documentation_match_the_output() {
    for page in ["docs/topology.md", "docs/effective-policies.md"] {
        assert_shows_what_is_printed(page);
    }
}

fn assert_shows_what_is_printed(name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join(name);
    let page = std::fs::read_to_string(&path).unwrap();
    let mut written = String::new();
    let mut blocks = 0;
    let mut parts = page.split("```console\n");
    written += parts.next().unwrap();
    for part in parts {
        let (block, after) = part.split_once("```").unwrap();
        let command = block.lines().next().unwrap().strip_prefix("$ policy-sync ").unwrap();
        let arguments: Vec<&str> = command.split(' ').collect();
        let ran = crate::run::finish(
            {
                let mut command = crate::run::command(&arguments);
                command.current_dir(root);
                command
            },
            "",
        );
        written += &format!("```console\n$ policy-sync {command}\n{}```{after}", ran.stdout);
        blocks += 1;
    }
    assert!(blocks > 0, "{name} contains no command");
    if std::env::var_os("POLICY_SYNC_UPDATE").is_some() {
        std::fs::write(&path, written).unwrap();
        return;
    }
    assert!(page == written, "the output in {name} is outdated: set POLICY_SYNC_UPDATE=1 to update it");
}

#[test]
fn refused_policy_keeps_its_reason_and_is_shown_with_its_gateway() {
    let policy = |kind: &str, name: &str, target: &str, reason: &str, message: &str| {
        format!(
            "{{apiVersion: kuadrant.io/v1, kind: {kind}, metadata: {{name: {name}, namespace: shop, generation: 1}}, spec: {{targetRef: \
             {{group: gateway.networking.k8s.io, {target}}}}}, status: {{observedGeneration: 1, conditions: [{{type: Accepted, status: 'False', \
             reason: {reason}, message: '{message}', lastTransitionTime: '2026-01-01T00:00:00Z'}}]}}}}"
        )
    };
    let conflicted = "DNSPolicy is conflicted by default/older";
    let objects = text(&[
        CLASS.to_owned(),
        gateway("{name: http, port: 80, protocol: HTTP}"),
        policy("DNSPolicy", "dns", "kind: Gateway, name: web", "Conflicted", conflicted),
        policy(
            "RateLimitPolicy",
            "limits",
            "kind: HTTPRoute, name: chat",
            "TargetNotFound",
            "target was not found",
        ),
    ]);
    let of_gateway = format!(
        "  DNSPolicy shop/dns: NotAccepted: its status has Accepted=False: Conflicted: {conflicted}\n"
    );
    let of_route = "  RateLimitPolicy shop/limits: TargetNotFound: HTTPRoute shop/chat does not exist\n";
    let CommandOutput { code, stdout, .. } = run_with(&["topology", "-f", "-"], &objects);
    assert!(code == 1 && stdout.contains(&of_gateway) && stdout.contains(of_route), "{stdout}");
    let CommandOutput { code, stdout, .. } = run_with(&["topology", "-f", "-", "--gateway", "web"], &objects);
    assert!(code == 1 && stdout.contains(&of_gateway) && !stdout.contains(of_route), "{stdout}");
}
