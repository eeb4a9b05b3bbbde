//! Settings for the merge of policies.

use schemars::JsonSchema;
use serde::Serialize;

use super::path::StatusPath;
use crate::text::excerpt;

/// The maximum number of paths in [`Merge::rules`].
pub const MAX_RULES: usize = 32;

/// How policies of a kind are merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// The most specific target that policies of the kind may have.
    pub level: Level,
    /// Paths in the spec (or in its field `defaults` or `overrides`) to rules, for example `.limits`. If the value at a
    /// path is an object, each of its entries is a rule. Any other value is one rule. Without paths, each field is a
    /// rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub rules: Vec<String>,
}

/// The kinds of targets, the most specific last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Gateways and GatewayClasses.
    Gateway,
    /// Listeners of Gateways.
    Listener,
    /// Routes.
    Route,
    /// Rules of routes.
    Rule,
}

impl Merge {
    /// The paths in [`Self::rules`], each as text without its first dot, and as a list of its names. Invalid paths are
    /// skipped.
    #[must_use]
    pub fn rule_paths(&self) -> Vec<(String, Vec<String>)> {
        let read = |path: &String| Some((path.trim_start_matches('.').to_owned(), names(path).ok()?));
        self.rules.iter().filter_map(read).collect()
    }

    /// The faults of the paths, each with its index in the list as text.
    pub(super) fn faults(&self) -> Vec<(String, String)> {
        if self.rules.len() > MAX_RULES {
            let text = format!("has {} paths, at most {MAX_RULES} are allowed", self.rules.len());
            return vec![(String::new(), text)];
        }
        let mut faults = Vec::new();
        let mut known: Vec<(Vec<String>, &str)> = Vec::new();
        for (index, path) in self.rules.iter().enumerate() {
            let mut fault = |text: String| faults.push((format!("[{index}]"), text));
            match names(path) {
                Err(text) => fault(text),
                Ok(found) => {
                    let holds = |(other, _): &&(Vec<String>, &str)| {
                        other.starts_with(&found) || found.starts_with(other.as_slice())
                    };
                    if let Some((_, other)) = known.iter().find(holds) {
                        let (path, other) = (excerpt(path), excerpt(other));
                        fault(format!("{path:?} and {other:?} overlap"));
                    }
                    known.push((found, path));
                }
            }
        }
        faults
    }
}

/// The names in `path`. Fails if `path` contains anything else.
fn names(path: &str) -> Result<Vec<String>, String> {
    let parsed = StatusPath::parse(path).map_err(|error| error.to_string())?;
    parsed.names().ok_or_else(|| "expected only names, found an index or a filter".to_owned())
}
