//! Builtins that read certificates and keys (`crypto.x509.*`, `crypto.parse_private_keys`), with the results of Go's
//! package [crypto/x509](https://pkg.go.dev/crypto/x509) in JSON.

mod asn1;
mod certificate;
mod constraints;
mod cryptobyte;
mod curves;
mod extensions;
mod hosts;
mod json;
mod keys;
mod names;
mod policies;
mod private_keys;
mod request;
mod time;
mod urls;
mod verify;

use anyhow::{Result, ensure};
use base64::alphabet::STANDARD;
use base64::engine::DecodePaddingMode;
use regorus::Value;

pub(super) use curves::Curve;
pub(super) use keys::PublicKey;

use super::clock;
use super::text;
use super::tokens::keys::decoded as decoded_base64;
use super::tokens::pem;
use certificate::{Certificate, certificates};
use json::Writer;
use private_keys::PrivateKey;
use verify::{Options, chain};

/// The maximum length of an argument in bytes.
pub(super) const TEXT: usize = 64 << 10;
/// The maximum number of certificates, or of keys, in an argument.
const ITEMS: usize = 64;
const BEGIN: &[u8] = b"-----BEGIN";
const BEGIN_REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----";
const CERTIFICATE: &str = "CERTIFICATE";

/// The extended key usages that options may name. The index of a usage in this list is Go's number for the usage.
const USAGES: [&str; 14] = [
    "KeyUsageAny",
    "KeyUsageServerAuth",
    "KeyUsageClientAuth",
    "KeyUsageCodeSigning",
    "KeyUsageEmailProtection",
    "KeyUsageIPSECEndSystem",
    "KeyUsageIPSECTunnel",
    "KeyUsageIPSECUser",
    "KeyUsageTimeStamping",
    "KeyUsageOCSPSigning",
    "KeyUsageMicrosoftServerGatedCrypto",
    "KeyUsageNetscapeServerGatedCrypto",
    "KeyUsageMicrosoftCommercialCodeSigning",
    "KeyUsageMicrosoftKernelCodeSigning",
];

/// The text of an argument; `None` for another type.
fn argument<'v>(builtin: &str, value: &'v Value) -> Result<Option<&'v str>> {
    let Some(text) = text(value) else { return Ok(None) };
    ensure!(text.len() <= TEXT, "{builtin}: more than {TEXT} bytes");
    Ok(Some(text))
}

fn ensure_count(builtin: &str, count: usize) -> Result<()> {
    ensure!(count <= ITEMS, "{builtin}: more than {ITEMS} certificates or keys");
    Ok(())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    decoded_base64(&STANDARD, DecodePaddingMode::RequireCanonical, text)
}

/// Converts `bytes` to a text with one character per byte. Only ASCII characters matter in PEM.
fn characters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// The DER of the certificates in the PEM blocks of `text`, joined; `None` if there are other blocks.
fn ders_in_pem(text: &str) -> Option<Vec<u8>> {
    let mut rest = text;
    let mut ders = Vec::new();
    while let Some((block, after)) = pem::first_block(rest) {
        if block.label != CERTIFICATE {
            return None;
        }
        ders.extend(block.bytes);
        rest = after;
    }
    Some(ders)
}

/// The DER of the certificates in `text`, which is PEM, PEM in base64, or DER in base64.
fn ders(text: &str) -> Option<Vec<u8>> {
    if text.as_bytes().starts_with(BEGIN) {
        return ders_in_pem(text);
    }
    let bytes = base64(text)?;
    if bytes.starts_with(BEGIN) { ders_in_pem(&characters(&bytes)) } else { Some(bytes) }
}

/// The certificates in `der`; `None` if one is invalid.
///
/// # Errors
///
/// When there are too many certificates.
fn parsed<'d>(builtin: &str, der: Option<&'d [u8]>) -> Result<Option<Vec<Certificate<'d>>>> {
    let parsed = der.and_then(certificates);
    ensure_count(builtin, parsed.as_ref().map_or(0, Vec::len))?;
    Ok(parsed)
}

fn values<'d>(
    found: impl IntoIterator<Item = &'d Certificate<'d>>,
    writer: &mut Writer,
    uri_strings: bool,
) -> Value {
    found.into_iter().map(|certificate| certificate.value(writer, uri_strings)).collect::<Vec<_>>().into()
}

/// The public key of the certificate `der`; `None` if other bytes follow the certificate.
pub(super) fn key_of_certificate(der: &[u8]) -> Option<PublicKey> {
    Certificate::whole(der).map(|certificate| certificate.public_key)
}

/// The key of a `SubjectPublicKeyInfo` ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)) with an
/// algorithm that Go supports.
pub(super) fn public_key(der: &[u8]) -> Option<PublicKey> {
    keys::public_key(der)
}

pub(super) fn parse_certificates(arguments: Vec<Value>) -> Result<Value> {
    const NAME: &str = "crypto.x509.parse_certificates";
    let Some(text) = argument(NAME, &arguments[0])? else { return Ok(Value::Undefined) };
    let der = ders(text);
    let Some(found) = parsed(NAME, der.as_deref())? else { return Ok(Value::Undefined) };
    let mut writer = Writer::default();
    let value = values(&found, &mut writer, true);
    Ok(writer.finish(value))
}

pub(super) fn parse_certificate_request(arguments: Vec<Value>) -> Result<Value> {
    const NAME: &str = "crypto.x509.parse_certificate_request";
    let Some(text) = argument(NAME, &arguments[0])? else { return Ok(Value::Undefined) };
    let bytes = if text.starts_with(BEGIN_REQUEST) { Some(text.into()) } else { base64(text) };
    let Some(bytes) = bytes else { return Ok(Value::Undefined) };
    let der = match pem::first_block(&characters(&bytes)) {
        Some((block, _)) if block.label == "CERTIFICATE REQUEST" => block.bytes,
        Some(_) => return Ok(Value::Undefined),
        None => bytes,
    };
    let mut writer = Writer::default();
    let value = request::value(&der, &mut writer);
    Ok(value.map_or(Value::Undefined, |value| writer.finish(value)))
}

pub(super) fn parse_keypair(arguments: Vec<Value>) -> Result<Value> {
    const NAME: &str = "crypto.x509.parse_keypair";
    let (certificates, key) = (argument(NAME, &arguments[0])?, argument(NAME, &arguments[1])?);
    let Some((certificates, key)) = certificates.zip(key) else { return Ok(Value::Undefined) };
    let (Some(certificates), Some(key)) = (blocks(certificates, CERTIFICATE), blocks(key, "PRIVATE KEY"))
    else {
        return Ok(Value::Undefined);
    };
    let ders: Vec<Vec<u8>> =
        certificates.into_iter().filter(|(label, _)| label == CERTIFICATE).map(|(_, der)| der).collect();
    ensure_count(NAME, ders.len())?;
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let key = key.into_iter().find(|(label, _)| is_key(label));
    let Some((leaf, (_, key))) = ders.first().and_then(|der| Certificate::whole(der)).zip(key) else {
        return Ok(Value::Undefined);
    };
    let key = private_keys::any(NAME, &key)?.filter(|key| key.has_public(&leaf.public_key));
    let Some(key) = key else { return Ok(Value::Undefined) };
    let mut writer = Writer::default();
    let key = key.value(&mut writer);
    let leaf = leaf.value(&mut writer, false);
    let ders: Vec<Value> = ders.iter().map(|der| writer.bytes(der)).collect();
    let value = writer.object([
        ("Certificate", ders.into()),
        ("PrivateKey", key),
        ("SupportedSignatureAlgorithms", Value::Null),
        ("OCSPStaple", Value::Null),
        ("SignedCertificateTimestamps", Value::Null),
        ("Leaf", leaf),
    ]);
    Ok(writer.finish(value))
}

/// The labels and bytes of the PEM blocks in `text`, which is PEM or PEM in base64. If `text` is DER in base64, it is
/// one block with this `label`.
fn blocks(text: &str, label: &str) -> Option<Vec<(String, Vec<u8>)>> {
    const BEGIN_LABEL: &[u8] = b"-----BEGIN ";
    let bytes = if text.as_bytes().starts_with(BEGIN_LABEL) { text.into() } else { base64(text)? };
    // As in Go, the blank before the label of a key may be missing.
    let begin = if label == CERTIFICATE { BEGIN_LABEL } else { BEGIN };
    if !bytes.starts_with(begin) {
        return Some(vec![(label.to_owned(), bytes)]);
    }
    let text = characters(&bytes);
    let mut rest = text.as_str();
    let mut blocks = Vec::new();
    while let Some((block, after)) = pem::first_block(rest) {
        blocks.push((block.label.to_owned(), block.bytes));
        rest = after;
    }
    Some(blocks)
}

/// The keys in PEM, or in the base64 of PEM; `None` if one is invalid. Blocks of other types are left out.
fn keys(builtin: &str, bytes: Vec<u8>) -> Result<Option<Vec<PrivateKey>>> {
    let text = characters(&bytes);
    let text = base64(&text).map_or(text, |bytes| characters(&bytes));
    let mut rest = text.as_str();
    let mut keys = Vec::new();
    while let Some((block, after)) = pem::first_block(rest) {
        rest = after;
        let key = match block.label {
            "RSA PRIVATE KEY" => private_keys::pkcs1(builtin, &block.bytes)?,
            "PRIVATE KEY" => private_keys::pkcs8(builtin, &block.bytes)?,
            "EC PRIVATE KEY" => private_keys::sec1(&block.bytes, None),
            _ => continue,
        };
        let Some(key) = key else { return Ok(None) };
        keys.push(key);
        ensure_count(builtin, keys.len())?;
    }
    Ok(Some(keys))
}

pub(super) fn parse_private_keys(arguments: Vec<Value>) -> Result<Value> {
    const NAME: &str = "crypto.parse_private_keys";
    let Some(text) = argument(NAME, &arguments[0])? else { return Ok(Value::Undefined) };
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let mut writer = Writer::default();
    Ok(match keys(NAME, text.into())? {
        Some(keys) => keys.iter().map(|key| key.value(&mut writer)).collect::<Vec<_>>().into(),
        None => Value::Undefined,
    })
}

/// Implements `crypto.x509.parse_rsa_private_key`, which returns the first key as a JWK.
pub(super) fn parse_rsa_private_key(arguments: Vec<Value>) -> Result<Value> {
    const NAME: &str = "crypto.x509.parse_rsa_private_key";
    let Some(text) = argument(NAME, &arguments[0])?.filter(|text| !text.is_empty()) else {
        return Ok(Value::Undefined);
    };
    let bytes = if text.as_bytes().starts_with(BEGIN) { Some(text.into()) } else { base64(text) };
    let Some(bytes) = bytes else { return Ok(Value::Undefined) };
    let Some(keys) = keys(NAME, bytes)? else { return Ok(Value::Undefined) };
    Ok(match keys.first() {
        Some(key) => key.jwk(&mut Writer::default()).unwrap_or(Value::Undefined),
        None => Value::Null,
    })
}

fn now() -> Option<i128> {
    clock::nanoseconds().map(i128::from)
}

pub(super) fn parse_and_verify_certificates(arguments: Vec<Value>) -> Result<Value> {
    const NAME: &str = "crypto.x509.parse_and_verify_certificates";
    let Some((text, time)) = argument(NAME, &arguments[0])?.zip(now()) else { return Ok(Value::Undefined) };
    let options = || Some(Options { host: String::new(), time, usages: Vec::new() });
    verified(NAME, text, options, true)
}

pub(super) fn parse_and_verify_certificates_with_options(arguments: Vec<Value>) -> Result<Value> {
    const NAME: &str = "crypto.x509.parse_and_verify_certificates_with_options";
    let is_object = arguments[1].as_object().is_ok();
    let Some(text) = argument(NAME, &arguments[0])?.filter(|_| is_object) else {
        return Ok(Value::Undefined);
    };
    verified(NAME, text, || options(&arguments[1]), false)
}

/// Verifies the chain in `text`. Returns whether the chain is valid, and its certificates. Invalid options matter only
/// if the certificates can be parsed.
fn verified(
    builtin: &str,
    text: &str,
    options: impl FnOnce() -> Option<Options>,
    uri_strings: bool,
) -> Result<Value> {
    let der = ders(text);
    let invalid = || vec![false.into(), Value::new_array()].into();
    let Some(found) = parsed(builtin, der.as_deref())? else { return Ok(invalid()) };
    let Some(options) = options() else { return Ok(Value::Undefined) };
    let Some(chain) = chain(builtin, &found, &options)? else { return Ok(invalid()) };
    let mut writer = Writer::default();
    let value = values(chain, &mut writer, uri_strings);
    Ok(writer.finish(vec![true.into(), value].into()))
}

/// The options for a chain; `None` if an option is invalid.
fn options(value: &Value) -> Option<Options> {
    let mut options = Options { host: String::new(), time: now()?, usages: Vec::new() };
    let integer = |value: &Value| match value {
        Value::Number(number) => number.format_decimal().parse::<i64>().ok(),
        _ => None,
    };
    for (key, value) in value.as_object().ok()?.iter() {
        let Some(key) = text(key) else { continue };
        match key {
            "DNSName" => options.host = text(value)?.trim_matches('"').to_owned(),
            "CurrentTime" => options.time = i128::from(integer(value)?),
            // This option is ignored, because Go no longer limits comparisons.
            "MaxConstraintComparisons" => drop(integer(value)?),
            "KeyUsages" => {
                let names: Vec<&Value> = match value {
                    Value::Array(names) => names.iter().collect(),
                    Value::Set(names) => names.iter().collect(),
                    _ => return None,
                };
                for name in names.into_iter().filter_map(text) {
                    let number = USAGES.iter().position(|usage| *usage == name.trim_matches('"'))?;
                    options.usages.push(i64::try_from(number).ok()?);
                }
            }
            _ => return None,
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests;
