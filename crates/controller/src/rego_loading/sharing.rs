//! Deduplicates equal parts of documents: a hundred Pods of one template take little more memory than one Pod.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use regorus::Value;

/// With at most this many known parts, [`Sharing`] does not search for unused parts.
const MIN_SWEEP_SIZE: usize = 4_096;

/// The known parts, by a hash with random keys. If two values have the same hash, the second value is not shared.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    parts: HashMap<u64, Value>,
    hashes: RandomState,
    /// The number of parts at which unused parts are removed next.
    limit: usize,
}

impl Default for Sharing {
    fn default() -> Self {
        Self { parts: HashMap::new(), hashes: RandomState::new(), limit: MIN_SWEEP_SIZE }
    }
}

impl Sharing {
    /// Returns a value that equals `value` and shares its memory with known values.
    pub(super) fn share(&mut self, value: &Value) -> Value {
        if self.parts.len() > self.limit {
            self.sweep();
        }
        self.shared(value)
    }

    fn shared(&mut self, value: &Value) -> Value {
        let whole = match value {
            Value::Array(items) => items.iter().map(|item| self.shared(item)).collect::<Vec<_>>().into(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (self.shared(key), self.shared(value)));
                fields.collect::<BTreeMap<_, _>>().into()
            }
            Value::String(_) => value.clone(),
            _ => return value.clone(),
        };
        let hash = self.hash(&whole);
        match self.parts.get(&hash) {
            Some(known) if *known == whole => known.clone(),
            Some(_) => whole,
            None => {
                self.parts.insert(hash, whole.clone());
                whole
            }
        }
    }

    /// Hashes a value whose parts are shared already. Uses the addresses of these parts.
    fn hash(&self, value: &Value) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        match value {
            Value::Array(items) => items.iter().for_each(|item| identify(item, &mut hasher)),
            Value::Object(fields) => {
                for (key, value) in fields.iter() {
                    identify(key, &mut hasher);
                    identify(value, &mut hasher);
                }
            }
            Value::String(text) => text.hash(&mut hasher),
            _ => {}
        }
        std::mem::discriminant(value).hash(&mut hasher);
        hasher.finish()
    }

    /// Removes unused parts: first containers, then the parts that only the removed containers used.
    pub(super) fn sweep(&mut self) {
        loop {
            let before = self.parts.len();
            self.parts.retain(|_, value| is_used(value));
            if self.parts.len() == before {
                break;
            }
        }
        self.parts.shrink_to(2 * self.parts.len());
        self.limit = self.parts.len() + MIN_SWEEP_SIZE.max(self.parts.len() / 4);
    }
}

fn identify(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::String(text) => Arc::as_ptr(text).addr().hash(hasher),
        Value::Array(items) => Arc::as_ptr(items).addr().hash(hasher),
        Value::Object(fields) => Arc::as_ptr(fields).addr().hash(hasher),
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number.as_f64().unwrap_or_default().to_bits().hash(hasher),
        Value::Null | Value::Set(_) | Value::Undefined => {}
    }
}

fn is_used(value: &Value) -> bool {
    match value {
        Value::String(text) => Arc::strong_count(text) > 1,
        Value::Array(items) => Arc::strong_count(items) > 1,
        Value::Object(fields) => Arc::strong_count(fields) > 1,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
