//! Label and field selectors of lists and watches.

use std::collections::BTreeMap;

use kube::core::{Selector as Labels, SelectorExt};
use policy_sync_api::selector;
use serde::Deserialize;
use serde_json::Value;

use super::status_error::StatusError;

/// A label selector and a field selector.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Labels,
    /// Requirements on fields: a path, whether the field must equal the text or differ from it, and the text.
    fields: Vec<(String, bool, String)>,
}

impl Selector {
    pub(super) fn parse(labels: &str, fields: &str) -> Result<Self, StatusError> {
        let labels = selector::parse(labels).map_err(|error| StatusError::bad_request(&error.to_string()))?;
        let fields = fields.split(',').filter(|part| !part.is_empty()).map(|part| {
            let (path, equal, text) = match (part.split_once("!="), part.split_once('=')) {
                (Some((path, text)), _) => (path, false, text),
                (None, Some((path, text))) => (path, true, text.trim_start_matches('=')),
                (None, None) => return Err(StatusError::bad_request(&format!("invalid selector: {part:?}"))),
            };
            // Secrets have the field `type` at the top level.
            if !matches!(path, "metadata.name" | "metadata.namespace" | "type") {
                return Err(StatusError::bad_request(&format!("field label not supported: {path}")));
            }
            Ok((path.replace('.', "/"), equal, text.to_owned()))
        });
        Ok(Self { labels, fields: fields.collect::<Result<_, _>>()? })
    }

    pub(super) fn selects(&self, object: &Value) -> bool {
        let labels = BTreeMap::deserialize(&object["metadata"]["labels"]).unwrap_or_default();
        self.labels.matches(&labels)
            && self.fields.iter().all(|(path, equal, text)| {
                let found = object.pointer(&format!("/{path}")).and_then(Value::as_str).unwrap_or_default();
                (found == text) == *equal
            })
    }
}
