//! Secrets of the type `kubernetes.io/tls`, the only ones that are ever read, and how their content stays out of sight.

use serde_json::Value;

use super::json::Hash;

/// Their type.
pub const TLS: &str = "kubernetes.io/tls";
/// The field selector of those alone.
pub const TLS_ONLY: &str = "type=kubernetes.io/tls";
/// The key of the certificate, in PEM.
pub const CERTIFICATE: &str = "tls.crt";
/// The key of the private key, in PEM.
pub const KEY: &str = "tls.key";
/// What of them is read.
pub const DATA: [&str; 3] = [CERTIFICATE, KEY, "ca.crt"];

/// What of a Secret may hold its content. Annotations may as well: tools keep whole objects in them.
const HIDDEN: [&str; 3] = ["/data", "/stringData", "/metadata/annotations"];
/// How many digits of a value's hash are shown: enough to tell one from the next, and no more of a weak one.
const DIGITS: usize = 8;

/// Puts in place of each value of each Secret within `value` what tells it from another.
pub fn hide(value: &mut Value) {
    if value["kind"] == "Secret" {
        for pointer in HIDDEN {
            match value.pointer_mut(pointer) {
                Some(Value::Object(fields)) => fields.values_mut().for_each(cover),
                Some(other) if !other.is_null() => cover(other),
                _ => {}
            }
        }
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(hide),
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

fn cover(value: &mut Value) {
    let hash = Hash::of_value(value).to_string();
    *value = format!("<hidden, blake3 {}>", &hash[..DIGITS]).into();
}

#[cfg(test)]
mod tests;
