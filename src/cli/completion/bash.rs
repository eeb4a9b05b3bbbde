//! What bash asks. It breaks words at `=` and `:`, those within an option too: `--context=prod:eu` comes as five, of which it
//! replaces the last.

use std::env::{current_dir, var};
use std::ffi::{OsStr, OsString};

use clap_complete::engine::complete;

use super::candidates;
use crate::cli::called_as::CalledAs;

/// The candidates for the word that bash says, which its script takes apart.
pub(super) fn answer(called: CalledAs, words: &[OsString]) -> String {
    let index = var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok()).unwrap_or_default();
    let separator = var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
    let Words { words, index, before } = Words::joined(words, index);
    let mut command = candidates::add(called.command(), words.get(..=index).unwrap_or(&words));
    let found = complete(&mut command, words, index, current_dir().ok().as_deref()).unwrap_or_default();
    let values = found.iter().map(|candidate| {
        let value = candidate.get_value().to_string_lossy();
        value.strip_prefix(&*before).unwrap_or(&value).to_owned()
    });
    values.collect::<Vec<_>>().join(&separator)
}

/// Words as a user has typed them.
#[derive(Debug, PartialEq, Eq)]
struct Words {
    words: Vec<OsString>,
    /// Which is being completed.
    index: usize,
    /// What there is of it that bash does not replace.
    before: String,
}

impl Words {
    /// Those that bash has broken into `words`, of which it completes the one at `index`.
    fn joined(words: &[OsString], index: usize) -> Self {
        let mut joined = Self { words: Vec::new(), index: 0, before: String::new() };
        let mut goes_on = false;
        for (place, word) in words.iter().enumerate() {
            let is_break = is_break(word);
            let begun = joined.words.last_mut().filter(|_| goes_on || is_break);
            // A word that is being typed ends there.
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
