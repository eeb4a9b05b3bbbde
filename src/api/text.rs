//! Text of others, cut to what the object that it goes into takes.

use std::borrow::Cow;
use std::error::Error;

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

/// `error` and its causes, the outermost first. Libraries repeat the cause in their own words, or do not: it stands here
/// once.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}
