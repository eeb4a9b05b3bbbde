//! The memory budget for the report of one work.

use policy_sync_api::text::truncate_bytes;

/// The maximum number of bytes of all kept texts in the report of one work.
const LIMIT: usize = 16 * 1024;
/// The size of the mark at the end of a cut text. If less space is left, a text is dropped instead of cut.
const TRUNCATION_MARK_BYTES: usize = 3;

/// The remaining budget in bytes. Texts use it in the order in which they arrive.
#[derive(Debug)]
pub(super) struct TextBudget(usize);

impl Default for TextBudget {
    fn default() -> Self {
        Self(LIMIT)
    }
}

impl TextBudget {
    /// As much of `text` as fits, and at most `limit` bytes.
    pub(super) fn text(&mut self, text: &str, limit: usize) -> Box<str> {
        let limit = limit.min(self.0);
        let kept = if text.len() > limit && limit < TRUNCATION_MARK_BYTES {
            "".into()
        } else {
            truncate_bytes(text, limit)
        };
        self.0 -= kept.len();
        kept.into()
    }

    /// Reserves space for all of these texts, or for none of them. Returns whether there was enough space.
    pub(super) fn reserve(&mut self, texts: &[&str]) -> bool {
        let bytes = texts.iter().map(|text| text.len()).sum();
        let rest = self.0.checked_sub(bytes);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}
