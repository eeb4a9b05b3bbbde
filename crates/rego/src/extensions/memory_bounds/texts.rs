//! Memory bounds of builtins that create or search texts.

use regorus::Value;

use super::{GROWTH, grown, length, listed};
use crate::extensions::certificates::TEXT as CERTIFICATES;
use crate::extensions::patterns::compiled;
use crate::extensions::replacements::SEARCHER;
use crate::memory::LIMIT;
use crate::memory::size::{ELEMENT, elements, written};

/// The number of copies of an argument that exist while `sprintf` formats it: one text for each level, and the joined
/// text.
pub(super) const FORMATTED: usize = 8;
/// The maximum number of bytes that a directive of `sprintf` adds: its width and its precision.
const DIRECTIVE: usize = 1_400;
/// The bytes that `sprintf` adds for each byte of a directive without a valid argument, such as `%!d(MISSING)`.
const ERRORS: usize = 10;
/// The bytes that the parsers of regular expressions and globs need for one byte of a pattern.
const PARSED: usize = 512;
/// The bytes for matching with a regular expression.
const AUTOMATON: usize = 4 << 20;

/// The bytes for a text of twice the length of the first argument.
pub(super) fn text(values: &[Value]) -> Option<usize> {
    grown(length(values.first()).saturating_mul(2))
}

/// The bytes for a text of decoded bytes. Each byte that is not UTF-8 becomes three bytes.
pub(super) fn lossy(values: &[Value]) -> Option<usize> {
    grown(length(values.first()).saturating_mul(4))
}

/// The bytes for a text in uppercase or lowercase. A change of case may turn a letter of two bytes into three bytes, or
/// into several letters.
pub(super) fn cased(values: &[Value]) -> Option<usize> {
    grown(length(values.first()).saturating_mul(3))
}

/// The bytes for copies of all arguments that are texts.
pub(super) fn texts(values: &[Value]) -> Option<usize> {
    grown(values.iter().map(|value| length(Some(value))).sum::<usize>().saturating_mul(2))
}

pub(super) fn time(values: &[Value]) -> Option<usize> {
    /// The maximum length of an expanded layout letter: the name of a month or a zone.
    const LETTER: usize = 32;
    let written = values.iter().map(|value| written(value, LIMIT)).sum::<Option<usize>>()?;
    Some(written.saturating_mul(LETTER))
}

pub(super) fn concat(values: &[Value]) -> Option<usize> {
    let mut bytes = elements(&values[1]).saturating_mul(length(values.first()) + size_of::<&str>());
    match &values[1] {
        Value::Array(items) => items.iter().for_each(|item| bytes = bytes.saturating_add(length(Some(item)))),
        Value::Set(items) => items.iter().for_each(|item| bytes = bytes.saturating_add(length(Some(item)))),
        _ => {}
    }
    grown(bytes)
}

pub(super) fn replaced(values: &[Value]) -> Option<usize> {
    let [Value::String(text), Value::String(old), Value::String(new)] = values else { return Some(0) };
    let times = text.matches(&**old).count();
    grown(text.len().saturating_add(times.saturating_mul(new.len())))
}

pub(super) fn split(values: &[Value]) -> Option<usize> {
    let [Value::String(text), Value::String(delimiter), ..] = values else { return Some(0) };
    let parts = text.matches(&**delimiter).count() + 1;
    let texts = parts.saturating_mul(size_of::<&str>() * GROWTH);
    Some(listed(parts)?.saturating_add(texts).saturating_add(text.len()))
}

pub(super) fn sprintf(values: &[Value]) -> Option<usize> {
    let (Value::String(format), Value::Array(arguments)) = (&values[0], &values[1]) else { return Some(0) };
    let mut largest = 0;
    let mut need = format.len().saturating_mul(ERRORS * GROWTH);
    for argument in arguments.iter() {
        let written = written(argument, LIMIT)?.saturating_mul(FORMATTED).saturating_add(DIRECTIVE);
        largest = largest.max(written);
        need = need.saturating_add(written);
    }
    // Directives with an index, such as `%[1]s`, may repeat an argument.
    let indexes = format.matches('[').count();
    Some(need.saturating_add(indexes.saturating_mul(largest)))
}

/// The bytes for a regular expression, and for matching with it.
pub(super) fn pattern(values: &[Value]) -> Option<usize> {
    let pattern = length(values.first()).saturating_mul(PARSED).saturating_add(AUTOMATON);
    Some(pattern.saturating_add(texts(values)?))
}

/// The bytes for a glob, and for a text with delimiters. Each delimiter adds two characters to the text next to it, and
/// delimiters may repeat.
pub(super) fn glob(values: &[Value]) -> Option<usize> {
    let delimiters = elements(&values[1]);
    let longer = 1 + 2 * delimiters;
    let text = grown(length(values.last()).saturating_mul(longer))?;
    let pattern = length(values.first()).saturating_mul(longer).saturating_mul(PARSED);
    Some(pattern.saturating_add(AUTOMATON).saturating_add(text))
}

/// The bytes for a text with replaced matches. A replacement may repeat parts of its match (`$1`).
pub(super) fn replaced_matches(values: &[Value]) -> Option<usize> {
    let [Value::String(text), Value::String(pattern), Value::String(new)] = values else { return Some(0) };
    let parsed = pattern.len().saturating_mul(PARSED).saturating_add(AUTOMATON);
    let repeated = text.len().saturating_mul(new.matches('$').count());
    let with = |matches: usize| {
        let bytes = text.len().saturating_add(repeated).saturating_add(matches.saturating_mul(new.len()));
        Some(grown(bytes)?.saturating_add(parsed))
    };
    let most = with(text.len() + 1)?;
    if most <= LIMIT / 4 || parsed > LIMIT {
        return Some(most);
    }
    // An invalid pattern replaces nothing.
    let Some(pattern) = compiled(pattern).ok().and_then(|pattern| pattern.for_text(text)) else {
        return Some(parsed);
    };
    with(pattern.find_iter(text).count())
}

/// The bytes for a digest in hexadecimal. Each digit is created as a separate text.
pub(super) fn digest(_: &[Value]) -> Option<usize> {
    /// The bytes for the 128 digits of SHA-512.
    const DIGEST: usize = 128 * (GROWTH + size_of::<String>());
    Some(DIGEST)
}

/// The bytes for the parts of a UUID, which have a fixed maximum size.
pub(super) fn uuid(_: &[Value]) -> Option<usize> {
    listed(64)
}

/// The bytes for the parts of a URI, decoded and in the original form.
pub(super) fn uri(values: &[Value]) -> Option<usize> {
    Some(lossy(values)?.saturating_mul(2).saturating_add(listed(8)?))
}

/// The bytes for a percent-encoded text, in which each byte may become three.
pub(super) fn encoded(values: &[Value]) -> Option<usize> {
    grown(length(values.first()).saturating_mul(3))
}

/// The bytes for the encoded parameters of a query. A key is repeated for each of its values.
pub(super) fn encoded_object(values: &[Value]) -> Option<usize> {
    let Some(Value::Object(fields)) = values.first() else { return Some(0) };
    let mut bytes = 0_usize;
    for (key, value) in fields.iter() {
        let key = written(key, LIMIT)?;
        let mut add = |value: &Value| {
            let parameter = key.saturating_add(length(Some(value))).saturating_mul(3);
            bytes = bytes.saturating_add(parameter).saturating_add(2 * size_of::<String>());
        };
        match value {
            Value::Array(items) => items.iter().for_each(add),
            Value::Set(items) => items.iter().for_each(add),
            value => add(value),
        }
    }
    grown(bytes)
}

/// The bytes for the decoded parameters of a query.
pub(super) fn parameters(values: &[Value]) -> Option<usize> {
    let Some(Value::String(query)) = values.first() else { return Some(0) };
    let count = query.matches('&').count() + 1;
    Some(listed(count)?.saturating_mul(2).saturating_add(lossy(values)?))
}

/// The bytes for the merged networks.
pub(super) fn networks(values: &[Value]) -> Option<usize> {
    /// The bytes for a network: its first and last address, and its text.
    const NETWORK: usize = 256;
    // The given networks, and the merged networks, which are never more than the given networks.
    const PARTS: usize = 2;
    Some(values.first().map_or(0, elements).saturating_mul(NETWORK * PARTS))
}

/// The bytes for the searcher of the patterns, and for the text. The call itself checks the length of the result.
pub(super) fn replacements(values: &[Value]) -> Option<usize> {
    let Value::Object(replacements) = &values[0] else { return Some(0) };
    let patterns = replacements.iter().map(|(old, _)| length(Some(old)) + size_of::<Value>());
    let patterns = patterns.fold(0, usize::saturating_add).saturating_mul(SEARCHER);
    Some(patterns.saturating_add(length(values.last())))
}

/// The bytes for the parts of a token, decoded and as JSON. A nested token is shorter.
pub(super) fn token(values: &[Value]) -> Option<usize> {
    /// The bytes for each byte of a token: the digits of the signature, and the JSON as text and as value.
    const TOKEN: usize = 8;
    grown(length(values.first()).saturating_mul(TOKEN))
}

pub(super) fn token_and_keys(values: &[Value]) -> Option<usize> {
    Some(token(values)?.saturating_add(keys(values.last())))
}

/// The bytes for a token, and for the keys among its constraints.
pub(super) fn constrained_token(values: &[Value]) -> Option<usize> {
    let constraint = |name| values.last().map(|constraints| &constraints[name]);
    let secret = length(constraint("secret")).saturating_mul(2);
    Some(token(values)?.saturating_add(keys(constraint("cert"))).saturating_add(secret))
}

/// The bytes for certificates or keys in Go's JSON. Longer arguments end the evaluation before they are parsed.
pub(super) fn certificates(values: &[Value]) -> Option<usize> {
    /// The bytes for each byte of an argument. Two bytes of DER may be an empty URI, whose value has eleven fields.
    const PARSED: usize = 320;
    let lengths = values.iter().map(|value| length(Some(value)));
    Some(lengths.filter(|length| *length <= CERTIFICATES).sum::<usize>().saturating_mul(PARSED))
}

/// The bytes for keys, and for the document that contains them.
fn keys(text: Option<&Value>) -> usize {
    /// The bytes for each byte of the document. An element of a JSON document has at least two bytes.
    const PARSED: usize = ELEMENT / 2 * GROWTH;
    length(text).saturating_mul(PARSED)
}

/// The bytes for the characters and the tokens of two patterns.
pub(super) fn intersection(values: &[Value]) -> Option<usize> {
    /// The bytes for one character of a pattern: the character with a flag, and a token with a range.
    const TOKEN: usize = 64;
    grown(values.iter().map(|value| length(Some(value))).sum::<usize>().saturating_mul(TOKEN))
}
