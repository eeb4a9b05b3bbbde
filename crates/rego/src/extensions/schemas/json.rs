//! The JSON values of schemas, and of the documents that are validated.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Result, bail, ensure};
use regorus::Value;

use super::LEVELS;
use super::decimal::Decimal;

/// A value of JSON.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Converts `value` as OPA does: sets become arrays, and keys that are not texts become their JSON.
    ///
    /// # Errors
    ///
    /// If the value has more than [`LEVELS`] levels or a number beyond 64-bit floating point.
    pub(super) fn of(builtin: &str, value: &Value, level: usize) -> Result<Self> {
        ensure!(level <= LEVELS, "{builtin}: a value with more than {LEVELS} levels is not supported");
        let item = |value: &Value| Self::of(builtin, value, level + 1);
        Ok(match value {
            Value::Null | Value::Undefined => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(_) => match Decimal::of(value).filter(|number| number.as_f64().is_some()) {
                Some(number) => Self::Number(number),
                None => bail!("{builtin}: a number is too large"),
            },
            Value::String(text) => Self::Text(text.to_string()),
            Value::Array(items) => Self::Array(items.iter().map(item).collect::<Result<_>>()?),
            Value::Set(items) => Self::Array(items.iter().map(item).collect::<Result<_>>()?),
            Value::Object(fields) => {
                let mut object = BTreeMap::new();
                for (key, value) in fields.iter() {
                    let key = match key {
                        Value::String(key) => key.to_string(),
                        key => {
                            let key = item(key)?;
                            let mut text = String::new();
                            key.write(&mut text);
                            text
                        }
                    };
                    object.insert(key, item(value)?);
                }
                Self::Object(object)
            }
        })
    }

    /// The value as Go writes it, with 64-bit floating-point numbers.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => text.push_str(&float(number.as_f64().unwrap_or_default())),
            Self::Text(value) => quote(value, text),
            Self::Array(items) => {
                text.push('[');
                for (nth, item) in items.iter().enumerate() {
                    if nth > 0 {
                        text.push(',');
                    }
                    item.write(text);
                }
                text.push(']');
            }
            Self::Object(fields) => {
                text.push('{');
                for (nth, (key, value)) in fields.iter().enumerate() {
                    if nth > 0 {
                        text.push(',');
                    }
                    quote(key, text);
                    text.push(':');
                    value.write(text);
                }
                text.push('}');
            }
        }
    }
}

fn float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        // In Go, an exponent has a sign.
        return if text.contains("e-") { text } else { text.replace('e', "e+") };
    }
    format!("{number}")
}

fn quote(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a text cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}

/// Whether the JSON `text` has a number with more digits than 64-bit numbers keep, or an integer written with a
/// fraction or an exponent. OPA distinguishes `2.0` from `2` in a schema.
pub(super) fn has_odd_number(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(inner) = rest.strip_prefix('"') {
            let mut chars = inner.char_indices();
            let mut end = inner.len();
            while let Some((offset, c)) = chars.next() {
                match c {
                    '\\' => drop(chars.next()),
                    '"' => {
                        end = offset + 1;
                        break;
                    }
                    _ => {}
                }
            }
            rest = &inner[end..];
            continue;
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let (number, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        rest = after;
        let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let significant = digits.trim_start_matches('0').trim_end_matches('0').len();
        let is_integer = number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
        let is_odd = number.parse::<f64>().is_ok_and(|float| float.fract() == 0.0);
        if !is_integer && (significant > 15 || is_odd) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_in_go() {
        for (text, expected) in [
            (
                r#"{"b": [1, 1.50, 1e21, 1e-7, 123456789], "a": null}"#,
                r#"{"a":null,"b":[1,1.5,1e+21,1e-7,123456789]}"#,
            ),
            (
                r#""<a>&\u2028\u0001\b\f\n\r\t\"\\é/\u007f""#,
                "\"\\u003ca\\u003e\\u0026\\u2028\\u0001\\b\\f\\n\\r\\t\\\"\\\\é/\u{7f}\"",
            ),
        ] {
            let value = Json::of("f", &Value::from_json_str(text).unwrap(), 0).unwrap();
            assert_eq!(value.text(), expected);
        }
    }

    #[test]
    fn numbers_of_other_precision_are_found() {
        for text in ["1.0", "[1e2]", "{\"a\": 0.12345678901234567}", "123456789012345678901", "\"\\\"\" 2.0"]
        {
            assert!(has_odd_number(text), "{text}");
        }
        for text in ["1", "-1.5e-3", "\"1.0\"", "18446744073709551615", "[0.1, \"\\\"2.0\"]"] {
            assert!(!has_odd_number(text), "{text}");
        }
    }
}
