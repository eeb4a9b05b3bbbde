//! Corrects texts that go-yaml reads although the YAML specification forbids them. The parser follows the specification: where it
//! stops, the text is replaced by one that means the same.

use std::borrow::Cow;

use granit_parser::{ErrorKind, ScanError};

/// How many bytes are parsed again after corrections. It bounds the time for a text.
const MAX_BYTES: usize = 1 << 26;

const NEXT_LINE: char = '\u{85}';

/// A text with its corrections.
pub(super) struct Lenient<'t> {
    pub(super) text: Cow<'t, str>,
    parsed: usize,
}

impl<'t> Lenient<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut text = Cow::from(text);
        // A line break of YAML 1.1 that YAML 1.2 does not have.
        if text.contains(NEXT_LINE) {
            text = text.replace(NEXT_LINE, "\n").into();
        }
        // kubectl ends the last line, which counts in block scalars.
        if !text.ends_with('\n') {
            text.to_mut().push('\n');
        }
        Self { text, parsed: 0 }
    }

    /// Corrects the text at `error`. Returns whether it can be parsed again.
    pub(super) fn correct(&mut self, error: &ScanError) -> bool {
        self.parsed += self.text.len();
        if self.parsed > MAX_BYTES {
            return false;
        }
        let Some(at) = error.marker().byte_offset() else { return false };
        let Some((from, rest)) = self.text.split_at_checked(at) else { return false };
        let changed = match error.kind() {
            // `"a"#comment`
            ErrorKind::CommentNotSeparated if rest.starts_with('#') => format!("{from} {rest}"),
            // `[-]`
            ErrorKind::PlainScalarStartsWithDashFlowIndicator => match rest.strip_prefix('-') {
                Some(rest) => format!("{from}\"-\"{rest}"),
                None => return false,
            },
            ErrorKind::UnknownQuotedScalarEscape => match without_escaped_quotes(rest) {
                Some(rest) => format!("{from}{rest}"),
                None => return false,
            },
            _ => return false,
        };
        self.text = changed.into();
        true
    }
}

/// `text`, which begins with a scalar in double quotes, without the backslashes before single quotes in it.
fn without_escaped_quotes(text: &str) -> Option<String> {
    let mut changed = String::with_capacity(text.len());
    let mut chars = text.strip_prefix('"')?.chars();
    changed.push('"');
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next()? {
                '\'' => changed.push('\''),
                other => changed.extend(['\\', other]),
            },
            '"' => {
                changed.push('"');
                changed.push_str(chars.as_str());
                return (changed.len() < text.len()).then_some(changed);
            }
            other => changed.push(other),
        }
    }
    None
}
