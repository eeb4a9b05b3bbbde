//! Builtins for URIs and their queries, by the rules of Go's package [net/url](https://pkg.go.dev/net/url).

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use anyhow::Result;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use regorus::Value;

use super::corrections::lossy;
use super::{or_undefined, text};

/// The maximum number of parameters of a query.
const PARAMETERS: usize = 10_000;
/// Encodes everything except letters, digits and `-_.~`.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Like [`COMPONENT`], but does not encode the characters that a path may contain.
const PATH: &AsciiSet = &COMPONENT
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');
/// Characters besides letters and digits in a host, and in the userinfo.
const HOST: &[u8] = b"-_.~!$&'()*+,;=:[]<>\"";
const USERINFO: &[u8] = b"-._:~!$&'()*+,;=%@";

/// The parts of a URI. Missing parts are empty.
#[derive(Debug, Default)]
pub(super) struct Uri {
    pub(super) scheme: String,
    hostname: String,
    port: String,
    pub(super) path: String,
    raw_path: String,
    raw_query: String,
    fragment: String,
}

impl Uri {
    /// Parses `text`; `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let fragment = decoded(fragment)?;
        if rest.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        let (scheme, rest) = scheme(rest)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self {
            scheme: scheme.to_ascii_lowercase(),
            raw_query: query.into(),
            fragment,
            ..Self::default()
        };
        let (authority, path) = match Hierarchy::parse(scheme, rest)? {
            Hierarchy::Opaque => return Some(uri),
            Hierarchy::Path { authority, path } => (authority, path),
        };
        if let Some(authority) = authority {
            (uri.hostname, uri.port) = host_and_port(&uri.scheme, authority)?;
        }
        let bytes = decoded_bytes(path, |_| true)?;
        let is_usual = percent_encode(&bytes, PATH).to_string() == path;
        uri.path = lossy(&bytes);
        uri.raw_path = if is_usual { uri.path.clone() } else { path.to_owned() };
        Some(uri)
    }
}

/// The part of a URI between the scheme and the query.
pub(super) enum Hierarchy<'u> {
    /// The scheme is followed by no slash, as in `mailto:user@example.com`.
    Opaque,
    /// An authority, if there is one, and a path.
    Path { authority: Option<&'u str>, path: &'u str },
}

impl<'u> Hierarchy<'u> {
    /// Divides `rest`, which follows the scheme; `None` if it is invalid.
    pub(super) fn parse(scheme: &str, rest: &'u str) -> Option<Self> {
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                return Some(Self::Opaque);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return None;
            }
        }
        let has_authority = rest.starts_with("//") && (!scheme.is_empty() || !rest.starts_with("///"));
        if !has_authority {
            return Some(Self::Path { authority: None, path: rest });
        }
        let rest = &rest[2..];
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Some(Self::Path { authority: Some(authority), path })
    }
}

/// The scheme of a URI and the rest. The scheme is empty if there is none.
pub(super) fn scheme(uri: &str) -> Option<(&str, &str)> {
    let end = uri.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(uri.len());
    let (scheme, rest) = uri.split_at(end);
    match rest.strip_prefix(':') {
        Some(_) if scheme.is_empty() => None,
        Some(rest) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => Some((scheme, rest)),
        _ => Some(("", uri)),
    }
}

/// The host and the port in the authority of a URI.
fn host_and_port(scheme: &str, authority: &str) -> Option<(String, String)> {
    let host = match authority.rsplit_once('@') {
        Some((userinfo, host)) => {
            let is_valid =
                userinfo.bytes().all(|byte| byte.is_ascii_alphanumeric() || USERINFO.contains(&byte));
            decoded(userinfo).filter(|_| is_valid)?;
            host
        }
        None => authority,
    };
    match host.rfind('[') {
        Some(0) => {
            let (address, port) = host[1..].rsplit_once(']')?;
            let (address, zone) = address.split_at(address.find("%25").unwrap_or(address.len()));
            let (address, zone) = (decoded_host(address)?, decoded_zone(zone)?);
            address.parse::<Ipv6Addr>().ok()?;
            // A zone must have a name.
            if zone == "%" {
                return None;
            }
            Some((address + &zone, port_of(port)?.to_owned()))
        }
        Some(_) => None,
        None => {
            let is_web = scheme == "http" || scheme == "https";
            let colon = if is_web { host.find(':') } else { host.rfind(':') };
            let (name, port) = host.split_at(colon.unwrap_or(host.len()));
            Some((decoded_host(name)?, port_of(port)?.to_owned()))
        }
    }
}

/// The port in a text such as `:8080`. An empty text has an empty port.
pub(super) fn port_of(text: &str) -> Option<&str> {
    if text.is_empty() {
        return Some(text);
    }
    text.strip_prefix(':').filter(|port| port.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Decodes the percent-encoding of `text`; `None` if it is invalid.
fn decoded(text: &str) -> Option<String> {
    decoded_if(text, |_| true)
}

/// Decodes `text`. `may` decides whether a byte may be encoded.
fn decoded_if(text: &str, may: impl Fn(u8) -> bool) -> Option<String> {
    decoded_bytes(text, may).map(|bytes| lossy(&bytes))
}

fn decoded_bytes(text: &str, may: impl Fn(u8) -> bool) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let byte = u8::try_from(digit()? << 4 | digit()?).ok()?;
        if !may(byte) {
            return None;
        }
        decoded.push(byte);
    }
    Some(decoded)
}

fn is_of_host(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || HOST.contains(&byte)
}

/// Decodes a host. Only `%` and non-ASCII bytes may be encoded.
fn decoded_host(text: &str) -> Option<String> {
    let is_valid = text.bytes().all(|byte| byte == b'%' || is_of_host(byte));
    decoded_if(text, |byte| byte >= 0x80 || byte == b'%').filter(|_| is_valid)
}

/// Decodes the zone of an IPv6 address, with its `%`.
fn decoded_zone(text: &str) -> Option<String> {
    let is_valid = text.bytes().all(|byte| byte == b'%' || is_of_host(byte));
    decoded_if(text, |byte| byte == b'%' || byte == b' ' || is_of_host(byte)).filter(|_| is_valid)
}

pub(super) fn parse(values: Vec<Value>) -> Result<Value> {
    let Some(uri) = text(&values[0]).and_then(Uri::parse) else { return Ok(Value::Undefined) };
    let parts = [
        ("scheme", uri.scheme),
        ("hostname", uri.hostname),
        ("port", uri.port),
        ("path", uri.path),
        ("raw_path", uri.raw_path),
        ("raw_query", uri.raw_query),
        ("fragment", uri.fragment),
    ];
    let parts = parts.into_iter().filter(|(_, part)| !part.is_empty());
    Ok(parts.map(|(name, part)| (name.into(), part.into())).collect::<BTreeMap<Value, Value>>().into())
}

pub(super) fn is_valid(values: Vec<Value>) -> Result<Value> {
    Ok(text(&values[0]).is_some_and(|text| !text.is_empty() && Uri::parse(text).is_some()).into())
}

/// Encodes a part of a query.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, COMPONENT).to_string().replace("%20", "+")
}

/// Decodes a part of a query.
fn decoded_part(text: &str) -> Option<String> {
    decoded(&text.replace('+', " "))
}

pub(super) fn encode(values: Vec<Value>) -> Result<Value> {
    Ok(or_undefined(text(&values[0]).map(encoded)))
}

pub(super) fn decode(values: Vec<Value>) -> Result<Value> {
    Ok(or_undefined(text(&values[0]).and_then(decoded_part)))
}

pub(super) fn encode_object(values: Vec<Value>) -> Result<Value> {
    let Value::Object(fields) = &values[0] else { return Ok(Value::Undefined) };
    let mut parameters: Vec<(String, Vec<&str>)> = Vec::new();
    for (key, value) in fields.iter() {
        let texts: Option<Vec<&str>> = match value {
            Value::String(value) => Some(vec![value]),
            Value::Array(items) => items.iter().map(text).collect(),
            Value::Set(items) => items.iter().map(text).collect(),
            _ => None,
        };
        let Some(texts) = texts else { return Ok(Value::Undefined) };
        // A key that is not a text is converted to JSON.
        let key = text(key).map_or_else(|| key.to_string(), str::to_owned);
        parameters.push((key, texts));
    }
    parameters.sort_by(|(one, _), (other, _)| one.cmp(other));
    let parameters = parameters.iter().flat_map(|(key, texts)| {
        let key = encoded(key);
        texts.iter().map(move |text| format!("{key}={}", encoded(text)))
    });
    Ok(parameters.collect::<Vec<_>>().join("&").into())
}

pub(super) fn decode_object(values: Vec<Value>) -> Result<Value> {
    let Some(query) = text(&values[0]) else { return Ok(Value::Undefined) };
    if query.matches('&').count() >= PARAMETERS {
        return Ok(Value::Undefined);
    }
    let mut parameters: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let (Some(key), Some(value)) = (decoded_part(key), decoded_part(value)) else {
            return Ok(Value::Undefined);
        };
        if parameter.contains(';') {
            return Ok(Value::Undefined);
        }
        parameters.entry(key.into()).or_default().push(value.into());
    }
    Ok(parameters
        .into_iter()
        .map(|(key, values)| (key, values.into()))
        .collect::<BTreeMap<Value, Value>>()
        .into())
}
