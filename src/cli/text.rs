//! Text that others wrote (files, users, spokes), made fit for a terminal.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

pub use policy_sync_api::text::printable;
use policy_sync_api::text::reorders;

/// JSON text with the control characters escaped that JSON itself lets pass: DEL, those of Latin-1 and those above.
#[must_use]
pub fn printable_json(json: &str) -> String {
    // Such characters stand in strings only, where an escape means the same.
    let mut printable = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && (c.is_control() || reorders(c)) {
            let _ = write!(printable, "\\u{:04x}", u32::from(c));
        } else {
            printable.push(c);
        }
    }
    printable
}

/// `value` as YAML with everything escaped that changes the order of what is read. (Control characters YAML escapes
/// itself.)
///
/// # Errors
///
/// Where YAML cannot hold it.
pub fn printable_yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_saphyr::to_string(value)?;
    if !text.contains(reorders) {
        return Ok(text);
    }
    // An escape means something only between double quotes, and a control character has YAML choose these.
    let mut value = serde_json::to_value(value)?;
    mark(&mut value);
    let mut printable = String::with_capacity(text.len());
    for c in serde_saphyr::to_string(&value)?.chars() {
        if reorders(c) {
            printable.truncate(printable.len() - MARK_WRITTEN.len());
            let _ = write!(printable, "\\u{:04x}", u32::from(c));
        } else {
            printable.push(c);
        }
    }
    Ok(printable)
}

/// Stands before each character that [`printable_yaml`] escapes.
const MARK: char = '\u{1}';
/// The same as YAML writes it.
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
    // These YAML escapes itself.
    let by_yaml = |c| matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    let mark = |c: &char| (reorders(*c) && !by_yaml(*c)).then_some(MARK);
    text.chars().flat_map(|c| mark(&c).into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests;
