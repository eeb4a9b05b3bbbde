//! Creates JSON values as Go's package [encoding/json](https://pkg.go.dev/encoding/json) writes them.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use num_bigint::BigInt;
use regorus::Value;

use super::super::corrections::lossy;
use super::time::Time;

/// Creates objects with shared keys and shared empty texts.
#[derive(Debug, Default)]
pub(super) struct Writer {
    keys: BTreeMap<&'static str, Value>,
    empty: Option<Value>,
    /// Whether a value cannot be written as JSON in Go.
    has_failed: bool,
}

impl Writer {
    fn key(&mut self, name: &'static str) -> Value {
        self.keys.entry(name).or_insert_with(|| name.into()).clone()
    }

    pub(super) fn object<const N: usize>(&mut self, fields: [(&'static str, Value); N]) -> Value {
        self.fields(fields)
    }

    pub(super) fn fields(&mut self, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
        fields.into_iter().map(|(name, value)| (self.key(name), value)).collect::<BTreeMap<_, _>>().into()
    }

    pub(super) fn text(&mut self, text: &str) -> Value {
        match text {
            "" => self.empty.get_or_insert_with(|| "".into()).clone(),
            text => text.into(),
        }
    }

    /// Converts bytes that are not necessarily UTF-8 to a text.
    pub(super) fn lossy(&mut self, text: &[u8]) -> Value {
        let text = lossy(text);
        self.text(&text)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Value {
        self.text(&STANDARD.encode(bytes))
    }

    /// The time as text. If Go cannot write it as JSON, the whole value becomes undefined in [`Self::finish`].
    pub(super) fn time(&mut self, time: Time) -> Value {
        let text = time.text();
        self.has_failed |= text.is_none();
        text.unwrap_or_default().into()
    }

    /// `value`; undefined if a part of it cannot be written as JSON in Go.
    pub(super) fn finish(self, value: Value) -> Value {
        if self.has_failed { Value::Undefined } else { value }
    }
}

pub(super) fn number(number: &BigInt) -> Value {
    Value::Number(number.clone().into())
}

pub(super) fn oid(oid: &[u32]) -> Value {
    oid.iter().map(|component| u64::from(*component).into()).collect::<Vec<Value>>().into()
}

/// A list of the values of `items`. Without items, the list is `null`, because Go writes a nil slice as `null`.
pub(super) fn list<T>(items: &[T], value: impl FnMut(&T) -> Value) -> Value {
    match items {
        [] => Value::Null,
        items => items.iter().map(value).collect::<Vec<_>>().into(),
    }
}

pub(super) fn optional<T>(item: Option<T>, value: impl FnOnce(T) -> Value) -> Value {
    item.map_or(Value::Null, value)
}
