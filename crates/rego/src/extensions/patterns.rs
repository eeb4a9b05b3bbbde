//! Builtins with regular expressions, in Go's syntax.

use std::collections::HashMap;
use std::sync::LazyLock;

use anyhow::{Result, bail};
use parking_lot::Mutex;
use regex::{Captures, Regex};
use regorus::Value;

use crate::memory;
use crate::re2::{self, PatternError};

/// The maximum size of a compiled pattern, in bytes. A pattern for 253 arbitrary characters has a fraction of this
/// size.
pub(crate) const PROGRAM: usize = 1 << 20;
/// The maximum size in bytes of a small compiled pattern, and the maximum number of small patterns in the cache.
const SMALL: usize = 100 << 10;
const MAX_SMALL_PATTERNS: usize = 256;
/// The maximum number of large patterns in the cache, and the maximum length in bytes of a text to search with a large
/// pattern. The time for a match grows at most with the product of the sizes of pattern and text.
const MAX_LARGE_PATTERNS: usize = 8;
const LARGE_TEXT: usize = 16 << 10;

/// Compiled patterns.
#[derive(Default)]
struct Cache {
    small: HashMap<Box<str>, Regex>,
    large: HashMap<Box<str>, Regex>,
}

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// A compiled pattern.
#[derive(Clone)]
pub(crate) struct Pattern {
    regex: Regex,
    is_large: bool,
}

/// The compiled `pattern`.
///
/// # Errors
///
/// Returns the same errors as [`re2::compile`].
pub(crate) fn compiled(pattern: &str) -> Result<Pattern, PatternError> {
    {
        let cache = CACHE.lock();
        if let Some(regex) = cache.small.get(pattern) {
            return Ok(Pattern { regex: regex.clone(), is_large: false });
        }
        if let Some(regex) = cache.large.get(pattern) {
            return Ok(Pattern { regex: regex.clone(), is_large: true });
        }
    }
    let (regex, is_large) = match re2::compile(pattern, SMALL) {
        Ok(regex) => (regex, false),
        Err(PatternError::TooLarge(_)) => (re2::compile(pattern, PROGRAM)?, true),
        Err(error) => return Err(error),
    };
    let mut cache = CACHE.lock();
    let (kept, most) = if is_large {
        (&mut cache.large, MAX_LARGE_PATTERNS)
    } else {
        (&mut cache.small, MAX_SMALL_PATTERNS)
    };
    if kept.len() >= most {
        kept.clear();
    }
    kept.insert(pattern.into(), regex.clone());
    Ok(Pattern { regex, is_large })
}

impl Pattern {
    /// The regular expression for a search in `text`; `None` if the search could take too long.
    pub(crate) fn for_text(self, text: &str) -> Option<Regex> {
        (!self.is_large || text.len() <= LARGE_TEXT).then_some(self.regex)
    }
}

/// The pattern of the builtin `name` and the text. Returns `None` if the pattern is invalid or an argument is not a
/// text: the call is then undefined, as in OPA.
fn search<'v>(name: &str, pattern: &Value, text: &'v Value) -> Result<Option<(Regex, &'v str)>> {
    let (Value::String(pattern), Value::String(text)) = (pattern, text) else { return Ok(None) };
    match compiled(pattern) {
        Ok(pattern) => match pattern.for_text(text) {
            Some(regex) => Ok(Some((regex, text))),
            None => {
                bail!("{name}: the text has more than {LARGE_TEXT} bytes, which is too long for this pattern")
            }
        },
        Err(PatternError::Syntax(_)) => Ok(None),
        Err(error) => bail!("{name}: the pattern {error}"),
    }
}

pub(super) fn is_match(name: &str, values: &[Value]) -> Result<Value> {
    let Some((regex, text)) = search(name, &values[0], &values[1])? else { return Ok(Value::Undefined) };
    Ok(regex.is_match(text).into())
}

pub(super) fn is_valid(values: Vec<Value>) -> Result<Value> {
    Ok(search("regex.is_valid", &values[0], &"".into())?.is_some().into())
}

pub(super) fn find_n(values: Vec<Value>) -> Result<Value> {
    let (Some((regex, text)), Some(count)) =
        (search("regex.find_n", &values[0], &values[1])?, count(&values[2]))
    else {
        return Ok(Value::Undefined);
    };
    list(regex.find_iter(text).take(count).map(|found| Ok(found.as_str().into())))
}

pub(super) fn find_all_string_submatch_n(values: Vec<Value>) -> Result<Value> {
    let found = search("regex.find_all_string_submatch_n", &values[0], &values[1])?;
    let (Some((regex, text)), Some(count)) = (found, count(&values[2])) else {
        return Ok(Value::Undefined);
    };
    list(regex.captures_iter(text).take(count).map(|captures| {
        list(captures.iter().map(|group| Ok(group.map_or("", |group| group.as_str()).into())))
    }))
}

pub(super) fn split(values: Vec<Value>) -> Result<Value> {
    let Some((regex, text)) = search("regex.split", &values[0], &values[1])? else {
        return Ok(Value::Undefined);
    };
    let is_empty = values[0].as_string().is_ok_and(|pattern| pattern.is_empty());
    if text.is_empty() && !is_empty {
        return Ok(vec![Value::from("")].into());
    }
    // An empty match at the start does not separate parts. After an empty match at the end, no part follows.
    let (mut from, mut last) = (0, 0);
    let mut ranges = Vec::new();
    for found in regex.find_iter(text) {
        last = found.start();
        if found.end() > 0 {
            ranges.push(from..last);
        }
        from = found.end();
    }
    if last != text.len() {
        ranges.push(from..text.len());
    }
    list(ranges.into_iter().map(|range| Ok(text[range].into())))
}

pub(super) fn replace(values: Vec<Value>) -> Result<Value> {
    let (Some((regex, text)), Value::String(new)) =
        (search("regex.replace", &values[1], &values[0])?, &values[2])
    else {
        return Ok(Value::Undefined);
    };
    Ok(regex.replace_all(text, |captures: &Captures<'_>| expanded(new, captures)).as_ref().into())
}

/// Expands the replacement `template` with the groups of a match, like Go's `Regexp.Expand`.
fn expanded(template: &str, captures: &Captures<'_>) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            text.push('$');
            rest = after;
            continue;
        }
        let braced = after.strip_prefix('{');
        let names = braced.unwrap_or(after);
        let end = names.find(|char: char| !char.is_alphanumeric() && char != '_').unwrap_or(names.len());
        let (name, after_name) = names.split_at(end);
        let closed = if braced.is_some() { after_name.strip_prefix('}') } else { Some(after_name) };
        let Some(after_name) = closed.filter(|_| !name.is_empty()) else {
            text.push('$');
            rest = after;
            continue;
        };
        let is_index =
            name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        let group = match name.parse().ok().filter(|_| is_index) {
            Some(index) => captures.get(index),
            None => captures.name(name),
        };
        text.push_str(group.map_or("", |group| group.as_str()));
        rest = after_name;
    }
    text + rest
}

/// `regex.template_match`: matches a text against a template of literal text and patterns between delimiters.
pub(super) fn template_match(values: Vec<Value>) -> Result<Value> {
    let texts: Vec<&str> =
        values.iter().filter_map(|value| value.as_string().ok()).map(AsRef::as_ref).collect();
    let [template, text, start, end] = texts[..] else { return Ok(Value::Undefined) };
    let Some(whole) = whole_pattern(template, start, end) else { return Ok(Value::Undefined) };
    is_match("regex.template_match", &[whole.into(), text.into()])
}

/// The regular expression for the whole `template`. `None` if a delimiter has no counterpart, or is not a single byte.
fn whole_pattern(template: &str, start: &str, end: &str) -> Option<String> {
    let (&[start], &[end]) = (start.as_bytes(), end.as_bytes()) else { return None };
    let (start, end) = (char::from(start), char::from(end));
    let (mut whole, mut depth, mut from) = ("^".to_owned(), 0_usize, 0);
    for (at, char) in template.char_indices() {
        if char == start {
            depth += 1;
            if depth == 1 {
                whole.push_str(&regex::escape(&template[from..at]));
                from = at + char.len_utf8();
            }
        } else if char == end {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                let inner = &template[from..at];
                // Go compiles each pattern between delimiters separately, so each must be valid alone.
                compiled(inner).ok()?;
                whole.push_str(&format!("({inner})"));
                from = at + char.len_utf8();
            }
        }
    }
    (depth == 0).then(|| whole + &regex::escape(&template[from..]) + "$")
}

/// Reads a maximum number of matches. A negative number means no limit.
fn count(value: &Value) -> Option<usize> {
    let Value::Number(number) = value else { return None };
    let count = number.as_i64().filter(|_| number.is_integer())?;
    Some(usize::try_from(count).unwrap_or(usize::MAX))
}

/// An array of `items`, within the memory limit.
fn list(items: impl Iterator<Item = Result<Value>>) -> Result<Value> {
    let mut list = Vec::new();
    for item in items {
        list.push(item?);
        memory::check(0)?;
    }
    Ok(list.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn called(function: fn(Vec<Value>) -> Result<Value>, arguments: serde_json::Value) -> serde_json::Value {
        let arguments: Vec<Value> = arguments.as_array().unwrap().iter().cloned().map(Value::from).collect();
        function(arguments)
            .map_or_else(|error| error.to_string().into(), |value| serde_json::to_value(value).unwrap())
    }

    #[test]
    fn results_are_those_of_opa() {
        for (arguments, expected) in [
            (json!(["b", "abc"]), json!(["a", "c"])),
            (json!(["", "ab"]), json!(["a", "b"])),
            (json!(["b*", "abba"]), json!(["a", "a"])),
            (json!(["b*", "bab"]), json!(["", "a", ""])),
            (json!(["b", ""]), json!([""])),
            (json!(["", ""]), json!([])),
            (json!(["b", "b"]), json!(["", ""])),
        ] {
            assert_eq!(called(split, arguments.clone()), expected, "{arguments}");
        }
        assert_eq!(called(find_n, json!(["b*", "abb", -1])), json!(["", "bb"]));
        assert_eq!(called(find_n, json!(["b", "bbb", 2])), json!(["b", "b"]));
        let groups = called(find_all_string_submatch_n, json!(["(a)(b)?", "ab a", -1]));
        assert_eq!(groups, json!([["ab", "a", "b"], ["a", "a", ""]]));
        for (template, expected) in [
            ("$2${1}x$$", "bax$"),
            ("$01", ""),
            ("${1}é$2é", "aé"),
            ("$é${ 1}${n.x}$", "${ 1}${n.x}$"),
            ("$3", ""),
        ] {
            assert_eq!(called(replace, json!(["ab", "(a)(b)", template])), json!(expected), "{template}");
        }
    }

    #[test]
    fn a_template_is_literal_text_and_patterns() {
        for (template, text, expected) in [
            ("urn:{[a-z]+}:x", "urn:abc:x", json!(true)),
            ("urn:{[a-z]+}:x", "ur", json!(false)),
            ("a.{b{2}}", "a.bb", json!(true)),
            ("a.{b{2}}", "axbb", json!(false)),
        ] {
            assert_eq!(
                called(template_match, json!([template, text, "{", "}"])),
                expected,
                "{template} {text}"
            );
        }
    }

    #[test]
    fn patterns_and_texts_have_limits() {
        let of = |pattern: &str, text: &str| {
            called(|values| is_match("regex.match", &values), json!([pattern, text]))
        };
        assert_eq!(of("^.{1,253}$", "a"), json!(true));
        let long = "a".repeat(LARGE_TEXT + 1);
        assert!(of("^.{1,253}$", &long).as_str().unwrap().starts_with("regex.match: the text has more than"));
        assert_eq!(of("^a+$", &long), json!(true));
        assert!(
            of(r"^\pL{1,1000}$", "a").as_str().unwrap().starts_with("regex.match: the pattern is too large")
        );
    }
}
