//! Rego modules that must not affect decisions of others: too large, too many, or rejected.
//!
//! Placement queries none of their packages. A rejected module of a queried or unknown package makes placement fail closed by design.

use serde_json::{Map, Value, json};

use super::Hostile;

/// The size of a large module in bytes. Five exceed the limit of a bundle.
const LARGE: usize = 900_000;
/// The number of modules of a carrier with many.
const MANY: usize = 60;

impl Hostile {
    /// A ConfigMap `name` with Rego modules.
    pub fn carrier(&mut self, namespace: &str, name: &str) -> Value {
        let mut modules = Map::new();
        let mut module = |key: &str, text: String| drop(modules.insert(format!("{key}.rego"), text.into()));
        match self.below(8) {
            // Most of it is a comment.
            0..=2 => module("large", format!("package unqueried\n# {}\n", "x".repeat(LARGE))),
            3 => (0..MANY).for_each(|number| {
                module(&format!("many-{number}"), format!("package unqueried.p{number}\nx := {number}\n"));
            }),
            4 | 5 => module("recursive", "package unqueried\nimport rego.v1\np if q\nq if p\n".to_owned()),
            _ => {
                let rule = "deny contains msg if { some name; msg := data.kubernetes.secrets.shop[name].data.password }";
                module("secrets", format!("package admission\nimport rego.v1\n{rule}\n"));
            }
        }
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": modules})
    }
}
