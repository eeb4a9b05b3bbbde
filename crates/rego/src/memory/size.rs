//! Measures the size of values without sharing: a shared part counts at each occurrence.

use regorus::Value;

/// The maximum number of bytes for an element of an array, a set or an object. This number includes a key, a value, and
/// spare capacity of a growing vector or tree.
pub(crate) const ELEMENT: usize = 80;
/// The maximum nesting of a value. A traversal uses one stack frame for each level.
const DEPTH: usize = 512;

/// The bytes of `value` as JSON; `None` if they exceed `most`, or the nesting is too deep.
pub(crate) fn written(value: &Value, most: usize) -> Option<usize> {
    let mut walk = Walk { left: most, element: 2, escaped: true, keys: 0 };
    walk.value(value, 0)?;
    Some(most - walk.left)
}

/// The bytes of a copy of `value` without shared parts; `None` if they exceed `most`, or the nesting is too deep.
pub(crate) fn copied(value: &Value, most: usize) -> Option<usize> {
    let mut walk = Walk { left: most, element: ELEMENT, escaped: false, keys: 0 };
    walk.value(value, 0)?;
    Some(most - walk.left)
}

/// The maximum number of digits of `value`; 0 if it is not a number.
pub(crate) fn digits(value: &Value) -> usize {
    /// The maximum number of digits of a float.
    const FLOAT: usize = 350;
    let Value::Number(number) = value else { return 0 };
    if number.as_i64().is_some() {
        return 20;
    }
    number
        .as_big()
        .map_or(FLOAT, |big| usize::try_from(big.bits() / 3).unwrap_or(usize::MAX).saturating_add(2))
}

/// The number of elements of a collection; 0 for other values.
pub(crate) fn elements(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Set(items) => items.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

struct Walk {
    left: usize,
    /// The additional bytes for each element.
    element: usize,
    /// Whether special characters in texts are escaped.
    escaped: bool,
    /// The number of keys that enclose the current value. A key that is not a text is written as JSON text, in which
    /// each quote is escaped.
    keys: u32,
}

impl Walk {
    fn take(&mut self, bytes: usize) -> Option<()> {
        let times = if self.escaped { 1_usize.checked_shl(self.keys)? } else { 1 };
        self.left = self.left.checked_sub(bytes.checked_mul(times)?)?;
        Some(())
    }

    fn value(&mut self, value: &Value, depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        match value {
            Value::Null | Value::Bool(_) | Value::Undefined => self.take(12),
            Value::Number(_) => self.take(digits(value)),
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.take(2).and_then(|()| items.iter().try_for_each(|item| self.item(item, depth)))
            }
            Value::Set(items) => {
                self.take(2).and_then(|()| items.iter().try_for_each(|item| self.item(item, depth)))
            }
            Value::Object(fields) => self.take(2).and_then(|()| {
                fields.iter().try_for_each(|(key, value)| {
                    let nested = u32::from(!matches!(key, Value::String(_)));
                    self.keys += nested;
                    self.item(key, depth)?;
                    self.keys -= nested;
                    self.item(value, depth)
                })
            }),
        }
    }

    fn item(&mut self, item: &Value, depth: usize) -> Option<()> {
        self.take(self.element)?;
        self.value(item, depth + 1)
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.take(text.len().saturating_add(2))?;
        if self.escaped {
            self.take(text.bytes().map(escapes).sum())?;
        }
        Some(())
    }
}

/// The maximum number of bytes that quoting adds to `byte` in JSON or Go: `\n`, `\"`, `\u0001`, `\U0001f600`.
fn escapes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' => 1,
        0..0x20 | 0x7f => 5,
        0x80.. => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_nested_keys_are_escaped_at_each_level() {
        let mut value = Value::from("a");
        for _ in 0..12 {
            let mut object = Value::new_object();
            object.as_object_mut().unwrap().insert(value, 1.into());
            value = object;
            let text = value.to_json_str().unwrap().len();
            assert!(written(&value, 1 << 30).unwrap() >= text, "{text}");
        }
        for _ in 0..30 {
            let mut object = Value::new_object();
            object.as_object_mut().unwrap().insert(value, 1.into());
            value = object;
        }
        assert_eq!(written(&value, 1 << 30), None);
    }
}
