//! Estimates the memory of a document, independent of other documents.

use regorus::Value;

/// The size of a value's slot in a list or a map.
const SLOT: usize = size_of::<Value>();
/// The maximum number of entries in a node of the standard library's `BTreeMap`.
const NODE: usize = 11;
/// The bytes of a node without its entries.
const NODE_HEAD: usize = 16;
/// The bytes of the counters of an `Arc`, and of the allocator's rounding.
const ALLOCATION: usize = 24;
/// The bytes for each part in the table of [shared](super::sharing) parts.
const SHARED: usize = 48;
/// The maximum length of a short text. In a small value, such a text is probably shared with other documents, for
/// example a field name, `Always` or `TCP`.
const MAX_SHORT_TEXT: usize = 24;
/// The bytes for a short text.
const SHORT_TEXT: usize = 24;
/// The maximum number of parts of a small value.
const MAX_SMALL_PARTS: usize = 32;

/// The bytes of `value` with all of its parts. Walks through the value once.
#[must_use]
pub(super) fn weight(value: &Value) -> usize {
    own(value) + parts(value).map(|(part, is_few)| part_weight(part, is_few)).sum::<usize>()
}

/// The bytes of `part` without its slot. `is_few`: whether `part` belongs to a small value.
#[must_use]
pub(super) fn part_weight(part: &Value, is_few: bool) -> usize {
    match part {
        Value::String(text) if is_few && text.len() <= MAX_SHORT_TEXT => SHORT_TEXT,
        _ => weight(part),
    }
}

/// The bytes of `value` without its parts, but with their slots.
#[must_use]
pub(super) fn own(value: &Value) -> usize {
    match value {
        Value::String(text) => ALLOCATION + text.len() + SHARED,
        Value::Array(items) => ALLOCATION + size_of::<Vec<Value>>() + items.len() * SLOT + SHARED,
        Value::Object(fields) => {
            let node = NODE_HEAD + 2 * NODE * SLOT;
            let leaves = fields.len().div_ceil(NODE);
            // Inner nodes have a pointer to each child.
            let inner = if leaves > 1 { leaves.div_ceil(NODE) * (node + 12 * size_of::<usize>()) } else { 0 };
            ALLOCATION + size_of::<[usize; 3]>() + leaves * node + inner + SHARED
        }
        _ => 0,
    }
}

/// The keys and values that `value` contains. Each has a flag for whether `value` is small.
pub(super) fn parts(value: &Value) -> impl Iterator<Item = (&Value, bool)> {
    // For values of other types, `as_array` and `as_object` would allocate an error.
    let (items, fields) = match value {
        Value::Array(items) => (Some(items), None),
        Value::Object(fields) => (None, Some(fields)),
        _ => (None, None),
    };
    let count = items.map_or(0, |items| items.len()) + fields.map_or(0, |fields| fields.len());
    let items = items.into_iter().flat_map(|items| items.iter());
    let fields = fields.into_iter().flat_map(|fields| fields.iter()).flat_map(|(key, value)| [key, value]);
    items.chain(fields).map(move |part| (part, count <= MAX_SMALL_PARTS))
}
