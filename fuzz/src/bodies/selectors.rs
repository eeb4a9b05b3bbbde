//! Matches label selectors. The first line of the input is a selector, and each other line is a label `key=value`.
//!
//! A second, independent parser reads the selector token by token, as Kubernetes does, and must select the same
//! labels.

use std::collections::BTreeMap;

use kube::core::SelectorExt;
use policy_sync_api::selector::parse;

type Labels = BTreeMap<String, String>;

pub fn body(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (selector, labels) = text.split_once('\n').unwrap_or((text, ""));
    let labels: Labels = labels
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    match parse(selector) {
        Ok(parsed) => {
            let printed = parsed.to_string();
            assert_eq!(parse(&printed).as_ref(), Ok(&parsed), "printed as {printed:?}");
            let selects = parsed.matches(&labels);
            assert_eq!(naive(selector, &labels), Some(selects), "{selector:?} over {labels:?}");
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.chars().any(char::is_control), "more than one line: {text:?}");
        }
    }
}

/// Whether `selector` selects `labels`; `None` if it cannot be parsed.
fn naive(selector: &str, labels: &Labels) -> Option<bool> {
    let tokens = tokens(selector);
    let mut rest = tokens.as_slice();
    if rest.is_empty() {
        return Some(true);
    }
    let mut selects = true;
    loop {
        selects &= requirement(&mut rest, labels)?;
        match rest.split_first() {
            None => return Some(selects),
            Some((&",", after)) => rest = after,
            Some(_) => return None,
        }
    }
}

fn tokens(text: &str) -> Vec<&str> {
    const MARKS: [&str; 7] = ["!=", "==", "=", "!", "(", ")", ","];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let mark = MARKS.iter().find(|mark| rest.starts_with(**mark)).map(|mark| mark.len());
        let is_word = |c: char| !c.is_whitespace() && !"!=(),".contains(c);
        let length = mark.unwrap_or_else(|| rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn is_word(token: &str) -> bool {
    !token.starts_with(['!', '=', '(', ')', ','])
}

fn take<'t>(rest: &mut &[&'t str]) -> Option<&'t str> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(first)
}

/// The next word, or an empty text if the next token is not a word.
fn word<'t>(rest: &mut &[&'t str]) -> &'t str {
    match rest.first() {
        Some(token) if is_word(token) => take(rest).unwrap_or_default(),
        _ => "",
    }
}

fn requirement(rest: &mut &[&str], labels: &Labels) -> Option<bool> {
    let absent = rest.first() == Some(&"!");
    if absent {
        take(rest);
    }
    let key = word(rest);
    if key.is_empty() {
        return None;
    }
    let value = labels.get(key).map(String::as_str);
    match rest.first().copied() {
        None | Some(",") => Some(value.is_some() != absent),
        _ if absent => None,
        Some("=" | "==") => {
            take(rest);
            Some(value == Some(word(rest)))
        }
        Some("!=") => {
            take(rest);
            Some(value != Some(word(rest)))
        }
        Some(operator @ ("in" | "notin")) => {
            take(rest);
            let values = values(rest)?;
            Some(value.is_some_and(|value| values.contains(&value)) == (operator == "in"))
        }
        Some(_) => None,
    }
}

fn values<'t>(rest: &mut &[&'t str]) -> Option<Vec<&'t str>> {
    (take(rest)? == "(").then_some(())?;
    let mut values = Vec::new();
    loop {
        values.push(word(rest));
        match take(rest)? {
            "," => {}
            ")" => return Some(values),
            _ => return None,
        }
    }
}
