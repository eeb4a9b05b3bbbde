//! Parses certificates ([RFC 5280](https://www.rfc-editor.org/rfc/rfc5280)) like Go's package
//! [crypto/x509](https://pkg.go.dev/crypto/x509).

use std::collections::BTreeSet;

use num_bigint::{BigInt, Sign};
use regorus::Value;

use super::asn1::Algorithm;
use super::cryptobyte::{BOOLEAN, OCTET_STRING, Oid, Reader, SEQUENCE, constructed, context};
use super::extensions::Details;
use super::json::{self, Writer};
use super::keys::{PublicKey, signature_number};
use super::names::Name;
use super::time::Time;

/// An extension.
#[derive(Clone, Debug)]
pub(super) struct Extension<'d> {
    pub(super) name: Oid,
    pub(super) is_critical: bool,
    pub(super) value: &'d [u8],
}

impl Extension<'_> {
    pub(super) fn value(&self, writer: &mut Writer) -> Value {
        let value = writer.bytes(self.value);
        writer.object([
            ("Id", json::oid(&self.name)),
            ("Critical", self.is_critical.into()),
            ("Value", value),
        ])
    }
}

/// A certificate.
#[derive(Debug)]
pub(super) struct Certificate<'d> {
    pub(super) raw: &'d [u8],
    pub(super) to_be_signed: &'d [u8],
    pub(super) raw_public_key: &'d [u8],
    pub(super) raw_subject: &'d [u8],
    pub(super) raw_issuer: &'d [u8],
    pub(super) signature: Vec<u8>,
    /// Go's number of the signature algorithm.
    pub(super) signature_algorithm: i64,
    pub(super) public_key: PublicKey,
    /// The version: 1 to 3, or `i64::MIN` after an overflow.
    pub(super) version: i64,
    serial_number: BigInt,
    issuer: Name,
    subject: Name,
    pub(super) not_before: Time,
    pub(super) not_after: Time,
    pub(super) extensions: Vec<Extension<'d>>,
    pub(super) details: Details<'d>,
}

/// The certificates in `der`, one after the other; `None` if one is invalid.
pub(super) fn certificates(der: &[u8]) -> Option<Vec<Certificate<'_>>> {
    let mut rest = Reader(der);
    let mut certificates = Vec::new();
    while !rest.is_empty() {
        certificates.push(Certificate::parse(&mut rest)?);
    }
    Some(certificates)
}

impl<'d> Certificate<'d> {
    /// Parses the certificate `der`; `None` if other bytes follow the certificate.
    pub(super) fn whole(der: &'d [u8]) -> Option<Self> {
        let mut rest = Reader(der);
        Self::parse(&mut rest).filter(|_| rest.is_empty())
    }

    fn parse(rest: &mut Reader<'d>) -> Option<Self> {
        let raw = rest.full(SEQUENCE)?;
        let mut outer = Reader(raw).read(SEQUENCE)?;
        let to_be_signed = outer.full(SEQUENCE)?;
        let mut fields = Reader(to_be_signed).read(SEQUENCE)?;
        let version = match fields.optional(constructed(0))? {
            Some(mut version) => version.small().filter(|_| version.is_empty())?,
            None => 0,
        };
        // Go does not notice that the largest number overflows.
        let version = Some(version.wrapping_add(1)).filter(|next| version >= 0 && *next <= 3)?;
        let serial_number = fields.integer().filter(|number| number.sign() != Sign::Minus)?;
        let inner = fields.contents(SEQUENCE)?;
        if outer.contents(SEQUENCE)? != inner {
            return None;
        }
        let signature_algorithm = signature_number(&algorithm(Reader(inner))?);
        let raw_issuer = fields.full(SEQUENCE)?;
        let issuer = Name::parse(raw_issuer)?;
        let mut validity = fields.read(SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let raw_subject = fields.full(SEQUENCE)?;
        let subject = Name::parse(raw_subject)?;
        let raw_public_key = fields.full(SEQUENCE)?;
        let mut key = Reader(raw_public_key).read(SEQUENCE)?;
        let key_algorithm = algorithm(key.read(SEQUENCE)?)?;
        let public_key = PublicKey::parse(&key_algorithm, key.bits()?)?;
        let mut extensions = Vec::new();
        if version > 1 {
            fields.optional(context(1))?;
            fields.optional(context(2))?;
            if version == 3
                && let Some(mut list) = fields.optional(constructed(3))?
            {
                extensions = self::extensions(list.read(SEQUENCE)?)?;
            }
        }
        let details = Details::parse(&extensions)?;
        let signature = outer.bits()?.right_aligned();
        Some(Self {
            raw,
            to_be_signed,
            raw_public_key,
            raw_subject,
            raw_issuer,
            signature,
            signature_algorithm,
            public_key,
            version,
            serial_number,
            issuer,
            subject,
            not_before,
            not_after,
            extensions,
            details,
        })
    }

    /// The value of the extension with the object identifier 2.5.29.`number`.
    pub(super) fn extension(&self, number: u32) -> Option<&'d [u8]> {
        let is = |extension: &&Extension<'d>| extension.name == [2, 5, 29, number];
        self.extensions.iter().find(is).map(|extension| extension.value)
    }

    /// The fields of Go's `Certificate`. If `uri_strings`, also OPA's `URIStrings`.
    pub(super) fn value(&self, writer: &mut Writer, uri_strings: bool) -> Value {
        let [raw, tbs, key, subject, issuer, signature] = [
            self.raw,
            self.to_be_signed,
            self.raw_public_key,
            self.raw_subject,
            self.raw_issuer,
            self.signature.as_slice(),
        ]
        .map(|bytes| writer.bytes(bytes));
        let own = [
            ("Raw", raw),
            ("RawTBSCertificate", tbs),
            ("RawSubjectPublicKeyInfo", key),
            ("RawSubject", subject),
            ("RawIssuer", issuer),
            ("Signature", signature),
            ("SignatureAlgorithm", self.signature_algorithm.into()),
            ("PublicKeyAlgorithm", self.public_key.number().into()),
            ("PublicKey", self.public_key.value(writer)),
            ("Version", self.version.into()),
            ("SerialNumber", json::number(&self.serial_number)),
            ("Issuer", self.issuer.value(writer)),
            ("Subject", self.subject.value(writer)),
            ("NotBefore", writer.time(self.not_before)),
            ("NotAfter", writer.time(self.not_after)),
            ("Extensions", json::list(&self.extensions, |extension| extension.value(writer))),
            ("ExtraExtensions", Value::Null),
        ];
        let uris = uri_strings.then(|| ("URIStrings", self.details.names.uri_strings(writer)));
        let details = self.details.fields(writer);
        writer.fields(own.into_iter().chain(details).chain(uris))
    }
}

/// Parses an `AlgorithmIdentifier` from its fields.
fn algorithm(mut fields: Reader<'_>) -> Option<Algorithm<'_>> {
    let name = fields.oid()?;
    let parameters = if fields.is_empty() { &[] } else { fields.any()?.full };
    Some(Algorithm { name, parameters })
}

/// The extensions in `list`; `None` if one is invalid or occurs twice.
fn extensions(mut list: Reader<'_>) -> Option<Vec<Extension<'_>>> {
    let mut extensions = Vec::new();
    let mut names = BTreeSet::new();
    while !list.is_empty() {
        let mut fields = list.read(SEQUENCE)?;
        let name = fields.oid()?;
        let is_critical = if fields.has(BOOLEAN) { fields.boolean()? } else { false };
        let value = fields.contents(OCTET_STRING)?;
        if !names.insert(name.clone()) {
            return None;
        }
        extensions.push(Extension { name, is_critical, value });
    }
    Some(extensions)
}
