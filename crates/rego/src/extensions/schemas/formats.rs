//! Checks whether texts match the keyword `format` of JSON Schema, as OPA does.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

use super::super::patterns::compiled;
use super::super::uris::Uri;
use super::{Result, SchemaError};
use crate::re2::PatternError;

/// Whether `text` has the format of this name. Unknown formats match each text.
///
/// # Errors
///
/// Ends the evaluation if `text` has a construct that this crate cannot check.
pub(super) fn is_of(format: &str, text: &str) -> Result<bool> {
    Ok(match format {
        "date" => date(text) == Some(""),
        "time" => is_time(text),
        "date-time" => {
            let time = date(text).and_then(|rest| rest.strip_prefix('T'));
            date(text) == Some("") || is_time(text) || time.and_then(clock).is_some_and(is_zone)
        }
        "hostname" => text.len() < 256 && text.split('.').all(is_label),
        "email" | "idn-email" => is_email(text)?,
        "ipv4" => is_address(text) && text.contains('.'),
        "ipv6" => is_address(text) && text.contains(':'),
        "uri" | "iri" => !text.contains('\\') && Uri::parse(text).is_some_and(|uri| !uri.scheme.is_empty()),
        "uri-reference" | "iri-reference" => !text.contains('\\') && Uri::parse(text).is_some(),
        "uri-template" => !text.contains('\\') && Uri::parse(text).is_some_and(|uri| is_template(&uri.path)),
        "uuid" => matches(&UUID, text),
        "json-pointer" => matches(&POINTER, text),
        "relative-json-pointer" => matches(&RELATIVE_POINTER, text),
        "regex" => match compiled(text) {
            Ok(_) => true,
            Err(PatternError::Syntax(_)) => false,
            Err(error) => {
                return Err(SchemaError::unsupported(&format!("the pattern {text:?}, which {error}")));
            }
        },
        _ => true,
    })
}

static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("^[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}$").ok()
});
static POINTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("^(?:/(?:[^~/]|~0|~1)*)*$").ok());
static RELATIVE_POINTER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~0|~1)*)*)$").ok());

fn matches(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// A number of exactly `digits` digits at the start of `text`, and the rest.
fn number(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((number.parse().ok().filter(|_| is_number)?, rest))
}

/// The text after a date such as `2006-01-02`.
fn date(text: &str) -> Option<&str> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(rest)
}

/// The text after a time such as `15:04:05.999`. As in Go, the hour may have one digit.
fn clock(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count().min(2);
    let (hour, rest) = number(text, digits.max(1))?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (second, rest) = number(rest.strip_prefix(':')?, 2)?;
    let fraction =
        rest.strip_prefix(['.', ',']).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let rest = fraction.map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    (hour < 24 && minute < 60 && second < 60).then_some(rest)
}

/// Whether `text` is a time zone such as `Z` and `+07:00`.
fn is_zone(text: &str) -> bool {
    let offset = || {
        let (hour, rest) = number(text.strip_prefix(['+', '-'])?, 2)?;
        let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
        // Go allows 24 hours and 60 minutes.
        (hour <= 24 && minute <= 60 && rest.is_empty()).then_some(())
    };
    text == "Z" || offset().is_some()
}

fn is_time(text: &str) -> bool {
    clock(text).is_some_and(|rest| rest.is_empty() || is_zone(rest))
}

/// Whether `text` is a label of a host name.
fn is_label(text: &str) -> bool {
    let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && is_end(text.chars().next())
        && is_end(text.chars().last())
}

fn is_address(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok()
}

/// Whether the braces in `path` are closed.
fn is_template(path: &str) -> bool {
    let mut rest = path;
    while let Some((_, after)) = rest.split_once('{') {
        match after.split_once('}') {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

/// Whether `text` is an address by RFC 5322, as in Go's `mail.ParseAddress`.
fn is_email(text: &str) -> Result<bool> {
    let Some((local, domain)) = text.split_once('@') else { return Ok(false) };
    if text.contains(['"', '(', '<', '[', ':']) {
        return Err(SchemaError::unsupported("an email address with one of \"(<[:"));
    }
    let is_atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    let are_atoms = |text: &str| text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom));
    let blanks = [' ', '\t'];
    Ok(are_atoms(local.trim_start_matches(blanks)) && are_atoms(domain.trim_matches(blanks)))
}
