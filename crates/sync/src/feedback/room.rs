//! Room for what a spoke says of one work.

use policy_sync_api::text::capped;

/// The most bytes of all texts that are kept of what a spoke says of one work.
const LIMIT: usize = 16 * 1024;
/// A text that is cut to fewer bytes has no room for the mark that it was cut.
const LEAST: usize = 3;

/// What is left of it. Texts have it in the order in which they are taken in.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(LIMIT)
    }
}

impl Room {
    /// As much of `text` as there is room for, and `limit` bytes at most.
    pub(super) fn text(&mut self, text: &str, limit: usize) -> Box<str> {
        let limit = limit.min(self.0);
        let kept = if text.len() > limit && limit < LEAST { "".into() } else { capped(text, limit) };
        self.0 -= kept.len();
        kept.into()
    }

    /// Whether there is room for all of these texts, which then have it.
    pub(super) fn takes(&mut self, texts: &[&str]) -> bool {
        let bytes = texts.iter().map(|text| text.len()).sum();
        let rest = self.0.checked_sub(bytes);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}
