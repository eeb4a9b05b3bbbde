//! The ECDSA curves that Go supports.

use std::sync::LazyLock;

use num_bigint::BigUint;
use p256::ecdsa::signature::hazmat::PrehashVerifier;

/// A curve that Go supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extensions) enum Curve {
    P224,
    P256,
    P384,
    P521,
}

impl Curve {
    /// The curve with this object identifier.
    pub(super) fn of_name(name: &[u32]) -> Option<Self> {
        match name {
            [1, 3, 132, 0, 33] => Some(Self::P224),
            [1, 2, 840, 10_045, 3, 1, 7] => Some(Self::P256),
            [1, 3, 132, 0, 34] => Some(Self::P384),
            [1, 3, 132, 0, 35] => Some(Self::P521),
            _ => None,
        }
    }

    /// The name in a JWK ([RFC 7518](https://www.rfc-editor.org/rfc/rfc7518#section-6.2.1.1)); `None` for P-224, which
    /// has no such name.
    pub(super) fn jwk(self) -> Option<&'static str> {
        match self {
            Self::P224 => None,
            Self::P256 => Some("P-256"),
            Self::P384 => Some("P-384"),
            Self::P521 => Some("P-521"),
        }
    }

    /// The number of bytes of a coordinate and of a private key.
    pub(in crate::extensions) fn size(self) -> usize {
        match self {
            Self::P224 => 28,
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Whether `bytes` are an uncompressed point on the curve.
    pub(in crate::extensions) fn is_point(self, bytes: &[u8]) -> bool {
        let has_size = bytes.len() == 1 + 2 * self.size() && bytes[0] == 4;
        has_size
            && match self {
                Self::P224 => Point::parse(bytes).is_some(),
                Self::P256 => p256::ecdsa::VerifyingKey::from_sec1_bytes(bytes).is_ok(),
                Self::P384 => p384::ecdsa::VerifyingKey::from_sec1_bytes(bytes).is_ok(),
                Self::P521 => p521::ecdsa::VerifyingKey::from_sec1_bytes(bytes).is_ok(),
            }
    }

    /// The public key of this private key, which has the size of the curve; `None` if the private key is zero or too
    /// large.
    pub(super) fn public_key(self, private: &[u8]) -> Option<Vec<u8>> {
        Some(match self {
            Self::P224 => {
                let scalar = BigUint::from_bytes_be(private);
                let is_valid = scalar.bits() > 0 && scalar < CURVE.order;
                is_valid.then(|| CURVE.generator.times(&scalar).bytes())??
            }
            Self::P256 => {
                let key = p256::ecdsa::SigningKey::from_slice(private).ok()?;
                key.verifying_key().to_sec1_point(false).as_bytes().to_vec()
            }
            Self::P384 => {
                let key = p384::ecdsa::SigningKey::from_slice(private).ok()?;
                key.verifying_key().to_sec1_point(false).as_bytes().to_vec()
            }
            Self::P521 => {
                let key = p521::ecdsa::SigningKey::from_slice(private).ok()?;
                key.verifying_key().to_sec1_point(false).as_bytes().to_vec()
            }
        })
    }

    /// Whether the numbers `r` and `s` are a signature of `digest` by the key `point`.
    pub(in crate::extensions) fn verifies(self, point: &[u8], digest: &[u8], r: &[u8], s: &[u8]) -> bool {
        let size = self.size();
        let padded = |bytes: &[u8]| Some([&vec![0; size.checked_sub(bytes.len())?], bytes].concat());
        let Some(numbers) = padded(r).zip(padded(s)).map(|(r, s)| [r, s].concat()) else { return false };
        // The crates do not verify digests that are much shorter than the order of the curve.
        let digest = padded(digest).unwrap_or_else(|| digest.to_vec());
        let verified = || match self {
            Self::P224 => Point::parse(point)?.verifies(&digest, &numbers).then_some(()),
            Self::P256 => p256::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .ok()?
                .verify_prehash(&digest, &p256::ecdsa::Signature::from_slice(&numbers).ok()?)
                .ok(),
            Self::P384 => p384::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .ok()?
                .verify_prehash(&digest, &p384::ecdsa::Signature::from_slice(&numbers).ok()?)
                .ok(),
            Self::P521 => p521::ecdsa::VerifyingKey::from_sec1_bytes(point)
                .ok()?
                .verify_prehash(&digest, &p521::ecdsa::Signature::from_slice(&numbers).ok()?)
                .ok(),
        };
        verified().is_some()
    }
}

/// P-224 ([SP 800-186](https://doi.org/10.6028/NIST.SP.800-186)), which the maintained crates lack.
static CURVE: LazyLock<P224> = LazyLock::new(|| {
    let number = |digits: &[u8]| BigUint::parse_bytes(digits, 16).unwrap_or_default();
    P224 {
        prime: number(b"ffffffffffffffffffffffffffffffff000000000000000000000001"),
        b: number(b"b4050a850c04b3abf54132565044b0b7d7bfd8ba270b39432355ffb4"),
        order: number(b"ffffffffffffffffffffffffffff16a2e0b8f03e13dd29455c5c2a3d"),
        generator: Point {
            x: number(b"b70e0cbd6bb4bf7f321390b94a03c1d356c21122343280d6115c1d21"),
            y: number(b"bd376388b5f723fb4c22dfe6cd4375a05a07476444d5819985007e34"),
            z: 1_u8.into(),
        },
    }
});

/// The curve `y² = x³ - 3x + b` over the field of `prime`.
struct P224 {
    prime: BigUint,
    b: BigUint,
    order: BigUint,
    generator: Point,
}

/// A point of P-224 in [Jacobian coordinates](https://www.hyperelliptic.org/EFD/g1p/auto-shortw-jacobian-3.html). `z`
/// is zero at infinity.
#[derive(Clone)]
struct Point {
    x: BigUint,
    y: BigUint,
    z: BigUint,
}

/// The difference of `one` and `other` in the field. Both numbers are below the prime.
fn minus(one: &BigUint, other: &BigUint) -> BigUint {
    (&CURVE.prime + one - other) % &CURVE.prime
}

fn times(one: &BigUint, other: &BigUint) -> BigUint {
    one * other % &CURVE.prime
}

impl Point {
    /// The point with these coordinates, if it is on the curve.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (x, y) = bytes.get(1..)?.split_at_checked(28)?;
        let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
        let right =
            minus(&((times(&times(&x, &x), &x) + &CURVE.b) % &CURVE.prime), &(&x * 3_u8 % &CURVE.prime));
        let is_valid = x < CURVE.prime && y < CURVE.prime && times(&y, &y) == right;
        is_valid.then(|| Self { x, y, z: 1_u8.into() })
    }

    fn infinity() -> Self {
        Self { x: 1_u8.into(), y: 1_u8.into(), z: 0_u8.into() }
    }

    fn doubled(&self) -> Self {
        let delta = times(&self.z, &self.z);
        let gamma = times(&self.y, &self.y);
        let beta = times(&self.x, &gamma);
        let alpha = times(&minus(&self.x, &delta), &(&self.x + &delta)) * 3_u8 % &CURVE.prime;
        let beta_4 = beta * 4_u8 % &CURVE.prime;
        let x = minus(&times(&alpha, &alpha), &(&beta_4 * 2_u8 % &CURVE.prime));
        let z = times(&self.y, &self.z) * 2_u8 % &CURVE.prime;
        let gamma_8 = times(&gamma, &gamma) * 8_u8 % &CURVE.prime;
        let y = minus(&times(&alpha, &minus(&beta_4, &x)), &gamma_8);
        Self { x, y, z }
    }

    fn plus(&self, other: &Self) -> Self {
        if self.z.bits() == 0 {
            return other.clone();
        }
        if other.z.bits() == 0 {
            return self.clone();
        }
        let (z1, z2) = (times(&self.z, &self.z), times(&other.z, &other.z));
        let (u1, u2) = (times(&self.x, &z2), times(&other.x, &z1));
        let (s1, s2) = (times(&times(&self.y, &other.z), &z2), times(&times(&other.y, &self.z), &z1));
        let (h, r) = (minus(&u2, &u1), minus(&s2, &s1));
        if h.bits() == 0 {
            return if r.bits() == 0 { self.doubled() } else { Self::infinity() };
        }
        let h2 = times(&h, &h);
        let (h3, v) = (times(&h2, &h), times(&u1, &h2));
        let x = minus(&minus(&times(&r, &r), &h3), &(&v * 2_u8 % &CURVE.prime));
        let y = minus(&times(&r, &minus(&v, &x)), &times(&s1, &h3));
        Self { x, y, z: times(&times(&self.z, &other.z), &h) }
    }

    fn times(&self, scalar: &BigUint) -> Self {
        (0..scalar.bits()).rev().fold(Self::infinity(), |sum, bit| {
            let sum = sum.doubled();
            if scalar.bit(bit) { sum.plus(self) } else { sum }
        })
    }

    /// The coordinates `x` and `y` of the point; `None` at infinity.
    fn affine(&self) -> Option<[BigUint; 2]> {
        let inverse = self.z.modinv(&CURVE.prime)?;
        let square = times(&inverse, &inverse);
        Some([times(&self.x, &square), times(&self.y, &times(&square, &inverse))])
    }

    /// The uncompressed point; `None` at infinity.
    fn bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![4];
        for coordinate in self.affine()? {
            let coordinate = coordinate.to_bytes_be();
            bytes.resize(bytes.len() + 28 - coordinate.len(), 0);
            bytes.extend(coordinate);
        }
        Some(bytes)
    }

    /// Whether `numbers` are a signature of `digest` by this key ([FIPS
    /// 186-5](https://doi.org/10.6028/NIST.FIPS.186-5), section 6.4.2).
    fn verifies(&self, digest: &[u8], numbers: &[u8]) -> bool {
        let order = &CURVE.order;
        let (r, s) = numbers.split_at(28);
        let (r, s) = (BigUint::from_bytes_be(r), BigUint::from_bytes_be(s));
        let digest = BigUint::from_bytes_be(&digest[..28]);
        let is_number = |number: &BigUint| number.bits() > 0 && number < order;
        let Some(inverse) = s.modinv(order).filter(|_| is_number(&r) && is_number(&s)) else { return false };
        let (u1, u2) = (digest * &inverse % order, &r * inverse % order);
        let sum = CURVE.generator.times(&u1).plus(&self.times(&u2));
        sum.affine().is_some_and(|[x, _]| x % order == r)
    }
}

/// The public key of this private key of X25519 ([RFC 7748](https://www.rfc-editor.org/rfc/rfc7748#section-5)). It is
/// computed here, because `ring` accepts only private keys that it has created.
pub(super) fn x25519_public(private: &[u8; 32]) -> [u8; 32] {
    let prime = (BigUint::from(1_u8) << 255_u8) - 19_u8;
    let minus = |one: &BigUint, other: &BigUint| (&prime + one - other) % &prime;
    let times = |one: &BigUint, other: &BigUint| one * other % &prime;
    let mut scalar = *private;
    scalar[0] &= 248;
    scalar[31] = scalar[31] & 127 | 64;
    let scalar = BigUint::from_bytes_le(&scalar);
    let base = BigUint::from(9_u8);
    let (mut x2, mut z2) = (BigUint::from(1_u8), BigUint::from(0_u8));
    let (mut x3, mut z3) = (base.clone(), BigUint::from(1_u8));
    for bit in (0..255).rev() {
        let is_set = scalar.bit(bit);
        if is_set {
            std::mem::swap(&mut x2, &mut x3);
            std::mem::swap(&mut z2, &mut z3);
        }
        let (a, b) = ((&x2 + &z2) % &prime, minus(&x2, &z2));
        let (aa, bb) = (times(&a, &a), times(&b, &b));
        let e = minus(&aa, &bb);
        let (c, d) = ((&x3 + &z3) % &prime, minus(&x3, &z3));
        let (da, cb) = (times(&d, &a), times(&c, &b));
        let (sum, difference) = ((&da + &cb) % &prime, minus(&da, &cb));
        x3 = times(&sum, &sum);
        z3 = times(&base, &times(&difference, &difference));
        x2 = times(&aa, &bb);
        z2 = times(&e, &((&aa + times(&e, &BigUint::from(121_665_u32))) % &prime));
        if is_set {
            std::mem::swap(&mut x2, &mut x3);
            std::mem::swap(&mut z2, &mut z3);
        }
    }
    let inverse = z2.modinv(&prime).unwrap_or_default();
    let public = times(&x2, &inverse).to_bytes_le();
    std::array::from_fn(|at| public.get(at).copied().unwrap_or(0))
}
