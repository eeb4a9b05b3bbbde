//! Parts of [DOT](https://graphviz.org/doc/info/lang.html).

use std::fmt::{self, Write};
use std::ops::Range;

use crate::locator::Locator;

/// The beginning of a document.
pub(crate) const BEGIN: &str = "strict digraph {\n  graph [rankdir=LR];\n";
/// The end of a document.
pub(crate) const END: &str = "}\n";

/// The lines of a document, with a limit of bytes.
pub(crate) struct DotLines {
    text: String,
    /// The byte range of each line in `text`.
    places: Vec<Range<usize>>,
    remaining: usize,
}

impl DotLines {
    /// Starts a document of at most `limit` bytes. Returns `None` if even an empty document exceeds the limit.
    pub(crate) fn within(limit: usize) -> Option<Self> {
        let remaining = limit.checked_sub(BEGIN.len() + END.len())?;
        // A string that grows step by step would need up to half as much memory again.
        let reserved = if limit == usize::MAX { 0 } else { remaining };
        Some(Self { text: String::with_capacity(reserved), places: Vec::new(), remaining })
    }

    /// Adds an object of the topology. Returns `None` if the line exceeds the limit.
    pub(crate) fn object(&mut self, object: &Locator<'_>, label: &str) -> Option<()> {
        self.push(format_args!("  {} [label={label} shape=box];", id(object)))
    }

    /// Adds a policy. Returns `None` if the line exceeds the limit.
    pub(crate) fn policy(&mut self, policy: &Locator<'_>, label: &str) -> Option<()> {
        self.push(format_args!("  {} [label={label} shape=note];", id(policy)))
    }

    /// Adds the edge from a policy to its target. Returns `None` if the line exceeds the limit.
    pub(crate) fn target(&mut self, policy: &Locator<'_>, target: &Locator<'_>) -> Option<()> {
        self.push(format_args!("  {} -> {} [style=dashed];", id(policy), id(target)))
    }

    /// Adds the edge from a parent to its child. Returns `None` if the line exceeds the limit.
    pub(crate) fn link(&mut self, parent: &Locator<'_>, child: &Locator<'_>) -> Option<()> {
        self.push(format_args!("  {} -> {};", id(parent), id(child)))
    }

    fn push(&mut self, line: fmt::Arguments<'_>) -> Option<()> {
        let begin = self.text.len();
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(line);
        self.remaining = self.remaining.checked_sub(self.text.len() - begin + 1)?;
        self.places.push(begin..self.text.len());
        Some(())
    }

    /// The document, with its lines in order.
    pub(crate) fn sorted(self) -> String {
        let Self { text, mut places, .. } = self;
        places.sort_by_key(|place| &text[place.clone()]);
        let mut dot = String::with_capacity(BEGIN.len() + text.len() + places.len() + END.len());
        dot.push_str(BEGIN);
        for place in places {
            dot.push_str(&text[place]);
            dot.push('\n');
        }
        dot.push_str(END);
        dot
    }
}

/// A quoted label with several lines.
pub(crate) fn label(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
    format!("\"{}\"", lines.join("\\n"))
}

/// The id of a node.
fn id(locator: &Locator<'_>) -> String {
    format!("\"{}\"", escaped(&locator.to_string()))
}

/// Escapes `text` for use between quotes. A backslash begins an escape in a label, and a line break would end the line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            control if control.is_control() => escaped.extend(control.escape_unicode().flat_map(|c| {
                let backslash = (c == '\\').then_some('\\');
                backslash.into_iter().chain([c])
            })),
            other => escaped.push(other),
        }
    }
    escaped
}
