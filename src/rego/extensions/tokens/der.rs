//! Public keys in [DER](https://www.itu.int/rec/T-REC-X.690), as Go's package
//! [crypto/x509](https://pkg.go.dev/crypto/x509) reads them.

use num_bigint::BigUint;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

use super::keys::{Curve, Material};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

/// Object identifiers of algorithms and curves, in DER.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const X25519: &[u8] = &[0x2b, 0x65, 0x6e];
const DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01];
const P224: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x21];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
const NULL: &[u8] = &[0x05, 0x00];

/// A sequence of elements.
struct Elements<'d>(&'d [u8]);

impl<'d> Elements<'d> {
    /// The contents of the next element, if it has this tag.
    fn next(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first()?;
        let (length, rest) = match *length {
            short @ 0..0x80 => (usize::from(short), rest),
            long => {
                let digits = usize::from(long & 0x7f);
                let (digits, rest) = (1..=4).contains(&digits).then(|| rest.split_at_checked(digits))??;
                let length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
                // The shortest encoding is the only one.
                (digits[0] != 0 && length >= 0x80).then_some((length, rest))?
            }
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*found == tag).then_some(contents)
    }

    /// The next element as a positive number.
    fn number(&mut self) -> Option<BigUint> {
        let bytes = self.next(INTEGER)?;
        let is_shortest = match bytes {
            [] | [0x80..=0xff, ..] => false,
            [0, second, ..] => *second >= 0x80,
            _ => true,
        };
        let number = BigUint::from_bytes_be(bytes);
        (is_shortest && number.bits() > 0).then_some(number)
    }
}

/// The key of a `SubjectPublicKeyInfo` ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)).
pub(super) fn public_key(der: &[u8]) -> Option<Material> {
    key(der, |_| None)
}

/// The key of a certificate. Other algorithms than Go's verify nothing.
pub(super) fn key_of_certificate(der: &[u8]) -> Option<Material> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    let inner = &certificate.tbs_certificate;
    let is_known_version = [X509Version::V1, X509Version::V2, X509Version::V3].contains(&inner.version);
    let is_negative = inner.raw_serial().first().is_some_and(|byte| *byte >= 0x80);
    let is_valid = rest.is_empty()
        && is_known_version
        && !is_negative
        && inner.signature == certificate.signature_algorithm
        && inner.extensions_map().is_ok();
    is_valid.then(|| key(inner.subject_pki.raw, |_| Some(Material::Other)))?
}

/// The key of a `SubjectPublicKeyInfo`; `other` makes one of another algorithm.
fn key(der: &[u8], other: impl FnOnce(&[u8]) -> Option<Material>) -> Option<Material> {
    let mut outer = Elements(der);
    let mut info = Elements(outer.next(SEQUENCE)?);
    let mut algorithm = Elements(info.next(SEQUENCE)?);
    let name = algorithm.next(OID)?;
    let parameters = algorithm.0;
    let (unused, bytes) = info.next(BIT_STRING)?.split_first()?;
    if !outer.0.is_empty() || *unused != 0 {
        return None;
    }
    match name {
        RSA if parameters == NULL => {
            let mut numbers = Elements(Elements(bytes).next(SEQUENCE)?);
            let modulus = numbers.number()?;
            let exponent = i64::try_from(&numbers.number()?).ok()?.unsigned_abs();
            Some(Material::Rsa { modulus, exponent })
        }
        EC => match Elements(parameters).next(OID)? {
            P224 => Some(Material::Unsupported("on the curve P-224")),
            P256 => Curve::p256(bytes).map(Material::Ec),
            P384 => Curve::p384(bytes).map(Material::Ec),
            P521 => Curve::p521(bytes).map(Material::Ec),
            _ => None,
        },
        ED25519 if parameters.is_empty() => bytes.try_into().ok().map(Material::Ed25519),
        X25519 if parameters.is_empty() && bytes.len() == 32 => Some(Material::Other),
        RSA | ED25519 | X25519 => None,
        DSA => Some(Material::Other),
        name => other(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_the_shortest_length() {
        let next = |bytes: &[u8]| Elements(bytes).next(INTEGER).map(<[u8]>::to_vec);
        assert_eq!(next(&[2, 1, 5]), Some(vec![5]));
        assert_eq!(next(&[2, 0x81, 1, 5]), None);
        assert_eq!(next(&[2, 0x80, 5]), None);
        assert_eq!(next(&[2, 2, 5]), None);
        assert_eq!(next(&[2, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(next(&[2, 0x85, 0, 0, 0, 0, 1, 5]), None);
        assert_eq!(next(&[]), None);
        let long = [&[2, 0x81, 0x80][..], &[1; 0x80]].concat();
        assert_eq!(next(&long), Some(vec![1; 0x80]));
    }

    #[test]
    fn numbers_are_positive_and_have_the_shortest_encoding() {
        let number = |bytes: &[u8]| Elements(bytes).number().map(|number| number.to_bytes_be());
        assert_eq!(number(&[2, 2, 0, 0x80]), Some(vec![0x80]));
        assert_eq!(number(&[2, 1, 0x80]), None);
        assert_eq!(number(&[2, 1, 0]), None);
        assert_eq!(number(&[2, 2, 0, 1]), None);
        assert_eq!(number(&[2, 0]), None);
        assert_eq!(number(&[3, 1, 1]), None);
    }
}
