//! Verifies signatures by [RFC 7518](https://www.rfc-editor.org/rfc/rfc7518), as Go does.

use hmac::{Hmac, KeyInit, Mac};
use num_bigint::BigUint;
use sha2::digest::Digest;
use sha2::{Sha256, Sha384, Sha512};

/// The minimum number of bits of an RSA modulus, as in Go.
const MIN_MODULUS_BITS: u64 = 1_024;

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extensions) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The accepted lengths of salts and signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::extensions) enum Lengths {
    /// The lengths in RFC 7518.
    Standard,
    /// Any lengths.
    Any,
}

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Hmac(Hash),
    /// RSASSA-PKCS1-v1_5.
    Pkcs1(Hash),
    /// RSASSA-PSS.
    Pss(Hash),
    Ecdsa(Hash),
    EdDsa,
}

impl Algorithm {
    /// The algorithm of this name. OPA's `io.jwt.decode_verify` accepts the second name of each algorithm, too.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "HS256" | "HMAC_WITH_SHA256" => Self::Hmac(Hash::Sha256),
            "HS384" | "HMAC_WITH_SHA384" => Self::Hmac(Hash::Sha384),
            "HS512" | "HMAC_WITH_SHA512" => Self::Hmac(Hash::Sha512),
            "RS256" | "RSA_PKCS1v15_WITH_SHA256" => Self::Pkcs1(Hash::Sha256),
            "RS384" | "RSA_PKCS1v15_WITH_SHA384" => Self::Pkcs1(Hash::Sha384),
            "RS512" | "RSA_PKCS1v15_WITH_SHA512" => Self::Pkcs1(Hash::Sha512),
            "PS256" | "RSA_PSS_WITH_SHA256" => Self::Pss(Hash::Sha256),
            "PS384" | "RSA_PSS_WITH_SHA384" => Self::Pss(Hash::Sha384),
            "PS512" | "RSA_PSS_WITH_SHA512" => Self::Pss(Hash::Sha512),
            "ES256" | "ECDSA_WITH_P256_AND_SHA256" => Self::Ecdsa(Hash::Sha256),
            "ES384" | "ECDSA_WITH_P384_AND_SHA384" => Self::Ecdsa(Hash::Sha384),
            "ES512" | "ECDSA_WITH_P521_AND_SHA512" => Self::Ecdsa(Hash::Sha512),
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

impl Hash {
    pub(in crate::extensions) fn digest(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha384 => Sha384::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }

    /// Whether `code` is the message authentication code of `message`. The comparison takes constant time.
    pub(super) fn is_code(self, key: &[u8], message: &[u8], code: &[u8]) -> bool {
        fn is_code<M: Mac + KeyInit>(key: &[u8], message: &[u8], code: &[u8]) -> bool {
            <M as KeyInit>::new_from_slice(key)
                .is_ok_and(|mac| mac.chain_update(message).verify_slice(code).is_ok())
        }
        match self {
            Self::Sha256 => is_code::<Hmac<Sha256>>(key, message, code),
            Self::Sha384 => is_code::<Hmac<Sha384>>(key, message, code),
            Self::Sha512 => is_code::<Hmac<Sha512>>(key, message, code),
        }
    }

    /// The part of a `DigestInfo` ([RFC 8017](https://www.rfc-editor.org/rfc/rfc8017#section-9.2)) before the digest.
    fn digest_info(self) -> [u8; 19] {
        let (name, length) = match self {
            Self::Sha256 => (1, 32),
            Self::Sha384 => (2, 48),
            Self::Sha512 => (3, 64),
        };
        let sequence = [0x30, 17 + length, 0x30, 13, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, name, 5, 0, 4];
        std::array::from_fn(|at| sequence.get(at).copied().unwrap_or(length))
    }
}

/// The public operation of RSA; `None` for a key or a signature that Go rejects.
fn recovered(modulus: &BigUint, exponent: u64, signature: &[u8]) -> Option<Vec<u8>> {
    let size = usize::try_from(modulus.bits().div_ceil(8)).ok()?;
    let is_valid = modulus.bits() >= MIN_MODULUS_BITS
        && modulus.bit(0)
        && (3..=u64::from(i32::MAX.unsigned_abs())).contains(&exponent)
        && exponent % 2 == 1
        && signature.len() == size;
    let number = BigUint::from_bytes_be(signature);
    if !is_valid || number >= *modulus {
        return None;
    }
    let number = number.modpow(&exponent.into(), modulus).to_bytes_be();
    Some([vec![0; size - number.len()], number].concat())
}

/// Verifies a signature of RSASSA-PKCS1-v1_5 ([RFC 8017](https://www.rfc-editor.org/rfc/rfc8017#section-8.2.2)).
pub(in crate::extensions) fn is_pkcs1(
    modulus: &BigUint,
    exponent: u64,
    hash: Hash,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let Some(encoded) = recovered(modulus, exponent, signature) else { return false };
    let end = [&hash.digest_info()[..], &hash.digest(message)].concat();
    // A modulus of 1,024 bits has room for the padding.
    let padding = vec![0xff; encoded.len() - end.len() - 3];
    encoded == [&[0, 1][..], &padding, &[0], &end].concat()
}

/// Verifies a signature of RSASSA-PSS ([RFC 8017](https://www.rfc-editor.org/rfc/rfc8017#section-9.1.2)).
pub(in crate::extensions) fn is_pss(
    modulus: &BigUint,
    exponent: u64,
    hash: Hash,
    lengths: Lengths,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let padded = || {
        let encoded = recovered(modulus, exponent, signature)?;
        let bits = modulus.bits() - 1;
        let size = usize::try_from(bits.div_ceil(8)).ok()?;
        // A modulus of 8n + 1 bits has an additional byte.
        let (zeros, encoded) = encoded.split_at(encoded.len() - size);
        let digest = hash.digest(message);
        let (last, encoded) = encoded.split_last()?;
        let (masked, salted) = encoded.split_at_checked(encoded.len().checked_sub(digest.len())?)?;
        let used = 0xff >> (8 * size as u64 - bits);
        let first = masked.first()?;
        if zeros.iter().any(|byte| *byte != 0) || *last != 0xbc || first & !used != 0 {
            return None;
        }
        let mut block: Vec<u8> =
            masked.iter().zip(mask(hash, salted)).map(|(byte, mask)| byte ^ mask).collect();
        block[0] &= used;
        let start = block.iter().position(|byte| *byte != 0).filter(|at| block[*at] == 1)?;
        let salt = &block[start + 1..];
        let is_salt = lengths == Lengths::Any || salt.len() == digest.len();
        (is_salt && hash.digest(&[&[0; 8][..], &digest, salt].concat()) == salted).then_some(())
    };
    padded().is_some()
}

/// The mask of MGF1 ([RFC 8017](https://www.rfc-editor.org/rfc/rfc8017#appendix-B.2.1)).
fn mask(hash: Hash, seed: &[u8]) -> impl Iterator<Item = u8> {
    (0_u32..).flat_map(move |counter| hash.digest(&[seed, &counter.to_be_bytes()].concat()))
}

/// The two numbers of an ECDSA signature, each with `size` bytes.
pub(super) fn ecdsa_numbers(lengths: Lengths, signature: &[u8], size: usize) -> Option<Vec<u8>> {
    if lengths == Lengths::Standard && signature.len() != 2 * size {
        return None;
    }
    let (one, other) = signature.split_at(signature.len() / 2);
    let mut numbers = Vec::with_capacity(2 * size);
    for number in [one, other] {
        let start = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
        let number = &number[start..];
        numbers.resize(numbers.len() + size.checked_sub(number.len())?, 0);
        numbers.extend(number);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_have_the_names_of_rfc_8017() {
        let sha512 = "3051300d060960864801650304020305000440";
        let hex = |bytes: [u8; 19]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(Hash::Sha512.digest_info()), sha512);
        assert_eq!(hex(Hash::Sha256.digest_info()), "3031300d060960864801650304020105000420");
        assert_eq!(hex(Hash::Sha384.digest_info()), "3041300d060960864801650304020205000430");
    }

    #[test]
    fn numbers_of_ecdsa_may_have_other_lengths() {
        let standard = |signature: &[u8]| ecdsa_numbers(Lengths::Standard, signature, 2);
        let any = |signature: &[u8]| ecdsa_numbers(Lengths::Any, signature, 2);
        assert_eq!(standard(&[1, 2, 3, 4]), Some(vec![1, 2, 3, 4]));
        assert_eq!(standard(&[1, 2]), None);
        assert_eq!(any(&[1, 2]), Some(vec![0, 1, 0, 2]));
        assert_eq!(any(&[0, 1, 2, 0, 0, 3]), Some(vec![1, 2, 0, 3]));
        assert_eq!(any(&[1, 1, 2, 0, 0, 3]), None);
        assert_eq!(any(&[]), Some(vec![0; 4]));
    }
}
