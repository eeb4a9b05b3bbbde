//! JSON in the form in which the API server stores it, and hashes of JSON values.
//!
//! The API server parses a number as a 64-bit integer if it fits, otherwise as a double. It writes a double without
//! fraction as an integer. Text from other sources (files, overrides) is converted to this form by [`normalize`].

pub mod step;
pub mod strict;
pub mod tree;

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use serde_json::{Number, Value};

/// The API server returns a double without fraction as an integer if its magnitude is below this limit.
const INTEGER_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Converts each number in `value` to the form in which the API server returns it.
pub fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(normalized) = normalized(number) {
                *number = normalized;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(fields) => fields.values_mut().for_each(normalize),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn normalized(number: &Number) -> Option<Number> {
    if number.is_i64() {
        return None;
    }
    let double = number.as_f64()?;
    if double.fract() == 0.0 && (-INTEGER_LIMIT..INTEGER_LIMIT).contains(&double) && !number.is_u64() {
        // The bounds above keep the cast exact.
        #[allow(clippy::cast_possible_truncation)]
        return Some(Number::from(double as i64));
    }
    if number.is_u64() { Number::from_f64(double) } else { None }
}

/// The [JSON pointer](https://www.rfc-editor.org/rfc/rfc6901) to the field `key` of the object at the pointer `place`.
#[must_use]
pub fn pointer(place: &str, key: &str) -> String {
    format!("{place}/{}", pointer_token(key))
}

/// Escapes `key` for a JSON pointer.
#[must_use]
pub fn pointer_token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A 128-bit hash of a JSON value. It does not depend on the order of keys or the notation of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(u128);

impl Hash {
    /// The hash of `value` after normalization.
    #[must_use]
    pub fn of_value(value: &impl Serialize) -> Self {
        // A `Value` keeps its keys sorted, so its text is canonical.
        let value = serde_json::to_value(value).unwrap_or_default();
        Self::of_borrowed(&BorrowedJson::Value(&value))
    }

    /// The hash of the value that `json` represents, without building that value.
    #[must_use]
    pub fn of_borrowed(json: &BorrowedJson<'_>) -> Self {
        let mut hasher = BufWriter::new(HashWriter(blake3::Hasher::new()));
        // Writing to a hasher cannot fail, and all keys are strings.
        let _ = json.write(&mut hasher).and_then(|()| hasher.flush());
        Self::finish(&hasher.get_ref().0)
    }

    /// The hash of a text.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self::of_parts(&[text])
    }

    /// The hash of a list of strings. The hash depends on the boundaries between the strings.
    #[must_use]
    pub fn of_parts(parts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self::finish(&hasher)
    }

    fn finish(hasher: &blake3::Hasher) -> Self {
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        Self(u128::from_be_bytes(bytes))
    }
}

impl std::fmt::Display for Hash {
    /// Formats the hash as 32 hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A value composed of borrowed values, to avoid copies of several megabytes.
#[derive(Debug)]
pub enum BorrowedJson<'v> {
    /// An existing value.
    Value(&'v Value),
    /// A list.
    List(Vec<BorrowedJson<'v>>),
    /// An object with sorted keys.
    Object(Vec<(&'static str, BorrowedJson<'v>)>),
}

impl BorrowedJson<'_> {
    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Value(value) => write_normalized(value, to),
            Self::List(items) => write_list(items, to, Self::write),
            Self::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (*key, value));
                write_object(fields, to, Self::write)
            }
        }
    }
}

/// Writes `value` as it would be after [`normalize`].
fn write_normalized<W: Write>(value: &Value, to: &mut W) -> io::Result<()> {
    match value {
        Value::Number(number) => {
            Ok(serde_json::to_writer(to, &normalized(number).as_ref().unwrap_or(number))?)
        }
        Value::Array(items) => write_list(items, to, write_normalized),
        // The keys of a `Value` are sorted.
        Value::Object(fields) => {
            write_object(fields.iter().map(|(key, value)| (key.as_str(), value)), to, write_normalized)
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(serde_json::to_writer(to, value)?),
    }
}

fn write_list<T, W: Write>(
    items: &[T],
    to: &mut W,
    write: impl Fn(&T, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    to.write_all(b"[")?;
    for (index, item) in items.iter().enumerate() {
        to.write_all(if index == 0 { b"" } else { b"," })?;
        write(item, to)?;
    }
    to.write_all(b"]")
}

fn write_object<'f, T: 'f, W: Write>(
    fields: impl Iterator<Item = (&'f str, &'f T)>,
    to: &mut W,
    write: impl Fn(&T, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    to.write_all(b"{")?;
    for (index, (key, value)) in fields.enumerate() {
        to.write_all(if index == 0 { b"" } else { b"," })?;
        serde_json::to_writer(&mut *to, key)?;
        to.write_all(b":")?;
        write(value, to)?;
    }
    to.write_all(b"}")
}

/// The length of `value` as JSON text, in bytes.
#[must_use]
pub fn length(value: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    // Counting cannot fail, and all keys are strings.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct HashWriter(blake3::Hasher);

impl Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The maximum nesting of lists and objects in a value that is synced. JSON parsers, including this project's, allow
/// much less nesting than Kubernetes does, and they must be able to parse the whole object that contains the value.
pub const DEPTH_LIMIT: usize = 100;

/// The nesting depth of lists and objects in `value`.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The type of `value`, for messages: `a string`, `null`.
#[must_use]
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
