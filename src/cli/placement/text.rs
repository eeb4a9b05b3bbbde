//! Formats the differences between objects and placement policies, as text and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::text::printable;
use policy_sync_controller::placement_policy::compliance::Compliance;
use policy_sync_controller::placement_policy::compliance_check::NonCompliantObject;

/// The kind and the name of the object.
pub(super) fn heading(found: &NonCompliantObject) -> String {
    format!("{} {}", found.object["kind"].as_str().unwrap_or_default(), found.key)
}

/// Formats a heading for each object, followed by the required changes or by the reason why the object may not exist.
pub(super) fn text(found: &[NonCompliantObject]) -> String {
    let mut text = String::new();
    for found in found {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", printable(&heading(found)));
        let lines: Vec<String> = match &found.compliance {
            Compliance::Compliant => Vec::new(),
            Compliance::Differs(change) => change.lines().collect(),
            Compliance::Violates(why) => vec![format!("not allowed on its clusters, but not removed: {why}")],
        };
        for line in lines {
            let _ = writeln!(text, "  {}", printable(&line));
        }
    }
    text
}

/// The objects as JSON.
pub(super) fn list(found: &[NonCompliantObject]) -> Value {
    let item = |found: &NonCompliantObject| {
        let (change, violation) = match &found.compliance {
            Compliance::Compliant => (None, None),
            Compliance::Differs(change) => (Some(change), None),
            Compliance::Violates(why) => (None, Some(why)),
        };
        json!({
            "apiVersion": found.object["apiVersion"], "kind": found.object["kind"],
            "namespace": found.key.namespace, "name": found.key.name,
            "annotations": change.map(|change| &change.annotations),
            "labels": change.map(|change| &change.labels), "violation": violation,
        })
    };
    json!({"items": found.iter().map(item).collect::<Vec<_>>()})
}
