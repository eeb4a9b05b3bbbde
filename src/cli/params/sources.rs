//! Reads the parameters in a file, which contains either parameters as JSON or ConfigMaps with parameters.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::bail;
use serde_json::Value;

use crate::cli::{documents, manifests};
use policy_sync_api::params::{CheckedParams, KEY, Params, ParamsError};

/// Parameters with their file and line.
pub(super) struct Source {
    /// The file, and the line if the file contains several parameters.
    pub(super) place: String,
    pub(super) checked: CheckedParams,
}

/// Reads the parameters in `file`, or from standard input if it is `-`.
///
/// # Errors
///
/// If the file cannot be read, or contains no parameters.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Source>> {
    let (name, text) = documents::read(file)?;
    sources(&name, &text)
}

fn sources(file: &str, text: &str) -> anyhow::Result<Vec<Source>> {
    if !is_manifest(text) {
        return Ok(vec![Source { place: file.to_owned(), checked: Params::check(text) }]);
    }
    let mut manifests = manifests::parse(file, text)?;
    manifests.retain(|manifest| manifest.object.kind == "ConfigMap" && manifest.object.api_version == "v1");
    let place = |manifest: &manifests::Manifest, several| {
        if several { manifest.place.to_string() } else { file.to_owned() }
    };
    let several = manifests.len() > 1;
    let sources: Vec<Source> = manifests
        .iter()
        .map(|manifest| {
            let raw = manifest.object.data.as_ref().map_or("{}", |raw| raw.get());
            let data: BTreeMap<String, Value> = serde_json::from_str(raw).unwrap_or_default();
            let fault = |fault: String| CheckedParams {
                faults: vec![ParamsError { place: String::new(), fault }],
                ..CheckedParams::default()
            };
            let checked = match data.get(KEY) {
                Some(Value::String(text)) => Params::check(text),
                Some(other) => fault(format!("data.{KEY}: expected a string, found {other}")),
                None => fault(format!("has no key {KEY:?}")),
            };
            Source { place: place(manifest, several), checked }
        })
        .collect();
    if sources.is_empty() {
        bail!("{file}: no parameters: expected their JSON, or a ConfigMap with the key {KEY:?}");
    }
    Ok(sources)
}

/// Whether `text` contains Kubernetes objects instead of parameters.
fn is_manifest(text: &str) -> bool {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str::<Value>(text).is_ok_and(|value| value.get("kind").is_some());
    }
    text.lines().any(|line| line.starts_with("kind:") || line.starts_with("apiVersion:"))
}
