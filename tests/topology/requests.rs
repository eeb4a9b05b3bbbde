//! Compares the evaluation of requests with an independent implementation, which sorts all matches of a
//! Gateway.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use policy_sync_topology::show::{EffectiveReport, Scope, TopologyReport};
use policy_sync_topology::{Graph, Request};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::Value;

use crate::shorthand::{object, objects};
use crate::worlds::world;

fn request() -> impl Strategy<Value = Request> {
    let host = prop::option::of(select(vec![
        "a.example.com",
        "b.example.com",
        "c.example.com",
        "x.a.example.com",
        "y.x.a.example.com",
        "example.org",
        "example.com",
    ]));
    let path = select(vec!["/", "/a", "/a/", "/a/b", "/ab", "/a/b/c", "//a"]);
    let values = || subsequence(vec!["x", "y"], 0..=2);
    let method = prop::option::of(select(vec!["GET", "POST"]));
    (host, path, method, values(), values(), prop::option::of(select(vec![80, 81, 82]))).prop_map(
        |(host, path, method, headers, query, port)| Request {
            headers: headers.into_iter().map(|name| (name.to_owned(), vec!["1".to_owned()])).collect(),
            host: host.map(str::to_owned),
            host_port: None,
            method: method.map(str::to_owned),
            path: path.to_owned(),
            port,
            query: query.into_iter().map(|name| (name.to_owned(), "1".to_owned())).collect(),
        },
    )
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// How specifically the hostname `pattern` matches `host`; `None` if it does not match.
fn fits(pattern: &str, host: Option<&str>) -> Option<(u8, usize)> {
    match (pattern, host) {
        ("*", _) => Some((0, 0)),
        (_, None) => None,
        (pattern, Some(host)) if pattern == host => Some((2, pattern.len())),
        (pattern, Some(host)) => {
            let rest: Vec<&str> = pattern.strip_prefix("*.")?.rsplit('.').collect();
            let labels: Vec<&str> = host.rsplit('.').collect();
            (labels.len() > rest.len() && labels[..rest.len()] == rest[..]).then_some((1, pattern.len()))
        }
    }
}

/// The rank of a path match; `None` if `path` does not match.
fn path_rank(written: &Value, path: &str) -> Option<(u8, usize)> {
    let (kind, value) = match written.is_null() {
        true => ("PathPrefix", "/"),
        false => (text(written, "type"), text(written, "value")),
    };
    match kind {
        "Exact" => (path == value).then_some((2, 0)),
        // The random objects have only one regular expression, which matches everything.
        "RegularExpression" if value == "/.*" => Some((1, 0)),
        "RegularExpression" => (path == value).then_some((1, 0)),
        _ => {
            let wanted: Vec<&str> = value.trim_end_matches('/').split('/').collect();
            let found: Vec<&str> = path.split('/').collect();
            let begins = found.len() >= wanted.len() && found[..wanted.len()] == wanted[..];
            begins.then(|| (0, value.trim_end_matches('/').len()))
        }
    }
}

fn has_all(wanted: &Value, has: impl Fn(&str) -> bool) -> Option<usize> {
    let wanted: Vec<&Value> = wanted.as_array().into_iter().flatten().collect();
    wanted.iter().all(|wanted| has(text(wanted, "name"))).then_some(wanted.len())
}

/// A port of a Gateway, the specificity of the host, and the listener.
type Listening = ((String, u64), (u8, usize), String);

/// The port of each Gateway at which the request is served, with the last node of the path that serves it.
fn naive(world: &[Value], json: &Value, request: &Request) -> BTreeSet<(String, String)> {
    let objects: Vec<Value> = world.iter().map(object).collect();
    let find = |id: &str| -> Value {
        let (kind, name) = id.split('#').next().unwrap().split_once(':').unwrap();
        let found = objects.iter().find(|object| {
            let metadata = &object["metadata"];
            kind.starts_with(&format!("{}.", text(object, "kind").to_lowercase()))
                && name == format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"))
        });
        found.cloned().unwrap()
    };
    let listener = |id: &str| -> Value {
        let name = id.split_once('#').unwrap().1;
        let object = find(id);
        object["spec"]["listeners"]
            .as_array()
            .unwrap()
            .iter()
            .find(|listener| text(listener, "name") == name)
            .cloned()
            .unwrap()
    };
    let nodes = |path: &Value| -> Vec<String> {
        path["nodes"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let listener_of = |nodes: &[String]| nodes.iter().find(|id| id.contains('#')).unwrap().clone();
    // The listener with the most specific host, on each port of each Gateway.
    let mut places: Vec<Listening> = Vec::new();
    for path in json["paths"].as_array().unwrap() {
        let nodes = nodes(path);
        let id = listener_of(&nodes);
        let row = listener(&id);
        let gateway =
            nodes.iter().find(|id| id.starts_with("gateway.")).unwrap().split('#').next().unwrap().to_owned();
        let port = row["port"].as_u64().unwrap();
        let is_tcp = text(&row, "protocol") == "TCP";
        if request.port.map_or(is_tcp, |wanted| u64::from(wanted) != port) {
            continue;
        }
        let pattern = if is_tcp || row["hostname"].is_null() { "*" } else { text(&row, "hostname") };
        if let Some(rank) = fits(pattern, request.host.as_deref()) {
            places.push(((gateway, port), rank, id));
        }
    }
    let mut answers = BTreeSet::new();
    let keys: BTreeSet<(String, u64)> = places.iter().map(|(key, ..)| key.clone()).collect();
    for key in keys {
        let of_key = places.iter().filter(|(other, ..)| *other == key);
        // If HTTP and HTTPS listeners have the same host and port, the first by name serves the request.
        let best = of_key.min_by_key(|(_, rank, id)| (Reverse(*rank), id.clone())).unwrap();
        let mut all = Vec::new();
        for path in json["paths"].as_array().unwrap() {
            let nodes = nodes(path);
            if listener_of(&nodes) != best.2 || !nodes.last().unwrap().contains("route.") {
                continue;
            }
            let (route_id, rule_id) = (&nodes[nodes.len() - 2], nodes.last().unwrap());
            let route = find(route_id);
            let hosts = path["hostnames"].as_array().unwrap().iter();
            let is_tcp = text(&route, "kind") == "TCPRoute";
            let host = hosts
                .filter_map(|host| {
                    if is_tcp { Some((0, 0)) } else { fits(host.as_str().unwrap(), request.host.as_deref()) }
                })
                .max();
            let Some(host) = host else { continue };
            let rules = route["spec"]["rules"].as_array().unwrap();
            let section = rule_id.split_once('#').unwrap().1;
            let is_it = |(place, rule): &(usize, &Value)| match text(rule, "name") {
                "" => section == format!("rule-{}", place + 1),
                name => section == name,
            };
            let (place, rule) = rules.iter().enumerate().find(is_it).unwrap();
            let any = vec![Value::Null];
            for (index, written) in rule["matches"].as_array().unwrap_or(&any).iter().enumerate() {
                let method = request.method.as_deref().unwrap_or("GET");
                let rank = match text(&route, "kind") {
                    "TCPRoute" => ((0, 0), false, 0, 0),
                    "GRPCRoute" => {
                        let parts: Vec<&str> = request.path.split('/').collect();
                        let is_call = parts.len() == 3
                            && parts[0].is_empty()
                            && parts.iter().skip(1).all(|part| !part.is_empty());
                        if !is_call || request.method.as_deref().is_some_and(|method| method != "POST") {
                            continue;
                        }
                        ((0, 0), false, 0, 0)
                    }
                    _ => {
                        let Some(path) = path_rank(&written["path"], &request.path) else { continue };
                        if !written["method"].is_null() && text(written, "method") != method {
                            continue;
                        }
                        let Some(headers) =
                            has_all(&written["headers"], |name| request.headers.contains_key(name))
                        else {
                            continue;
                        };
                        let Some(query) =
                            has_all(&written["queryParams"], |name| request.query.contains_key(name))
                        else {
                            continue;
                        };
                        (path, !written["method"].is_null(), headers, query)
                    }
                };
                let age = route["metadata"]["creationTimestamp"].as_str().unwrap_or("9").to_owned();
                let name = route_id.split_once(':').unwrap().1.to_owned();
                all.push((Reverse((host, rank)), age, name, place, index, rule_id.clone()));
            }
        }
        all.sort();
        if let Some(first) = all.first() {
            answers.insert((best.2.clone(), first.5.clone()));
        }
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn requests_have_the_same_result_as_in_the_reference_implementation(world in world(), request in request()) {
        let objects = objects(&world);
        let graph_input = objects.graph_input();
        let graph = Graph::build(&graph_input);
        let json = serde_json::to_value(TopologyReport::new(&graph, Scope::default(), Vec::new())).unwrap();
        let report = EffectiveReport::new(&graph, &Scope::default(), Some(request.clone()), Vec::new());
        let answers: BTreeSet<(String, String)> = report.answers.iter().map(|answer| {
            let listener = answer.path.iter().map(|named| &named.id).find(|id| id.contains('#')).unwrap();
            (listener.clone(), answer.path.last().unwrap().id.clone())
        }).collect();
        prop_assert_eq!(answers, naive(&world, &json, &request));
    }
}
