//! Large policies on many clusters.

use serde_json::{Value, json};

use super::objects::{Object, cluster, policy};
use super::world::{World, shop};

/// The number of clusters. Each cluster has a different label.
pub const CLUSTERS: usize = 64;
/// A tenth of the largest policy: the sizes of its spec and of its overrides, in bytes.
pub const TENTH: (usize, usize) = (37_100, 25_400);

pub fn names() -> Vec<String> {
    (0..CLUSTERS).map(|n| format!("c-{n:02}")).collect()
}

/// A hub whose Gateway `web` is on all clusters.
pub fn fleet() -> World {
    let names = names();
    let world = shop(&names.iter().map(String::as_str).collect::<Vec<_>>());
    names.iter().fold(world, |world, name| world.with(cluster(name).label("name", name)))
}

/// An object of about `bytes` bytes with many small fields, as in rate limits.
pub fn rules(prefix: &str, bytes: usize) -> Value {
    let rule =
        |n: usize| (format!("{prefix}-{n:05}"), json!({"rate": n % 10, "window": "1m", "to": "anyone"}));
    let each = json!(rule(10_000)).to_string().len() - 1;
    Value::Object((0..bytes / each).map(rule).collect())
}

/// The policy `limits` with a spec and 100 overrides of these sizes. Each cluster matches all overrides but one.
pub fn varied((spec, overrides): (usize, usize)) -> Object {
    let each = overrides / 100 - 60;
    let overrides: Vec<Value> = (0..100)
        .map(|n| {
            let selector = if n < CLUSTERS { format!("name!=c-{n:02}") } else { String::new() };
            json!({"clusterSelector": selector, "patch": {"limits": rules(&format!("o{n}"), each)}})
        })
        .collect();
    policy("limits")
        .targets("web")
        .spec("limits", rules("own", spec))
        .annotation("kuadrant.io/cluster-overrides", &Value::Array(overrides).to_string())
}
