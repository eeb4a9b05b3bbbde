//! Tables of cases. Each case has a few objects, and the expected topology. Only the fields that a case contains are
//! compared.

use std::fs;
use std::path::Path;

use policy_sync_api::params::Params;
use policy_sync_topology::rules::MergeConfig;
use policy_sync_topology::show::{EffectiveReport, NodeLabel, Scope, TopologyReport};
use policy_sync_topology::{Graph, Request};
use serde::Deserialize;
use serde_json::Value;

use crate::shorthand::objects;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    objects: Vec<Value>,
    /// The parameters of the GatewayClass.
    parameters: Option<Value>,
    /// Each path: its nodes without the GatewayClass, and its hosts.
    paths: Option<Vec<String>>,
    /// Each path with the GatewayClass.
    #[serde(rename = "paths from the class")]
    whole_paths: Option<Vec<String>>,
    /// Objects that do not attach: source, target and reason.
    unattached: Option<Vec<String>>,
    /// The messages of the objects that do not attach.
    messages: Option<Vec<String>>,
    /// The conditions of listeners that report a problem.
    conditions: Option<Vec<String>>,
    /// References of attached objects that do not resolve: source, target and reason.
    unresolved: Option<Vec<String>>,
    /// Policies without effect, each with the reason.
    void: Option<Vec<String>>,
    /// The field `unknown` in the output of the command `effective`.
    unknown: Option<Vec<String>>,
    /// Targets that policies do not attach to, each with the reason.
    missed: Option<Vec<String>>,
    /// Direct policies by the node that they apply to.
    direct: Option<Vec<String>>,
    /// By the last node of each path: a line for each rule in force, and a line with the word `lost` for each policy
    /// that another policy replaces.
    rules: Option<Value>,
    /// Faults of objects.
    faults: Option<Vec<String>>,
    /// Links to Services and other backends.
    backends: Option<Vec<String>>,
    /// The merge strategy of each policy.
    strategies: Option<Vec<String>>,
    /// The kinds of effective policies whose merge strategy is not known for certain.
    assumed: Option<Vec<String>>,
    /// For each request, such as `example.com/path`: the route rules that serve it, one for each listener.
    requests: Option<Value>,
}

/// A locator without the groups of Gateway API and Kuadrant.
fn short(locator: &Value) -> String {
    locator.as_str().unwrap().replacen(".gateway.networking.k8s.io:", ":", 1).replacen(
        ".kuadrant.io:",
        ":",
        1,
    )
}

fn each<'v>(list: &'v Value, text: impl Fn(&'v Value) -> Option<String>) -> Vec<String> {
    list.as_array().unwrap().iter().filter_map(text).collect()
}

fn path(path: &Value, whole: bool) -> String {
    let nodes = path["nodes"].as_array().unwrap().iter().map(short);
    let nodes: Vec<String> = nodes.filter(|node| whole || !node.starts_with("gatewayclass:")).collect();
    let hosts: Vec<&str> =
        path["hostnames"].as_array().unwrap().iter().map(|host| host.as_str().unwrap()).collect();
    format!("{} ({})", nodes.join(" > "), hosts.join(" "))
}

fn rules(json: &Value) -> Value {
    let mut rules = serde_json::Map::new();
    for path in json["paths"].as_array().unwrap() {
        let mut lines: Vec<String> = Vec::new();
        for (kind, id) in path["effective"].as_object().unwrap() {
            let kind = kind.split('.').next().unwrap();
            let effective = &json["effective"][id.as_str().unwrap()];
            for (key, rule) in effective["rules"].as_object().unwrap() {
                lines.push(format!("{kind} {key} {}", short(&rule["source"])));
            }
        }
        for (kind, lost) in path["lost"].as_object().into_iter().flatten() {
            let kind = kind.split('.').next().unwrap();
            lines.extend(each(lost, |policy| Some(format!("{kind} lost {}", short(policy)))));
        }
        rules.insert(short(path["nodes"].as_array().unwrap().last().unwrap()), lines.into());
    }
    rules.into()
}

/// Parses `POST grpc.example.com:8080/path?query Header=value`. Only the host is required.
fn request(text: &str) -> Request {
    let mut request = Request { path: "/".to_owned(), ..Request::default() };
    for (index, word) in text.split(' ').enumerate() {
        if index == 0 && word.chars().all(|c| c.is_ascii_uppercase()) {
            request = request.with_method(word).unwrap();
        } else if word.contains('=') && !word.contains('/') {
            request = request.with_header(word).unwrap();
        } else if let Some(port) = word.strip_prefix("port:") {
            request.port = Some(port.parse().unwrap());
        } else {
            let at = word.find('/').unwrap_or(word.len());
            request = request.with_host(&word[..at]).unwrap();
            if at < word.len() {
                request = request.with_path(&word[at..]).unwrap();
            }
        }
    }
    request
}

fn answers(graph: &Graph<'_>, requests: &Value) -> Value {
    let answers = requests.as_object().unwrap().keys().map(|text| {
        let report = EffectiveReport::new(graph, &Scope::default(), Some(request(text)), Vec::new());
        let unknown = report.unknown_matches.iter().map(|unknown| {
            format!("{} {}, {}", unknown.outcome, short(&Value::from(unknown.rule.as_str())), unknown.reason)
        });
        let lines: Vec<String> = report
            .answers
            .iter()
            .map(|answer| {
                let chosen = answer.chosen.as_ref().unwrap();
                let node = |named: &NodeLabel| short(&Value::from(named.id.as_str()));
                let mut line = node(answer.path.last().unwrap());
                if let Some((criterion, other)) = &chosen.decided {
                    line += &format!(", {criterion:?} against {}", node(other));
                }
                if chosen.implementation_specific {
                    line += ", implementation specific";
                }
                line
            })
            .chain(unknown)
            .collect();
        (text.clone(), lines.into())
    });
    Value::Object(answers.collect())
}

fn compare(
    case: &Case,
    what: &str,
    found: impl Into<Value>,
    expected: Option<impl Into<Value>>,
    faults: &mut Vec<String>,
) {
    let Some(expected) = expected else { return };
    let (found, expected): (Value, Value) = (found.into(), expected.into());
    if found != expected {
        faults.push(format!("{}: {what}: expected {expected:#}, found {found:#}", case.name));
    }
}

fn check(case: &Case) -> Vec<String> {
    let mut objects = objects(&case.objects);
    objects.controller = "this.io/controller".to_owned();
    if let Some(parameters) = &case.parameters {
        for (resource, merge) in Params::parse(&parameters.to_string()).unwrap().merges() {
            objects.configure(resource, MergeConfig::from(merge));
        }
    }
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let wrong = policy_sync_topology::show::faults(&graph, &|_| None);
    let json = serde_json::to_value(TopologyReport::new(&graph, Scope::default(), wrong)).unwrap();
    let mut faults = Vec::new();
    let mut compare =
        |what: &str, found: Value, expected: Option<Value>| compare(case, what, found, expected, &mut faults);
    let text = |list: &Option<Vec<String>>| list.clone().map(Value::from);
    compare("paths", each(&json["paths"], |found| Some(path(found, false))).into(), text(&case.paths));
    compare(
        "whole paths",
        each(&json["paths"], |found| Some(path(found, true))).into(),
        text(&case.whole_paths),
    );
    let unattached = each(&json["unattached"], |item| {
        Some(format!(
            "{} to {}: {}",
            short(&item["from"]),
            short(&item["to"]),
            item["reason"].as_str().unwrap()
        ))
    });
    compare("unattached", unattached.into(), text(&case.unattached));
    let messages = each(&json["unattached"], |item| item["message"].as_str().map(str::to_owned));
    compare("messages", messages.into(), text(&case.messages));
    let conditions = json["nodes"].as_array().unwrap().iter().flat_map(|node| {
        node["conditions"].as_array().into_iter().flatten().map(|condition| {
            let field = |name: &str| condition[name].as_str().unwrap();
            format!("{}: {}={} {}", short(&node["id"]), field("type"), field("status"), field("reason"))
        })
    });
    compare("conditions", conditions.collect::<Vec<String>>().into(), text(&case.conditions));
    let unresolved = json["unresolved"].as_array().into_iter().flatten().map(|item| {
        let to = item["to"].as_str().map(|_| format!(" to {}", short(&item["to"]))).unwrap_or_default();
        let field = |name: &str| item[name].as_str().unwrap();
        format!("{}{to}: {} {}", short(&item["from"]), field("status"), field("reason"))
    });
    compare("unresolved", unresolved.collect::<Vec<String>>().into(), text(&case.unresolved));
    let void = each(&json["policies"], |policy| {
        Some(format!("{}: {}", short(&policy["id"]), policy["reason"].as_str()?))
    });
    compare("void", void.into(), text(&case.void));
    let report = EffectiveReport::new(&graph, &Scope::default(), None, Vec::new());
    compare("unknown", report.unknown.into(), text(&case.unknown));
    let missed = json["policies"].as_array().unwrap().iter().flat_map(|policy| {
        each(&policy["targets"], |target| {
            Some(format!(
                "{} on {}: {}",
                short(&policy["id"]),
                short(&target["id"]),
                target["reason"].as_str()?
            ))
        })
    });
    compare("missed", missed.collect::<Vec<String>>().into(), text(&case.missed));
    let direct = json["nodes"].as_array().unwrap().iter().flat_map(|node| {
        let direct = node["direct"].as_object().into_iter().flatten();
        direct.map(|(_, policy)| format!("{} on {}", short(policy), short(&node["id"])))
    });
    compare("direct", direct.collect::<Vec<String>>().into(), text(&case.direct));
    compare("rules", rules(&json), case.rules.clone());
    let wrong = each(&json["faults"], |fault| {
        Some(format!("{}: {}", short(&fault["object"]), fault["message"].as_str().unwrap()))
    });
    compare("faults", wrong.into(), text(&case.faults));
    let backends = each(&json["links"], |link| {
        let [from, to] = [short(&link[0]), short(&link[1])];
        let is_backend = from.contains("route:") && from.contains('#');
        is_backend.then(|| format!("{from} to {to}"))
    });
    compare("backends", backends.into(), text(&case.backends));
    let strategies = each(&json["policies"], |policy| {
        let assumed = if policy["assumed"] == true { ", assumed" } else { "" };
        Some(format!("{}: {}{assumed}", short(&policy["id"]), policy["strategy"].as_str().unwrap()))
    });
    compare("strategies", strategies.into(), text(&case.strategies));
    let assumed = json["effective"].as_object().unwrap().values().filter(|found| found["assumed"] == true);
    let mut assumed: Vec<&str> = assumed.map(|found| found["kind"].as_str().unwrap()).collect();
    assumed.sort_unstable();
    assumed.dedup();
    compare("assumed", assumed.into(), text(&case.assumed));
    if let Some(requests) = &case.requests {
        compare("requests", answers(&graph, requests), Some(requests.clone()));
    }
    faults
}

fn table(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topology/cases").join(name);
    let text = fs::read_to_string(&path).unwrap();
    let cases: Vec<Case> = serde_saphyr::from_str(&text).unwrap();
    assert!(cases.len() > 3, "{name} has {} cases", cases.len());
    let faults: Vec<String> = cases.iter().flat_map(check).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[test]
fn listeners() {
    table("listeners.yaml");
}

#[test]
fn listener_sets() {
    table("listener-sets.yaml");
}

#[test]
fn routes() {
    table("routes.yaml");
}

#[test]
fn hostnames() {
    table("hostnames.yaml");
}

#[test]
fn backends() {
    table("backends.yaml");
}

#[test]
fn unknown_kinds_and_labels() {
    table("unknown.yaml");
}

#[test]
fn targets() {
    table("targets.yaml");
}

#[test]
fn merging() {
    table("merging.yaml");
}

#[test]
fn kinds() {
    table("kinds.yaml");
}

#[test]
fn requests() {
    table("requests.yaml");
}

#[test]
fn merges() {
    table("merges.yaml");
}

#[test]
fn implementations_with_other_results() {
    table("implementations.yaml");
}
