//! Builds the topology of a list of objects. The output is sorted, consistent, and independent of the order of the
//! objects.

use std::collections::BTreeSet;

use policy_sync_api::object::HubObject;
use policy_sync_topology::objects::kind_of;
use policy_sync_topology::show::{Scope, TopologyReport, dot, faults, tree};
use policy_sync_topology::{Graph, Objects};
use serde_json::Value;

pub fn body(data: &[u8]) {
    let Ok(Value::Array(list)) = serde_json::from_slice(data) else { return };
    let mut list = objects(&list);
    let printed = printed(&list);
    holds(&serde_json::from_str(&printed[0]).expect("a report is JSON"));
    assert!(
        printed[1].lines().all(|line| line.replace("\\\"", "").matches('"').count() % 2 == 0),
        "{}",
        printed[1]
    );
    list.reverse();
    assert_eq!(self::printed(&list), printed, "the order of objects changes the output");
}

/// Parses the objects. Of several objects with the same kind, namespace and name, keeps the first.
pub fn objects(list: &[Value]) -> Vec<HubObject> {
    let mut known = BTreeSet::new();
    let objects = list.iter().filter_map(|value| serde_json::from_str::<HubObject>(&value.to_string()).ok());
    let is_new = |object: &HubObject| {
        // Locators do not distinguish kinds that differ only in case.
        let (kind, key) = (kind_of(object), object.key());
        known.insert((kind.group.to_owned(), kind.kind.to_ascii_lowercase(), key))
    };
    objects.filter(is_new).collect()
}

/// Adds the objects to an empty topology, and checks that each fault has a message.
pub fn taken(list: &[HubObject]) -> Objects {
    let mut objects = Objects::default();
    for object in list {
        if let Err(fault) = objects.take(object) {
            assert!(!fault.to_string().is_empty());
        }
    }
    objects
}

fn printed(list: &[HubObject]) -> [String; 3] {
    let objects = taken(list);
    let graph_input = objects.graph_input();
    let graph = Graph::build(&graph_input);
    let report = TopologyReport::new(&graph, Scope::default(), faults(&graph, &|_| None));
    let json = serde_json::to_string(&report).expect("a report is serializable");
    [json, dot::dot(&report), tree::tree(&report).join("\n")]
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn is_sorted<T: Ord>(list: &[T]) -> bool {
    list.windows(2).all(|pair| pair[0] < pair[1])
}

fn holds(json: &Value) {
    let list = |field: &str| json[field].as_array().expect("a list");
    let nodes: Vec<&str> = list("nodes").iter().filter_map(|node| node["id"].as_str()).collect();
    let links: Vec<Vec<&str>> = list("links").iter().map(texts).collect();
    let paths: Vec<Vec<&str>> = list("paths").iter().map(|path| texts(&path["nodes"])).collect();
    assert!(is_sorted(&nodes), "nodes are not sorted: {nodes:?}");
    assert!(is_sorted(&links), "links are not sorted: {links:?}");
    assert!(is_sorted(&paths), "paths are not sorted: {paths:?}");
    let (nodes, links): (BTreeSet<&str>, BTreeSet<Vec<&str>>) =
        (nodes.into_iter().collect(), links.into_iter().collect());
    assert!(links.iter().flatten().all(|end| nodes.contains(end)), "a link has an unknown node");
    let has_known_links = |path: &Vec<&str>| path.windows(2).all(|pair| links.contains(pair));
    assert!(paths.iter().all(has_known_links), "a path has an unknown link");
    let counts: BTreeSet<&str> = list("policies")
        .iter()
        .filter(|policy| policy["counts"] == true)
        .filter_map(|policy| policy["id"].as_str())
        .collect();
    for path in list("paths") {
        assert!(!texts(&path["hostnames"]).is_empty(), "a path has no hostnames: {path}");
        for id in path["effective"].as_object().expect("an object").values() {
            let effective = &json["effective"][id.as_str().expect("an id")];
            assert!(effective["rules"].is_object(), "{id} is missing");
            assert!(texts(&effective["sources"]).iter().all(|source| counts.contains(source)), "{effective}");
        }
    }
}
