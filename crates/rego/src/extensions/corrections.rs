//! Builtins whose results in the engine differ from OPA in details. These implementations return OPA's results.

use std::collections::BTreeSet;

use anyhow::Result;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use regorus::Value;

use super::{engine, or_undefined, text};
use crate::memory;

/// Characters that Go escapes in JSON.
const ESCAPED: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];

/// Implements `count`. For a text, counts its characters, not its UTF-16 code units.
pub(super) fn count(values: Vec<Value>) -> Result<Value> {
    match text(&values[0]) {
        Some(text) => Ok(text.chars().count().into()),
        None => engine("count", &values),
    }
}

/// Decodes base64. As in Go, line breaks and the unused bits of the last character are ignored.
pub(super) fn base64_decode(values: Vec<Value>) -> Result<Value> {
    const ENGINE: GeneralPurpose =
        GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
    let Some(text) = text(&values[0]) else { return Ok(Value::Undefined) };
    let decoded = ENGINE.decode(text.replace(['\r', '\n'], ""));
    Ok(or_undefined(decoded.ok().map(|bytes| lossy(&bytes))))
}

/// Converts `bytes` to a text. As in Go, each byte that is not UTF-8 becomes a replacement character.
pub(super) fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Converts a text to a number. The text must not have surrounding blanks. It may have a sign and leading zeros, and
/// may lack digits before or after the point.
pub(super) fn to_number(values: Vec<Value>) -> Result<Value> {
    let Some(text) = text(&values[0]) else { return engine("to_number", &values) };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_decimal = digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if !is_decimal {
        return Ok(Value::Undefined);
    }
    let is_negative = text.starts_with('-');
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let digits = digits.trim_start_matches('0');
        let digits = if digits.is_empty() { "0" } else { digits };
        let sign = if is_negative { "-" } else { "" };
        return engine("to_number", &[format!("{sign}{digits}").into()]);
    }
    let float = digits.parse::<f64>().ok().filter(|float| float.is_finite());
    Ok(or_undefined(float.map(|float| if is_negative { -float } else { float })))
}

/// A version without a leading `v`; `None` if one of its numbers has more than 64 bits.
fn version(value: &Value) -> Option<Value> {
    let Some(text) = text(value) else { return Some(value.clone()) };
    let version = text.strip_prefix('v').unwrap_or(text);
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let is_large = |number: &str| !number.is_empty() && number.parse::<i64>().is_err();
    (!core.split('.').any(is_large)).then(|| version.into())
}

pub(super) fn semver_compare(values: Vec<Value>) -> Result<Value> {
    match version(&values[0]).zip(version(&values[1])) {
        Some((one, other)) => engine("semver.compare", &[one, other]),
        None => Ok(Value::Undefined),
    }
}

pub(super) fn semver_is_valid(values: Vec<Value>) -> Result<Value> {
    version(&values[0]).map_or(Ok(false.into()), |version| engine("semver.is_valid", &[version]))
}

/// Parses a time in the format of RFC 3339. Letters must be uppercase, and seconds may be at most 59.
pub(super) fn parse_rfc3339_ns(values: Vec<Value>) -> Result<Value> {
    let is_go = |text: &str| {
        let bytes = text.as_bytes();
        text.is_ascii()
            && bytes.get(10) == Some(&b'T')
            && !text.ends_with('z')
            && bytes.get(17..19) != Some(b"60")
    };
    match text(&values[0]) {
        Some(text) if !is_go(text) => Ok(Value::Undefined),
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

/// Escapes the characters of `json` that Go escapes. Each line begins with `prefix`, followed by one `indent` for each
/// level.
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
    engine("json.filter", &[values[0].clone(), listed_paths(&values[1])])
}

pub(super) fn json_remove(values: Vec<Value>) -> Result<Value> {
    engine("json.remove", &[values[0].clone(), listed_paths(&values[1])])
}

/// `paths` as lists of keys. Empty paths are omitted.
fn listed_paths(paths: &Value) -> Value {
    let path = |path: &Value| match text(path) {
        Some("") => Value::new_array(),
        Some(text) => {
            let keys = text.trim_start_matches('/').split('/');
            keys.map(|key| Value::from(key.replace("~1", "/").replace("~0", "~"))).collect::<Vec<_>>().into()
        }
        None => path.clone(),
    };
    let is_path = |path: &Value| path.as_array().map_or(true, |keys| !keys.is_empty());
    match paths {
        Value::Array(paths) => paths.iter().map(path).filter(is_path).collect::<Vec<_>>().into(),
        Value::Set(paths) => paths.iter().map(path).filter(is_path).collect::<BTreeSet<_>>().into(),
        _ => paths.clone(),
    }
}
