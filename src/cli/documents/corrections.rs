//! Corrects texts that go-yaml accepts although the YAML specification forbids them. The parser follows the
//! specification. If it stops, the text is replaced by an equivalent text.

use std::borrow::Cow;

use granit_parser::{ErrorKind, ScanError};

/// The maximum number of bytes that are parsed again after corrections. This limit bounds the time for one text.
const MAX_BYTES: usize = 1 << 26;

const NEXT_LINE: char = '\u{85}';

/// A text with its corrections.
pub(super) struct CorrectedText<'t> {
    pub(super) text: Cow<'t, str>,
    parsed: usize,
}

impl<'t> CorrectedText<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let mut text = Cow::from(text);
        // YAML 1.1 has this line break, YAML 1.2 does not.
        if text.contains(NEXT_LINE) {
            text = text.replace(NEXT_LINE, "\n").into();
        }
        // kubectl terminates the last line, which matters for block scalars.
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
            // For example `"a"#comment`.
            ErrorKind::CommentNotSeparated if rest.starts_with('#') => format!("{from} {rest}"),
            // For example `[-]`.
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

/// Removes the backslashes before single quotes from the double-quoted scalar at the start of `text`.
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
