//! Verifies chains of certificates like Go's package [crypto/x509](https://pkg.go.dev/crypto/x509).

use anyhow::{Result, ensure};
use ring::signature::{ED25519, UnparsedPublicKey};

use super::super::tokens::signatures::{Lengths, is_pkcs1, is_pss};
use super::certificate::Certificate;
use super::constraints;
use super::cryptobyte::{INTEGER, Reader, SEQUENCE};
use super::extensions::{ANY_USAGE, CERTIFICATE_SIGN, SERVER_AUTHENTICATION, SUBJECT_ALTERNATIVE_NAME};
use super::hosts;
use super::keys::{PublicKey, SignatureAlgorithm};
use super::policies;

/// The maximum number of signatures to verify, as in Go.
const SIGNATURES: usize = 100;
/// The maximum number of bits of an RSA modulus. Verification takes milliseconds.
const MODULUS: u64 = 8_192;

/// The requirements for a chain.
pub(super) struct Options {
    /// The name or address of a host; empty for any host.
    pub(super) host: String,
    /// The time at which the chain must be valid, in nanoseconds since the epoch.
    pub(super) time: i128,
    /// Go's numbers of extended key usages; if empty, the usage of a TLS server.
    pub(super) usages: Vec<i64>,
}

/// A certificate and its issuers up to the root.
pub(super) type Chain<'c, 'd> = Vec<&'c Certificate<'d>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Leaf,
    Intermediate,
    Root,
}

/// Searches for chains.
struct Search<'c, 'd> {
    builtin: &'c str,
    root: &'c Certificate<'d>,
    /// The intermediate certificates, without duplicates.
    intermediates: Vec<&'c Certificate<'d>>,
    time: i128,
    /// The number of signatures that were verified.
    signatures: usize,
    chains: Vec<Chain<'c, 'd>>,
}

/// The first valid chain that begins with the last of `certificates` and ends with the first. All other certificates
/// may be between these two. `None` if there is no valid chain.
///
/// # Errors
///
/// If a key is too large.
pub(super) fn chain<'c, 'd>(
    builtin: &'c str,
    certificates: &'c [Certificate<'d>],
    options: &Options,
) -> Result<Option<Chain<'c, 'd>>> {
    let [root, between @ .., leaf] = certificates else { return Ok(None) };
    if !is_valid(leaf, Kind::Leaf, &[], options.time) {
        return Ok(None);
    }
    let names = &leaf.details.names;
    if !options.host.is_empty() && !hosts::is_for_host(&options.host, &names.dns, &names.ips) {
        return Ok(None);
    }
    let chains = if leaf.raw == root.raw {
        vec![vec![leaf]]
    } else {
        let mut intermediates: Vec<&Certificate<'d>> = Vec::new();
        for certificate in between {
            if intermediates.iter().all(|other| other.raw != certificate.raw) {
                intermediates.push(certificate);
            }
        }
        let mut search =
            Search { builtin, root, intermediates, time: options.time, signatures: 0, chains: Vec::new() };
        search.extend(&vec![leaf])?;
        search.chains
    };
    let usages = if options.usages.is_empty() { &[SERVER_AUTHENTICATION][..] } else { &options.usages };
    let is_valid = |chain: &Chain<'c, 'd>| {
        policies::are_valid(chain)
            && (usages.contains(&ANY_USAGE) || have_usage(chain, usages))
            && constraints::are_met(chain)
    };
    Ok(chains.into_iter().find(is_valid))
}

impl<'c, 'd> Search<'c, 'd> {
    /// Adds to `chains` all chains that begin with `chain`.
    fn extend(&mut self, chain: &Chain<'c, 'd>) -> Result<()> {
        let Some(child) = chain.last().copied() else { return Ok(()) };
        let roots = self.parents(&[self.root], child).into_iter().map(|parent| (Kind::Root, parent));
        let intermediates = self.parents(&self.intermediates, child);
        let intermediates = intermediates.into_iter().map(|parent| (Kind::Intermediate, parent));
        for (kind, parent) in roots.chain(intermediates) {
            self.signatures += 1;
            if self.signatures > SIGNATURES {
                return Ok(());
            }
            let is_parent = !matches!(parent.public_key, PublicKey::Unknown)
                && !is_in(parent, chain)
                && has_signed(self.builtin, parent, child)?
                && is_valid(parent, kind, chain, self.time);
            if !is_parent {
                continue;
            }
            let longer = [chain.as_slice(), &[parent]].concat();
            match kind {
                Kind::Root => self.chains.push(longer),
                _ => self.extend(&longer)?,
            }
        }
        Ok(())
    }

    /// The certificates among `pool` that may have issued `child`. Certificates that have the authority key id of
    /// `child` come first.
    fn parents(&self, pool: &[&'c Certificate<'d>], child: &Certificate<'d>) -> Vec<&'c Certificate<'d>> {
        let rank = |parent: &&Certificate<'d>| {
            let named = child.details.authority_key.unwrap_or_default();
            let own = parent.details.subject_key.unwrap_or_default();
            match (named == own, named.is_empty() != own.is_empty()) {
                (true, _) => 0,
                (false, true) => 1,
                (false, false) => 2,
            }
        };
        let is_issuer = |parent: &&Certificate<'d>| parent.raw_subject == child.raw_issuer;
        let mut parents: Vec<_> = pool.iter().copied().filter(is_issuer).collect();
        parents.sort_by_key(rank);
        parents
    }
}

/// Whether a certificate with this subject, key and alternative names is in `chain`.
fn is_in(certificate: &Certificate<'_>, chain: &[&Certificate<'_>]) -> bool {
    let names = certificate.extension(SUBJECT_ALTERNATIVE_NAME);
    for other in chain {
        if other.raw_subject != certificate.raw_subject || other.raw_public_key != certificate.raw_public_key
        {
            continue;
        }
        let of_other = other.extension(SUBJECT_ALTERNATIVE_NAME);
        if names == of_other {
            return true;
        }
        // If only one certificate has alternative names, Go ends the search here.
        if names.is_none() || of_other.is_none() {
            return false;
        }
    }
    false
}

/// Whether `certificate` is valid as the next certificate of `chain`.
fn is_valid(certificate: &Certificate<'_>, kind: Kind, chain: &[&Certificate<'_>], time: i128) -> bool {
    let details = &certificate.details;
    let is_current =
        (certificate.not_before.nanoseconds()..=certificate.not_after.nanoseconds()).contains(&time);
    let is_issuer = chain.last().is_none_or(|child| child.raw_issuer == certificate.raw_subject);
    let may_sign = kind != Kind::Intermediate || details.is_authority == Some(true);
    // The leaf is not counted.
    let intermediates = i64::try_from(chain.len()).unwrap_or(i64::MAX) - 1;
    let has_length =
        details.is_authority.is_some() && details.path_length >= 0 && intermediates > details.path_length;
    details.unhandled.is_empty() && is_current && is_issuer && may_sign && !has_length
}

/// Whether `parent` may sign certificates and has signed `child`.
fn has_signed(builtin: &str, parent: &Certificate<'_>, child: &Certificate<'_>) -> Result<bool> {
    let details = &parent.details;
    let is_authority = match details.is_authority {
        Some(is_authority) => is_authority,
        None => parent.version != 3,
    };
    if !is_authority || details.key_usage != 0 && details.key_usage & CERTIFICATE_SIGN == 0 {
        return Ok(false);
    }
    let (message, signature) = (child.to_be_signed, child.signature.as_slice());
    let algorithm = SignatureAlgorithm::of_number(child.signature_algorithm);
    Ok(match (&parent.public_key, algorithm) {
        (PublicKey::Rsa { modulus, exponent }, Some(algorithm)) => {
            ensure!(modulus.bits() <= MODULUS, "{builtin}: a key of RSA has more than {MODULUS} bits");
            let exponent = exponent.unsigned_abs();
            match algorithm {
                SignatureAlgorithm::Pkcs1(hash) => is_pkcs1(modulus, exponent, hash, message, signature),
                SignatureAlgorithm::Pss(hash) => {
                    is_pss(modulus, exponent, hash, Lengths::Standard, message, signature)
                }
                _ => false,
            }
        }
        (PublicKey::Ecdsa(curve, point), Some(SignatureAlgorithm::Ecdsa(hash))) => {
            ecdsa_numbers(signature).is_some_and(|(r, s)| curve.verifies(point, &hash.digest(message), r, s))
        }
        (PublicKey::Ed25519(key), Some(SignatureAlgorithm::Ed25519)) => {
            UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
        }
        _ => false,
    })
}

/// The numbers of an ECDSA signature ([RFC 3279](https://www.rfc-editor.org/rfc/rfc3279#section-2.2.3)), without
/// leading zeros.
fn ecdsa_numbers(signature: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut outer = Reader(signature);
    let mut numbers = outer.read(SEQUENCE).filter(|_| outer.is_empty())?;
    let mut number = || match numbers.contents(INTEGER)? {
        [] | [0x80..=0xff, ..] => None,
        [0, second, ..] if *second < 0x80 => None,
        [0, number @ ..] => Some(number),
        number => Some(number),
    };
    let found = (number()?, number()?);
    numbers.is_empty().then_some(found)
}

/// Whether all certificates of `chain` allow one of these extended key usages.
fn have_usage(chain: &[&Certificate<'_>], usages: &[i64]) -> bool {
    let mut left = usages.to_vec();
    for certificate in chain.iter().rev() {
        let (known, unknown) = (&certificate.details.extended_usages, &certificate.details.unknown_usages);
        if known.is_empty() && unknown.is_empty() || known.contains(&ANY_USAGE) {
            continue;
        }
        left.retain(|usage| known.contains(usage));
        if left.is_empty() {
            return false;
        }
    }
    true
}
