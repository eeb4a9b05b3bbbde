//! Escapes texts from files, users and clusters for output on a terminal.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use policy_sync_api::text::is_format_character;
pub use policy_sync_api::text::printable;

/// Escapes the control characters that JSON allows unescaped (DEL, C1), and format characters: line and paragraph
/// separators, marks of the text direction, and zero-width characters.
#[must_use]
pub fn printable_json(json: &str) -> String {
    // These characters can only occur in strings, where an escape is equivalent.
    let mut printable = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && (c.is_control() || is_format_character(c)) {
            let _ = write!(printable, "\\u{:04x}", u32::from(c));
        } else {
            printable.push(c);
        }
    }
    printable
}

/// Formats `value` as YAML, with format characters escaped as in [`printable_json`]. YAML escapes control characters
/// itself.
///
/// # Errors
///
/// If YAML cannot represent the value.
pub fn printable_yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(value)?;
    if !text.contains(is_format_character) {
        return Ok(text);
    }
    // Escapes require double quotes. An added control character forces the YAML library to use them.
    let mut value = serde_json::to_value(value)?;
    mark(&mut value);
    let mut printable = String::with_capacity(text.len());
    for c in serde_saphyr::to_string(&value)?.chars() {
        if is_format_character(c) {
            printable.truncate(printable.len() - MARK_WRITTEN.len());
            let _ = write!(printable, "\\u{:04x}", u32::from(c));
        } else {
            printable.push(c);
        }
    }
    Ok(printable)
}

/// Marks each character that [`printable_yaml`] escapes.
const MARK: char = '\u{1}';
/// The mark in YAML output.
const MARK_WRITTEN: &str = "\\x01";

fn mark(value: &mut Value) {
    match value {
        Value::String(text) => *text = marked(text),
        Value::Array(items) => items.iter_mut().for_each(mark),
        Value::Object(fields) => {
            let owned = std::mem::take(fields).into_iter();
            fields.extend(owned.map(|(key, mut value)| {
                mark(&mut value);
                (marked(&key), value)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn marked(text: &str) -> String {
    // The YAML library escapes these characters itself.
    let by_yaml = |c| matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    let mark = |c: &char| (is_format_character(*c) && !by_yaml(*c)).then_some(MARK);
    text.chars().flat_map(|c| mark(&c).into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests;
