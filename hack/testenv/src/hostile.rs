//! Random values for the fields that hostile spokes, tenants and authors of Rego policies can write.
//!
//! A [`Hostile`] only generates values; the test writes them. Values that an API server would reject, such as invalid
//! labels or numbers instead of text, are not generated, because such values cannot reach a controller. Fields without
//! a schema get arbitrary values.

mod author;
pub mod costly;
mod spoke;
mod tenant;

use fastrand::Rng;
use serde_json::{Map, Value, json};

pub use author::COSTLY;
pub use tenant::Operation;

/// Name of the hostile spoke in tests.
pub const ROGUE: &str = "rogue";
/// Namespace of the hostile tenant in tests.
pub const HOSTILE_TENANT: &str = "mob";
/// The label that a hostile spoke flips on its ManagedCluster.
pub const REGION: &str = "region";

/// Strings that a parser could misinterpret as another type.
const SUSPECT: [&str; 16] = [
    "",
    "[]",
    "{}",
    "null",
    "true",
    "-1",
    "99999999999999999999",
    "1e999",
    "NaN",
    "[\"",
    "{\"cluster\":\"eu-1\",\"applied\":true}",
    "../../etc/passwd",
    "a=b,c in (d",
    "\u{202e}\u{0}\n\r\t",
    "9999-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
];

/// A seeded source of hostile values: the same seed gives the same values.
#[derive(Clone, Debug)]
pub struct Hostile {
    seed: u64,
    rng: Rng,
    /// Number of invented names.
    invented_names: usize,
}

impl Hostile {
    /// A source with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, rng: Rng::with_seed(seed), invented_names: 0 }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.rng.usize(..limit)
    }

    fn one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// True with a probability of 1 in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A string of at most `longest` bytes.
    fn text(&mut self, longest: usize) -> String {
        let length = self.below(longest.max(1));
        let mut text = match self.below(6) {
            0 => "\"".repeat(length),
            1 => "x".repeat(length),
            2 => "💥".repeat(length / 4),
            3 => (0..length.min(100)).map(|_| self.rng.char(..)).collect(),
            _ => self.one(&SUSPECT).to_owned(),
        };
        let end = text.floor_char_boundary(longest);
        text.truncate(end);
        text
    }

    /// A valid name: a known name, or a name that never existed.
    fn name(&mut self, known: &[&str]) -> String {
        if known.is_empty() || self.once_in(3) {
            self.invented_names += 1;
            return format!("made-up-{}-{}", self.seed, self.invented_names);
        }
        self.one(known).to_owned()
    }

    /// Arbitrary JSON of at most this depth.
    fn json(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => self.rng.bool().into(),
            2 => json!(self.rng.i64(..)),
            3 => json!(self.rng.f64() * 1e18),
            4 => self.text(200).into(),
            5 => (0..self.below(4)).map(|_| self.json(depth - 1)).collect(),
            _ => Value::Object((0..self.below(4)).map(|_| (self.text(20), self.json(depth - 1))).collect()),
        }
    }

    /// JSON text, sometimes truncated.
    fn json_text(&mut self) -> String {
        let mut text = self.json(3).to_string();
        if self.once_in(3) {
            let end = text.floor_char_boundary(self.below(text.len() + 1));
            text.truncate(end);
        }
        text
    }

    /// A timestamp, or sometimes arbitrary text.
    fn moment(&mut self) -> String {
        if self.once_in(4) { self.text(60) } else { self.time() }
    }

    /// A timestamp in the first hours of 2026, or close to the smallest or largest supported timestamp.
    fn time(&mut self) -> String {
        let [hour, minute, second] = [self.below(4), self.below(60), self.below(60)];
        match self.below(6) {
            0 => "1970-01-01T00:00:00Z".to_owned(),
            // jiff, which parses the timestamps, supports no later time.
            1 => "9999-12-30T21:59:59Z".to_owned(),
            _ => format!("2026-01-01T{hour:02}:{minute:02}:{second:02}Z"),
        }
    }
}

/// The labels or annotations of `object`, created if missing.
fn strings<'o>(object: &'o mut Value, field: &str) -> &'o mut Map<String, Value> {
    let strings = &mut object["metadata"][field];
    if !strings.is_object() {
        *strings = json!({});
    }
    match strings {
        Value::Object(strings) => strings,
        _ => unreachable!("it is an object"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use policy_sync_api::annotations::REVISION;
    use policy_sync_api::work::ManifestWork;

    use super::*;

    #[test]
    fn values_depend_only_on_the_seed() {
        let values = |seed| {
            let mut hostile = Hostile::new(seed);
            let mut work = json!({"metadata": {"name": "w", "namespace": "rogue"}});
            (0..50).for_each(|_| hostile.work(&mut work));
            (0..50).for_each(|_| hostile.respond(&mut work));
            let operations: Vec<Operation> = (0..50).map(|_| hostile.operation("mob", &["eu-1"])).collect();
            (work, operations, (0..50).flat_map(|_| hostile.operations("mob")).collect::<Vec<_>>())
        };
        assert_eq!(values(1), values(1));
        assert_ne!(values(1), values(2));
    }

    #[test]
    fn hostile_works_are_valid_objects() {
        let mut hostile = Hostile::new(7);
        let mut work = json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": "w", "namespace": "rogue"},
            "spec": {"workload": {"manifests": [{"kind": "Namespace"}, {"kind": "RateLimitPolicy", "spec": {}}]}},
        });
        for _ in 0..2_000 {
            hostile.work(&mut work);
            hostile.respond(&mut work);
            serde_json::from_value::<ManifestWork>(work.clone()).expect("not a ManifestWork");
        }
    }

    #[test]
    fn hostile_statuses_contain_requested_values() {
        let mut hostile = Hostile::new(3);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let paths =
                json!([{"name": "_revision", "path": ".a"}, {"name": "_Enforced_status", "path": ".b"}]);
            let identifier = json!({"group": "kuadrant.io", "resource": "ratelimitpolicies", "name": "n", "namespace": "s"});
            let mut work = json!({"metadata": {"generation": 7}, "spec": {
                "workload": {"manifests": [{"metadata": {"annotations": {REVISION: "r1"}}}]},
                "manifestConfigs": [
                    {"resourceIdentifier": identifier, "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}]},
                ],
            }});
            hostile.respond(&mut work);
            let manifest = &work["status"]["resourceStatus"]["manifests"][0];
            let is_read = manifest["resourceMeta"]["resource"] == "ratelimitpolicies";
            let is_applied = manifest["conditions"][0]["observedGeneration"] == 7;
            for value in manifest["statusFeedback"]["values"].as_array().into_iter().flatten() {
                seen.insert((
                    value["name"].to_string(),
                    value["fieldValue"]["string"] == "r1",
                    is_read,
                    is_applied,
                ));
            }
        }
        assert!(seen.contains(&("\"_revision\"".to_owned(), true, true, true)), "{seen:?}");
        assert!(seen.iter().any(|(name, ..)| name.contains("_Enforced_status")), "{seen:?}");
    }

    #[test]
    fn tenant_performs_every_operation() {
        let mut hostile = Hostile::new(1);
        let mut seen = BTreeSet::new();
        for _ in 0..2_000 {
            let operations = hostile.operations("mob");
            if let [Operation::Write(held), Operation::Delete(_), Operation::Write(_)] = &operations[..] {
                assert!(held["metadata"]["finalizers"].is_array(), "{held}");
                seen.insert("terminates".to_owned());
            }
            for operation in operations {
                let (Operation::Write(object) | Operation::Delete(object)) = operation;
                let text = object.to_string();
                assert!(text.len() < 1_048_576, "{} exceeds etcd's limit", object["kind"]);
                let kind = object["kind"].as_str().unwrap();
                let moves = [
                    ("has a deletion timestamp", object["metadata"]["deletionTimestamp"].is_string()),
                    ("has expressions", text.contains("RegularExpression")),
                    ("is large", text.len() > 300_000),
                    ("has many keys", text.contains("key-3000")),
                    ("has a remediate annotation", text.contains("kuadrant.io/remediate")),
                ];
                seen.extend(moves.iter().filter(|(_, made)| *made).map(|(name, _)| format!("{kind} {name}")));
            }
        }
        for kind in ["ConfigMap", "Gateway", "HTTPRoute", "RateLimitPolicy", "Secret"] {
            for name in ["has a deletion timestamp", "has a remediate annotation"] {
                assert!(seen.contains(&format!("{kind} {name}")), "{kind} {name}: {seen:?}");
            }
        }
        for kind in ["ConfigMap", "RateLimitPolicy"] {
            for name in ["is large", "has many keys"] {
                assert!(seen.contains(&format!("{kind} {name}")), "{kind} {name}: {seen:?}");
            }
        }
        assert!(seen.contains("HTTPRoute has expressions") && seen.contains("terminates"), "{seen:?}");
    }

    #[test]
    fn texts_respect_the_length_limit() {
        let mut hostile = Hostile::new(1);
        assert!((0..1_000).all(|_| hostile.text(100).len() <= 100));
        assert!((0..1_000).any(|_| hostile.text(100).len() > 50));
    }
}
