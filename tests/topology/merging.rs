//! Properties of effective policies for random objects.

use std::collections::BTreeMap;

use policy_sync_topology::Graph;
use policy_sync_topology::show::{Scope, TopologyReport};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::shorthand::{object, objects};
use crate::worlds::world;

fn topology(world: &[Value]) -> Value {
    let objects = objects(world);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    serde_json::to_value(TopologyReport::new(&graph, Scope::default(), Vec::new())).unwrap()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The specs of policies, by their locators.
fn specs(world: &[Value]) -> BTreeMap<String, Value> {
    let specs = world.iter().map(object).map(|object| {
        let kind = object["kind"].as_str().unwrap().to_lowercase();
        let group = object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group);
        let name = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        (format!("{kind}.{group}:{}/{}", name("namespace"), name("name")), object["spec"].clone())
    });
    specs.collect()
}

/// The value in `spec` of the rule `key`.
fn written(spec: &Value, key: &str) -> Value {
    if key == "spec#" {
        let mut spec = spec.clone();
        spec.as_object_mut().unwrap().remove("targetRefs");
        return spec;
    }
    let block =
        ["defaults", "overrides"].iter().map(|part| &spec[part]).find(|part| !part.is_null()).unwrap_or(spec);
    match key.split_once('#') {
        Some(("limits", name)) => block["limits"][name].clone(),
        Some(("authentication", name)) => block["rules"]["authentication"][name].clone(),
        _ => block.pointer(key).cloned().unwrap_or_default(),
    }
}

/// For each policy of `kind`, the position of the policy's first target on `path`.
fn places<'j>(json: &'j Value, path: &Value, kind: &str) -> BTreeMap<&'j str, usize> {
    let mut places = BTreeMap::new();
    let nodes = strings(&path["nodes"]);
    for node in json["nodes"].as_array().unwrap() {
        let Some(place) = nodes.iter().position(|id| node["id"] == *id) else { continue };
        for policy in strings(&node["policies"]) {
            let is_of_kind = json["policies"]
                .as_array()
                .unwrap()
                .iter()
                .any(|other| other["id"] == *policy && other["kind"] == *kind);
            if is_of_kind {
                let known = places.entry(policy).or_insert(place);
                *known = place.min(*known);
            }
        }
    }
    places
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn effective_rule_has_the_value_of_its_source_policy(world in world()) {
        let (json, specs) = (topology(&world), specs(&world));
        for effective in json["effective"].as_object().unwrap().values() {
            for (key, rule) in effective["rules"].as_object().unwrap() {
                let source = rule["source"].as_str().unwrap();
                prop_assert_eq!(&written(&specs[source], key), &rule["value"], "{} of {}", key, source);
            }
        }
    }

    #[test]
    fn override_is_never_lost_to_a_more_specific_policy(world in world()) {
        let (json, specs) = (topology(&world), specs(&world));
        let strategy = |policy: &str| {
            let policies = json["policies"].as_array().unwrap();
            policies.iter().find(|other| other["id"] == policy).unwrap()["strategy"].as_str().unwrap()
        };
        for path in json["paths"].as_array().unwrap() {
            for (kind, id) in path["effective"].as_object().unwrap() {
                let rules = json["effective"][id.as_str().unwrap()]["rules"].as_object().unwrap();
                let places = places(&json, path, kind);
                for (policy, place) in places.iter().filter(|(policy, _)| strategy(policy).ends_with("overrides")) {
                    for name in ["x", "y", "z"] {
                        let keys = [format!("limits#{name}"), format!("authentication#{name}")];
                        let Some(key) = keys.iter().find(|key| !written(&specs[*policy], key).is_null()) else { continue };
                        // Only a policy at the same node of the path, or at an earlier node, replaces an override.
                        let holds = match rules.get(key) {
                            Some(rule) => places[rule["source"].as_str().unwrap()] <= *place,
                            None => places.iter().any(|(other, at)| {
 other != policy && at <= place && strategy(other) == "atomic overrides"
 }),
                        };
                        prop_assert!(holds, "{key} of {policy} is lost along {path}: {rules:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_unrelated_objects_do_not_matter(world in world(), others in world(), names in ("[a-z]{1,6}", "[a-z]{1,6}")) {
        let with = |name: &str| -> Value {
            let mut all = world.clone();
            all.extend(others.iter().filter_map(|other| renamed(other, name)));
            let json = topology(&all);
            let is_ours = |path: &&Value| {
                let nodes = strings(&path["nodes"]);
                nodes.iter().any(|id| id.contains(":one/") || id.contains(":two/"))
            };
            let paths: Vec<Value> = json["paths"].as_array().unwrap().iter().filter(is_ours).cloned().collect();
            let used = paths.iter().flat_map(|path| path["effective"].as_object().unwrap().values());
            let effective: Map<String, Value> =
                used.map(|id| (id.as_str().unwrap().to_owned(), json["effective"][id.as_str().unwrap()].clone())).collect();
            json!({"paths": paths, "effective": effective})
        };
        prop_assert_eq!(with(&names.0), with(&names.1));
    }
}

/// Renames the namespaces of an object of another world, so that the object refers to nothing in the first world.
/// Returns `None` for GatewayClasses, which all worlds share, and for objects that refer to a GatewayClass.
fn renamed(short: &Value, name: &str) -> Option<Value> {
    if short.get("GatewayClass").is_some() {
        return None;
    }
    let text = short.to_string();
    if text.contains("GatewayClass/") {
        return None;
    }
    let text = text.replace("one/", &format!("{name}-z/")).replace("two/", &format!("{name}-y/"));
    serde_json::from_str(&text).ok()
}
