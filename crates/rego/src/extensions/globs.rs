//! Implements `glob.match` by the rules of Go's package [gobwas/glob](https://pkg.go.dev/github.com/gobwas/glob). A
//! glob is matched as a regular expression.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use anyhow::{Result, bail};
use regorus::Value;

use super::patterns::compiled;
use crate::re2::PatternError;

/// The delimiters if the list of delimiters is empty.
const DEFAULT: [char; 1] = ['.'];

pub(super) fn is_match(values: Vec<Value>) -> Result<Value> {
    let (Value::String(glob), Value::String(text)) = (&values[0], &values[2]) else {
        return Ok(Value::Undefined);
    };
    let delimiters: Option<Vec<char>> = match &values[1] {
        Value::Null => Some(Vec::new()),
        Value::Array(items) if items.is_empty() => Some(DEFAULT.to_vec()),
        Value::Array(items) => items.iter().map(delimiter).collect(),
        _ => None,
    };
    let Some(pattern) = delimiters.and_then(|delimiters| regex(glob, &delimiters)) else {
        return Ok(Value::Undefined);
    };
    match compiled(&pattern) {
        Ok(pattern) => match pattern.for_text(text) {
            Some(pattern) => Ok(pattern.is_match(text).into()),
            None => bail!("glob.match: the text is too long for this pattern"),
        },
        Err(PatternError::Syntax(_)) => Ok(Value::Undefined),
        Err(error) => bail!("glob.match: the pattern {error}"),
    }
}

/// `value` as a delimiter; `None` unless it is one character.
fn delimiter(value: &Value) -> Option<char> {
    let mut chars = value.as_string().ok()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// The regular expression for `glob`; `None` if it is invalid.
fn regex(glob: &str, delimiters: &[char]) -> Option<String> {
    let mut no_delimiter = String::from("[^");
    delimiters.iter().for_each(|delimiter| push(*delimiter, &mut no_delimiter));
    no_delimiter.push(']');
    if delimiters.is_empty() {
        ".".clone_into(&mut no_delimiter);
    }
    let (mut chars, mut depth) = (glob.chars().peekable(), 0_usize);
    let mut regex = String::from("\\A(?s:");
    while let Some(next) = chars.next() {
        match next {
            '\\' => push(chars.next()?, &mut regex),
            '*' if chars.next_if_eq(&'*').is_some() => regex.push_str(".*"),
            '*' => {
                regex.push_str(&no_delimiter);
                regex.push('*');
            }
            '?' => regex.push_str(&no_delimiter),
            '[' => class(&mut chars, &mut regex)?,
            '{' => {
                depth += 1;
                regex.push_str("(?:");
            }
            ',' if depth > 0 => regex.push('|'),
            '}' if depth > 0 => {
                depth -= 1;
                regex.push(')');
            }
            other => push(other, &mut regex),
        }
    }
    regex.push_str(")\\z");
    (depth == 0).then_some(regex)
}

/// Appends the class after its opening bracket: `[a-z]`, `[abc]`, or one of these with a leading `!`.
fn class(chars: &mut Peekable<Chars<'_>>, regex: &mut String) -> Option<()> {
    regex.push('[');
    if chars.next_if_eq(&'!').is_some() {
        regex.push('^');
    }
    let first = chars.next()?;
    if chars.next_if_eq(&'-').is_some() {
        let last = chars.next()?;
        push(first, regex);
        regex.push('-');
        push(last, regex);
        chars.next_if_eq(&']')?;
    } else {
        let mut next = first;
        loop {
            match next {
                ']' => break,
                '\\' => push(chars.next()?, regex),
                other => push(other, regex),
            }
            next = chars.next()?;
        }
    }
    if regex.ends_with(['[', '^']) {
        return None;
    }
    regex.push(']');
    Some(())
}

/// Appends `char` as a literal.
fn push(char: char, regex: &mut String) {
    // Writing to a String cannot fail.
    let _ = match char {
        char if char.is_ascii_alphanumeric() => write!(regex, "{char}"),
        char => write!(regex, "\\x{{{:x}}}", u32::from(char)),
    };
}
