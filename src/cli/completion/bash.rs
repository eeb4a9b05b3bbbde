//! Completion in bash. bash splits words at `=` and `:`, even within an option: `--context=prod:eu` arrives as five
//! words, of which bash replaces the last.

use std::env::{current_dir, var};
use std::ffi::{OsStr, OsString};

use clap_complete::engine::complete;

use super::candidates;
use crate::cli::invocation::Invocation;

/// The candidates for the word at the cursor, separated as the bash script expects.
pub(super) fn candidates_text(invocation: Invocation, words: &[OsString]) -> String {
    let index = var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok()).unwrap_or_default();
    let separator = var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
    let BashWords { words, index, before } = BashWords::joined(words, index);
    let mut command = candidates::add(invocation.command(), words.get(..=index).unwrap_or(&words));
    let found = complete(&mut command, words, index, current_dir().ok().as_deref()).unwrap_or_default();
    let values = found.iter().map(|candidate| {
        let value = candidate.get_value().to_string_lossy();
        value.strip_prefix(&*before).unwrap_or(&value).to_owned()
    });
    values.collect::<Vec<_>>().join(&separator)
}

/// The words of the command line as the user typed them.
#[derive(Debug, PartialEq, Eq)]
struct BashWords {
    words: Vec<OsString>,
    /// The index of the word at the cursor.
    index: usize,
    /// The first part of the word at the cursor. bash keeps this part and replaces the rest of the word.
    before: String,
}

impl BashWords {
    /// Joins the `words` that bash has split. `index` is the index of the word at the cursor.
    fn joined(words: &[OsString], index: usize) -> Self {
        let mut joined = Self { words: Vec::new(), index: 0, before: String::new() };
        let mut goes_on = false;
        for (place, word) in words.iter().enumerate() {
            let is_break = is_break(word);
            let begun = joined.words.last_mut().filter(|_| goes_on || is_break);
            // Words after the cursor are not joined to the word at the cursor.
            let begun = begun.filter(|_| place <= index);
            if place == index {
                joined.before =
                    begun.as_ref().map(|begun| begun.to_string_lossy().into_owned()).unwrap_or_default();
            }
            match begun {
                Some(begun) => begun.push(word),
                None => joined.words.push(word.clone()),
            }
            if place == index {
                joined.index = joined.words.len() - 1;
            }
            goes_on = is_break;
        }
        joined
    }
}

fn is_break(word: &OsStr) -> bool {
    !word.is_empty() && word.as_encoded_bytes().iter().all(|byte| b"=:".contains(byte))
}

#[cfg(test)]
mod tests;
