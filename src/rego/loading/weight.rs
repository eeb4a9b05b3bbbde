//! How much memory a document takes, estimated without regard to other documents.

use regorus::Value;

/// A place for a value in a list or a map.
const SLOT: usize = size_of::<Value>();
/// The most entries of a node of the standard library's `BTreeMap`.
const NODE: usize = 11;
/// What a node takes beside its entries.
const NODE_HEAD: usize = 16;
/// The counts of an `Arc`, and what the allocator rounds up.
const ALLOCATION: usize = 24;
/// What the table of [shared](super::sharing) parts keeps of each.
const SHARED: usize = 48;
/// A text of at most so many bytes in a small value is most likely also in other documents: a name of a field, `Always`, `TCP`.
const SHORT: usize = 24;
/// What such a text counts.
const SHORT_TEXT: usize = 24;
/// A value with at most so many parts is small.
const FEW: usize = 32;

/// The bytes that `value` takes, with all of its parts. The time is that of walking it once.
#[must_use]
pub(super) fn weight(value: &Value) -> usize {
    own(value) + parts(value).map(|(part, is_few)| part_weight(part, is_few)).sum::<usize>()
}

/// The bytes that `part` takes beside its place; `is_few`, where it is a part of a small value.
#[must_use]
pub(super) fn part_weight(part: &Value, is_few: bool) -> usize {
    match part {
        Value::String(text) if is_few && text.len() <= SHORT => SHORT_TEXT,
        _ => weight(part),
    }
}

/// The bytes that `value` takes without its parts, but with their places.
#[must_use]
pub(super) fn own(value: &Value) -> usize {
    match value {
        Value::String(text) => ALLOCATION + text.len() + SHARED,
        Value::Array(items) => ALLOCATION + size_of::<Vec<Value>>() + items.len() * SLOT + SHARED,
        Value::Object(fields) => {
            let node = NODE_HEAD + 2 * NODE * SLOT;
            let leaves = fields.len().div_ceil(NODE);
            // Nodes above leaves have a pointer to each below.
            let inner = if leaves > 1 { leaves.div_ceil(NODE) * (node + 12 * size_of::<usize>()) } else { 0 };
            ALLOCATION + size_of::<[usize; 3]>() + leaves * node + inner + SHARED
        }
        _ => 0,
    }
}

/// The keys and values of `value`, each with whether `value` has few.
pub(super) fn parts(value: &Value) -> impl Iterator<Item = (&Value, bool)> {
    let items = value.as_array().ok();
    let fields = value.as_object().ok();
    let count = items.map_or(0, |items| items.len()) + fields.map_or(0, |fields| fields.len());
    let items = items.into_iter().flat_map(|items| items.iter());
    let fields = fields.into_iter().flat_map(|fields| fields.iter()).flat_map(|(key, value)| [key, value]);
    items.chain(fields).map(move |part| (part, count <= FEW))
}
