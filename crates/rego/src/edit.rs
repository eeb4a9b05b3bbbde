//! Edits of a text, with a mapping of places back to the original.

use std::sync::Arc;

use crate::fault::Position;

/// A replacement of a part of a text; offsets are in bytes.
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

/// A text with edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    original: Arc<str>,
    text: Arc<str>,
    edits: Vec<Edit>,
    /// The offset in `text` of each edit.
    starts: Vec<u32>,
    /// The offset of each line in `original`, if there are edits.
    original_lines: Vec<u32>,
    /// The offset of each line in `text`, if there are edits.
    lines: Vec<u32>,
    /// Earlier edits, whose result is `original`.
    earlier: Option<Box<EditedText>>,
}

impl EditedText {
    pub(super) fn new(original: &Arc<str>, mut edits: Vec<Edit>) -> Self {
        if edits.is_empty() {
            return Self {
                original: original.clone(),
                text: original.clone(),
                edits,
                starts: Vec::new(),
                original_lines: Vec::new(),
                lines: Vec::new(),
                earlier: None,
            };
        }
        // At equal offsets, insertions come first, in the order in which they were made.
        edits.sort_by_key(|edit| (edit.start, edit.end > edit.start));
        let (mut text, mut from, mut starts) = (String::with_capacity(original.len()), 0, Vec::new());
        for edit in &edits {
            let start = edit.start as usize;
            text.push_str(&original[from..start]);
            starts.push(offset(text.len()));
            text.push_str(&edit.text);
            from = edit.end as usize;
        }
        text.push_str(&original[from..]);
        Self {
            original: original.clone(),
            edits,
            starts,
            original_lines: line_starts(original).collect(),
            lines: line_starts(&text).collect(),
            text: text.into(),
            earlier: None,
        }
    }

    /// Chains these edits after the `earlier` edits, whose result they change. Places are then mapped to the original
    /// of `earlier`.
    pub(super) fn after(self, earlier: Self) -> Self {
        Self { earlier: Some(Box::new(earlier)), ..self }
    }

    /// Adds `more` edits of the original.
    pub(super) fn and(&self, more: &[Edit]) -> Self {
        Self::new(&self.original, [self.edits.as_slice(), more].concat())
    }

    /// The original text.
    pub(super) fn source(&self) -> &str {
        &self.original
    }

    /// A text without edits.
    #[must_use]
    pub fn unchanged(original: &Arc<str>) -> Self {
        Self::new(original, Vec::new())
    }

    /// Whether there are no edits.
    pub(super) fn is_unchanged(&self) -> bool {
        self.edits.is_empty()
    }

    /// The edited text, which the engine parses.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Maps a place in the edited text to the original.
    #[must_use]
    pub fn original(&self, place: Position) -> Position {
        let place = self.before(place);
        self.earlier.as_ref().map_or(place, |earlier| earlier.original(place))
    }

    /// Maps a place in `text` to `original`.
    fn before(&self, place: Position) -> Position {
        let line = (place.line.max(1) as usize - 1).min(self.lines.len().saturating_sub(1));
        let Some(start) = self.lines.get(line) else { return place };
        let at = start.saturating_add(place.column.max(1) - 1);
        let next = self.starts.partition_point(|start| *start <= at);
        let original = match next.checked_sub(1).map(|last| (&self.edits[last], self.starts[last])) {
            None => at,
            Some((edit, start)) if at < start + offset(edit.text.len()) => edit.start,
            Some((edit, start)) => edit.end + (at - start - offset(edit.text.len())),
        };
        let line = self.original_lines.partition_point(|start| *start <= original);
        let first = self.original_lines.get(line.saturating_sub(1)).copied().unwrap_or_default();
        Position { line: offset(line.max(1)), column: original.saturating_sub(first) + 1 }
    }
}

impl EditedText {
    /// The offset in the original of byte `at` of the edited text; `None` if an edit inserted that byte.
    pub(super) fn source_offset(&self, at: u32) -> Option<u32> {
        let next = self.starts.partition_point(|start| *start <= at);
        let Some(last) = next.checked_sub(1) else { return Some(at) };
        let (edit, start) = (&self.edits[last], self.starts[last]);
        let end = start + offset(edit.text.len());
        at.checked_sub(end).map(|after| edit.end + after)
    }

    /// The offset in the edited text of byte `at` of the original. No edit may replace that byte. If `after` is true,
    /// the offset is after text that was inserted at `at`.
    pub(super) fn text_offset(&self, at: u32, after: bool) -> u32 {
        let is_before = |edit: &&Edit| edit.end <= at && (edit.start < at || after);
        let before = self.edits.iter().filter(is_before);
        before.fold(at, |offset_in_text, edit| {
            offset_in_text + offset(edit.text.len()) - (edit.end - edit.start)
        })
    }
}

/// The byte offset of each line.
fn line_starts(text: &str) -> impl Iterator<Item = u32> {
    [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| offset(at + 1)))
}

/// A byte offset in a module. Modules are smaller than 4 GiB.
pub(super) fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The byte offset of `place` in `text`.
pub(super) fn offset_of(text: &str, place: Position) -> usize {
    let lines = text.split_inclusive('\n').take(place.line.saturating_sub(1) as usize);
    let before: usize = lines.map(str::len).sum();
    let line = text[before..].find('\n').unwrap_or(text.len() - before);
    text.floor_char_boundary(before + (place.column.saturating_sub(1) as usize).min(line))
}

pub(super) fn place_of(text: &str, offset: usize) -> Position {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.rfind('\n').map_or(before, |newline| &before[newline + 1..]);
    let number = |count: usize| u32::try_from(count + 1).unwrap_or(u32::MAX);
    Position { line: number(before.matches('\n').count()), column: number(line.len()) }
}
