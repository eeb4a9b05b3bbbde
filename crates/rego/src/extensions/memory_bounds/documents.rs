//! Memory bounds of builtins that traverse a document or derive another document.

use regorus::Value;

use super::{GROWTH, grown, length, listed};
use crate::extensions::graphql::{BYTES, TOKENS};
use crate::memory::LIMIT;
use crate::memory::size::{ELEMENT, copied, elements, written};

/// The maximum number of components in a path. Dropping a value with this nesting uses one stack frame for each
/// component.
pub(super) const COMPONENTS: usize = 512;

pub(super) fn json(values: &[Value]) -> Option<usize> {
    grown(written(values.first()?, LIMIT)?)
}

/// The bytes for JSON in which each line has a prefix and is indented by its level.
pub(super) fn pretty_json(values: &[Value]) -> Option<usize> {
    let [value, options] = values else { return Some(0) };
    let option = |name: &str| length(Some(&options[name]));
    let lines = copied(value, LIMIT)? / ELEMENT + 1;
    let line = depth(value).saturating_mul(option("indent").max(2)).saturating_add(option("prefix"));
    // Each element has a line, and so has the end of each collection.
    let indented = lines.saturating_mul(2).saturating_mul(line + size_of::<String>());
    Some(json(values)?.saturating_add(indented.saturating_mul(GROWTH)))
}

/// The nesting depth of a value. Callers call [`copied`] first, which limits the depth of this recursion.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Set(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 0,
    }
}

/// The bytes for the nodes of a YAML document, and for their values. Values of aliases are not included: the memory
/// limit is checked when they are created.
pub(super) fn read_yaml(values: &[Value]) -> Option<usize> {
    /// The bytes for the nodes of a key and its value, with the positions of scalars.
    const NODE_BYTES: usize = 10 * ELEMENT;
    let Some(Value::String(text)) = values.first() else { return Some(0) };
    let indicators = text.bytes().filter(|byte| b":,-?[{".contains(byte)).count();
    Some(grown(text.len().saturating_mul(2))?.saturating_add((indicators + 1).saturating_mul(NODE_BYTES)))
}

/// The bytes for GraphQL documents, given as texts or trees, and for their parsed trees. A call with a document above
/// the limits fails.
pub(super) fn graphql(values: &[Value]) -> Option<usize> {
    /// The bytes for one token: its node in the tree, and the value of that node. A definition without a body is a node
    /// with two tokens.
    const NODE: usize = 1_024;
    /// The bytes for the built-in types of each schema, and for the pairs of fragments that are compared.
    const VALIDATION: usize = 1 << 20;
    let mut need = VALIDATION;
    for value in values {
        let (nodes, bytes) = match value {
            Value::String(text) if text.len() <= BYTES => (tokens(text), text.len()),
            Value::Object(_) => {
                let bytes = copied(value, LIMIT)?;
                (bytes / ELEMENT + 1, bytes)
            }
            _ => continue,
        };
        need = need.saturating_add(nodes.min(TOKENS).saturating_mul(NODE)).saturating_add(grown(bytes)?);
    }
    Some(need)
}

/// The maximum number of tokens in a document of GraphQL.
fn tokens(text: &str) -> usize {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut previous = b' ';
    let starts = text.bytes().filter(|byte| {
        // A name may follow the digits of a number.
        let is_inside =
            is_name(*byte) && is_name(previous) && (byte.is_ascii_digit() || !previous.is_ascii_digit());
        previous = *byte;
        !is_inside && !byte.is_ascii_whitespace() && *byte != b','
    });
    starts.count() + 1
}

/// The bytes for schemas and documents in the form for validation. Parsed schemas and errors are not included: the
/// memory limit is checked when they are created.
pub(super) fn schemas(values: &[Value]) -> Option<usize> {
    /// The bytes for a key and a number.
    const VALUE: usize = 3 * ELEMENT;
    let mut need = 0_usize;
    for value in values {
        need = need.saturating_add(match value {
            Value::String(text) => {
                let elements = text.bytes().filter(|byte| b",:[{".contains(byte)).count() + 1;
                grown(text.len().saturating_mul(2))?.saturating_add(elements.saturating_mul(ELEMENT + VALUE))
            }
            value => copied(value, LIMIT)?.saturating_mul(VALUE / ELEMENT + 1),
        });
    }
    Some(need)
}

/// The bytes for a value as JSON, for the values that are parsed from the JSON, and for the indented lines.
pub(super) fn written_yaml(values: &[Value]) -> Option<usize> {
    /// The bytes for the JSON, the parsed values and the quotes, for each byte of the JSON.
    const VALUES: usize = 50;
    let value = values.first()?;
    Some(
        json(values)?
            .saturating_mul(VALUES)
            .saturating_add(json(values)?.saturating_mul(2 * depth(value) + 4)),
    )
}

/// The bytes for each value in a document together with its path.
pub(super) fn walk(values: &[Value]) -> Option<usize> {
    let value = values.first()?;
    let elements = copied(value, LIMIT)? / ELEMENT + 1;
    Some(elements.saturating_mul(ELEMENT + depth(value) * size_of::<Value>()).saturating_mul(2))
}

/// The bytes for paths in a document: texts with slashes, or arrays. The engine builds objects from their components.
pub(super) fn paths(values: &[Value]) -> Option<usize> {
    let mut components = 0_usize;
    let mut path = |path: &Value| {
        let count = components_of(path);
        components = components.saturating_add(count);
        (count <= COMPONENTS).then_some(())
    };
    match &values[1] {
        Value::Array(paths) => paths.iter().try_for_each(&mut path)?,
        Value::Set(paths) => paths.iter().try_for_each(&mut path)?,
        _ => {}
    }
    Some(listed(components)?.saturating_add(copied(&values[1], LIMIT)?))
}

/// The bytes for the paths in the form for the engine, and for the original paths.
pub(super) fn copied_paths(values: &[Value]) -> Option<usize> {
    let mut bytes = 0_usize;
    let mut add = |path: &Value| bytes = bytes.saturating_add(length(Some(path)));
    match &values[1] {
        Value::Array(paths) => paths.iter().for_each(&mut add),
        Value::Set(paths) => paths.iter().for_each(&mut add),
        _ => {}
    }
    Some(paths(values)?.saturating_mul(2).saturating_add(listed(elements(&values[1]))?).saturating_add(bytes))
}

fn components_of(path: &Value) -> usize {
    match path {
        Value::String(path) => path.matches('/').count() + 1,
        other => elements(other),
    }
}

/// The bytes for copies of the document and of the edits.
pub(super) fn patch(values: &[Value]) -> Option<usize> {
    let [document, Value::Array(edits)] = values else { return Some(0) };
    for edit in edits.iter() {
        let is_short = |field: &str| components_of(&edit[field]) <= COMPONENTS;
        if !(is_short("path") && is_short("from")) {
            return None;
        }
    }
    let copies = copied(document, LIMIT)?.saturating_add(copied(&values[1], LIMIT)?);
    Some(copies.saturating_mul(2))
}

/// The bytes for the merged objects: one for each pair of objects at the same path in both arguments.
pub(super) fn union(values: &[Value]) -> Option<usize> {
    let mut need = 0;
    let [first, second] = values else { return Some(0) };
    add_union(first, second, &mut need, 0)?;
    Some(need)
}

fn add_union(first: &Value, second: &Value, need: &mut usize, depth: usize) -> Option<()> {
    let (Value::Object(of_first), Value::Object(of_second)) = (first, second) else { return Some(()) };
    *need = need.saturating_add(listed(of_first.len().saturating_add(of_second.len()))?);
    if *need > LIMIT || depth > COMPONENTS {
        return None;
    }
    of_second.iter().try_for_each(|(key, second)| match of_first.get(key) {
        Some(first) => add_union(first, second, need, depth + 1),
        None => Some(()),
    })
}
