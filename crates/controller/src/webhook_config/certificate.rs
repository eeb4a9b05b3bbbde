//! The controller's own webhook certificate. A CA that is valid for ten years signs a serving certificate that is valid
//! for ninety days. The CA and the certificate are renewed long before they expire. [`renewal`] decides which of the
//! two to renew, from the stored certificates and the time. Only [`issue`] uses random numbers.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

use super::rows::CertificateSecret;
use policy_sync_api::moment::Moment;
use policy_sync_hub::certificates::{CertificateAndKey, certified_key, expires};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The validity of the CA.
const CA_VALIDITY: Duration = Duration::from_secs(3_650 * DAY.as_secs());
/// The remaining validity at which a new CA is created.
const CA_RENEW_BEFORE: Duration = Duration::from_secs(365 * DAY.as_secs());
/// The validity of the serving certificate.
const CERTIFICATE_VALIDITY: Duration = Duration::from_secs(90 * DAY.as_secs());
/// The remaining validity at which the serving certificate is renewed.
const CERTIFICATE_RENEW_BEFORE: Duration = Duration::from_secs(30 * DAY.as_secs());
/// The tolerated difference between the clocks of two machines.
const SKEW: Duration = Duration::from_secs(60 * 60);

/// The renewal that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Nothing,
    /// A new serving certificate is due.
    Certificate,
    /// A new CA. The previous CA stays trusted.
    Authority,
    /// A new CA and a new serving certificate, because the stored CA is unusable.
    Both,
    /// Removal of CAs that have expired or are not valid yet.
    Expired,
}

/// A certificate could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create a certificate for {host}")]
pub(super) struct IssueError {
    host: String,
    source: rcgen::Error,
}

/// The renewal that the stored certificates `kept` need, for webhooks at `host`. `trust`: whether all webhook
/// configurations trust the signing CA.
#[must_use]
pub(super) fn renewal(kept: &CertificateSecret, host: &str, trust: bool, now: Moment) -> Renewal {
    let authorities = certificates(&kept.authorities);
    let Some(left) = authorities.first().and_then(|first| expires(first)).map(|at| at.since(now)) else {
        return Renewal::Both;
    };
    // Go rejects a CA that is not valid yet, but webpki does not check the start of validity.
    let is_early = authorities.first().and_then(not_before).is_none_or(|at| at > now);
    // If the CA ends later than a new CA would, it was issued with a wrong clock. Go may also be unable to parse the
    // end date.
    let is_late = left > CA_VALIDITY + SKEW;
    if left.is_zero() || is_early || is_late || issuer(kept).is_none() {
        return Renewal::Both;
    }
    let is_good = |at: Moment| is_good(kept, &authorities, host, at);
    if !is_good(now) {
        Renewal::Certificate
    } else if left < CERTIFICATE_VALIDITY {
        // The CA is renewed first, because a new serving certificate would expire together with the CA.
        Renewal::Authority
    } else if trust && !is_good(now.after(CERTIFICATE_RENEW_BEFORE)) {
        Renewal::Certificate
    } else if left < CA_RENEW_BEFORE {
        Renewal::Authority
    } else if !authorities.iter().all(|authority| is_valid(authority, now)) {
        Renewal::Expired
    } else {
        Renewal::Nothing
    }
}

/// Issues the certificates that `renewal` requires, and returns the new contents of the Secret.
///
/// # Errors
///
/// If no certificate can be created for `host`.
pub(super) fn issue(
    kept: &CertificateSecret,
    renewal: Renewal,
    host: &str,
    now: Moment,
) -> Result<CertificateSecret, IssueError> {
    renewed(kept, renewal, host, now).map_err(|source| IssueError { host: host.to_owned(), source })
}

fn renewed(
    kept: &CertificateSecret,
    renewal: Renewal,
    host: &str,
    now: Moment,
) -> Result<CertificateSecret, rcgen::Error> {
    let mut next = kept.clone();
    if matches!(renewal, Renewal::Authority | Renewal::Both) {
        let (key, params) = (KeyPair::generate()?, authority(now)?);
        next.authorities = params.self_signed(&key)?.pem();
        next.authority_key = key.serialize_pem();
    }
    if renewal != Renewal::Both {
        let kept = certificates(&kept.authorities).into_iter();
        let good = kept.filter(|authority| is_valid(authority, now)).map(|good| pem(&good));
        let first = if renewal == Renewal::Authority { next.authorities } else { String::new() };
        next.authorities = first + &good.collect::<String>();
    }
    if matches!(renewal, Renewal::Certificate | Renewal::Both) {
        let issuer = Issuer::from_ca_cert_pem(&next.authorities, KeyPair::from_pem(&next.authority_key)?)?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = distinguished_name("policy-sync-webhook", now);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        validity(&mut params, now, CERTIFICATE_VALIDITY)?;
        let authority = certificates(&next.authorities).first().and_then(expires);
        if let Some(end) = authority.filter(|end| *end < now.after(CERTIFICATE_VALIDITY)) {
            params.not_after = time(end)?.to_datetime();
        }
        next.certificate = params.signed_by(&key, &issuer)?.pem();
        next.key = key.serialize_pem();
    }
    Ok(next)
}

/// The start of validity of `certificate`; `None` if it cannot be parsed.
fn not_before(certificate: &CertificateDer<'_>) -> Option<Moment> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(Moment(parsed.validity().not_before.timestamp() * 1000))
}

/// Whether `authority` is valid now.
fn is_valid(authority: &CertificateDer<'_>, now: Moment) -> bool {
    not_before(authority).is_some_and(|at| at <= now) && expires(authority).is_some_and(|at| at > now)
}

/// The time used to issue and check certificates. If the local clock differs from the API server's by more than an
/// hour, this is the API server's time, because the API server verifies the certificates.
#[must_use]
pub(super) fn certificate_time(own: Moment, server: Option<Moment>) -> Moment {
    server.filter(|server| own.since(*server).max(server.since(own)) > SKEW).unwrap_or(own)
}

fn authority(now: Moment) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = distinguished_name("policy-sync-webhook-ca", now);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    validity(&mut params, now, CA_VALIDITY)?;
    Ok(params)
}

/// The time in the name makes the names of CAs unique.
fn distinguished_name(name: &str, now: Moment) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, format!("{name}@{}", now.0));
    names
}

fn time(moment: Moment) -> Result<ASN1Time, rcgen::Error> {
    ASN1Time::from_timestamp(moment.0 / 1000).map_err(|_| rcgen::Error::Time)
}

fn validity(params: &mut CertificateParams, now: Moment, validity: Duration) -> Result<(), rcgen::Error> {
    let not_before = Moment(now.0.saturating_sub(i64::try_from(SKEW.as_millis()).unwrap_or_default()));
    (params.not_before, params.not_after) =
        (time(not_before)?.to_datetime(), time(now.after(validity))?.to_datetime());
    Ok(())
}

/// The stored certificate and key, in the form used by the HTTP server.
#[must_use]
pub(super) fn pair(kept: &CertificateSecret) -> CertificateAndKey<'_> {
    CertificateAndKey {
        certificate_name: "tls.crt",
        certificate: kept.certificate.as_bytes(),
        key_name: "tls.key",
        key: kept.key.as_bytes(),
    }
}

/// The certificates in `pem`, up to the first invalid certificate.
#[must_use]
pub(super) fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map_while(Result::ok).collect()
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// The signing CA, if its stored key matches its certificate.
fn issuer(kept: &CertificateSecret) -> Option<Issuer<'static, KeyPair>> {
    let first = certificates(&kept.authorities).into_iter().next()?;
    let key = KeyPair::from_pem(&kept.authority_key).ok()?;
    let (_, parsed) = X509Certificate::from_der(&first).ok()?;
    let is_its =
        parsed.public_key().subject_public_key.data.as_ref() == rcgen::PublicKeyData::der_bytes(&key);
    is_its.then(|| Issuer::from_ca_cert_der(&first, key).ok()).flatten()
}

/// Whether an API server that trusts `authorities` would accept the stored certificate for `host` at the time `at`.
fn is_good(
    kept: &CertificateSecret,
    authorities: &[CertificateDer<'static>],
    host: &str,
    at: Moment,
) -> bool {
    let chain = certificates(&kept.certificate);
    let (Some((first, rest)), Ok(host)) = (chain.split_first(), ServerName::try_from(host)) else {
        return false;
    };
    let mut roots = RootCertStore::empty();
    // Some clients check whether the CA has expired. The certificate must be valid for these clients, too.
    let lasting = authorities.iter().filter(|authority| expires(authority).is_some_and(|end| end > at));
    roots.add_parsable_certificates(lasting.cloned());
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let Ok(verifier) = builder.build() else { return false };
    let at = UnixTime::since_unix_epoch(Moment::since(at, Moment(0)));
    verifier.verify_server_cert(first, rest, &host, &[], at).is_ok() && certified_key(pair(kept)).is_ok()
}

#[cfg(test)]
mod tests;
