//! Parses public keys in certificates, and the names of their algorithms.

use num_bigint::{BigInt, BigUint, Sign};
use regorus::Value;

use super::super::tokens::signatures::Hash;
use super::asn1::{Algorithm, Fields, INTEGER};
use super::cryptobyte::{self, Bits, Reader, SEQUENCE};
use super::curves::Curve;
use super::json::{self, Writer};

const NULL: &[u8] = &[0x05, 0x00];

pub(super) const RSA: &[u32] = &[1, 2, 840, 113_549, 1, 1, 1];
const DSA: &[u32] = &[1, 2, 840, 10_040, 4, 1];
pub(super) const ECDSA: &[u32] = &[1, 2, 840, 10_045, 2, 1];
pub(super) const X25519: &[u32] = &[1, 3, 101, 110];
pub(super) const ED25519: &[u32] = &[1, 3, 101, 112];
const MGF1: &[u32] = &[1, 2, 840, 113_549, 1, 1, 8];
const PSS: &[u32] = &[1, 2, 840, 113_549, 1, 1, 10];

/// Go's numbers of the algorithms of signatures.
const UNKNOWN_SIGNATURE: i64 = 0;
const SHA256_WITH_RSA_PSS: i64 = 13;
const SHA384_WITH_RSA_PSS: i64 = 14;
const SHA512_WITH_RSA_PSS: i64 = 15;
const PURE_ED25519: i64 = 16;
const SIGNATURES: [(&[u32], i64); 13] = [
    (&[1, 2, 840, 113_549, 1, 1, 4], 2),
    (&[1, 2, 840, 113_549, 1, 1, 5], 3),
    (&[1, 3, 14, 3, 2, 29], 3),
    (&[1, 2, 840, 113_549, 1, 1, 11], 4),
    (&[1, 2, 840, 113_549, 1, 1, 12], 5),
    (&[1, 2, 840, 113_549, 1, 1, 13], 6),
    (&[1, 2, 840, 10_040, 4, 3], 7),
    (&[2, 16, 840, 1, 101, 3, 4, 3, 2], 8),
    (&[1, 2, 840, 10_045, 4, 1], 9),
    (&[1, 2, 840, 10_045, 4, 3, 2], 10),
    (&[1, 2, 840, 10_045, 4, 3, 3], 11),
    (&[1, 2, 840, 10_045, 4, 3, 4], 12),
    (ED25519, PURE_ED25519),
];

/// A signature algorithm that Go verifies in certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignatureAlgorithm {
    Pkcs1(Hash),
    Pss(Hash),
    Ecdsa(Hash),
    Ed25519,
}

impl SignatureAlgorithm {
    /// The algorithm with this number in Go. `None` for algorithms with MD5 or SHA-1, which are not secure.
    pub(super) fn of_number(number: i64) -> Option<Self> {
        Some(match number {
            4 => Self::Pkcs1(Hash::Sha256),
            5 => Self::Pkcs1(Hash::Sha384),
            6 => Self::Pkcs1(Hash::Sha512),
            10 => Self::Ecdsa(Hash::Sha256),
            11 => Self::Ecdsa(Hash::Sha384),
            12 => Self::Ecdsa(Hash::Sha512),
            SHA256_WITH_RSA_PSS => Self::Pss(Hash::Sha256),
            SHA384_WITH_RSA_PSS => Self::Pss(Hash::Sha384),
            SHA512_WITH_RSA_PSS => Self::Pss(Hash::Sha512),
            PURE_ED25519 => Self::Ed25519,
            _ => return None,
        })
    }
}

/// Go's number of a signature algorithm.
pub(super) fn signature_number(algorithm: &Algorithm<'_>) -> i64 {
    if algorithm.name == PSS {
        return pss(algorithm.parameters).unwrap_or(UNKNOWN_SIGNATURE);
    }
    let has_parameters = !algorithm.parameters.is_empty();
    match SIGNATURES.iter().find(|(name, _)| algorithm.name == *name) {
        Some((_, PURE_ED25519)) if has_parameters => UNKNOWN_SIGNATURE,
        Some((_, number)) => *number,
        None => UNKNOWN_SIGNATURE,
    }
}

/// Go's number of RSASSA-PSS with these parameters. Go supports only parameters with a single hash function, and a salt
/// that is as long as the hash.
fn pss(parameters: &[u8]) -> Option<i64> {
    let is_null = |parameters: &[u8]| parameters.is_empty() || parameters == NULL;
    let mut fields = Fields(parameters).sequence()?;
    let hash = fields.explicit_algorithm(0)?;
    let mask = fields.explicit_algorithm(1)?;
    let salt = cryptobyte::small(fields.explicit_contents(2, INTEGER)??)?;
    let trailer = match fields.explicit_contents(3, INTEGER)? {
        Some(contents) => cryptobyte::small(contents)?,
        None => 1,
    };
    let hash_of_mask = Fields(mask.parameters).algorithm()?;
    let is_known = is_null(hash.parameters)
        && mask.name == MGF1
        && hash_of_mask.name == hash.name
        && is_null(hash_of_mask.parameters)
        && trailer == 1;
    let ([2, 16, 840, 1, 101, 3, 4, 2, hash], true) = (hash.name.as_slice(), is_known) else { return None };
    match (hash, salt) {
        (1, 32) => Some(SHA256_WITH_RSA_PSS),
        (2, 48) => Some(SHA384_WITH_RSA_PSS),
        (3, 64) => Some(SHA512_WITH_RSA_PSS),
        _ => None,
    }
}

/// A public key.
#[derive(Debug)]
pub(in crate::extensions) enum PublicKey {
    Rsa {
        modulus: BigUint,
        exponent: i64,
    },
    /// The numbers P, Q, G and Y.
    Dsa([BigInt; 4]),
    /// An uncompressed point on a curve.
    Ecdsa(Curve, Vec<u8>),
    Ed25519(Vec<u8>),
    /// A key of an algorithm that Go does not support.
    Unknown,
}

impl PublicKey {
    /// The key of this algorithm in `bits`; `None` if the key is invalid.
    pub(super) fn parse(algorithm: &Algorithm<'_>, bits: Bits<'_>) -> Option<Self> {
        let bytes = bits.right_aligned();
        let parameters = algorithm.parameters;
        let is_positive = |number: &BigInt| number.sign() == Sign::Plus;
        match algorithm.name.as_slice() {
            RSA if parameters == NULL => {
                let mut numbers = Reader(&bytes).read(SEQUENCE)?;
                let modulus = numbers.integer().filter(is_positive)?.into_parts().1;
                let exponent = numbers.small().filter(|exponent| *exponent > 0)?;
                Some(Self::Rsa { modulus, exponent })
            }
            RSA => None,
            DSA => {
                let y = Reader(&bytes).integer()?;
                let mut numbers = Reader(parameters).read(SEQUENCE)?;
                let numbers = [numbers.integer()?, numbers.integer()?, numbers.integer()?, y];
                numbers.iter().all(is_positive).then_some(Self::Dsa(numbers))
            }
            ECDSA => {
                let curve = Curve::of_name(&Reader(parameters).oid()?)?;
                curve.is_point(&bytes).then_some(Self::Ecdsa(curve, bytes))
            }
            ED25519 => (parameters.is_empty() && bytes.len() == 32).then_some(Self::Ed25519(bytes)),
            _ => Some(Self::Unknown),
        }
    }

    /// Go's number of the key's algorithm.
    pub(super) fn number(&self) -> i64 {
        match self {
            Self::Unknown => 0,
            Self::Rsa { .. } => 1,
            Self::Dsa(_) => 2,
            Self::Ecdsa(..) => 3,
            Self::Ed25519(_) => 4,
        }
    }

    pub(super) fn value(&self, writer: &mut Writer) -> Value {
        match self {
            Self::Rsa { modulus, exponent } => {
                writer.object([("N", json::number(&modulus.clone().into())), ("E", (*exponent).into())])
            }
            Self::Dsa(numbers) => {
                let [p, q, g, y] = numbers.each_ref().map(json::number);
                writer.object([("P", p), ("Q", q), ("G", g), ("Y", y)])
            }
            Self::Ecdsa(_, point) => {
                let [x, y] = coordinates(point);
                writer.object([("Curve", Value::new_object()), ("X", x), ("Y", y)])
            }
            Self::Ed25519(bytes) => writer.bytes(bytes),
            Self::Unknown => Value::Null,
        }
    }
}

/// The key of a `SubjectPublicKeyInfo`. A key of X25519 is [`PublicKey::Unknown`], as in certificates, but here it must
/// be valid.
pub(super) fn public_key(der: &[u8]) -> Option<PublicKey> {
    let mut rest = Fields(der);
    let mut fields = rest.sequence().filter(|_| rest.0.is_empty())?;
    let (algorithm, bits) = (fields.algorithm()?, fields.bits()?);
    let key = PublicKey::parse(&algorithm, bits)?;
    let is_x25519 =
        || algorithm.name == X25519 && algorithm.parameters.is_empty() && bits.right_aligned().len() == 32;
    (!matches!(key, PublicKey::Unknown) || is_x25519()).then_some(key)
}

/// The coordinates of an uncompressed point, as numbers.
pub(super) fn coordinates(point: &[u8]) -> [Value; 2] {
    let (x, y) = point[1..].split_at(point.len() / 2);
    [x, y].map(|coordinate| json::number(&BigInt::from_bytes_be(Sign::Plus, coordinate)))
}
