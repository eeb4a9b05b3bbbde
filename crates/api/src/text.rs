//! Shortens and escapes text from other sources for messages and objects.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write;

const ELLIPSIS: &str = "…";
/// The maximum number of characters that a message quotes.
const QUOTE_LIMIT: usize = 64;

/// Cuts `text` to at most `bytes` bytes, the ellipsis included. `bytes` must be at least 3.
#[must_use]
pub fn truncate_bytes(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(ELLIPSIS.len()));
    Cow::Owned(format!("{}{ELLIPSIS}", &text[..end]))
}

/// Cuts `text` to at most this number of `characters`, the ellipsis included. `characters` must be at least 1.
#[must_use]
pub fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters.saturating_sub(1)).chain(ELLIPSIS.chars()).collect()
}

/// Cuts `text` for a quotation in a message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    cut(text, QUOTE_LIMIT + 1)
}

/// Like [`excerpt`], escaped to fit on one line; `""` for an empty text.
#[must_use]
pub fn escaped_excerpt(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { excerpt(text).escape_debug().to_string() }
}

/// Puts `text` on one line, and escapes control characters, for example terminal escapes.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' => line.push(' '),
            control if control.is_control() => line.extend(control.escape_unicode()),
            other => line.push(other),
        }
    }
    line
}

/// Escapes all characters in `text` that move the cursor, end a line or change the direction of text.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_format_character(c) {
            // Writing to a String cannot fail.
            let _ = write!(printable, "{}", c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// Whether `c` is a line or paragraph separator, a mark or override of direction, or a zero-width character.
#[must_use]
pub fn is_format_character(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// `error` with its sources, outermost first. A source that is already part of the message is not repeated.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let cause_text = error.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        cause = error.source();
    }
    text
}

/// The maximum number of names, or of other items, in a message.
pub const LIST_LIMIT: usize = 10;

/// The first names in `names`, and the number of the other names.
#[must_use]
pub fn named(names: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = names.iter().take(LIST_LIMIT).map(AsRef::as_ref).collect();
    let more = match names.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    first.join(", ") + &more
}

/// `number` with digits in groups of three: `33,554,432`.
#[must_use]
pub fn group_digits(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Joins the first [`LIST_LIMIT`] of `texts` by semicolons, and adds the number of the other texts.
#[must_use]
pub fn join_limited(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(LIST_LIMIT);
    let mut parts: Vec<String> = texts.take(LIST_LIMIT).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests;
