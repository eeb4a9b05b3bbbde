//! Text of others, cut to what the object that it goes into takes.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write;

const CUT: &str = "…";
/// The most characters of a text that a fault repeats.
const REPEATED: usize = 64;

/// `text` in at most `bytes` bytes (three or more), with an ellipsis where it was cut.
#[must_use]
pub fn capped(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(CUT.len()));
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}

/// `text` in at most so many characters (one or more), with an ellipsis where it was cut.
#[must_use]
pub fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters.saturating_sub(1)).chain(CUT.chars()).collect()
}

/// As much of `text` as a fault repeats.
#[must_use]
pub fn excerpt(text: &str) -> String {
    cut(text, REPEATED + 1)
}

/// The same on one line, and without quotes unless nothing would be left.
#[must_use]
pub fn plain_excerpt(text: &str) -> String {
    if text.is_empty() { "\"\"".to_owned() } else { excerpt(text).escape_debug().to_string() }
}

/// `text` on one line: what is no character of text, such as an escape of a terminal, is written out.
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

/// Whether `c` is one of the line and paragraph separators, marks and overrides of direction, and characters without width.
#[must_use]
pub fn reorders(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// `error` and its causes, the outermost first. Libraries repeat the cause in their own words, or do not: it stands here
/// once.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

/// How many names a line of text has.
const NAMED: usize = 10;

/// The first of `names`, and how many more.
#[must_use]
pub fn named(names: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = match names.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    first.join(", ") + &more
}

/// `number` with its digits in groups: `33,554,432`.
#[must_use]
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
