//! A text with other text at some places, and the way back from a place in it.

use std::sync::Arc;

use crate::rego::fault::Place;

/// What takes the place of a part of a text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) text: String,
}

impl Edit {
    pub(super) fn insert(at: u32, text: String) -> Self {
        Self { start: at, end: at, text }
    }
}

/// A text, edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    original: Arc<str>,
    text: Arc<str>,
    edits: Vec<Edit>,
}

impl Edited {
    pub(super) fn new(original: &Arc<str>, mut edits: Vec<Edit>) -> Self {
        if edits.is_empty() {
            return Self { original: original.clone(), text: original.clone(), edits };
        }
        // At one place, insertions come first, in the order in which they were made.
        edits.sort_by_key(|edit| (edit.start, edit.end > edit.start));
        let (mut text, mut from) = (String::with_capacity(original.len()), 0);
        for edit in &edits {
            let start = edit.start as usize;
            text.push_str(&original[from..start]);
            text.push_str(&edit.text);
            from = edit.end as usize;
        }
        text.push_str(&original[from..]);
        Self { original: original.clone(), text: text.into(), edits }
    }

    /// The text as it is.
    #[must_use]
    pub fn unchanged(original: &Arc<str>) -> Self {
        Self::new(original, Vec::new())
    }

    /// The text with `more` before its byte `at`, where a character begins.
    #[must_use]
    pub fn inserting(original: &Arc<str>, at: usize, more: &str) -> Self {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        Self::new(original, vec![Edit::insert(at, more.to_owned())])
    }

    /// What the engine reads.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Where that was written which stands at `place`.
    #[must_use]
    pub fn original(&self, place: Place) -> Place {
        let offset = offset_of(&self.text, place);
        // How far the text has come, and where that is in the original.
        let (mut edited, mut from) = (0, 0);
        for Edit { start, end, text } in &self.edits {
            let (start, end) = (*start as usize, *end as usize);
            let begins = edited + (start - from);
            if offset < begins {
                break;
            }
            if offset < begins + text.len() {
                return place_of(&self.original, start);
            }
            (edited, from) = (begins + text.len(), end);
        }
        place_of(&self.original, from + offset.saturating_sub(edited))
    }
}

/// A byte offset in a module, all of which are smaller than 4 GiB.
pub(super) fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Where `place` is in `text`, in bytes.
pub(super) fn offset_of(text: &str, place: Place) -> usize {
    let lines = text.split_inclusive('\n').take(place.line.saturating_sub(1) as usize);
    let before: usize = lines.map(str::len).sum();
    let line = &text[before..];
    let columns = line.char_indices().nth(place.column.saturating_sub(1) as usize);
    before + columns.map_or(line.len(), |(offset, _)| offset)
}

pub(super) fn place_of(text: &str, offset: usize) -> Place {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
    let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
    Place { line: number(before.matches('\n').count()), column: number(line.chars().count()) }
}
