//! Formats the changes of `policy-sync plan --diff`.

use std::time::Duration;

use serde_json::{Value, json};
use similar::TextDiff;

use crate::cli::columns;
use crate::cli::output::yaml;
use crate::cli::text::printable;
use policy_sync_sync::dry_run::{Change, Verb};

/// The number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// The time limit for minimizing one diff.
const MINIMIZE_TIMEOUT: Duration = Duration::from_millis(500);

/// Formats a heading and a unified diff for each object.
///
/// # Errors
///
/// If YAML cannot represent an object.
pub(super) fn text(changes: &[Change]) -> anyhow::Result<String> {
    changes.iter().map(object_diff).collect()
}

fn object_diff(change: &Change) -> anyhow::Result<String> {
    let document = |object: &Value| if object.is_null() { Ok(String::new()) } else { yaml(object) };
    let (mut before, mut after) = (document(&readable(&change.before))?, document(&readable(&change.after))?);
    if before == after {
        // Only the formatting of the embedded JSON differs.
        (before, after) = (document(&change.before)?, document(&change.after)?);
    }
    let names = match change.verb {
        Verb::Create => ("/dev/null", "plan"),
        Verb::Change => ("hub", "plan"),
        Verb::Delete => ("hub", "/dev/null"),
    };
    let diff = TextDiff::configure().timeout(MINIMIZE_TIMEOUT).diff_lines(&before, &after);
    let diff = diff.unified_diff().context_radius(CONTEXT_LINES).header(names.0, names.1).to_string();
    Ok(format!("{}\n{diff}", printable(&change.heading())))
}

/// Expands JSON in the annotations of `object`, so that a diff shows single fields instead of a whole list.
fn readable(object: &Value) -> Value {
    let mut object = object.clone();
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    for text in annotations.into_iter().flat_map(|annotations| annotations.values_mut()) {
        let parsed: Option<Value> = text.as_str().and_then(|text| serde_json::from_str(text).ok());
        if let Some(parsed) = parsed.filter(|parsed| parsed.is_object() || parsed.is_array()) {
            *text = parsed;
        }
    }
    object
}

/// Formats a row for each object; empty without changes.
pub(super) fn table(changes: &[Change]) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let rows = changes.iter().map(|change| {
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        vec![
            change.verb.as_str().to_owned(),
            change.kind.clone(),
            or_dash(&change.key.namespace),
            change.key.name.to_string(),
            or_dash(change.waits.as_deref().unwrap_or_default()),
        ]
    });
    columns::table(&["ACTION", "KIND", "NAMESPACE", "NAME", "WAITS"], 4, rows)
}

/// The changes as JSON, with each object before and after.
pub(super) fn list(changes: &[Change]) -> Value {
    let item = |change: &Change| {
        json!({
            "action": change.verb.as_str(), "kind": change.kind, "namespace": change.key.namespace,
            "name": change.key.name, "waits": change.waits, "before": change.before, "after": change.after,
        })
    };
    json!({"items": changes.iter().map(item).collect::<Vec<_>>()})
}
