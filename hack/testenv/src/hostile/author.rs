//! Rego modules that must not affect decisions about other users' objects: too large, too many, rejected, or costly to
//! evaluate.
//!
//! No placement query reads the packages of these modules. Otherwise, a rejected module would, by design, make
//! placement reject every object. Modules that are slow to check are not included, because tests in paused time check
//! modules in their own process, without limits.

use serde_json::{Map, Value, json};

use super::Hostile;

/// The size of a large module in bytes. Three such modules exceed the limit of a bundle.
const LARGE: usize = 900_000;
/// Number of small modules in one ConfigMap.
const MANY: usize = 60;
/// The label of an object whose review by the module of [`Hostile::costly_carrier`] exceeds a limit.
pub const COSTLY: &str = "costly";
/// A rule that exceeds the time limit of a review.
const LOOPS: &str = r#"deny contains "loops" if {
    input.request.object.metadata.labels.costly
    count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b]) > 0
}"#;
/// A rule that exceeds the memory limit of a review: it concatenates the label's value 268,435,456 times.
const MULTIPLIES: &str = r#"deny contains message if {
    message := copies(copies(copies(copies(copies(copies(copies(input.request.object.metadata.labels.costly)))))))
}
copies(text) := concat("", [text, text, text, text, text, text, text, text, text, text, text, text, text, text, text, text])"#;

impl Hostile {
    /// A ConfigMap `name` with hostile Rego modules.
    pub fn carrier(&mut self, namespace: &str, name: &str) -> Value {
        let mut modules = Map::new();
        let mut module = |key: &str, text: String| drop(modules.insert(format!("{key}.rego"), text.into()));
        match self.below(8) {
            // A comment makes the module large, because comments are cheap to parse.
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
        config_map(namespace, name, modules.into())
    }

    /// A ConfigMap `name` with a module that takes too much time or memory to review an object with the label
    /// [`COSTLY`]. Checks of the module and reviews of other objects are quick.
    pub fn costly_carrier(&mut self, namespace: &str, name: &str) -> Value {
        let rules = self.one(&[LOOPS, MULTIPLIES]);
        let module = format!("package admission\nimport rego.v1\n{rules}\n");
        config_map(namespace, name, json!({ "costly.rego": module }))
    }
}

fn config_map(namespace: &str, name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}
