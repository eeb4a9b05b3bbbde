//! Parses private keys like Go's package [crypto/x509](https://pkg.go.dev/crypto/x509). No error contains a part of a
//! key.

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use num_bigint::{BigInt, BigUint, Sign};
use regorus::Value;
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::asn1::{Algorithm, BIT_STRING, Fields, INTEGER, OCTET_STRING, OID};
use super::cryptobyte::{self, Bits, Oid};
use super::curves::{Curve, x25519_public};
use super::json::{self, Writer};
use super::keys::{self, PublicKey, coordinates};

/// The maximum number of bits of an RSA modulus. The checks of a key take milliseconds.
const MODULUS: u64 = 8_192;
/// The maximum number of primes of an RSA key.
const PRIMES: usize = 16;
/// The maximum number of bits of the modulus of a key that lacks the inverse of a prime. Computing this inverse takes
/// longer than the other checks.
const MODULUS_WITHOUT_INVERSE: u64 = 4_096;

/// A private key.
pub(super) enum PrivateKey {
    Rsa(Box<Rsa>),
    /// The public point and the private number, which has the size of the curve.
    Ecdsa(Curve, Vec<u8>, Vec<u8>),
    /// The seed and the public key.
    Ed25519([u8; 32], [u8; 32]),
    X25519([u8; 32]),
}

/// An RSA key.
pub(super) struct Rsa {
    modulus: BigUint,
    exponent: i64,
    private: BigUint,
    /// At least two primes.
    primes: Vec<BigUint>,
    /// The private exponent for each of the first two primes, and the inverse of the second prime modulo the first.
    residues: [BigUint; 3],
    /// For each prime after the second: the private exponent, the inverse of the product of the previous primes, and
    /// that product.
    others: Vec<[BigUint; 3]>,
}

/// A key, or `None` if it is invalid.
///
/// # Errors
///
/// When the key is too large.
type Parsed = Result<Option<PrivateKey>>;

/// Parses PKCS #1, PKCS #8 or SEC 1, as Go's TLS does.
pub(super) fn any(builtin: &str, der: &[u8]) -> Parsed {
    if let Some(key) = pkcs1(builtin, der)? {
        return Ok(Some(key));
    }
    match pkcs8(builtin, der)? {
        Some(PrivateKey::X25519(_)) => Ok(None),
        Some(key) => Ok(Some(key)),
        None => Ok(sec1(der, None)),
    }
}

/// Parses an RSA key ([RFC 8017](https://www.rfc-editor.org/rfc/rfc8017#appendix-A.1.2)).
pub(super) fn pkcs1(builtin: &str, der: &[u8]) -> Parsed {
    let Some(numbers) = pkcs1_numbers(der) else { return Ok(None) };
    ensure!(numbers.primes.len() <= PRIMES, "{builtin}: a private key of RSA has more than {PRIMES} primes");
    // If there are two primes, both must be below the modulus.
    let primes = if numbers.primes.len() > 2 { numbers.primes.as_slice() } else { &[] };
    let bits = primes.iter().map(BigUint::bits).fold(numbers.modulus.bits(), u64::max);
    ensure!(bits <= MODULUS, "{builtin}: a private key of RSA has more than {MODULUS} bits");
    let has_inverse = numbers.primes.len() > 2 || numbers.residues.is_some();
    ensure!(
        has_inverse || bits <= MODULUS_WITHOUT_INVERSE,
        "{builtin}: a private key of RSA without its coefficient has more than {MODULUS_WITHOUT_INVERSE} bits"
    );
    Ok(numbers.checked().map(|key| PrivateKey::Rsa(Box::new(key))))
}

/// The numbers in an RSA key.
struct Numbers {
    modulus: BigUint,
    exponent: i64,
    private: BigUint,
    primes: Vec<BigUint>,
    residues: Option<[BigUint; 3]>,
}

fn pkcs1_numbers(der: &[u8]) -> Option<Numbers> {
    let mut rest = Fields(der);
    let mut fields = rest.sequence().filter(|_| rest.0.is_empty())?;
    let version = fields.small()?;
    let modulus = cryptobyte::integer(fields.contents(INTEGER)?)?;
    let exponent = fields.small()?;
    let mut number = || cryptobyte::integer(fields.contents(INTEGER)?);
    let (private, first, second) = (number()?, number()?, number()?);
    let mut residue = || match fields.optional(INTEGER)? {
        Some(contents) => cryptobyte::integer(contents).map(Some),
        None => Some(None),
    };
    let residues = [residue()?, residue()?, residue()?];
    let others = fields.optional_sequences()?.unwrap_or_default();
    let mut primes = vec![first, second];
    for mut other in others {
        let mut number = || cryptobyte::integer(other.contents(INTEGER)?);
        primes.push(number()?);
        // The exponent and the coefficient are not used, because Go recomputes them.
        number().and(number())?;
    }
    let positive = |number: BigInt| (number.sign() == Sign::Plus).then(|| number.into_parts().1);
    let primes = primes.into_iter().map(positive).collect::<Option<Vec<_>>>()?;
    let residues = residues.map(|residue| residue.map(positive));
    if version > 1 || residues.contains(&Some(None)) {
        return None;
    }
    let residues = match residues.map(Option::flatten) {
        [Some(first), Some(second), Some(inverse)] => Some([first, second, inverse]),
        _ => None,
    };
    Some(Numbers { modulus: positive(modulus)?, exponent, private: positive(private)?, primes, residues })
}

impl Numbers {
    /// The key, if Go accepts its numbers.
    fn checked(self) -> Option<Rsa> {
        let Self { modulus, exponent, private, primes, residues } = self;
        let is_exponent = (3..=i64::from(i32::MAX)).contains(&exponent) && exponent % 2 == 1;
        if !modulus.bit(0) || modulus.bits() < 2 || private >= modulus || !is_exponent {
            return None;
        }
        let (residues, others) = match primes.as_slice() {
            [first, second] => {
                let residues = two_primes(&modulus, exponent, &private, first, second, residues)?;
                (residues, Vec::new())
            }
            primes => many_primes(&private, primes)?,
        };
        Some(Rsa { modulus, exponent, private, primes, residues, others })
    }
}

/// The private exponent for each prime, and the inverse of the second prime modulo the first. `None` if Go does not
/// accept the numbers.
fn two_primes(
    modulus: &BigUint,
    exponent: i64,
    private: &BigUint,
    first: &BigUint,
    second: &BigUint,
    residues: Option<[BigUint; 3]>,
) -> Option<[BigUint; 3]> {
    let one = BigUint::from(1_u8);
    let (before_first, before_second) = (first - &one, second - &one);
    let bits = i64::try_from(modulus.bits()).ok()?;
    let difference = if first > second { first - second } else { second - first };
    let is_difference = difference.bits() > 0 && i64::try_from(difference.bits()).ok()? > bits / 2 - 100;
    let is_private = i64::try_from(private.bits()).ok()? > bits / 2;
    let is_product = first < modulus && second < modulus && (first * second % modulus).bits() == 0;
    if before_first <= one || before_second <= one || !is_difference || !is_private || !is_product {
        return None;
    }
    let exponent = BigUint::from(exponent.unsigned_abs());
    let of_first = private % &before_first;
    let of_second = private % &before_second;
    if &exponent * &of_first % &before_first != one || &exponent * &of_second % &before_second != one {
        return None;
    }
    let has_residues = residues.is_some();
    let inverse = match residues {
        Some([first, second, inverse]) => {
            Some(inverse).filter(|_| first == of_first && second == of_second)?
        }
        // Go computes the inverse by Fermat's little theorem, and rejects an even modulus.
        None if !first.bit(0) => return None,
        None => (second % first).modpow(&(first - 2_u8), first),
    };
    let is_inverse = (!has_residues || inverse < *first) && second * &inverse % first == one;
    is_inverse.then_some([of_first, of_second, inverse])
}

/// The values of the fields `residues` and `others` of an RSA key. `None` if two primes have a common factor.
fn many_primes(private: &BigUint, primes: &[BigUint]) -> Option<([BigUint; 3], Vec<[BigUint; 3]>)> {
    let one = BigUint::from(1_u8);
    if primes.iter().any(|prime| *prime <= one) {
        return None;
    }
    let [first, second, others @ ..] = primes else { return None };
    let residues = [private % (first - &one), private % (second - &one), second.modinv(first)?];
    let mut product = first * second;
    let mut values = Vec::new();
    for prime in others {
        values.push([private % (prime - &one), product.modinv(prime)?, product.clone()]);
        product *= prime;
    }
    Some((residues, values))
}

/// Parses PKCS #8 ([RFC 5208](https://www.rfc-editor.org/rfc/rfc5208#section-5)).
pub(super) fn pkcs8(builtin: &str, der: &[u8]) -> Parsed {
    let Some((algorithm, key)) = pkcs8_parts(der) else { return Ok(None) };
    let parameters = algorithm.parameters;
    let seed = || {
        let seed = Fields(key).contents(OCTET_STRING)?;
        <[u8; 32]>::try_from(seed).ok().filter(|_| parameters.is_empty())
    };
    match algorithm.name.as_slice() {
        keys::RSA => pkcs1(builtin, key),
        keys::ECDSA => Ok(sec1(key, Fields(parameters).oid())),
        keys::ED25519 => Ok(seed().and_then(ed25519)),
        keys::X25519 => Ok(seed().map(PrivateKey::X25519)),
        _ => Ok(None),
    }
}

fn pkcs8_parts(der: &[u8]) -> Option<(Algorithm<'_>, &[u8])> {
    let mut fields = Fields(der).sequence()?;
    fields.small()?;
    Some((fields.algorithm()?, fields.contents(OCTET_STRING)?))
}

fn ed25519(seed: [u8; 32]) -> Option<PrivateKey> {
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
    Some(PrivateKey::Ed25519(seed, pair.public_key().as_ref().try_into().ok()?))
}

/// Parses an ECDSA key ([RFC 5915](https://www.rfc-editor.org/rfc/rfc5915)). `curve` is the name of the curve, if it is
/// given outside of the key.
pub(super) fn sec1(der: &[u8], curve: Option<Oid>) -> Option<PrivateKey> {
    let mut fields = Fields(der).sequence()?;
    let version = fields.small()?;
    let private = fields.contents(OCTET_STRING)?;
    let inner = match fields.explicit_contents(0, OID)? {
        Some(contents) => Some(cryptobyte::oid(contents)?),
        None => None,
    };
    if let Some(contents) = fields.explicit_contents(1, BIT_STRING)? {
        Bits::of_contents(contents)?;
    }
    let curve = Curve::of_name(&curve.or(inner)?).filter(|_| version == 1)?;
    // Some keys have additional leading zeros, and others have none.
    let start = private.len().saturating_sub(curve.size());
    let (zeros, number) = private.split_at(start);
    if zeros.iter().any(|byte| *byte != 0) {
        return None;
    }
    let private = [&vec![0; curve.size() - number.len()], number].concat();
    let point = curve.public_key(&private)?;
    Some(PrivateKey::Ecdsa(curve, point, private))
}

impl PrivateKey {
    /// Whether `public` is the public part of this key. False for keys of algorithms that cannot sign.
    pub(super) fn has_public(&self, public: &PublicKey) -> bool {
        match (self, public) {
            (Self::Rsa(key), PublicKey::Rsa { modulus, exponent }) => {
                key.modulus == *modulus && key.exponent == *exponent
            }
            (Self::Ecdsa(curve, point, _), PublicKey::Ecdsa(of_public, public)) => {
                curve == of_public && point == public
            }
            (Self::Ed25519(_, key), PublicKey::Ed25519(public)) => key[..] == public[..],
            _ => false,
        }
    }

    /// The fields of Go's private key.
    pub(super) fn value(&self, writer: &mut Writer) -> Value {
        match self {
            Self::Rsa(key) => key.value(writer),
            Self::Ecdsa(_, point, private) => {
                let [x, y] = coordinates(point);
                let private = json::number(&BigInt::from_bytes_be(Sign::Plus, private));
                writer.object([("Curve", Value::new_object()), ("X", x), ("Y", y), ("D", private)])
            }
            Self::Ed25519(seed, public) => writer.bytes(&[seed.as_slice(), public].concat()),
            Self::X25519(_) => Value::new_object(),
        }
    }

    /// The key as a JWK ([RFC 7517](https://www.rfc-editor.org/rfc/rfc7517)); `None` for keys that OPA rejects.
    pub(super) fn jwk(&self, writer: &mut Writer) -> Option<Value> {
        let text = |bytes: &[u8]| Value::from(URL_SAFE_NO_PAD.encode(bytes));
        Some(match self {
            Self::Rsa(key) => {
                let number = |number: &BigUint| text(&number.to_bytes_be());
                let [first, second] = key.primes.as_slice() else { return None };
                let [of_first, of_second, inverse] = &key.residues;
                writer.object([
                    ("kty", "RSA".into()),
                    ("n", number(&key.modulus)),
                    ("e", number(&BigUint::from(key.exponent.unsigned_abs()))),
                    ("d", number(&key.private)),
                    ("p", number(first)),
                    ("q", number(second)),
                    ("dp", number(of_first)),
                    ("dq", number(of_second)),
                    ("qi", number(inverse)),
                ])
            }
            Self::Ecdsa(curve, point, private) => {
                let (x, y) = point[1..].split_at(curve.size());
                let name = curve.jwk()?;
                writer.object([
                    ("kty", "EC".into()),
                    ("crv", name.into()),
                    ("x", text(x)),
                    ("y", text(y)),
                    ("d", text(private)),
                ])
            }
            Self::Ed25519(seed, public) => writer.object([
                ("kty", "OKP".into()),
                ("crv", "Ed25519".into()),
                ("x", text(public)),
                ("d", text(seed)),
            ]),
            Self::X25519(private) => {
                let public = x25519_public(private);
                writer.object([
                    ("kty", "OKP".into()),
                    ("crv", "X25519".into()),
                    ("x", text(&public)),
                    ("d", text(private)),
                ])
            }
        })
    }
}

impl Rsa {
    fn value(&self, writer: &mut Writer) -> Value {
        let number = |number: &BigUint| json::number(&number.clone().into());
        let [of_first, of_second, inverse] = self.residues.each_ref().map(number);
        let others: Vec<Value> = self
            .others
            .iter()
            .map(|other| {
                let [exponent, coefficient, product] = other.each_ref().map(number);
                writer.object([("Exp", exponent), ("Coeff", coefficient), ("R", product)])
            })
            .collect();
        let precomputed = writer.object([
            ("Dp", of_first),
            ("Dq", of_second),
            ("Qinv", inverse),
            ("CRTValues", others.into()),
        ]);
        writer.object([
            ("N", number(&self.modulus)),
            ("E", self.exponent.into()),
            ("D", number(&self.private)),
            ("Primes", self.primes.iter().map(number).collect::<Vec<_>>().into()),
            ("Precomputed", precomputed),
        ])
    }
}
