//! Resolves the types of scalars as `kubectl` does with go-yaml v2. This library implements YAML 1.1, in which `yes` is
//! true and `0755` is octal.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Number, Value};

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Integer(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    Float(f64),
    Text(String),
}

impl Scalar {
    /// The JSON value.
    ///
    /// # Errors
    ///
    /// If the scalar is an infinity or NaN, which JSON does not have.
    pub(super) fn value(self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => value.into(),
            Self::Integer(value) => value.into(),
            Self::Unsigned(value) => value.into(),
            Self::Float(value) => {
                Number::from_f64(value).map(Value::Number).ok_or("JSON cannot represent this number")?
            }
            Self::Text(text) => text.into(),
        })
    }

    /// The scalar as a key of a JSON object.
    ///
    /// # Errors
    ///
    /// If `kubectl` does not accept it as a key.
    pub(super) fn key(self) -> Result<String, String> {
        match self {
            Self::Null => Err("null cannot be a key".to_owned()),
            Self::Unsigned(value) => Err(format!("{value} cannot be a key: quote it")),
            Self::Bool(value) => Ok(value.to_string()),
            Self::Integer(value) => Ok(value.to_string()),
            Self::Float(value) => Ok(float_key(value)),
            Self::Text(text) => Ok(text),
        }
    }
}

/// Formats a float as Go's `%g` does with 32 bits. sigs.k8s.io/yaml converts keys in this way.
fn float_key(value: f64) -> String {
    // Go loses the same precision.
    #[allow(clippy::cast_possible_truncation)]
    let value = value as f32;
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => value.to_string(),
    }
}

/// Resolves the plain scalar `text`, which has no tag.
pub(super) fn resolve(text: &str) -> Scalar {
    known(text).or_else(|| number(text)).unwrap_or_else(|| Scalar::Text(text.to_owned()))
}

/// The scalar `text` with the tag `name` of YAML's own namespace, such as `int`. A scalar with any other tag is a
/// string.
///
/// # Errors
///
/// If `text` is not of the type.
pub(super) fn tagged(name: &str, text: &str) -> Result<Scalar, String> {
    let is_timestamp =
        || text.len() > 4 && text.bytes().take(4).all(|b| b.is_ascii_digit()) && text.as_bytes()[4] == b'-';
    let resolved = match (name, resolve(text)) {
        ("null", Scalar::Null) => Some(Scalar::Null),
        ("bool", scalar @ Scalar::Bool(_))
        | ("int", scalar @ (Scalar::Integer(_) | Scalar::Unsigned(_)))
        | ("float", scalar @ Scalar::Float(_)) => Some(scalar),
        // go-yaml loses the same precision.
        #[allow(clippy::cast_precision_loss)]
        ("float", Scalar::Integer(value)) => Some(Scalar::Float(value as f64)),
        ("timestamp", _) if is_timestamp() => Some(Scalar::Text(text.to_owned())),
        ("binary", _) => return binary(text).map(Scalar::Text),
        ("null" | "bool" | "int" | "float" | "timestamp", _) => None,
        _ => Some(Scalar::Text(text.to_owned())),
    };
    resolved.ok_or_else(|| format!("{text:?} is not a valid !!{name}"))
}

/// Decodes base64. As in Go, bytes that are not UTF-8 become U+FFFD, because JSON cannot represent them.
fn binary(text: &str) -> Result<String, String> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = STANDARD.decode(compact).map_err(|error| format!("!!binary: {error}"))?;
    Ok(bytes
        .utf8_chunks()
        .flat_map(|chunk| {
            chunk.valid().chars().chain(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER))
        })
        .collect())
}

/// Resolves `text` if it is a keyword of YAML 1.1, such as `yes`.
fn known(text: &str) -> Option<Scalar> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

fn number(text: &str) -> Option<Scalar> {
    match text.as_bytes().first()? {
        b'.' => float(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let digits = text.replace('_', "");
            integer(&digits).or_else(|| float(&digits))
        }
        _ => None,
    }
}

/// Parses an integer as Go's `strconv.ParseInt` does with base 0.
fn integer(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefix = unsigned.get(..2).unwrap_or_default();
    let (radix, digits) = match prefix {
        "0x" | "0X" => (16, &unsigned[2..]),
        "0o" | "0O" => (8, &unsigned[2..]),
        "0b" | "0B" => (2, &unsigned[2..]),
        _ if unsigned.len() > 1 && unsigned.starts_with('0') => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    // `from_str_radix` would accept a second sign.
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    match i64::from_str_radix(&format!("{sign}{digits}"), radix) {
        Ok(value) => Some(Scalar::Integer(value)),
        Err(_) if unsigned.len() == text.len() => {
            u64::from_str_radix(digits, radix).ok().map(Scalar::Unsigned)
        }
        Err(_) => None,
    }
}

/// Parses a decimal number with at most one point and an optional exponent. A number out of range remains a
/// string.
fn float(text: &str) -> Option<Scalar> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_no_digits = exponent.is_empty() || (whole.is_empty() && fraction.is_empty());
    if has_no_digits || ![exponent, whole, fraction].into_iter().all(is_number) {
        return None;
    }
    text.parse().ok().filter(|value: &f64| value.is_finite()).map(Scalar::Float)
}
