//! Completion by `kubectl`, with the plugin protocol of [Cobra](https://pkg.go.dev/github.com/spf13/cobra).
//! Each line contains a candidate, with its help after a tab. The last line contains directives for the
//! shell.

use std::env::current_dir;
use std::ffi::OsString;
use std::fmt::Write;

use clap_complete::engine::{CompletionCandidate, complete};

use super::candidates;
use crate::cli::invocation::Invocation;
use crate::cli::text::printable;

/// A directive: the shell must not complete file names.
const NO_FILES: u8 = 4;
/// A directive: the shell must not add a space after the candidate.
const NO_SPACE: u8 = 2;

/// The candidates for the last of `words`.
pub(super) fn candidates_text(invocation: Invocation, words: Vec<OsString>) -> String {
    let mut command = candidates::add(invocation.command(), &words);
    let last = words.last().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let index = words.len().saturating_sub(1);
    let found = complete(&mut command, words, index, current_dir().ok().as_deref()).unwrap_or_default();
    text(&last, &found)
}

fn text(last: &str, candidates: &[CompletionCandidate]) -> String {
    // For an option such as `--output=wide`, scripts expect only the value.
    let flag = last.find('=').filter(|_| last.starts_with('-')).map_or("", |end| &last[..=end]);
    let (mut text, mut directive) = (String::new(), NO_FILES);
    for candidate in candidates {
        let value = candidate.get_value().to_string_lossy();
        // Options are candidates only after a dash.
        if value.starts_with('-') && !last.starts_with('-') {
            continue;
        }
        let value = value.strip_prefix(flag).unwrap_or(&value);
        if value.ends_with('/') {
            directive |= NO_SPACE;
        }
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        let help = help.lines().next().map(|line| format!("\t{}", printable(line))).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{help}", printable(value));
    }
    format!("{text}:{directive}\n")
}

#[cfg(test)]
mod tests;
