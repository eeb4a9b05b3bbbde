//! Builtins for JSON Web Tokens ([RFC 7519](https://www.rfc-editor.org/rfc/rfc7519)), as in OPA.

pub(super) mod keys;
pub(super) mod pem;
pub(super) mod signatures;

use std::cmp::Ordering;

use anyhow::{Result, ensure};
use base64::alphabet::URL_SAFE;
use base64::engine::DecodePaddingMode;
use regorus::Value;

use self::keys::Key;
use self::signatures::{Algorithm, Hash, Lengths};
use super::corrections::lossy;
use super::digests::hex;
use super::{clock, parsed_json, text};

const DECODE: &str = "io.jwt.decode";
const DECODE_VERIFY: &str = "io.jwt.decode_verify";

/// The maximum number of signatures that a call verifies: one for each key that may have signed the token, and for each
/// nested token.
const VERIFICATIONS: usize = 64;

/// The parts of a token, encoded.
struct Token<'t> {
    header: &'t str,
    payload: &'t str,
    signature: &'t str,
    /// The header and the payload.
    message: &'t [u8],
}

impl<'t> Token<'t> {
    fn split(text: &'t str) -> Option<Self> {
        let mut parts = text.split('.');
        let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let message = &text.as_bytes()[..header.len() + 1 + payload.len()];
        parts.next().is_none().then_some(Self { header, payload, signature, message })
    }

    /// The header as an object; `None` if it is invalid or belongs to an encrypted token.
    fn header(&self, builtin: &str) -> Result<Option<Value>> {
        let Some(header) = object(builtin, self.header)? else { return Ok(None) };
        Ok((header["enc"] == Value::Undefined).then_some(header))
    }
}

/// Decodes base64url with or without padding.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let padding = match (text.ends_with('='), text.len() % 4) {
        (true, _) | (false, 0) => "",
        (false, 2) => "==",
        (false, 3) => "=",
        (false, _) => return None,
    };
    keys::decoded(&URL_SAFE, DecodePaddingMode::RequireCanonical, &format!("{text}{padding}"))
}

/// The object in an encoded part of a token.
fn object(builtin: &str, part: &str) -> Result<Option<Value>> {
    let Some(json) = base64url(part) else { return Ok(None) };
    let value = parsed_json(builtin, &lossy(&json).into())?;
    Ok(value.as_object().is_ok().then_some(value))
}

/// The fields of a header for verification. Missing fields are empty.
struct Header {
    algorithm: String,
    key: String,
    content: String,
    /// Whether all fields in `crit` are supported.
    is_understood: bool,
}

impl Header {
    /// Returns `None` if a field has the wrong type.
    fn of(header: &Value) -> Option<Self> {
        const UNDERSTOOD: [&str; 5] = ["alg", "kid", "typ", "cty", "crit"];
        let field = |name: &str| match &header[name] {
            Value::Undefined => Some(String::new()),
            value => text(value).map(str::to_owned),
        };
        field("typ")?;
        let is_understood = match &header["crit"] {
            Value::Undefined => true,
            // OPA ignores the fields after a field that is not a text.
            Value::Array(names) => {
                let names: Vec<&str> = names.iter().map_while(text).collect();
                (!names.is_empty()).then_some(())?;
                let is_present = |name: &str| header[name] != Value::Undefined;
                names.iter().all(|name| UNDERSTOOD.contains(name) || !is_present(name))
            }
            _ => return None,
        };
        Some(Self { algorithm: field("alg")?, key: field("kid")?, content: field("cty")?, is_understood })
    }
}

pub(super) fn decode(values: Vec<Value>) -> Result<Value> {
    let Some(mut token) = text(&values[0]).map(str::to_owned) else { return Ok(Value::Undefined) };
    loop {
        let Some(parts) = Token::split(&token) else { return Ok(Value::Undefined) };
        let Some(header) = parts.header(DECODE)? else { return Ok(Value::Undefined) };
        match &header["cty"] {
            Value::String(content) if &**content == "JWT" => {
                let Some(inner) = base64url(parts.payload) else { return Ok(Value::Undefined) };
                token = lossy(&inner).trim_matches(['"', '\'']).to_owned();
                continue;
            }
            Value::String(_) | Value::Undefined => {}
            _ => return Ok(Value::Undefined),
        }
        let Some(payload) = object(DECODE, parts.payload)? else { return Ok(Value::Undefined) };
        let Some(signature) = base64url(parts.signature) else { return Ok(Value::Undefined) };
        return Ok(vec![header, payload, hex(&signature)].into());
    }
}

/// Implements `builtin`: verifies a token with the algorithm of this name, and with a secret or one of the keys in a
/// text.
pub(super) fn verify(builtin: &str, algorithm: &str, values: &[Value]) -> Result<Value> {
    match Algorithm::of_name(algorithm) {
        Some(Algorithm::Hmac(hash)) => verify_code(hash, values),
        Some(algorithm) => verify_signature(builtin, algorithm, values),
        None => Ok(Value::Undefined),
    }
}

/// Verifies the signature of a token with one of the keys in a text.
fn verify_signature(builtin: &str, algorithm: Algorithm, values: &[Value]) -> Result<Value> {
    let (Some(token), Some(keys)) = (text(&values[0]), text(&values[1])) else { return Ok(Value::Undefined) };
    let Some(token) = Token::split(token) else { return Ok(Value::Undefined) };
    let Some(keys) = keys::parse(builtin, keys)? else { return Ok(Value::Undefined) };
    let Some(signature) = base64url(token.signature) else { return Ok(Value::Undefined) };
    let header = token.header(builtin)?;
    let Some(header) = header.as_ref().and_then(Header::of) else { return Ok(Value::Undefined) };
    let mut left = VERIFICATIONS;
    Ok(is_signed(builtin, &keys, &header, &mut left, |key| {
        key.verifies(builtin, algorithm, Lengths::Any, token.message, &signature)
    })?
    .into())
}

/// Whether one of the `keys` `verifies` the token with this header. If a key has the key ID of the header, only that
/// key is tried. Otherwise, each key that may have this algorithm is tried.
fn is_signed(
    builtin: &str,
    keys: &[Key],
    header: &Header,
    left: &mut usize,
    verifies: impl Fn(&Key) -> Result<bool>,
) -> Result<bool> {
    let mut verifies = |key: &Key| {
        ensure!(*left > 0, "{builtin}: more than {VERIFICATIONS} signatures to verify");
        *left -= 1;
        verifies(key)
    };
    if let Some(key) = keys.iter().find(|key| !header.key.is_empty() && key.id == header.key) {
        return verifies(key);
    }
    for key in keys.iter().filter(|key| key.algorithm.is_empty() || key.algorithm == header.algorithm) {
        if verifies(key)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Verifies the message authentication code of a token with a secret.
fn verify_code(hash: Hash, values: &[Value]) -> Result<Value> {
    let (Some(token), Some(secret)) = (text(&values[0]), text(&values[1])) else {
        return Ok(Value::Undefined);
    };
    let Some(token) = Token::split(token) else { return Ok(Value::Undefined) };
    let Some(code) = base64url(token.signature) else { return Ok(Value::Undefined) };
    Ok(hash.is_code(secret.as_bytes(), token.message, &code).into())
}

/// The requirements for a token. The text of a missing requirement is empty.
#[derive(Default)]
struct Constraints<'v> {
    keys: Option<Vec<Key>>,
    secret: &'v str,
    algorithm: &'v str,
    issuer: &'v str,
    audience: &'v str,
    /// The time at which the token must be valid, in nanoseconds since the epoch.
    time: Option<f64>,
}

/// The floating-point number that is nearest to `value`.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.format_decimal().parse().ok(),
        _ => None,
    }
}

impl<'v> Constraints<'v> {
    /// Returns `None` if the constraints are invalid, or do not have exactly one key.
    fn of(constraints: &'v Value) -> Result<Option<Self>> {
        let Ok(fields) = constraints.as_object() else { return Ok(None) };
        let mut found = Self::default();
        for (name, value) in fields {
            let of_text = match text(name) {
                Some("cert") => {
                    found.keys = match text(value) {
                        Some(keys) => keys::parse(DECODE_VERIFY, keys)?,
                        None => None,
                    };
                    if found.keys.is_none() {
                        return Ok(None);
                    }
                    continue;
                }
                Some("time") => {
                    found.time = float(value).filter(|time| *time >= 0.0);
                    if found.time.is_none() {
                        return Ok(None);
                    }
                    continue;
                }
                Some("secret") => &mut found.secret,
                Some("alg") => &mut found.algorithm,
                Some("iss") => &mut found.issuer,
                Some("aud") => &mut found.audience,
                _ => return Ok(None),
            };
            let Some(value) = text(value) else { return Ok(None) };
            *of_text = value;
        }
        Ok((found.keys.is_some() == found.secret.is_empty()).then_some(found))
    }

    /// Whether the claims in `payload` meet the requirements; `None` if a claim has the wrong type.
    fn are_met(&self, payload: &Value) -> Option<bool> {
        let time = match self.time {
            Some(time) => time,
            None => clock::nanoseconds()? as f64,
        };
        let time = Value::from(time / 1e9);
        let is_issuer = match &payload["iss"] {
            _ if self.issuer.is_empty() => true,
            Value::Undefined => false,
            issuer => text(issuer)? == self.issuer,
        };
        let is_audience = |value: &Value| text(value) == Some(self.audience);
        let has_audience = match &payload["aud"] {
            Value::Undefined => self.audience.is_empty(),
            Value::Array(audiences) => audiences.iter().any(is_audience),
            audience => is_audience(audience),
        };
        if !is_issuer || !has_audience {
            return Some(false);
        }
        let is_expired = match &payload["exp"] {
            Value::Undefined => false,
            end @ Value::Number(_) => time.cmp(end) != Ordering::Less,
            _ => return None,
        };
        if is_expired {
            return Some(false);
        }
        match &payload["nbf"] {
            Value::Undefined => Some(true),
            start @ Value::Number(_) => Some(time.cmp(start) != Ordering::Less),
            _ => None,
        }
    }
}

pub(super) fn decode_verify(values: Vec<Value>) -> Result<Value> {
    let Some(mut token) = text(&values[0]).map(str::to_owned) else { return Ok(Value::Undefined) };
    let Some(mut constraints) = Constraints::of(&values[1])? else { return Ok(Value::Undefined) };
    let keys = constraints.keys.take().unwrap_or_else(|| vec![Key::of_secret(constraints.secret)]);
    let unverified = || Ok(vec![false.into(), Value::new_object(), Value::new_object()].into());
    let mut left = VERIFICATIONS;
    loop {
        let Some(parts) = Token::split(&token) else { return Ok(Value::Undefined) };
        let Some(decoded) = parts.header(DECODE_VERIFY)? else { return Ok(Value::Undefined) };
        let Some(header) = Header::of(&decoded) else { return Ok(Value::Undefined) };
        let is_other = !constraints.algorithm.is_empty() && constraints.algorithm != header.algorithm;
        if header.algorithm.is_empty() || !header.is_understood || is_other {
            return unverified();
        }
        let Some(signature) = base64url(parts.signature) else { return Ok(Value::Undefined) };
        let is_signed = match Algorithm::of_name(&header.algorithm) {
            Some(algorithm) => is_signed(DECODE_VERIFY, &keys, &header, &mut left, |key| {
                key.verifies(DECODE_VERIFY, algorithm, Lengths::Standard, parts.message, &signature)
            })?,
            // Algorithms that cannot be verified, for example `none`.
            None => false,
        };
        if !is_signed {
            return unverified();
        }
        if header.content.eq_ignore_ascii_case("JWT") {
            let Some(inner) = base64url(parts.payload) else { return Ok(Value::Undefined) };
            token = lossy(&inner);
            continue;
        }
        let Some(payload) = object(DECODE_VERIFY, parts.payload)? else { return Ok(Value::Undefined) };
        return match constraints.are_met(&payload) {
            None => Ok(Value::Undefined),
            Some(false) => unverified(),
            Some(true) => Ok(vec![true.into(), decoded, payload].into()),
        };
    }
}
