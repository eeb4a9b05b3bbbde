//! Public keys in [DER](https://www.itu.int/rec/T-REC-X.690), as parsed by Go's package
//! [crypto/x509](https://pkg.go.dev/crypto/x509).

use super::keys::Material;
use crate::extensions::certificates::{self, PublicKey};

/// The key of a `SubjectPublicKeyInfo` ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)).
pub(super) fn public_key(der: &[u8]) -> Option<Material> {
    certificates::public_key(der).map(material)
}

/// The key of a certificate. Keys with algorithms that Go lacks verify nothing.
pub(super) fn key_of_certificate(der: &[u8]) -> Option<Material> {
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
