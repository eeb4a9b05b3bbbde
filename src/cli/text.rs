//! Text that others wrote (files, users, spokes), made fit for a terminal.

use std::fmt::Write;

/// `text` with everything escaped that moves a cursor, ends a line, or changes the order of what is read.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || reorders(c) {
            // Writing to a String cannot fail.
            let _ = write!(printable, "{}", c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

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

/// Line and paragraph separators, marks and overrides of direction, and characters without width.
fn reorders(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// `text` in at most `limit` characters, with an ellipsis where it is cut.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
