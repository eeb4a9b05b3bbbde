//! The stored topology, with as much detail as fits into the limit.

use std::io::Write;
use std::process::{Command, Stdio};

use policy_sync_controller::stored_topology::text;
use policy_sync_topology::Graph;
use serde_json::{Value, json};

use crate::shorthand::objects;

/// This number of Gateways with routes and policies.
fn world(gateways: usize) -> Vec<Value> {
    (0..gateways)
        .flat_map(|number| {
            let (gateway, route) = (format!("gateway-{number:03}"), format!("route-{number:03}"));
            [
                json!({"Gateway": gateway, "listeners": [{}, {"name": "b", "port": 81}]}),
                json!({"HTTPRoute": route, "parents": [gateway], "rules": [{"backends": ["api:80"]}, {"backends": ["api:80"]}]}),
                json!({"RateLimitPolicy": format!("{route}-limits"), "target": format!("HTTPRoute/{route}"), "limits": {"x": {}}}),
                json!({"AuthPolicy": format!("{gateway}-auth"), "target": format!("Gateway/{gateway}"), "rules": {}}),
            ]
        })
        .chain([json!({"GatewayClass": "istio"}), json!({"Service": "api", "ports": [{"port": 80}]})])
        .collect()
}

#[test]
fn topology_has_as_much_detail_as_fits() {
    let objects = objects(&world(20));
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let whole = text(&graph, usize::MAX);
    assert_eq!(whole.detail.to_string(), "full");
    let mut details: Vec<String> = Vec::new();
    let mut last = usize::MAX;
    for limit in (0..=whole.dot.len()).rev().step_by(50) {
        let found = text(&graph, limit);
        assert!(found.dot.len() <= limit.max(60), "limit {limit}: {} bytes", found.dot.len());
        assert!(found.dot.len() <= last, "a lower limit gives a longer text");
        last = found.dot.len();
        assert!(found.dot.starts_with("strict digraph {\n") && found.dot.ends_with("}\n"));
        if details.last() != Some(&found.detail.to_string()) {
            details.push(found.detail.to_string());
        }
    }
    assert_eq!(details[..4], ["full", "routes", "listeners", "gateways"]);
    assert!(details[4].starts_with("first ") && details[4].ends_with(" of 20"), "{details:?}");
    assert_eq!(details.last().map(String::as_str), Some("first 0 of 20"));
    let numbers = details[4..].iter().map(|detail| detail.split(' ').nth(1).unwrap().parse().unwrap());
    let numbers: Vec<usize> = numbers.collect();
    assert!(numbers.windows(2).all(|pair| pair[0] > pair[1]), "{numbers:?}");
}

#[test]
fn each_detail_contains_its_parts() {
    let objects = objects(&world(3));
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let mut limit = usize::MAX;
    let mut next = || {
        let found = text(&graph, limit);
        limit = found.dot.len() - 1;
        found
    };
    let full = next().dot;
    for part in ["#rule-2\"", "\"service:shop/api#80\"", "[style=dashed]", "ServicePort\\n"] {
        assert!(full.contains(part), "{part}: {full}");
    }
    let routes = next().dot;
    assert!(!routes.contains("#rule-") && !routes.contains("service:"), "{routes}");
    assert!(routes.contains("route-001\"") && routes.contains("ratelimitpolicy."), "{routes}");
    let listeners = next().dot;
    assert!(!listeners.contains("httproute.") && !listeners.contains("ratelimitpolicy."), "{listeners}");
    assert!(listeners.contains("Listener\\nshop/gateway-001#http\\nroutes: 1"), "{listeners}");
    let gateways = next();
    assert_eq!(gateways.detail.to_string(), "gateways");
    assert!(!gateways.dot.contains('#') && gateways.dot.contains("authpolicy."), "{}", gateways.dot);
    let two = next();
    assert_eq!(two.detail.to_string(), "first 2 of 3");
    assert!(two.dot.contains("gateway-001\"") && !two.dot.contains("gateway-002"), "{}", two.dot);
}

#[test]
fn graphviz_accepts_every_detail() {
    let mut world = world(3);
    world.push(json!({"HTTPRoute": "a.b", "parents": ["gateway-000"], "rules": [{"name": "one"}]}));
    let objects = objects(&world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let (mut limit, mut drawn) = (usize::MAX, Vec::new());
    loop {
        let found = text(&graph, limit);
        let detail = found.detail.to_string();
        let picture = draw(&found.dot);
        let gateways = ["gateway-000", "gateway-001", "gateway-002"];
        let shown = gateways.iter().filter(|name| picture.contains(*name)).count();
        let expected = detail.strip_prefix("first ").map_or(3, |rest| rest[..1].parse().unwrap());
        assert_eq!(shown, expected, "{detail}: {picture}");
        drawn.push(detail.clone());
        if detail == "first 0 of 3" {
            break;
        }
        limit = found.dot.len() - 1;
    }
    assert_eq!(
        drawn,
        ["full", "routes", "listeners", "gateways", "first 2 of 3", "first 1 of 3", "first 0 of 3"]
    );
}

/// The picture that Graphviz draws of `dot`.
fn draw(dot: &str) -> String {
    let mut graphviz = Command::new("dot")
        .arg("-Tsvg")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("this test needs Graphviz (Debian's package graphviz): {error}"));
    graphviz.stdin.take().unwrap().write_all(dot.as_bytes()).unwrap();
    let output = graphviz.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // Graphviz writes a hyphen as `&#45;`.
    String::from_utf8(output.stdout).unwrap().replace("&#45;", "-")
}
