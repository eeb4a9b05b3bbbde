//! Implements `strings.replace_n`, which scans the text once. At each position, the first pattern that matches is
//! replaced. Patterns are literal texts.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use anyhow::Result;
use regorus::Value;

use super::corrections::lossy;
use crate::memory;

/// The bytes of a searcher for each byte of its patterns.
pub(super) const SEARCHER: usize = 128;

pub(super) fn replace_n(values: Vec<Value>) -> Result<Value> {
    let (Value::Object(replacements), Value::String(text)) = (&values[0], &values[1]) else {
        return Ok(Value::Undefined);
    };
    let (mut patterns, mut texts, mut everywhere) = (Vec::new(), Vec::new(), None);
    for (old, new) in replacements.iter_sorted() {
        let (Value::String(old), Value::String(new)) = (old, new) else { return Ok(Value::Undefined) };
        if old.is_empty() {
            everywhere = Some(new.as_bytes());
        } else {
            patterns.push(old.as_bytes());
            texts.push(new.as_bytes());
        }
    }
    let searcher = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::NoncontiguousNFA))
        .match_kind(MatchKind::LeftmostFirst)
        .build(&patterns)?;
    let parts = Replacement { text: text.as_bytes(), searcher: &searcher, texts: &texts, everywhere };
    let mut length = 0_usize;
    parts.each(|part| length = length.saturating_add(part.len()));
    memory::check(length.saturating_mul(2))?;
    let mut replaced = Vec::with_capacity(length);
    parts.each(|part| replaced.extend_from_slice(part));
    Ok(lossy(&replaced).into())
}

/// A text and its replacements.
struct Replacement<'t> {
    text: &'t [u8],
    searcher: &'t AhoCorasick,
    texts: &'t [&'t [u8]],
    /// The replacement of the empty pattern, which matches before each replaced part and before each other byte.
    everywhere: Option<&'t [u8]>,
}

impl Replacement<'_> {
    /// Calls `take` with each part of the result.
    fn each(&self, mut take: impl FnMut(&[u8])) {
        let mut from = 0;
        let empty = self.everywhere.unwrap_or_default();
        let take_kept = |kept: &[u8], take: &mut dyn FnMut(&[u8])| match self.everywhere {
            Some(_) => kept.chunks(1).for_each(|byte| {
                take(empty);
                take(byte);
            }),
            None => take(kept),
        };
        for found in self.searcher.find_iter(self.text) {
            take_kept(&self.text[from..found.start()], &mut take);
            take(empty);
            take(self.texts[found.pattern().as_usize()]);
            from = found.end();
        }
        take_kept(&self.text[from..], &mut take);
        take(empty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(patterns: serde_json::Value, text: &str) -> Value {
        replace_n(vec![patterns.into(), text.into()]).unwrap()
    }

    #[test]
    fn first_pattern_that_matches_is_replaced_once() {
        for (patterns, text, expected) in [
            (serde_json::json!({"a": "b", "b": "c"}), "ab", "bc"),
            (serde_json::json!({"a": "1", "aa": "2"}), "aaa", "111"),
            (serde_json::json!({"": "-"}), "ab", "-a-b-"),
            (serde_json::json!({"": "-", "ab": "x"}), "cabd", "-c-x-d-"),
            (serde_json::json!({}), "ab", "ab"),
        ] {
            assert_eq!(replaced(patterns, text), expected.into());
        }
        assert_eq!(replaced(serde_json::json!({"a": 1}), "a"), Value::Undefined);
    }
}
