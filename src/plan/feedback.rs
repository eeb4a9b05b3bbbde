//! What a spoke's agent is asked to feed back of a copy.
//!
//! A name that starts with `_` is ours; [`crate::mirror::rows::work`] reads them back. One path gives one scalar,
//! because lists and objects would need a feature gate of the agent.

use crate::api::annotations::CONDITIONS;
use crate::api::params::StatusField;
use crate::api::work::{FeedbackRule, FeedbackRuleType, JsonPath};

/// The rules for a copy, with the values that its class asks for.
pub(super) fn rules(fields: &[StatusField]) -> Vec<FeedbackRule> {
    let path = |name: &str, path: &str| JsonPath { name: name.to_owned(), path: path.to_owned() };
    let mut paths = vec![
        path("_revision", r".metadata.annotations.kuadrant\.io/revision"),
        path("_generation", ".metadata.generation"),
        path("_observedGeneration", ".status.observedGeneration"),
    ];
    for condition in CONDITIONS {
        for part in ["status", "reason", "message", "observedGeneration"] {
            let name = format!("_{condition}_{part}");
            paths.push(path(&name, &format!(r#".status.conditions[?(@.type=="{condition}")].{part}"#)));
        }
    }
    paths.extend(fields.iter().map(|field| path(&field.name, &field.path)));
    vec![FeedbackRule { rule: FeedbackRuleType::JSONPaths, json_paths: paths }]
}
