//! Implements `regex.globs_match`: whether two patterns match a common text, as in
//! [glob-intersection](https://github.com/yashtewari/glob-intersection).

use std::cell::Cell;

use anyhow::{Result, ensure};
use regorus::Value;

use super::text;

/// The maximum number of repeating tokens in both patterns. The search may recurse for each such token.
const REPEATED: usize = 200;
/// The maximum number of comparisons of tokens.
const STEPS: usize = 1_000_000;

/// How often a token repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantifier {
    Once,
    /// `+`
    Plus,
    /// `*`
    Star,
}

/// A token of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Character(char),
    /// `.`
    Any,
    /// Disjoint ranges of characters, sorted. Adjacent ranges are merged.
    Set(Vec<(u32, u32)>),
}

type Glob = Vec<(Token, Quantifier)>;

impl Token {
    /// Whether `self` and `other` match a common character. As in OPA, an empty set and [`Token::Any`] have a character
    /// in common.
    fn matches(&self, other: &Self) -> bool {
        let has = |set: &[(u32, u32)], c: char| {
            set.iter().any(|(first, last)| (*first..=*last).contains(&u32::from(c)))
        };
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Character(one), Self::Character(other)) => one == other,
            (Self::Character(c), Self::Set(set)) | (Self::Set(set), Self::Character(c)) => has(set, *c),
            (Self::Set(one), Self::Set(other)) => {
                one.iter().any(|(first, last)| other.iter().any(|(from, to)| first <= to && from <= last))
            }
        }
    }
}

/// The characters of a pattern, and whether each is escaped. `None` if an unescaped backslash ends the pattern.
fn characters(pattern: &str) -> Option<Vec<(char, bool)>> {
    let (mut chars, mut found) = (pattern.chars(), Vec::new());
    while let Some(c) = chars.next() {
        found.push(if c == '\\' { (chars.next()?, true) } else { (c, false) });
    }
    Some(found)
}

/// The tokens of a pattern; `None` if it is invalid.
fn tokens(pattern: &str) -> Option<Glob> {
    let characters = characters(pattern)?;
    let (mut at, mut tokens) = (0, Glob::new());
    while let Some((c, is_escaped)) = characters.get(at) {
        at += 1;
        let token = match c {
            '.' if !is_escaped => Token::Any,
            '[' if !is_escaped => Token::Set(set(&characters, &mut at)?),
            ']' | '+' | '*' if !is_escaped => return None,
            c => Token::Character(*c),
        };
        let times = match characters.get(at) {
            Some(('+', false)) => Quantifier::Plus,
            Some(('*', false)) => Quantifier::Star,
            _ => Quantifier::Once,
        };
        at += usize::from(times != Quantifier::Once);
        match tokens.last_mut() {
            // For example, `a*a+` becomes `a+`.
            Some((last, repeated))
                if times != Quantifier::Once && *repeated != Quantifier::Once && *last == token =>
            {
                if times == Quantifier::Plus {
                    *repeated = Quantifier::Plus;
                }
            }
            _ => tokens.push((token, times)),
        }
    }
    Some(tokens)
}

/// The set between the opening bracket and `at`.
fn set(characters: &[(char, bool)], at: &mut usize) -> Option<Vec<(u32, u32)>> {
    let (mut ranges, mut before) = (Vec::new(), None);
    loop {
        let (c, is_escaped) = *characters.get(*at)?;
        *at += 1;
        match c {
            ']' if !is_escaped => break,
            '-' if !is_escaped => {
                let (last, is_escaped) = *characters.get(*at)?;
                *at += 1;
                let first: char = before.take().filter(|first| *first <= last)?;
                if !is_escaped && matches!(last, ']' | '-') {
                    return None;
                }
                ranges.push((first.into(), last.into()));
            }
            c => {
                ranges.push((c.into(), c.into()));
                before = Some(c);
            }
        }
    }
    Some(joined(ranges))
}

/// Sorts and merges `ranges`.
fn joined(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined
}

/// A search for a common text, with the remaining number of comparisons.
struct Search(Cell<usize>);

type GlobSlice<'g> = &'g [(Token, Quantifier)];

impl Search {
    fn matches(&self, one: &Token, other: &Token) -> Result<bool> {
        ensure!(self.0.get() > 0, "regex.globs_match: more than {STEPS} comparisons");
        self.0.set(self.0.get() - 1);
        Ok(one.matches(other))
    }

    /// Compares the tokens at both ends that do not repeat.
    fn globs(&self, one: GlobSlice<'_>, other: GlobSlice<'_>) -> Result<bool> {
        fn is_once(token: Option<&(Token, Quantifier)>) -> bool {
            token.is_some_and(|(_, times)| *times == Quantifier::Once)
        }
        let mut start = 0;
        while is_once(one.get(start)) && is_once(other.get(start)) {
            if !self.matches(&one[start].0, &other[start].0)? {
                return Ok(false);
            }
            start += 1;
        }
        // One token remains, so that the glob is not empty.
        let start = start.saturating_sub(1);
        let (mut one, mut other) = (&one[start..], &other[start..]);
        let mut last = None;
        while is_once(one.last()) && is_once(other.last()) {
            if !self.matches(&one[one.len() - 1].0, &other[other.len() - 1].0)? {
                return Ok(false);
            }
            last = Some((one, other));
            (one, other) = (&one[..one.len() - 1], &other[..other.len() - 1]);
        }
        let (one, other) = last.unwrap_or((one, other));
        self.normal(one, other)
    }

    fn normal(&self, one: GlobSlice<'_>, other: GlobSlice<'_>) -> Result<bool> {
        for (at, (first, second)) in one.iter().zip(other).enumerate() {
            if first.1 != Quantifier::Once || second.1 != Quantifier::Once {
                return self.repeated(&one[at..], &other[at..]);
            }
            if !self.matches(&first.0, &second.0)? {
                return Ok(false);
            }
        }
        Ok(one.len() == other.len())
    }

    /// Compares two globs, at least one of which begins with a repeating token.
    fn repeated(&self, one: GlobSlice<'_>, other: GlobSlice<'_>) -> Result<bool> {
        match (one[0].1, other[0].1) {
            (Quantifier::Plus, _) => self.plus(one, other),
            (Quantifier::Star, _) => self.star(one, other),
            (Quantifier::Once, Quantifier::Plus) => self.plus(other, one),
            (Quantifier::Once, _) => self.star(other, one),
        }
    }

    fn plus(&self, repeated: GlobSlice<'_>, other: GlobSlice<'_>) -> Result<bool> {
        if !self.matches(&repeated[0].0, &other[0].0)? {
            return Ok(false);
        }
        if self.star(repeated, &other[1..])? {
            return Ok(true);
        }
        Ok(other[0].1 != Quantifier::Once && self.normal(&repeated[1..], other)?)
    }

    fn star(&self, repeated: GlobSlice<'_>, other: GlobSlice<'_>) -> Result<bool> {
        let next = repeated.get(1);
        for (at, (token, _)) in other.iter().enumerate() {
            let is_next = match next {
                Some((next, _)) => self.matches(token, next)?,
                None => false,
            };
            if is_next && self.normal(&repeated[1..], &other[at..])? {
                return Ok(true);
            }
            if !self.matches(token, &repeated[0].0)? {
                return Ok(false);
            }
        }
        Ok(next.is_none())
    }
}

pub(super) fn globs_match(values: Vec<Value>) -> Result<Value> {
    let globs = |at: usize| text(&values[at]).and_then(tokens);
    let (Some(one), Some(other)) = (globs(0), globs(1)) else { return Ok(Value::Undefined) };
    let repeated = one.iter().chain(&other).filter(|(_, times)| *times != Quantifier::Once).count();
    ensure!(repeated <= REPEATED, "regex.globs_match: more than {REPEATED} tokens with + or *");
    Ok(Search(Cell::new(STEPS)).globs(&one, &other)?.into())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ends, is, is_undefined};

    #[test]
    fn patterns_have_a_text_in_common_or_not() {
        is("regex.globs_match(`a.a.[0-9]+z`, `.b.b2359825792*594823z`)", "true");
        is("regex.globs_match(`[a-z]+`, `[0-9]*`)", "false");
        is("regex.globs_match(`a*b`, `aab`)", "true");
        is("regex.globs_match(`[a-c\\-]`, `-`)", "true");
        is("regex.globs_match(``, ``)", "true");
        for invalid in ["a]", "+", "a**", "[a", "[-a]", "[a-]", "[c-a]", "[a-b-c]", "a\\\\"] {
            is_undefined(&format!("regex.globs_match(\"{invalid}\", \"a\")"));
        }
    }

    #[test]
    fn patterns_have_limits() {
        let repeated = |times: usize, end: &str| {
            format!(
                "concat(\"\", array.concat([\".*a+\" | some i in numbers.range(1, {times})], [\"{end}\"]))"
            )
        };
        ends(
            &format!("regex.globs_match({}, \"a\")", repeated(101, "")),
            "regex.globs_match: more than 200 tokens with + or *",
        );
        ends(
            &format!("regex.globs_match({}, {})", repeated(40, "c+"), repeated(40, "d+")),
            "regex.globs_match: more than 1000000 comparisons",
        );
    }
}
