//! Parses keys for the verification of tokens like OPA: PEM certificates and public keys, JWK and JWKS ([RFC
//! 7517](https://www.rfc-editor.org/rfc/rfc7517)).

use anyhow::{Result, bail, ensure};
use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use num_bigint::BigUint;
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use serde_json::{Map, Value};

use super::pem;
use super::signatures::{Algorithm, Lengths, ecdsa_numbers, is_pkcs1, is_pss};
use crate::extensions::certificates::{self, Curve, PublicKey};

/// The maximum number of keys in a set, as in OPA.
const KEYS: usize = 1_000;
/// The maximum number of bits of an RSA modulus. Verification takes milliseconds.
const MODULUS: u64 = 8_192;
/// The maximum number of certificates of a key.
const CERTIFICATES: usize = 10;

/// Algorithms of keys for signatures of tokens.
const ALGORITHMS: [&str; 13] = [
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "HS256", "HS384",
    "HS512", "EdDSA",
];
/// Algorithms of other keys in a set: [RFC 7518](https://www.rfc-editor.org/rfc/rfc7518), RFC 8812 and RFC 9864.
const OTHER_ALGORITHMS: [&str; 28] = [
    "ES256K",
    "Ed25519",
    "none",
    "A128GCMKW",
    "A128KW",
    "A192GCMKW",
    "A192KW",
    "A256GCMKW",
    "A256KW",
    "dir",
    "ECDH-ES",
    "ECDH-ES+A128KW",
    "ECDH-ES+A192KW",
    "ECDH-ES+A256KW",
    "PBES2-HS256+A128KW",
    "PBES2-HS384+A192KW",
    "PBES2-HS512+A256KW",
    "RSA1_5",
    "RSA-OAEP",
    "RSA-OAEP-256",
    "RSA-OAEP-384",
    "RSA-OAEP-512",
    "A128CBC-HS256",
    "A128GCM",
    "A192CBC-HS384",
    "A192GCM",
    "A256CBC-HS512",
    "A256GCM",
];

/// A key for the verification of tokens.
#[derive(Debug)]
pub(super) struct Key {
    /// The key ID; empty if the key has none.
    pub(super) id: String,
    /// The algorithm of the key; empty if the key names none.
    pub(super) algorithm: String,
    material: Material,
    is_private: bool,
}

/// The public part of a key, or a secret.
#[derive(Debug)]
pub(super) enum Material {
    Rsa {
        modulus: BigUint,
        exponent: u64,
    },
    /// An uncompressed point.
    Ec(Curve, Vec<u8>),
    Ed25519([u8; 32]),
    Secret(Vec<u8>),
    /// A key for another purpose than signatures of tokens.
    Other,
}

impl Key {
    /// Creates a key from the bytes of `secret`.
    pub(super) fn of_secret(secret: &str) -> Self {
        Self {
            id: String::new(),
            algorithm: String::new(),
            material: Material::Secret(secret.as_bytes().to_vec()),
            is_private: false,
        }
    }

    fn of_public(material: Material) -> Self {
        Self { id: String::new(), algorithm: String::new(), material, is_private: false }
    }

    /// Whether `signature` is a signature of `message` by this key. A private key verifies only signatures of the
    /// standard length: in OPA, only `io.jwt.decode_verify` accepts private keys, and that builtin requires this
    /// length.
    ///
    /// # Errors
    ///
    /// If the key is too large or not supported.
    pub(super) fn verifies(
        &self,
        builtin: &str,
        algorithm: Algorithm,
        lengths: Lengths,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool> {
        if self.is_private && lengths == Lengths::Any {
            return Ok(false);
        }
        Ok(match (&self.material, algorithm) {
            (Material::Rsa { modulus, .. }, Algorithm::Pkcs1(_) | Algorithm::Pss(_))
                if modulus.bits() > MODULUS =>
            {
                bail!("{builtin}: a key of RSA has more than {MODULUS} bits")
            }
            (Material::Rsa { modulus, exponent }, Algorithm::Pkcs1(hash)) => {
                is_pkcs1(modulus, *exponent, hash, message, signature)
            }
            (Material::Rsa { modulus, exponent }, Algorithm::Pss(hash)) => {
                is_pss(modulus, *exponent, hash, lengths, message, signature)
            }
            (Material::Ec(curve, point), Algorithm::Ecdsa(hash)) => {
                ecdsa_numbers(lengths, signature, curve.size()).is_some_and(|numbers| {
                    let (r, s) = numbers.split_at(curve.size());
                    curve.verifies(point, &hash.digest(message), r, s)
                })
            }
            (Material::Ed25519(key), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
            (Material::Secret(secret), Algorithm::Hmac(hash)) => hash.is_code(secret, message, signature),
            _ => false,
        })
    }
}

/// The keys in `text`; `None` if the text is invalid.
///
/// # Errors
///
/// If there are too many keys.
pub(super) fn parse(builtin: &str, text: &str) -> Result<Option<Vec<Key>>> {
    if let Some((block, rest)) = pem::first_block(text) {
        let material = match block.label {
            _ if !rest.is_empty() => None,
            "CERTIFICATE" => key_of_certificate(&block.bytes),
            "PUBLIC KEY" => public_key(&block.bytes),
            _ => None,
        };
        return Ok(material.map(|material| vec![Key::of_public(material)]));
    }
    let Ok(Value::Object(set)) = serde_json::from_str(text) else { return Ok(None) };
    let keys = match set.get("keys") {
        Some(Value::Array(keys)) => keys.as_slice(),
        Some(_) => return Ok(None),
        None => return Ok(jwk(&set).map(|key| Vec::from_iter(listed(key)))),
    };
    ensure!(keys.len() <= KEYS, "{builtin}: a key set has more than {KEYS} keys");
    let keys: Option<Vec<Key>> = keys.iter().map(|key| jwk(key.as_object()?)).collect();
    Ok(keys.map(|keys| keys.into_iter().filter_map(listed).collect()))
}

/// Parses a `SubjectPublicKeyInfo` ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)) in
/// [DER](https://www.itu.int/rec/T-REC-X.690), like Go's package [crypto/x509](https://pkg.go.dev/crypto/x509).
fn public_key(der: &[u8]) -> Option<Material> {
    certificates::public_key(der).map(material)
}

/// The key of a certificate. Keys with algorithms that Go lacks verify nothing.
fn key_of_certificate(der: &[u8]) -> Option<Material> {
    certificates::key_of_certificate(der).map(material)
}

fn material(key: PublicKey) -> Material {
    match key {
        PublicKey::Rsa { modulus, exponent } => Material::Rsa { modulus, exponent: exponent.unsigned_abs() },
        PublicKey::Ecdsa(curve, point) => Material::Ec(curve, point),
        PublicKey::Ed25519(bytes) => bytes.try_into().map_or(Material::Other, Material::Ed25519),
        PublicKey::Dsa(_) | PublicKey::Unknown => Material::Other,
    }
}

/// Returns `key`, unless its algorithm is not for signatures of tokens.
fn listed(key: Key) -> Option<Key> {
    (key.algorithm.is_empty() || ALGORITHMS.contains(&key.algorithm.as_str())).then_some(key)
}

/// The fields of a JWK.
struct Fields<'k>(&'k Map<String, Value>);

impl Fields<'_> {
    /// The text in this field. `Some(None)` without the field, an empty text for `null`, and `None` for other values.
    fn text(&self, name: &str) -> Option<Option<&str>> {
        match self.0.get(name) {
            None => Some(None),
            Some(Value::String(text)) => Some(Some(text)),
            Some(Value::Null) => Some(Some("")),
            Some(_) => None,
        }
    }

    /// The bytes in this field; `None` if it is missing or invalid.
    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.text(name)?.and_then(bytes)
    }

    /// The bytes in this field, if their number is `size`.
    fn coordinate(&self, name: &str, size: usize) -> Option<Vec<u8>> {
        self.bytes(name).filter(|bytes| bytes.len() == size)
    }

    /// The uncompressed point in the fields `x` and `y`, if each has `size` bytes.
    fn point(&self, size: usize) -> Option<Vec<u8>> {
        Some([vec![4], self.coordinate("x", size)?, self.coordinate("y", size)?].concat())
    }

    fn is_valid(&self) -> bool {
        let is_text = |name| self.text(name).is_some();
        let is_certificate = |text: &Value| {
            let text: String = text.as_str().unwrap_or_default().split_ascii_whitespace().collect();
            let der = decoded(&STANDARD, DecodePaddingMode::RequireCanonical, &text);
            der.is_some_and(|der| key_of_certificate(&der).is_some())
        };
        let are_operations = match self.0.get("key_ops") {
            None | Some(Value::Null) => true,
            Some(Value::Array(operations)) => {
                operations.iter().all(|operation| operation.is_string() || operation.is_null())
            }
            Some(_) => false,
        };
        let are_certificates = match self.0.get("x5c") {
            None => true,
            Some(Value::Array(chain)) => chain.len() <= CERTIFICATES && chain.iter().all(is_certificate),
            Some(_) => false,
        };
        ["kid", "use", "x5t", "x5t#S256", "x5u"].into_iter().all(is_text)
            && are_operations
            && are_certificates
    }
}

/// A key in JSON; `None` if it is invalid.
fn jwk(fields: &Map<String, Value>) -> Option<Key> {
    let is_private = fields.contains_key("d");
    let fields = Fields(fields);
    let (material, is_private) = match fields.text("kty")?? {
        "RSA" => (rsa(&fields, is_private)?, is_private),
        "EC" => (ec(&fields, is_private)?, is_private),
        "OKP" => (okp(&fields, is_private)?, is_private),
        "oct" => (Material::Secret(fields.bytes("k").filter(|secret| !secret.is_empty())?), false),
        _ => return None,
    };
    let algorithm = fields.text("alg")?;
    let is_algorithm =
        algorithm.is_none_or(|name| ALGORITHMS.contains(&name) || OTHER_ALGORITHMS.contains(&name));
    if !is_algorithm || !fields.is_valid() {
        return None;
    }
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    Some(Key { id: text(fields.text("kid")?), algorithm: text(algorithm), material, is_private })
}

fn rsa(fields: &Fields<'_>, is_private: bool) -> Option<Material> {
    let (modulus, exponent) = (BigUint::from_bytes_be(&fields.bytes("n")?), fields.bytes("e")?);
    let exponent = i64::try_from(&BigUint::from_bytes_be(&exponent)).ok()?.unsigned_abs();
    if modulus.bits() == 0 || exponent % 2 == 0 {
        return None;
    }
    if is_private {
        fields.bytes("d").filter(|bytes| !bytes.is_empty())?;
        fields.bytes("p").and(fields.bytes("q"))?;
        let is_number = |name| fields.0.get(name).is_none() || fields.bytes(name).is_some();
        ["dp", "dq", "qi"].into_iter().all(is_number).then_some(())?;
    }
    Some(Material::Rsa { modulus, exponent })
}

fn ec(fields: &Fields<'_>, is_private: bool) -> Option<Material> {
    let curve = match fields.text("crv")?? {
        "P-256" => Curve::P256,
        "P-384" => Curve::P384,
        "P-521" => Curve::P521,
        _ => return None,
    };
    let point = fields.point(curve.size()).filter(|point| curve.is_point(point))?;
    if is_private {
        fields.bytes("d").filter(|bytes| !bytes.is_empty())?;
    }
    Some(Material::Ec(curve, point))
}

fn okp(fields: &Fields<'_>, is_private: bool) -> Option<Material> {
    let key: [u8; 32] = fields.bytes("x")?.try_into().ok()?;
    let private = if is_private { Some(fields.coordinate("d", 32)?) } else { None };
    match (fields.text("crv")??, private) {
        ("Ed25519", Some(private)) => {
            Ed25519KeyPair::from_seed_and_public_key(&private, &key).ok()?;
            Some(Material::Ed25519(key))
        }
        ("Ed25519", None) => Some(Material::Ed25519(key)),
        ("X25519", _) => Some(Material::Other),
        _ => None,
    }
}

/// Decodes base64 or base64url, depending on the characters.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let alphabet = if text.contains(['+', '/']) { &STANDARD } else { &URL_SAFE };
    let padding = match text.ends_with('=') {
        true => DecodePaddingMode::RequireCanonical,
        false => DecodePaddingMode::RequireNone,
    };
    decoded(alphabet, padding, text)
}

/// Decodes base64 as Go does: line breaks and the unused bits of the last character are ignored.
pub(in crate::extensions) fn decoded(
    alphabet: &base64::alphabet::Alphabet,
    padding: DecodePaddingMode,
    text: &str,
) -> Option<Vec<u8>> {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(padding).with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(alphabet, config).decode(text.replace(['\r', '\n'], "")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Option<usize> {
        parse("a", text).unwrap().map(|keys| keys.len())
    }

    #[test]
    fn sets_have_only_keys_that_are_valid() {
        let secret = |more: &str| format!("{{\"kty\": \"oct\", \"k\": \"YQ\"{more}}}");
        let set = |keys: &[String]| format!("{{\"keys\": [{}]}}", keys.join(","));
        assert_eq!(count(&secret("")), Some(1));
        assert_eq!(count(&set(&[])), Some(0));
        assert_eq!(count(&set(&[secret(""), secret(r#", "alg": "HS256", "kid": "a""#)])), Some(2));
        // Keys for other purposes are skipped.
        assert_eq!(count(&set(&[secret(r#", "alg": "A128KW""#)])), Some(0));
        for invalid in [
            secret(r#", "alg": "HS1""#),
            secret(r#", "alg": null"#),
            secret(r#", "kid": 1"#),
            secret(r#", "key_ops": "sign""#),
            secret(r#", "x5c": ["YQ=="]"#),
            r#"{"kty": "oct", "k": ""}"#.to_owned(),
            r#"{"kty": "oct", "k": "YQ="}"#.to_owned(),
            r#"{"kty": "EC", "crv": "P-256", "x": "YQ", "y": "YQ"}"#.to_owned(),
            r#"{"kty": "RSA", "n": "YQ", "e": "Ag"}"#.to_owned(),
            r#"{"kty": "OKP", "crv": "Ed25519", "x": "YQ"}"#.to_owned(),
            r#"{"kty": "a"}"#.to_owned(),
            "{}".to_owned(),
            "[]".to_owned(),
        ] {
            assert_eq!(count(&invalid), None, "{invalid}");
            assert_eq!(count(&set(&[secret(""), invalid.clone()])), None, "{invalid}");
        }
        let many = vec![secret(""); KEYS + 1];
        assert_eq!(parse("a", &set(&many)).unwrap_err().to_string(), "a: a key set has more than 1000 keys");
    }
}
