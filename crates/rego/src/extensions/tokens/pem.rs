//! Parses PEM blocks by the rules of Go's package [encoding/pem](https://pkg.go.dev/encoding/pem).

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

const BEGIN: &str = "-----BEGIN ";
const END: &str = "\n-----END ";
const DASHES: &str = "-----";

const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// A PEM block.
pub(in crate::extensions) struct Block<'t> {
    /// The label, for example `CERTIFICATE`.
    pub(in crate::extensions) label: &'t str,
    pub(in crate::extensions) bytes: Vec<u8>,
}

/// The first block in `text`, and the text after it.
pub(in crate::extensions) fn first_block(text: &str) -> Option<(Block<'_>, &str)> {
    let mut rest = text;
    loop {
        let end = rest.find(END)?;
        let (before, after) = (&rest[..end + 1], &rest[end + END.len()..]);
        // The block begins at the last `BEGIN` line. A block that begins earlier has no end.
        let begin =
            before.rfind(BEGIN).filter(|at| before[..*at].is_empty() || before[..*at].ends_with('\n'));
        let found = begin.and_then(|at| block(&before[at + BEGIN.len()..], after));
        if found.is_some() {
            return found;
        }
        rest = after;
    }
}

/// Parses a block: `inner` is the text after `-----BEGIN `, and `after` the text after `-----END `.
fn block<'t>(inner: &'t str, after: &'t str) -> Option<(Block<'t>, &'t str)> {
    let (line, mut body) = first_line(inner);
    let label = line.strip_suffix(DASHES)?;
    let all = body;
    loop {
        let (line, next) = first_line(body);
        if !line.contains(':') {
            break;
        }
        body = next;
    }
    let has_headers = body.len() < all.len();
    if has_headers && body.is_empty() {
        return None;
    }
    let after = after.strip_prefix(label)?.strip_prefix(DASHES)?;
    let (line, after) = first_line(after);
    if !line.is_empty() {
        return None;
    }
    let encoded: String = body.chars().filter(|c| !matches!(c, ' ' | '\t' | '\r' | '\n')).collect();
    let bytes = BASE64.decode(encoded).ok()?;
    Some((Block { label, bytes }, after))
}

/// The first line of `text` without trailing white space, and the text after it.
fn first_line(text: &str) -> (&str, &str) {
    let (line, rest) = match text.split_once('\n') {
        Some((line, rest)) => (line.strip_suffix('\r').unwrap_or(line), rest),
        None => (text, ""),
    };
    (line.trim_end_matches([' ', '\t']), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(String, Vec<u8>, String)> {
        let (block, rest) = first_block(text)?;
        Some((block.label.to_owned(), block.bytes, rest.to_owned()))
    }

    #[test]
    fn blocks_are_read_as_in_go() {
        let is = |text: &str, bytes: &[u8], rest: &str| {
            assert_eq!(found(text), Some(("A".to_owned(), bytes.to_vec(), rest.to_owned())), "{text}");
        };
        is("-----BEGIN A-----\nYQ==\n-----END A-----", b"a", "");
        is("-----BEGIN A-----\nYQ==\n-----END A-----\n\n", b"a", "\n");
        is("text\n-----BEGIN A-----\r\n Y\tQ==\r\n-----END A----- \r\nrest", b"a", "rest");
        is("-----BEGIN A-----\nKey: value\n\nYQ==\n-----END A-----\n", b"a", "");
        is("-----BEGIN B-----\n-----BEGIN A-----\nYQ==\n-----END A-----\n", b"a", "");
        is("-----BEGIN B-----\n?\n-----END B-----\n-----BEGIN A-----\nYQ==\n-----END A-----\n", b"a", "");
        is("-----BEGIN A-----\n-----END A-----\n", b"", "");
        for text in [
            "",
            "{}",
            "-----BEGIN A-----\nYQ==\n-----END B-----",
            "-----BEGIN A-----\nYQ==\n-----END A----- x",
            "-----BEGIN A-----\nYQ=\n-----END A-----",
            " -----BEGIN A-----\nYQ==\n-----END A-----",
            "-----BEGIN A\nYQ==\n-----END A-----",
            "-----END A-----",
            "-----BEGIN A-----\nKey: value\n-----END A-----",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
