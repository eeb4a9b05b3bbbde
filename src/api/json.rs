//! JSON as the API server keeps it: numbers in its form, and one hash for one meaning.
//!
//! The server reads a number as a 64-bit integer where it fits and as a double otherwise, and writes a whole double
//! without its fraction. Text that never went through the server (files, overrides) is brought to that form once,
//! by [`normalize`]; what the server sent already has it.

pub mod step;
pub(crate) mod tree;

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Number, Value};

/// The doubles below this magnitude that are whole come back from the server as integers.
const INTEGER_LIMIT: f64 = 9_223_372_036_854_775_808.0;

/// Brings every number of `value` to the form that the server would send it back in.
pub fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(settled) = settled(number) {
                *number = settled;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(fields) => fields.values_mut().for_each(normalize),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn settled(number: &Number) -> Option<Number> {
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

/// A 128-bit hash of a JSON value: the same for the same meaning, whatever the order of keys or the form of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(u128);

impl Hash {
    /// The hash of `value` once its numbers are in the server's form.
    #[must_use]
    pub fn of(value: &impl Serialize) -> Self {
        // A `Value` keeps its keys sorted, so its text is canonical.
        let mut value = serde_json::to_value(value).unwrap_or_default();
        normalize(&mut value);
        let mut hasher = HashWriter(blake3::Hasher::new());
        // Writing a `Value` to a hasher cannot fail: its keys are strings and the writer takes everything.
        let _ = serde_json::to_writer(&mut hasher, &value);
        Self::finish(&hasher.0)
    }

    /// The hash of a list of strings, each kept apart from the next.
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
    /// Thirty-two hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// How many bytes `value` has as JSON text, without writing it.
#[must_use]
pub fn length(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    // Counting cannot fail, and what is counted has strings as keys.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Counter(usize);

impl Write for Counter {
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

/// How many lists and objects may be inside each other in what is passed on. Kubernetes' own limit is far beyond what
/// JSON readers take, ours among them, and it has to be read back with what is put around it.
pub const DEPTH_LIMIT: usize = 100;

/// How many lists and objects of `value` are inside each other.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// What `value` is, for words: `a string`, `null`.
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
