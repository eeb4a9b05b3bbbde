//! Builtins for digests and message authentication codes.

use anyhow::Result;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use md5::digest::Digest;
use regorus::Value;
use sha1::Sha1;
use sha2::{Sha256, Sha512};

/// The hexadecimal digits of `bytes`.
pub(super) fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn digest<D: Digest>(values: &[Value]) -> Result<Value> {
    Ok(match &values[0] {
        Value::String(text) => hex(&D::digest(text.as_bytes())),
        _ => Value::Undefined,
    })
}

fn hmac<M: Mac + KeyInit>(values: &[Value]) -> Result<Value> {
    let (Value::String(text), Value::String(key)) = (&values[0], &values[1]) else {
        return Ok(Value::Undefined);
    };
    let mut mac = <M as KeyInit>::new_from_slice(key.as_bytes())?;
    mac.update(text.as_bytes());
    Ok(hex(&mac.finalize().into_bytes()))
}

pub(super) fn md5(values: Vec<Value>) -> Result<Value> {
    digest::<Md5>(&values)
}

pub(super) fn sha1(values: Vec<Value>) -> Result<Value> {
    digest::<Sha1>(&values)
}

pub(super) fn sha256(values: Vec<Value>) -> Result<Value> {
    digest::<Sha256>(&values)
}

pub(super) fn hmac_md5(values: Vec<Value>) -> Result<Value> {
    hmac::<Hmac<Md5>>(&values)
}

pub(super) fn hmac_sha1(values: Vec<Value>) -> Result<Value> {
    hmac::<Hmac<Sha1>>(&values)
}

pub(super) fn hmac_sha256(values: Vec<Value>) -> Result<Value> {
    hmac::<Hmac<Sha256>>(&values)
}

pub(super) fn hmac_sha512(values: Vec<Value>) -> Result<Value> {
    hmac::<Hmac<Sha512>>(&values)
}

pub(super) fn hmac_equal(values: Vec<Value>) -> Result<Value> {
    Ok(match (&values[0], &values[1]) {
        (Value::String(one), Value::String(other)) => (one == other).into(),
        _ => Value::Undefined,
    })
}
