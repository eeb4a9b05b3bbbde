//! Compares the Kuadrant operator's effective policies with the effective policies in the output of `effective`. The
//! operator evaluates all objects in *rounds*, and logs its effective policies in each round.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use policy_sync_testenv::wait;
use policy_sync_topology::Graph;
use policy_sync_topology::show::{Scope, TopologyReport};
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, LIMIT};
use crate::differences::Difference;
use crate::fixtures::{ReportedValues, World};
use crate::shorthand::objects;

const KINDS: [&str; 3] = ["AuthPolicy", "RateLimitPolicy", "TokenRateLimitPolicy"];
/// Number of worlds in the cluster at a time. The operator evaluates all objects again after each change.
const BATCH: usize = 6;

/// Applies `worlds` and waits for the operator's effective policies.
pub(crate) async fn apply_and_collect(cluster: &Cluster, mut worlds: Vec<Vec<Value>>) -> Result<Vec<World>> {
    let log = cluster.log("kuadrant-operator")?;
    let (mut all, mut offset) = (Vec::new(), 0);
    for (round, batch) in (1..).zip(worlds.chunks_mut(BATCH)) {
        cluster.create(batch).await?;
        for short in marker(round) {
            cluster.apply_short(&short).await?;
        }
        let found = wait::until("the operator has processed the marker", LIMIT, || async {
            let found = last_round(log, offset, round)?;
            found.context("no complete round contains the marker")
        })
        .await?;
        offset = std::fs::metadata(log)?.len();
        cluster.delete(batch).await?;
        for world in batch {
            let namespaces: Vec<String> =
                world.iter().filter_map(|short| Some(format!("{}/", short["Namespace"].as_str()?))).collect();
            let is_of =
                |(key, _): &(&String, &Value)| namespaces.iter().any(|namespace| key.contains(namespace));
            let answers =
                found.iter().filter(is_of).map(|(key, value)| (key.clone(), value.clone())).collect();
            all.push(World { objects: std::mem::take(world), answers });
        }
    }
    Ok(all)
}

/// Objects of all kinds that the operator reads. A field of each object contains the number of the round.
fn marker(round: u32) -> Vec<Value> {
    let section = format!("m{round}");
    let rules = json!([{"name": section, "backends": ["none:80"]}]);
    let limits = json!({"m": {"rates": [{"limit": round, "window": "1m"}]}});
    vec![
        json!({"Gateway": "marker/marker", "listeners": [{"name": section}]}),
        json!({"HTTPRoute": "marker/marker", "parents": ["marker"], "rules": rules}),
        json!({"GRPCRoute": "marker/marker", "parents": ["marker"], "rules": rules}),
        json!({"AuthPolicy": "marker/marker", "target": "Gateway/marker", "rules": {"authorization": {section: {"opa": {"rego": "allow = true"}}}}}),
        json!({"RateLimitPolicy": "marker/marker", "target": "Gateway/marker", "limits": limits}),
        json!({"TokenRateLimitPolicy": "marker/marker", "target": "Gateway/marker", "limits": limits}),
    ]
}

/// Whether a round has seen [`marker`].
fn has_marker(answers: &ReportedValues, round: u32) -> bool {
    let section = format!("m{round}");
    let rule = |kind: &str, route: &str| {
        answers.get(&format!("{kind} gateway:marker/marker#{section} > {route}:marker/marker#{section}"))
    };
    let limits = |kind: &str, route: &str| {
        rule(kind, route).is_some_and(|found| found["rules"]["limits#m"]["rates"][0]["limit"] == round)
    };
    let auth = |route: &str| {
        rule("AuthPolicy", route)
            .is_some_and(|found| !found["rules"][format!("authorization#{section}")].is_null())
    };
    auth("httproute")
        && auth("grpcroute")
        && limits("RateLimitPolicy", "httproute")
        && limits("RateLimitPolicy", "grpcroute")
        && limits("TokenRateLimitPolicy", "httproute")
}

/// The effective policies of the last complete round that has seen [`marker`], in the log after `offset`.
fn last_round(log: &Path, offset: u64, round: u32) -> Result<Option<ReportedValues>> {
    let mut file = File::open(log)?;
    file.seek(SeekFrom::Start(offset))?;
    let (mut current, mut last) = (None, None);
    for line in BufReader::new(file).lines() {
        let line = line?;
        if line.contains(r#""msg":"propagating new state of the world events""#) {
            current = Some(ReportedValues::new());
        } else if line.contains(r#""msg":"finished propagating new state of the world events""#) {
            last = current.take().filter(|answers| has_marker(answers, round)).or(last);
        } else if line.contains(r#""msg":"effective policy""#)
            && let Some(answers) = &mut current
        {
            let (key, value) = effective(&serde_json::from_str(&line)?)?;
            answers.insert(key, value);
        }
    }
    Ok(last)
}

/// The path in a line of the log, with the rules in force on the path and the policies of these rules.
fn effective(line: &Value) -> Result<(String, Value)> {
    let kind = line["kind"].as_str().context("the log line has no kind")?;
    let path: Vec<&str> = texts(&line["path"]).collect();
    let text = line["effectivePolicy"].as_str().context("the log line has no effectivePolicy")?;
    let policy: Value = serde_json::from_str(text)?;
    let spec = &policy["spec"];
    let blocks = [&spec["overrides"], &spec["defaults"], spec];
    let block = blocks.into_iter().find(|block| !block.is_null()).context("the policy has no spec")?;
    let mut rules = Map::new();
    let entries = |value: &Value| value.as_object().cloned().unwrap_or_default();
    for (part, value) in entries(block) {
        match part.as_str() {
            "limits" => {
                rules.extend(entries(&value).into_iter().map(|(name, rule)| (format!("limits#{name}"), rule)))
            }
            "when" => drop(rules.insert("conditions#".to_owned(), value)),
            "rules" => {
                for (part, value) in entries(&value) {
                    rules.extend(
                        entries(&value).into_iter().map(|(name, rule)| (format!("{part}#{name}"), rule)),
                    );
                }
            }
            "targetRef" | "strategy" => {}
            other => ensure!(value == json!({}), "unknown field {other} in {text}"),
        }
    }
    let sources: BTreeSet<String> = texts(&line["sourcePolicies"]).map(short).collect();
    Ok((key(kind, &path)?, json!({"rules": rules, "sources": sources})))
}

/// The strings in an array.
fn texts(array: &Value) -> impl Iterator<Item = &str> {
    array.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// A locator without the groups of known kinds.
fn short(locator: &str) -> String {
    locator.replacen(".gateway.networking.k8s.io:", ":", 1).replacen(".kuadrant.io:", ":", 1)
}

fn key(kind: &str, path: &[&str]) -> Result<String> {
    let [_, _, listener, _, rule] = path else { anyhow::bail!("unexpected path: {path:?}") };
    Ok(format!("{kind} {} > {}", short(listener), short(rule)))
}

/// The rules in force on each path according to `effective`.
fn ours(graph: &Graph<'_>) -> Result<ReportedValues> {
    let json = serde_json::to_value(TopologyReport::new(graph, Scope::default(), Vec::new()))?;
    let mut answers = ReportedValues::new();
    for path in json["paths"].as_array().into_iter().flatten() {
        let nodes: Vec<&str> = texts(&path["nodes"]).collect();
        for (kind, id) in path["effective"].as_object().into_iter().flatten() {
            let effective = &json["effective"][id.as_str().unwrap_or_default()];
            let rules: Map<String, Value> = effective["rules"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, rule)| (key.clone(), rule["value"].clone()))
                .collect();
            let sources: BTreeSet<String> = texts(&effective["sources"]).map(short).collect();
            let kind = kind.split('.').next().unwrap_or_default();
            if KINDS.contains(&kind) && nodes.len() == 5 {
                answers.insert(key(kind, &nodes)?, json!({"rules": rules, "sources": sources}));
            }
        }
    }
    Ok(answers)
}

/// The differences between the operator's effective policies and the effective policies in the output of `effective`.
pub(crate) fn compare(world: &World) -> Vec<Difference> {
    let objects = objects(&world.objects);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let ours = ours(&graph).unwrap_or_default();
    let keys: BTreeSet<&String> = ours.keys().chain(world.answers.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        let (ours, theirs) = (ours.get(key), world.answers.get(key));
        let class = match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours == theirs => continue,
            (Some(ours), Some(theirs)) if ours["rules"] == theirs["rules"] => "other sources",
            (Some(_), Some(_)) => "other rules",
            (Some(_), None) => "only ours",
            (None, _) => "only the operator's",
        };
        let reason = if ours.is_none() { refusal(world, &graph, key) } else { "" };
        let kind = key.split(' ').next().unwrap_or_default();
        let class = if reason.is_empty() { format!("{kind}: {class}") } else { format!("{class}: {reason}") };
        let detail = format!(
            "{key}: Policy Sync has {}, the operator has {}, in {}",
            json!(ours),
            json!(theirs),
            json!(world.objects)
        );
        differences.push(Difference { class, detail });
    }
    differences
}

/// The reason that the route of the path `key` does not attach to its listener; empty if the route attaches.
fn refusal(world: &World, graph: &Graph<'_>, key: &str) -> &'static str {
    let words: Vec<&str> = key.split(['#', ' ', ':']).collect();
    // AuthPolicy gateway:NAME#LISTENER > httproute:NAME#RULE
    let [_, _, gateway, listener, _, kind, route, _] = words[..] else { return "an unexpected path" };
    let on_listener: Vec<String> = graph
        .all_links()
        .map(|(from, to)| [from, to].map(|node| short(&graph.locator(node).to_string())))
        .filter_map(|[from, to]| (from == format!("gateway:{gateway}#{listener}")).then_some(to))
        .collect();
    if on_listener.contains(&format!("{kind}:{route}")) {
        return "";
    }
    let object = |name: &str| {
        let kinds = ["Gateway", "HTTPRoute", "GRPCRoute"];
        let field = |field: &str| {
            let found = world.objects.iter().find(|short| kinds.iter().any(|kind| short[*kind] == name));
            found.map_or(Value::Null, |object| object[field].clone())
        };
        [field("listeners"), field("hostnames")]
    };
    let ([listeners, _], [_, hosts]) = (object(gateway), object(route));
    let mut listeners = listeners.as_array().into_iter().flatten();
    let Some(row) = listeners.find(|row| row["name"] == listener) else { return "an unknown listener" };
    let namespace = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
    // The hostname `*.example.com` includes the hosts of all routes.
    let host = Some(&row["hostname"]).filter(|host| *host == "a.example.com");
    let others = |hosts: &Vec<Value>| host.is_some_and(|host| !hosts.contains(host));
    if row["from"] == "Same" && namespace(gateway) != namespace(route) {
        "NotAllowedByListeners"
    } else if hosts.as_array().is_some_and(others) {
        "NoMatchingListenerHostname"
    } else if on_listener.iter().any(|other| !other.starts_with(&format!("{kind}:"))) {
        "Conflicted"
    } else {
        "not attached"
    }
}
