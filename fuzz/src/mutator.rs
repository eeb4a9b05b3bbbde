//! Mutates inputs as JSON values, because random changes of bytes rarely give valid JSON.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Keys and values that affect decisions, and unusual texts.
const WORDS: [&str; 98] = [
    "",
    "-",
    ".",
    "..",
    "/",
    "a/../b",
    "\n",
    "\u{0}",
    "é",
    "A",
    "a b",
    "*",
    "REVISION",
    "True",
    "False",
    "Unknown",
    "write",
    "eu-1",
    "us-1",
    "cluster-00",
    "shop",
    "bank",
    "web",
    "all",
    "all-1",
    "few",
    "limits",
    "multi",
    "platform",
    "params",
    "istio",
    "kuadrant.io",
    "kuadrant.io/v1",
    "v1",
    "ratelimitpolicies",
    "authpolicies",
    "gateway.networking.k8s.io",
    "Gateway",
    "RateLimitPolicy",
    "AuthPolicy",
    "GatewayClass",
    "Placement",
    "ConfigMap",
    "ManagedCluster",
    "PlacementDecision",
    "Secret",
    "ReferenceGrant",
    "HTTPRoute",
    "Passthrough",
    "kubernetes.io/tls",
    "tls",
    "certificateRefs",
    "from",
    "to",
    "mode",
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "labels",
    "annotations",
    "generation",
    "deletionTimestamp",
    "2026-01-01T00:00:00Z",
    "deleted",
    "spec",
    "status",
    "data",
    "targetRef",
    "targetRefs",
    "group",
    "sectionName",
    "gatewayClassName",
    "listeners",
    "controllerName",
    "kuadrant.io/policy-sync",
    "parametersRef",
    "decisions",
    "clusterName",
    "numberOfSelectedClusters",
    "conditions",
    "Applied",
    "Enforced",
    "Overridden",
    "observedGeneration",
    "resourceStatus",
    "manifests",
    "values",
    "fieldValue",
    "kuadrant.io/cluster-selector",
    "region in (eu, us),!gpu",
    "kuadrant.io/cluster-overrides",
    "[{\"clusterSelector\": \"region=us\", \"patch\": {\"limits\": {\"a\": null, \"b\": {\"rate\": 5}}}}]",
    "clusterSelector",
    "patch",
    "cluster.open-cluster-management.io/placement",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
];

/// Mutates the first `size` bytes of `data`, which has room for `max_size`; returns the new size.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Rng::with_seed(seed.into());
    let value = serde_json::from_slice::<Value>(&data[..size]).ok();
    if let Some(mut value) = value.filter(|_| random.u8(0..8) > 0) {
        for _ in 0..random.usize(1..4) {
            change(&mut value, &mut random);
        }
        let text = value.to_string();
        if text.len() <= max_size {
            data[..text.len()].copy_from_slice(text.as_bytes());
            return text.len();
        }
    }
    libfuzzer_sys::fuzzer_mutate(data, size, max_size)
}

fn change(value: &mut Value, random: &mut Rng) {
    let nodes = count(value);
    let other = nth(value, &mut random.usize(0..nodes)).map_or(Value::Null, |node| node.clone());
    let Some(node) = nth(value, &mut random.usize(0..nodes)) else { return };
    match node {
        Value::Array(items) if random.u8(0..4) > 0 => list(items, other, random),
        Value::Object(fields) if random.u8(0..4) > 0 => object(fields, other, random),
        Value::String(string) if random.u8(0..3) > 0 => text(string, random),
        node => *node = if random.bool() { other } else { leaf(random) },
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The node number `index` in depth-first order.
fn nth<'v>(value: &'v mut Value, index: &mut usize) -> Option<&'v mut Value> {
    if *index == 0 {
        return Some(value);
    }
    *index -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, index)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, index)),
        _ => None,
    }
}

fn word(random: &mut Rng) -> String {
    WORDS[random.usize(0..WORDS.len())].to_owned()
}

fn leaf(random: &mut Rng) -> Value {
    match random.u8(0..8) {
        0 => Value::Null,
        1 => random.bool().into(),
        2 => random.i64(-2..10).into(),
        3 => random.u64(..).into(),
        4 => [
            json!(0.5),
            json!(1.0),
            json!(-0.0),
            json!(1e300),
            json!(4_999),
            json!(5_000),
            json!(245_000),
            json!(i64::MIN),
        ][random.usize(0..8)]
        .clone(),
        5 => json!([]),
        6 => json!({}),
        _ => word(random).into(),
    }
}

fn list(items: &mut Vec<Value>, other: Value, random: &mut Rng) {
    let at = random.usize(0..=items.len());
    match random.u8(0..5) {
        0 if at < items.len() => drop(items.remove(at)),
        1 if at < items.len() => items.swap(0, at),
        2 if at < items.len() => {
            let again = items[at].clone();
            items.insert(random.usize(0..=items.len()), again);
        }
        3 => items.insert(at, leaf(random)),
        _ => items.insert(at, other),
    }
}

fn object(fields: &mut Map<String, Value>, other: Value, random: &mut Rng) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    let found = random.choice(keys);
    match (random.u8(0..5), found) {
        (0, Some(key)) => drop(fields.remove(&key)),
        (1, Some(key)) => drop(fields.insert(key, leaf(random))),
        (2, Some(key)) => drop(fields.insert(key, other)),
        (3, _) => drop(fields.insert(word(random), leaf(random))),
        _ => drop(fields.insert(word(random), other)),
    }
}

fn text(text: &mut String, random: &mut Rng) {
    // Parameters and values can be JSON inside a text.
    if let Ok(mut inner @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text) {
        change(&mut inner, random);
        *text = inner.to_string();
        return;
    }
    let mut chars: Vec<char> = text.chars().collect();
    let at = random.usize(0..=chars.len());
    match random.u8(0..6) {
        0 => *text = word(random),
        1 => *text = text.repeat(random.usize(2..9)),
        2 if at < chars.len() => {
            chars.remove(at);
            *text = chars.into_iter().collect();
        }
        3 => {
            chars.insert(at, random.char(..));
            *text = chars.into_iter().collect();
        }
        4 => {
            chars.splice(at..at, word(random).chars());
            *text = chars.into_iter().collect();
        }
        _ => {
            chars.insert(at, char::from(random.u8(b' '..=b'~')));
            *text = chars.into_iter().collect();
        }
    }
}
