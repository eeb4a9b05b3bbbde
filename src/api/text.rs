//! Text of others, cut to what the object that it goes into takes.

use std::borrow::Cow;

const CUT: &str = "…";

/// `text` in at most `bytes` bytes (three or more), with an ellipsis where it was cut.
#[must_use]
pub fn capped(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(CUT.len()));
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}
