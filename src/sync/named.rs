//! What messages for people have in common.

/// How many things a message names.
pub(super) const NAMED: usize = 10;

/// The first of them, and how many more.
pub(super) fn named(texts: impl ExactSizeIterator<Item = String>) -> String {
    let more = texts.len().saturating_sub(NAMED);
    let mut parts: Vec<String> = texts.take(NAMED).collect();
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join("; ")
}
