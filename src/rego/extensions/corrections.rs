//! Builtins of the engine that differ from OPA in details, with OPA's results.

use std::collections::BTreeSet;

use anyhow::Result;
use regorus::Value;

use super::engine;
use crate::rego::memory;

/// Characters that Go escapes in JSON.
const ESCAPED: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];

fn text(value: &Value) -> Option<&str> {
    value.as_string().ok().map(AsRef::as_ref)
}

/// The number of characters of a text, not of its UTF-16 code units.
pub(super) fn count(values: Vec<Value>) -> Result<Value> {
    match text(&values[0]) {
        Some(text) => Ok(text.chars().count().into()),
        None => engine("count", &values),
    }
}

/// Line breaks are ignored.
pub(super) fn base64_decode(values: Vec<Value>) -> Result<Value> {
    match text(&values[0]).filter(|text| text.contains(['\r', '\n'])) {
        Some(text) => engine("base64.decode", &[text.replace(['\r', '\n'], "").into()]),
        None => engine("base64.decode", &values),
    }
}

/// A number has no blanks around it.
pub(super) fn to_number(values: Vec<Value>) -> Result<Value> {
    match text(&values[0]) {
        Some(text) if text.contains(char::is_whitespace) => Ok(Value::Undefined),
        _ => engine("to_number", &values),
    }
}

/// A version without the `v` before it.
fn version(value: &Value) -> Value {
    match text(value).and_then(|version| version.strip_prefix('v')) {
        Some(version) => version.into(),
        None => value.clone(),
    }
}

pub(super) fn semver_compare(values: Vec<Value>) -> Result<Value> {
    engine("semver.compare", &[version(&values[0]), version(&values[1])])
}

pub(super) fn semver_is_valid(values: Vec<Value>) -> Result<Value> {
    engine("semver.is_valid", &[version(&values[0])])
}

/// The date ends with `T`.
pub(super) fn parse_rfc3339_ns(values: Vec<Value>) -> Result<Value> {
    match text(&values[0]) {
        Some(text) if text.as_bytes().get(10) != Some(&b'T') => Ok(Value::Undefined),
        _ => engine("time.parse_rfc3339_ns", &values),
    }
}

pub(super) fn json_marshal(values: Vec<Value>) -> Result<Value> {
    escaped(engine("json.marshal", &values)?, "", "")
}

pub(super) fn json_marshal_with_options(values: Vec<Value>) -> Result<Value> {
    let option = |name: &str| text(&values[1][name]).unwrap_or_default();
    escaped(engine("json.marshal_with_options", &values)?, option("prefix"), option("indent"))
}

/// `json` with all characters escaped that Go escapes in its texts. Each line begins with `prefix` and any number of `indent`.
fn escaped(json: Value, prefix: &str, indent: &str) -> Result<Value> {
    let Some(text) = text(&json) else { return Ok(json) };
    let count = text.matches(ESCAPED).count();
    if count == 0 {
        return Ok(json);
    }
    let length = text.len() + count * "\\u003c".len();
    memory::check(length)?;
    let mut escaped = String::with_capacity(length);
    for line in text.split_inclusive('\n') {
        let mut rest = line.strip_prefix(prefix).unwrap_or(line);
        while let Some(inner) = rest.strip_prefix(indent).filter(|_| !indent.is_empty()) {
            rest = inner;
        }
        escaped.push_str(&line[..line.len() - rest.len()]);
        for char in rest.chars() {
            match char {
                char if ESCAPED.contains(&char) => escaped.push_str(&format!("\\u{:04x}", u32::from(char))),
                char => escaped.push(char),
            }
        }
    }
    Ok(escaped.into())
}

pub(super) fn json_filter(values: Vec<Value>) -> Result<Value> {
    engine("json.filter", &[values[0].clone(), without_slashes(&values[1])])
}

pub(super) fn json_remove(values: Vec<Value>) -> Result<Value> {
    engine("json.remove", &[values[0].clone(), without_slashes(&values[1])])
}

/// `paths` without slashes at their starts.
fn without_slashes(paths: &Value) -> Value {
    let path = |path: &Value| match text(path) {
        Some(text) if text.starts_with('/') => text.trim_start_matches('/').into(),
        _ => path.clone(),
    };
    match paths {
        Value::Array(paths) => paths.iter().map(path).collect::<Vec<_>>().into(),
        Value::Set(paths) => paths.iter().map(path).collect::<BTreeSet<_>>().into(),
        _ => paths.clone(),
    }
}
