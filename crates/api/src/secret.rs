//! Secrets of the type `kubernetes.io/tls`, the only type that is read. Hides the values of Secrets in output.

use serde_json::Value;

use super::json::Hash;

/// The type of TLS Secrets.
pub const TLS_TYPE: &str = "kubernetes.io/tls";
/// The field selector for TLS Secrets.
pub const TLS_FIELD_SELECTOR: &str = "type=kubernetes.io/tls";
/// The key of the PEM certificate in a TLS Secret.
pub const CERTIFICATE: &str = "tls.crt";
/// The key of the PEM private key in a TLS Secret.
pub const KEY: &str = "tls.key";
/// The keys of a TLS Secret that are read.
pub const DATA: [&str; 3] = [CERTIFICATE, KEY, "ca.crt"];

/// The parts of a Secret that may hold secret values. Some tools store whole objects in annotations.
const REDACTED_FIELDS: [&str; 3] = ["/data", "/stringData", "/metadata/annotations"];
/// The number of hash digits shown: enough to distinguish values, but too few to help in guessing a weak value.
const DIGITS: usize = 8;

/// Replaces the values of all Secrets within `value` by short hashes.
pub fn redact(value: &mut Value) {
    if value["kind"] == "Secret" {
        for pointer in REDACTED_FIELDS {
            match value.pointer_mut(pointer) {
                Some(Value::Object(fields)) => fields.values_mut().for_each(redact_value),
                Some(other) if !other.is_null() => redact_value(other),
                _ => {}
            }
        }
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(redact),
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

fn redact_value(value: &mut Value) {
    let hash = Hash::of_value(value).to_string();
    *value = format!("<hidden, blake3 {}>", &hash[..DIGITS]).into();
}

#[cfg(test)]
mod tests;
